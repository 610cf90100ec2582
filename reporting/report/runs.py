"""Runs as the page shows them: where their numbers come from, what they took, by method and by scale."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from common.work import MB
from reporting.report.anchors import run_id
from reporting.wording import duration, percent, size

SIMPSON = "/simpson/"
"""In the names of runs that are regressions on Simpson's paradox, all of which one rule measures."""


class Run:
    """A run, and where its numbers come from: the first of its records."""

    def __init__(self, origin: dict[Any, Any]) -> None:
        self.origin = origin
        self.name, self.scale = str(origin["run"]), str(origin["scale"])
        self.paper, self.method = str(origin["paper"]), str(origin["method"])
        self.id = run_id(self.scale, self.name)

    @property
    def trained(self) -> bool:
        """Whether it has a folder of its own; not so regressions, and what only a specification is asked."""
        return self.origin["wall_s"] != "" and SIMPSON not in self.name

    @property
    def again(self) -> str:
        """The command that makes it again, after what it goes on from, which records do not name."""
        if SIMPSON in self.name:
            return f"diptych simpson --scale {self.scale} --out records.csv --points points.csv"
        if not self.trained:
            return f"diptych count --scale {self.scale} --out records.csv"
        folder = f"results/{self.scale}/runs/{self.name}"
        return f"snakemake --cores 2 {folder}/provenance.json --config scale={self.scale}"

    def number(self, column: str) -> float:
        """A cost; 0 if it was not measured."""
        return float(self.origin[column] or 0)

    @property
    def provenance(self) -> list[tuple[str, str]]:
        """What its records say of where they come from, in words."""
        origin = self.origin
        dirty = " with changes that were not committed" if origin["dirty"] == "True" else ""
        told = [
            ("scale", self.scale),
            ("seed", origin["seed"]),
            ("commit", origin["commit"] + dirty),
            ("code", origin["code"]),
            ("specification", origin["spec"]),
            ("images, SHA-256", origin["sources_sha256"]),
            ("versions", origin["versions"]),
            ("hardware", origin["hardware"]),
            ("differs in", ", ".join(origin["differs"].split()) or "nothing, as published"),
            ("share of the published training", percent(float(origin["budget"] or "nan"))),
            ("time", duration(self.number("wall_s")) if origin["wall_s"] else ""),
            ("memory", size(MB * self.number("peak_memory_mb")) if origin["peak_memory_mb"] else ""),
            ("sent by clients", size(self.number("bytes_up")) if origin["bytes_up"] else ""),
            ("sent to clients", size(self.number("bytes_down")) if origin["bytes_down"] else ""),
        ]
        return [(key, value) for key, value in told if value]


@dataclass(frozen=True)
class Cost:
    """What the runs of a method took."""

    method: str
    runs: list[Run]

    def total(self, column: str) -> float:
        """Over the runs."""
        return sum(run.number(column) for run in self.runs)

    @property
    def memory(self) -> float:
        """The largest of them, in bytes."""
        return MB * max(run.number("peak_memory_mb") for run in self.runs)


@dataclass(frozen=True)
class ScaleView:
    """A scale: what it is, and its runs."""

    name: str
    about: str
    runs: list[Run]
    stand_ins: list[str]

    def values(self, column: str) -> list[str]:
        """What its records have in a column, each once."""
        return sorted({run.origin[column] for run in self.runs} - {""})

    @property
    def trained(self) -> int:
        """How many of them were trained."""
        return sum(run.trained for run in self.runs)

    @property
    def seconds(self) -> float:
        """What its runs took, one after the other."""
        return sum(run.number("wall_s") for run in self.runs)


def stand_ins(records: pd.DataFrame) -> list[str]:
    """Which images play which styles, where they are not the paper's."""
    rows = records[(records["stand_in"] == "yes") & (records["source"] != "") & (records["style"] != "all")]
    return [
        f"{source} plays {', '.join(part['style'].unique())}" for source, part in rows.groupby("source", sort=False)
    ]
