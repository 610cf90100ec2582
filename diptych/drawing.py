"""Figures, drawn from records and from what is extracted of runs, as a study says."""

from pathlib import Path
from typing import Any

from common.arrays import read_arrays
from common.errors import InputError, choose
from diptych.outputs import layout_of
from diptych.study import Study
from reporting.cells import found_in
from reporting.figures import in_words, write_figure
from reporting.ranks import told
from reporting.records import read_csv, read_records


def figure(study: Study, name: str, source: Path, out: list[Path]) -> None:
    """Draw a figure, such as fedstyle-figure5, from records or from what `diptych extract` wrote.

    Raises:
        InputError: the study has no such paper, or the source cannot be read or lacks something.
    """
    paper, _, what = name.partition("-")
    config = study.papers[choose(f"paper of {study.name}", paper, study.papers)]
    kind = config.figures[what].data
    read: Any = {"records": read_records, "ranks": read_records, "samples": read_arrays}.get(kind, read_csv)
    data = read(source)
    try:
        if kind == "ranks":
            layout = layout_of(paper, "ranks", config)
            drawn = told(layout, found_in(layout, data))
        else:
            drawn = in_words(data, config.words) if kind == "records" else data
        write_figure(name, drawn, study.about(paper), out)
    except KeyError as error:
        raise InputError(f"{source}: the figure needs {error}, which is not in it") from error
