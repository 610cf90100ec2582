"""The board of the page: cells and verdicts, counted."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from reporting.board import counted
from reporting.cells import SAID
from reporting.evidence import Grade
from reporting.looks import CELLS, CLAIMS, Look
from reporting.report.cells import Cell


@dataclass(frozen=True)
class Score:
    """What is counted of cells that the paper prints."""

    cells: list[Cell]

    @classmethod
    def of(cls, cells: Iterable[Cell]) -> "Score":
        """Of those of them that it prints."""
        return cls([cell for cell in cells if cell.printed])

    @property
    def printed(self) -> int:
        """How many there are."""
        return len(self.cells)

    @property
    def measured(self) -> int:
        """How many of them have a number."""
        return sum(bool(cell.evidence) for cell in self.cells)

    @property
    def tally(self) -> dict[Look, int]:
        """How often each verdict comes."""
        return tally(cell.look for cell in self.cells)

    @property
    def grades(self) -> dict[str, int]:
        """How many have evidence of each grade."""
        return {grade: self.counts[grade] for grade in Grade if self.counts[grade]}

    @cached_property
    def counts(self) -> dict[str, int]:
        """The board's, of them."""
        return counted(pd.DataFrame([cell.said for cell in self.cells], columns=[*SAID, "configured"]))


def tally(looks: Iterable[Look]) -> dict[Look, int]:
    """How often each comes, firmest first."""
    times = Counter(looks)
    return {look: times[look] for look in [*CELLS.values(), *CLAIMS.values()] if times[look]}
