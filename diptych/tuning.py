"""Choosing what a paper is silent on: how it is searched for, and what a search has chosen. Imports no torch."""

import csv
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, NonNegativeInt

from common.errors import InputError
from common.settings import STRICT
from common.spec import Spec

Overlay = dict[str, Any]
By = Literal["answers", "codes", "translations"]
CHOSEN = "yes"
"""What the records say of the trials at a method's chosen point."""
BEFORE = "before"
"""The point, in its name, of a run that trials go on from: it is at none."""


class Grid(BaseModel):
    """Methods, and the points at which each of them is tried; of equals the first is chosen.

    Attributes:
        by: what their trials are compared by: clients' `answers`; what a linear classifier reads of the label from
            `codes` of content, by the paper's `probe`; or how far `translations` are from the target's own images of
            the same class, by the exact Wasserstein distance.
        budget: an overlay over the search's, for methods that count rounds otherwise.
    """

    model_config = STRICT
    methods: Annotated[list[str], Field(min_length=1)]
    points: Annotated[list[str], Field(min_length=1)]
    by: By = "answers"
    budget: Overlay = {}


class Tuning(BaseModel):
    """How it is chosen what a paper is silent on: docs/tuning.md.

    Attributes:
        axes: what methods are tried on: all but `method`.
        seed: of every trial, and of no other run.
        validation_share: of each client's training images, on which trials are scored instead of test images.
        rounds: answers are compared by the best accuracy of all rounds, or by that after all of them.
        budget: an overlay over every trial: how much is trained, and what a search has no need of.
        points: what each lays over a method's settings.
        grids: which methods are tried at which points, each at as many as the others.
        chosen_at: the scale whose search says what is chosen, once its records are in `config/tuned`.
    """

    model_config = STRICT
    axes: dict[str, Annotated[list[str], Field(min_length=1)]]
    seed: NonNegativeInt
    validation_share: Annotated[float, Field(gt=0, lt=1)]
    rounds: Literal["best", "all"]
    budget: Overlay = {}
    points: dict[str, Overlay]
    grids: Annotated[list[Grid], Field(min_length=1)]
    chosen_at: str

    def check(self, paper: str, seeds: Collection[int], evaluation: Collection[str]) -> None:
        """InputError where a search is not the same for all methods, or not apart from the runs with these seeds."""
        if self.seed in seeds:
            raise InputError(f"{paper}: tuning.seed: must be none of the seeds of runs, {seeds}, got {self.seed}")
        if "method" in self.axes:
            raise InputError(f"{paper}: tuning.axes.method: methods are what tuning.grids names")
        sizes = {grid.methods[0]: len(grid.points) for grid in self.grids}
        if len(set(sizes.values())) > 1:
            raise InputError(f"{paper}: tuning.grids: every method must be tried at as many points, got {sizes}")
        if "probe" not in evaluation and any(grid.by == "codes" for grid in self.grids):
            raise InputError(f"{paper}: tuning.grids: to compare codes, `evaluation` must have a `probe`")
        methods = [method for grid in self.grids for method in grid.methods]
        for names in (methods, *(grid.points for grid in self.grids)):
            if twice := [name for name in names if names.count(name) > 1]:
                raise InputError(f"{paper}: tuning.grids: '{twice[0]}' is named twice")


@dataclass(frozen=True)
class Trial:
    """A run of a search: a method, with its variant, at a point, and what this lays over its settings.

    Attributes:
        by: what it is compared by.
        before: the run that it goes on from, and so on; none has seen the images that trials are scored on.
    """

    spec: Spec
    method: str
    point: str
    overlay: Overlay
    by: By
    before: list[Spec]


def choices(file: Path) -> dict[str, Overlay]:
    """By method, with its variant, the overlay that the records of a search (docs/tuning.md) say was chosen.

    Returns:
        Nothing if there is no such file.

    Raises:
        InputError: it is not what `diptych tune` has written.
    """
    if not file.exists():
        return {}
    try:
        with open(file, newline="") as lines:
            rows = [row for row in csv.DictReader(lines) if row["chosen"] == CHOSEN]
        return {row["method"]: dict(json.loads(row["overlay"])) for row in rows}
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}: must be the records of a search, as `diptych tune` writes them ({error})") from error
