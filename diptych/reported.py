"""What a report is made of: all records below some folders, and what the configuration says of them."""

from collections.abc import Collection, Sequence
from pathlib import Path

import pandas as pd

from common.errors import InputError
from diptych.configuration import names_in, read_paper, read_scale
from diptych.outputs import findings_of, layout_of, with_configured
from diptych.study import Study, load_study
from reporting.budgets import budget_points
from reporting.cells import found_in, judged_cells
from reporting.evidence import record_files
from reporting.figures import in_words
from reporting.layout import Layout
from reporting.records import read_records
from reporting.report import Material, Paper, Table


def material(folders: Sequence[Path], without: Collection[str] = ()) -> Material:
    """Everything below these folders, each of which has records or has folders that do.

    Args:
        without: data sets that were left out, since their images are not here.

    Raises:
        InputError: a folder is none, or has no records; or a file is no table of records.
    """
    scales = dict.fromkeys(scale for folder in folders for scale in _with_records(folder))
    files = [file for scale in scales for file in record_files(scale)]
    records = pd.concat([read_records(file) for file in files], ignore_index=True)
    named = [scale for scale in records["scale"].unique() if scale in names_in("scales")]
    studies = [load_study(scale).without(without) for scale in named]
    return Material(
        records=records,
        papers=[_paper(paper, records[records["paper"] == paper], studies) for paper in sorted({*records["paper"]})],
        about={scale: " ".join(read_scale(scale).about.split()) for scale in named},
        figures=[figure for scale in scales for figure in sorted((scale / "figures").glob("*.png"))],
    )


def _with_records(folder: Path) -> list[Path]:
    """The folder, if it has records, or those in it that have."""
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder; name one that has records.csv, such as results/digits")
    own, parts = bool(record_files(folder)), [part for part in sorted(folder.iterdir()) if record_files(part)]
    if own and parts:
        raise InputError(f"{folder}: has records of its own and folders with records in it; name those that are meant")
    if not own and not parts:
        raise InputError(f"{folder}: there are no records in it; it must hold records.csv, or <name>/records.csv")
    return [folder] if own else parts


def _paper(name: str, records: pd.DataFrame, studies: list[Study]) -> Paper:
    config = read_paper(name)
    mine = [study for study in studies if name in study.papers]
    started = {run for study in mine for run, spec in study.specs.items() if spec.start}
    return Paper(
        name=name,
        title=config.title,
        tables=[_table(layout_of(name, table, config), records, mine) for table in config.tables],
        claims=findings_of(name, config, records),
        shows={figure: settings.shows for figure, settings in config.figures.items()},
        curves=config.budget_curves,
        budgets=in_words(budget_points(records, config.budget_curves, started), config.words),
    )


def _table(layout: Layout, records: pd.DataFrame, studies: list[Study]) -> Table:
    def why(place: dict[str, str]) -> str | None:
        """A reason if no scale measures it."""
        reasons = [study.why_left_out(place) for study in studies]
        return "; ".join(dict.fromkeys(filter(None, reasons))) if all(reasons) else None

    found = found_in(layout, records)
    return Table(layout, with_configured(layout, judged_cells(layout, found, why)), found)
