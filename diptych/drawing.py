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

MADE = {"records": "records", "ranks": "records", "points": "the points of `diptych simpson`"}
"""What figures are drawn from, but for what is extracted of runs."""
SIMPSON = "Simpson's paradox as published, which is the same at every scale: points and lines of the first seed."


def figure(study: Study, name: str, source: Path, out: list[Path]) -> None:
    """Draw a figure, such as fedstyle-figure5, from records or from what `diptych extract` wrote.

    Raises:
        InputError: the study has no such paper, or the source cannot be read, lacks something or is of other papers.
    """
    paper, _, what = name.partition("-")
    config = study.papers[choose(f"paper of {study.name}", paper, study.papers)]
    kind = config.figures[what].data
    read: Any = {"records": read_records, "ranks": read_records, "samples": read_arrays}.get(kind, read_csv)
    data = read(source)
    if MADE.get(kind) == "records" and len(data) and paper not in {*data["paper"]}:
        raise InputError(f"{source}: has no record of {paper}")
    try:
        if kind == "ranks":
            layout = layout_of(paper, "ranks", config)
            drawn = told(layout, found_in(layout, data))
        else:
            drawn = in_words(data, config.words) if kind == "records" else data
        write_figure(name, drawn, SIMPSON if kind == "points" else study.about(paper), out)
    except KeyError as error:
        made = MADE.get(kind, f"what `diptych extract {kind}` wrote")
        raise InputError(f"{source}: {name} is drawn from {made}, and something of it is missing here") from error
