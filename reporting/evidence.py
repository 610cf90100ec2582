"""Evidence: what we have on one number, seed by seed, and how close to the published experiment it comes."""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from common.errors import InputError
from reporting.records import read_records
from reporting.wording import ROUNDING


class Grade(StrEnum):
    """How close to the published experiment a number comes, best first."""

    AS_PUBLISHED = "as published"
    REDUCED = "reduced"
    STAND_IN = "stand-in"


RANK = list(Grade)
AND = " and "
"""Between the scales of what rests on several."""
USED = ["seed", "value", "scale", "metric", "unit", "differs", "budget", "stand_in", "measured_as", "run"]
"""The columns of a record that make evidence."""


@dataclass(frozen=True)
class Evidence:
    """What runs say of one number.

    Attributes:
        values: by seed; NaN where a run diverged.
        scale: of config/scales; of several, joined by `AND`.
        metric, unit: what was measured, and in what.
        differs: the keys in which the runs are other than published; `unknown` if nothing published is like them.
        budget: the share of the published training that they have had; NaN if it is not known.
        stand_in: measured on images that are not the paper's, or in another way than the paper's.
        measured_as: the full name of a metric that can be measured in several ways.
        runs: their names; a mean over styles has those of all its members.
    """

    values: dict[str, float]
    scale: str = ""
    metric: str = ""
    unit: str = ""
    differs: tuple[str, ...] = ()
    budget: float = 1.0
    stand_in: bool = False
    measured_as: str = ""
    runs: tuple[str, ...] = ()

    @property
    def grade(self) -> Grade:
        """As published, reduced, or on a stand-in."""
        return Grade.STAND_IN if self.stand_in else Grade.REDUCED if self.differs else Grade.AS_PUBLISHED

    @property
    def seeds(self) -> int:
        """How many runs it is the mean of."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Over seeds; NaN if one diverged."""
        return float(np.mean(list(self.values.values())))

    @property
    def std(self) -> float:
        """The sample standard deviation over seeds; NaN of a single one."""
        return float(np.std(list(self.values.values()), ddof=1)) if self.seeds > 1 else float("nan")

    @property
    def rank(self) -> tuple[int, float, int]:
        """The smaller, the better: as published before reduced, then more of the budget, then more seeds."""
        return RANK.index(self.grade), -np.nan_to_num(self.budget), -self.seeds


Row = dict[Hashable, Any]
"""What makes evidence of a record, by its column."""
Key = tuple[Any, ...]
"""Of a cell: what places it in a table, and which control it is of."""
Found = dict[Key, list[Evidence]]
"""Our evidence by the keys of a cell, best first."""


def evidence_by(columns: list[str], records: pd.DataFrame) -> Found:
    """All evidence on every cell, best first; what is not the first was passed over.

    Args:
        columns: that make a key.
        records: of any scales. What differs in other keys is other evidence.

    Raises:
        InputError: one run says several things of a cell.
    """
    parts: dict[Key, dict[tuple[str, str], list[Row]]] = defaultdict(lambda: defaultdict(list))
    for key, row in zip(records[columns].itertuples(index=False, name=None), as_rows(records), strict=True):
        parts[key][row["scale"], row["differs"]].append(row)
    return {
        key: sorted((merged(_single(part)) for part in of_cell.values()), key=lambda found: found.rank)
        for key, of_cell in parts.items()
    }


def as_one(records: pd.DataFrame) -> Evidence:
    """All records as one piece of evidence, which differs in whatever one of them differs in."""
    return merged(as_rows(records))


def _single(rows: list[Row]) -> list[Row]:
    """The rows, of which no two of one run say different things."""
    seen: dict[tuple[Any, Any], float] = {}
    for row in rows:
        known = seen.setdefault((row["run"], row["seed"]), row["value"])
        if row["run"] and abs(row["value"] - known) > ROUNDING:
            raise InputError(f"a cell has several numbers of {row['run']}; its table does not tell them apart")
    return rows


def as_rows(records: pd.DataFrame) -> list[Row]:
    """Records outside of pandas, which is slow on the few that a cell has."""
    return records.reindex(columns=USED, fill_value="").to_dict("records")


def merged(rows: list[Row]) -> Evidence:
    """Every seed counts once, and so does every run of it, however many tables it is for."""
    by_seed: dict[str, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number, row in enumerate(rows):
        by_seed[str(row["seed"])][row["scale"], row["run"] or number].append(row["value"])
    return Evidence(
        values={seed: float(np.mean([*map(np.mean, by_seed[seed].values())])) for seed in sorted(by_seed)},
        scale=AND.join(sorted({row["scale"] for row in rows})),
        metric=rows[0]["metric"],
        unit=rows[0]["unit"],
        differs=tuple(sorted({key for row in rows for key in row["differs"].split()})),
        budget=float(np.min([float(row["budget"] or "nan") for row in rows])),
        stand_in=any(row["stand_in"] == "yes" for row in rows),
        measured_as=" ".join(sorted({row["measured_as"] for row in rows} - {""})),
        runs=tuple(sorted({run for row in rows for run in row["run"].split()})),
    )


def record_files(folder: Path) -> list[Path]:
    """The records of one scale: by paper, where a workflow has put them together, else all in one file."""
    return sorted(folder.glob("records/*.csv")) or sorted(folder.glob("records.csv*"))


def read_base(folder: Path) -> pd.DataFrame:
    """All records below a folder of several scales, as one base.

    Raises:
        InputError: there are none, or a file is no table of records.
    """
    files = [file for scale in sorted(folder.iterdir()) for file in record_files(scale)] if folder.is_dir() else []
    if not files:
        raise InputError(f"{folder}: there are no records in it; it must hold <name>/records.csv or records.csv.gz")
    return pd.concat([read_records(file) for file in files], ignore_index=True)
