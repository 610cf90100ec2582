"""What records become: tables and claims, laid out as a study says."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from common.errors import InputError, choose
from diptych.configuration import Paper, names_in
from diptych.study import Cell, Study, load_study
from reporting.cells import cells_of
from reporting.claims import Doubt, Finding, findings, write_claims
from reporting.layout import Layout
from reporting.records import read_csv
from reporting.tables import write_table


def study_of(source: Path, scale: str | None = None) -> Study:
    """The study at the scale that records are of; of what else is drawn, at the one that was asked for, or `digits`.

    Raises:
        InputError: the records are of another scale than was asked for.
    """
    of = _scale_of(source)
    if scale and of and scale != of:
        raise InputError(f"--scale: {source} is of scale '{of}', got '{scale}'")
    return load_study(scale or of or "digits")


def _scale_of(source: Path) -> str:
    """That of the first record; empty where there is none, or of no scale that there is."""
    with suppress(InputError):  # of what cannot be read whoever reads it says so
        rows = pd.DataFrame() if source.suffix == ".npz" else read_csv(source, first=1)
        return next((name for name in rows.get("scale", []) if name in names_in("scales")), "")
    return ""


def layout_of(paper: str, table: str, config: Paper) -> Layout:
    """The layout of a table as it is configured."""
    return Layout(paper=paper, table=table, words=config.words, **config.tables[table].model_dump())


def named(study: Study, table: str) -> Layout:
    """The layout of a table, such as fedstyle-table1; InputError if the study has none of this name."""
    layouts = {f"{paper}-{name}": (paper, name) for paper, config in study.papers.items() for name in config.tables}
    paper, name = layouts[choose("table", table, layouts)]
    return layout_of(paper, name, study.papers[paper])


def runs_for(layout: Layout, place: dict[Any, Any], runs: Iterable[Cell]) -> Iterator[Cell]:
    """Those of a paper's runs that are for a cell, which its keys place: each axis that both have is the same; one that
    has no value, or `all`, is averaged over, but for the variant, whose empty name is that of the default."""
    runs = list(runs)
    tables = set(layout.where.get("table", [layout.table])) & {run.table for run in runs}
    for run in runs:
        axes = run.spec.labels | ({"setting": run.setting} if run.setting else {})
        any_of = {axis: {value, "all", ""} if axis != "variant" else {value} for axis, value in axes.items()}
        same = all(place[axis] in values for axis, values in any_of.items() if axis in place)
        if same and (not tables or run.table in tables):
            yield run


def with_configured(layout: Layout, cells: pd.DataFrame) -> pd.DataFrame:
    """Cells with a column more: whether the paper prints them and `--config scale=paper` would measure them."""
    runs = _as_published(layout.paper)
    places = zip(cells[layout.keys].to_dict("records"), cells["paper"] != "", strict=True)
    return cells.assign(configured=[printed and _is_configured(layout, place, runs) for place, printed in places])


@cache
def _as_published(paper: str) -> list[Cell]:
    """The runs of a paper as published, of one seed."""
    study = load_study("paper")
    seed = study.scale.seeds[0]
    return [cell for cell in study.cells if cell.spec.labels["paper"] == paper and cell.spec.seed == seed]


def _is_configured(layout: Layout, place: dict[Any, Any], runs: list[Cell]) -> bool:
    """Whether a run is for a cell, or it is of Simpson's paradox, which is no run of an algorithm."""
    simpson = place.get("dataset") == "simpson" or layout.table == "simpson"
    return simpson or any(True for _ in runs_for(layout, place, runs))


def table(study: Study, layout: Layout, records: pd.DataFrame, out: Path) -> None:
    """Write a table as Markdown, CSV and LaTeX."""
    write_table(layout, cells_of(layout, records, study.why_left_out), study.about(layout.paper), out)


def claims(study: Study, paper: str, records: pd.DataFrame, out: Path) -> None:
    """Write what the records say of a paper's claims, as Markdown and CSV."""
    write_claims(paper, findings_of(paper, study.papers[paper], records), study.about(paper), out)


def findings_of(paper: str, config: Paper, records: pd.DataFrame) -> list[Finding]:
    """What records of one scale or several say of a paper's claims. Of which a scale is too small, its file says."""
    studies = {str(s): load_study(s) for s in records["scale"].unique() if s in names_in("scales")}
    asked = {s: study.papers[paper].undecided for s, study in studies.items() if paper in study.papers}
    undecided = {s: {c: Doubt(**doubt.model_dump()) for c, doubt in doubts.items()} for s, doubts in asked.items()}
    return findings(paper, records, config.claims, config.aliases, undecided)
