"""Comparing the trials of a search: which point of its grid each method does best at."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import InputError
from common.records import ORIGIN
from common.run_folder import RunFolder
from diptych.measurement import origin
from diptych.tuning import CHOSEN, Trial
from evaluation.curves import curves

COLUMNS = [
    *("paper", "condition", "method", "point", "overlay", "setting", "accuracy", "status", "chosen"),
    *("images", "validation_share", "steps", "scale", "seed", "run"),
    *ORIGIN,
]
"""Of the records of a search: docs/tuning.md."""


def compare(trials: Collection[Trial], rounds: str, folders: Path) -> list[dict[str, Any]]:
    """The records of a search, a row for each of its trials.

    A method's chosen point is the one with the highest validation accuracy, the mean over all that it was tried on; of
    equals the first of its grid. Where it diverged a point has no accuracy; if it did at all points, none is chosen.

    Args:
        rounds: `best` or `all`, as in the records of `curves`.
        folders: below which every trial's folder is.

    Raises:
        InputError: a trial's folder is incomplete.
    """
    rows = [_row(trial, rounds, RunFolder(folders / trial.spec.run)) for trial in trials]
    means: dict[str, dict[str, float]] = {}
    for row in rows:
        of_point = [other for other in rows if (other["method"], other["point"]) == (row["method"], row["point"])]
        if all(other["status"] == "ok" for other in of_point):
            means.setdefault(row["method"], {})[row["point"]] = float(np.mean([x["accuracy"] for x in of_point]))
    best = {method: max(of_points, key=of_points.__getitem__) for method, of_points in means.items()}
    return [row | {"chosen": CHOSEN if best.get(row["method"]) == row["point"] else ""} for row in rows]


def _row(trial: Trial, rounds: str, run: RunFolder) -> dict[str, Any]:
    run.check()
    spec, status = trial.spec, run.provenance["status"]
    if run.spec.digest != spec.digest:
        raise InputError(f"{run.path}: the trial is another one by now; train it again")
    _, condition, *_ = spec.run.split("/")
    return {
        "paper": spec.labels["paper"],
        "condition": condition,
        "method": trial.method,
        "point": trial.point,
        "overlay": json.dumps(trial.overlay),
        "setting": f"rounds={rounds}",
        "accuracy": _accuracy(run, rounds) if status == "ok" else "",
        "status": status,
        "images": " ".join(spec.data.styles.values()),
        "validation_share": spec.data.validation_share,
        "steps": sum(row["steps"] for row in run.table("history.csv")),
        "scale": spec.scale,
        "seed": spec.seed,
        "run": spec.run,
        **origin(run),
    }


def _accuracy(run: RunFolder, rounds: str) -> float:
    """As the tables have it, but of validation images, since a trial has no others to be scored on."""
    for record in curves(run):
        if (record["metric"], record["setting"]) == ("accuracy", f"rounds={rounds}"):
            return float(record["value"])
    raise InputError(f"{run.path}/scores.csv: has no accuracy to compare trials by; see score_every")
