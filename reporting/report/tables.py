"""Tables as the page shows them."""

from collections import Counter
from collections.abc import Set
from typing import Any

import pandas as pd

from reporting.grid import Grid
from reporting.report.anchors import slug
from reporting.report.board import Score
from reporting.report.cells import Cell, Told
from reporting.report.material import Table
from reporting.tables import glossary, grids_of, said_once
from reporting.wording import axis, name_of, names, table_name

Untrained = tuple[str, str, str]
"""Scale, run and metric of a number that needed no training."""


class TableView:
    """A table as the page shows it."""

    def __init__(self, table: Table, counted: Set[Untrained]) -> None:
        self.table, self.layout, self.counted = table, table.layout, counted
        self.id = f"{table.layout.paper}-{slug(table.layout.table)}"
        self.name, self.title, self.note = table_name(table.layout.table), table.layout.title, table.layout.note
        self.words = names(table.layout.words)
        self.grids = grids_of(table.layout, table.cells)
        self.once, self.glossary = said_once(table.layout, table.cells), glossary(table.layout, table.cells)
        self.cells = [self._cell(n, row) for n, row in enumerate(table.cells.to_dict("records"), start=1)]
        self.score = Score.of(self.cells)

    def _cell(self, n: int, row: dict[Any, Any]) -> Cell:
        said = {str(key): None if pd.isna(value) else value for key, value in row.items()}
        key = tuple(row[column] for column in self.layout.keys)
        printed = None if said["difference"] is None else said["ours"] - said["difference"]
        told = [
            Told(
                found,
                self.layout.paper,
                printed,
                any((found.scale, run, found.metric) in self.counted for run in found.runs),
            )
            for found in self.table.found.get(key, [])
        ]
        place = [(axis(k), name_of(k, row[k], self.words).short) for k in self.layout.keys if row[k]]
        return Cell(f"{self.id}-{n}", said, place, told, self._method(row, told))

    def _method(self, row: dict[Any, Any], told: list[Told]) -> str:
        """What was run for a cell, or what the paper has run."""
        if told and told[0].evidence.runs:
            return told[0].evidence.runs[0].split("/")[2]
        return row.get("method", "")

    def squares(self, grid: Grid) -> list[list[Cell | None]]:
        """The cells of a block that the paper prints, in rows of one length."""
        places = [[None if n is None else self.cells[n] for n in row] for _, row in grid.whole.rows]
        rows = [[cell if cell and cell.printed else None for cell in row] for row in places]
        kept = [column for column in zip(*rows, strict=True) if any(column)]
        return [list(row) for row in zip(*kept, strict=True) if any(row)]

    @property
    def ways(self) -> list[str]:
        """How it was measured, where there are several ways."""
        return sorted({way for cell in self.cells for way in (cell.said["measured_as"] or "").split()})

    @property
    def missing(self) -> list[tuple[str, int]]:
        """Why cells were not measured, and how many."""
        reasons = Counter(cell.said["why"] for cell in self.cells if not cell.evidence)
        return [(reason, n) for reason, n in reasons.most_common() if reason]

    @property
    def again(self) -> list[str]:
        """The commands that make it again, a scale each."""
        scales = dict.fromkeys(told.evidence.scale for cell in self.cells for told in cell.evidence)
        name = f"{self.layout.paper}-{self.layout.table}"
        return [f"snakemake --cores 8 results/{s}/tables/{name}.md --config scale={s}" for s in scales]
