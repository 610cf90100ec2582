"""Cells as the page shows them, with the evidence on them."""

from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

from reporting.evidence import Evidence
from reporting.looks import CELLS, Look
from reporting.report.anchors import run_id
from reporting.report.runs import SIMPSON
from reporting.verdict import BESTS, SEEDS
from reporting.wording import decimals, percent, shown, with_spread


@dataclass(frozen=True)
class Told:
    """A piece of evidence as the page shows it. `counted`: what it says needed no training."""

    evidence: Evidence
    paper: str
    printed: float | None
    counted: bool

    @property
    def number(self) -> str:
        """Ours, with its spread from three seeds on."""
        ours = self.evidence
        return with_spread(ours.mean, ours.std if ours.seeds >= SEEDS else None, ours.unit)

    @property
    def budget(self) -> str:
        """The share of the published training."""
        return percent(self.evidence.budget)

    @property
    def seeds(self) -> list[tuple[str, str]]:
        """The number of each."""
        return [(seed, self._shown(value)) for seed, value in self.evidence.values.items()]

    @property
    def runs(self) -> list[tuple[str, str]]:
        """Anchor and name of each."""
        return [(run_id(self.evidence.scale, run), run) for run in self.evidence.runs]

    @property
    def again(self) -> list[str]:
        """The commands that measure it again, with all that they need before."""
        scale, runs = self.evidence.scale, self.evidence.runs
        names = sorted({f"{self.paper}/{run.split('/')[1 if SIMPSON in run else 2]}" for run in runs})
        files = ["counted"] if self.counted else names
        return [f"snakemake --cores 8 results/{scale}/records/{name}.csv --config scale={scale}" for name in files]

    @property
    def dots(self) -> list[float]:
        """Where on the line the seeds are, between 0 and 1."""
        return [self._at(value) for value in self.evidence.values.values() if isfinite(value)]

    @property
    def printed_at(self) -> float | None:
        """Where on the same line the paper's number is."""
        return None if self.printed is None else self._at(self.printed)

    @property
    def ends(self) -> tuple[str, str]:
        """The smallest and the largest number on the line."""
        low, high = self._range
        return self._shown(low), self._shown(high)

    def _shown(self, value: float) -> str:
        return shown(value, unit=self.evidence.unit)

    @cached_property
    def _range(self) -> tuple[float, float]:
        numbers = [value for value in self.evidence.values.values() if isfinite(value)]
        numbers += [] if self.printed is None else [self.printed]
        return (min(numbers), max(numbers)) if numbers else (0.0, 0.0)

    def _at(self, value: float) -> float:
        low, high = self._range
        return (value - low) / (high - low) if high > low else 0.5


@dataclass(frozen=True)
class Cell:
    """A cell: what is said of it, and on what evidence."""

    id: str
    said: dict[str, Any]
    place: list[tuple[str, str]]
    evidence: list[Told]
    method: str

    @property
    def look(self) -> Look:
        """Of its verdict."""
        return CELLS[self.said["verdict"]]

    @property
    def printed(self) -> str:
        """The paper's number."""
        return self.said["paper"]

    @property
    def is_marked(self) -> bool:
        """Whether our number bears the mark of its verdict: beside a printed one, or among the best."""
        return bool(self.evidence) and (bool(self.printed) or self.said["verdict"] in BESTS)

    @property
    def ours(self) -> str:
        """Our number, with its spread from three seeds on."""
        return with_spread(self.said["ours"], self.said["std"], self.said["unit"]) if self.evidence else ""

    @property
    def difference(self) -> str:
        """Ours less the paper's, to the digit that ours has."""
        value = self.said["difference"]
        if value is None or not isfinite(value):
            return ""
        number = shown(value, decimals(self.said["ours"], self.said["std"], self.said["unit"]))
        return number if number.startswith("−") else f"+{number}"

    @property
    def title(self) -> str:
        """Where it stands, in a line."""
        return " · ".join(value for _, value in self.place) or self.id

    @property
    def tip(self) -> str:
        """All of it in a line."""
        numbers = [self.ours and f"ours {self.ours}", self.printed and f"paper {self.printed}", self.look.verdict]
        return f"{self.title}: {', '.join(filter(None, numbers))}"
