"""Everything that the board needs: the configuration of all papers, and all records below a folder."""

from functools import cache
from pathlib import Path

import pandas as pd

from diptych.configuration import Figure, Paper
from diptych.outputs import findings_of, layout_of, with_configured
from diptych.study import Study, load_study
from reporting.board import Board, row_of
from reporting.cells import cells_of
from reporting.evidence import Evidence, as_one, read_base, record_files
from reporting.records import PUBLISHED, published, read_csv, read_records

PAPERS = {
    "padpaf": "Almansoori et al. 2024",
    "fedstyle": "Yang et al. 2022",
    "feddva": "Yan and Long 2023",
    "psfedgan": "Wijesinghe et al. 2023",
    "fedinb": "Zhou et al. 2023",
}
"""In the board's order, and whose they are."""
NOT_THERE = "no record of it"
"""Why a cell was not measured that a run would fill."""


def titles() -> dict[str, str]:
    """The papers in the board's order, and what they are called."""
    return {paper: load_study("paper").papers[paper].title.partition(":")[0] for paper in PAPERS}


def linked() -> dict[str, str]:
    """The same with their pages and whose they are, for the README."""
    return {paper: f"[{title}](docs/{paper}.md) ({PAPERS[paper]})" for paper, title in titles().items()}


def board_of(folder: Path) -> Board:
    """The board of all records below a folder of several scales.

    Raises:
        InputError: there are none, or a file is no table of records.
    """
    base, study = read_base(folder), load_study("paper")
    papers = {paper: study.papers[paper] for paper in PAPERS}
    cells = {key: part for paper in papers for key, part in _cells(paper, study, base).items()}
    rows = [row_of(*key, papers[key[0]].tables[key[1]].title, part) for key, part in cells.items()]
    found = [finding for paper, config in papers.items() for finding in findings_of(paper, config, base)]
    figures = [row for paper, config in papers.items() for row in _figures(paper, config, folder)]
    return Board(pd.DataFrame(rows), cells, found, pd.DataFrame(figures))


def _cells(paper: str, study: Study, base: pd.DataFrame) -> dict[tuple[str, str], pd.DataFrame]:
    """The cells of the tables of a paper that have printed numbers."""
    ours, found = base[base["paper"] == paper], {}
    for table in study.papers[paper].tables:
        layout = layout_of(paper, table, study.papers[paper])
        if layout.quotes or len(published(paper, table)):
            found[paper, table] = with_configured(layout, cells_of(layout, ours, lambda place: NOT_THERE))
    return found


def _figures(paper: str, config: Paper, folder: Path) -> list[dict[str, str]]:
    """The figures of a paper with data in them: whether they are drawn, and of what."""
    printed = read_csv(PUBLISHED / "figures.csv").query("paper == @paper and kind != 'diagram' and panel == ''")
    numbered = [f"figure{n}" for n in printed["figure"] if n.isdecimal()]
    read, rows = cache(_records_of), []
    for name in dict.fromkeys([*numbered, *config.figures]):
        figure = config.figures.get(name)
        places = [file.parent.parent for file in sorted(folder.glob(f"*/figures/{paper}-{name}.png"))]
        drawn = [place for place in places if record_files(place)]
        several = [_drawn_from(paper, figure, read(place)) for place in drawn] if figure else []
        shown = min(filter(None, several), key=lambda found: found.rank, default=None)
        rows.append(
            {
                "paper": paper,
                "figure": name,
                "shows": figure.shows if figure else "",
                "configured": "yes" if figure else "no",
                "drawn": ", ".join(place.name for place in drawn),
                "grade": str(shown.grade) if shown else "",
            }
        )
    return rows


def _records_of(place: Path) -> pd.DataFrame:
    return pd.concat(map(read_records, record_files(place)))


def _drawn_from(paper: str, figure: Figure, records: pd.DataFrame) -> Evidence | None:
    """The records of the runs that a figure was drawn from, as evidence."""
    ours = records[(records["paper"] == paper) & (records["kind"] == "result") & (records["measured_as"] == "")]
    if figure.data == "points":
        ours = ours[ours["dataset"] == "simpson"]
    for axis, values in figure.where.items():
        ours = ours[ours[axis].isin(values)]
    return as_one(ours) if len(ours) else None
