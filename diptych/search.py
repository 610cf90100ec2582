"""Comparing the trials of a search: which point of its grid each method does best at."""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import InputError
from common.records import ORIGIN
from common.run_folder import RunFolder
from diptych.measurement import origin, prepared
from diptych.tuning import CHOSEN, Overlay, Trial

COLUMNS = [
    *("paper", "condition", "method", "point", "overlay", "setting", "metric", "score", "status", "chosen"),
    *("images", "validation_share", "steps", "scale", "seed", "run"),
    *ORIGIN,
]
"""Of the records of a search: docs/tuning.md."""


def compare(trials: Collection[Trial], rounds: str, probe: Overlay, folders: Path) -> list[dict[str, Any]]:
    """The records of a search, a row for each of its trials.

    A method's chosen point is the one with the best score on validation images, the mean over all that it was tried on;
    of equals the first of its grid. Where it diverged a point has no score; if it did at all points, none is chosen.

    Args:
        rounds: `best` or `all`, as in the records of `curves`, of trials compared by their answers.
        probe: the settings of `probe`, of those compared by their codes.
        folders: below which every trial's folder is.

    Raises:
        InputError: a trial's folder is incomplete.
    """
    compared_by = {"answers": _answers(rounds), "codes": _codes(probe), "translations": _translations()}
    rows = [_row(trial, compared_by[trial.by], RunFolder(folders / trial.spec.run)) for trial in trials]
    means: dict[str, dict[str, float]] = {}
    for row in rows:
        of_point = [other for other in rows if (other["method"], other["point"]) == (row["method"], row["point"])]
        if all(other["status"] == "ok" for other in of_point):
            means.setdefault(row["method"], {})[row["point"]] = float(np.mean([x["score"] for x in of_point]))
    best_of = {trial.method: compared_by[trial.by].best for trial in trials}
    best = {method: best_of[method](of_points, key=of_points.__getitem__) for method, of_points in means.items()}
    return [row | {"chosen": CHOSEN if best.get(row["method"]) == row["point"] else ""} for row in rows]


@dataclass(frozen=True)
class _Score:
    """What trials are compared by: one of a run's records, of validation images, since a trial has no others.

    Attributes:
        metric, setting: of the record.
        evaluation, settings: which makes it.
        lacks: what a run without it lacks.
        best: `max` or `min`, of points by their scores.
    """

    metric: str
    setting: str
    evaluation: str
    settings: Overlay
    lacks: str
    best: Callable[..., str] = max

    def of(self, run: RunFolder) -> float:
        """InputError if the run has no such record."""
        for record in prepared(self.evaluation, self.settings, run):
            if (record["metric"], record["setting"], record.get("control", "")) == (self.metric, self.setting, ""):
                return float(record["value"])
        raise InputError(f"{run.path}/{self.lacks}")


def _answers(rounds: str) -> _Score:
    """Accuracy as the tables have it."""
    lacks = "scores.csv: has no accuracy to compare trials by; see score_every"
    return _Score("accuracy", f"rounds={rounds}", "curves", {}, lacks)


def _codes(probe: Overlay) -> _Score:
    """What a linear classifier reads of the label, after the last round."""
    return _Score(
        "accuracy",
        "probe=linear;features=content;target=label",
        "probe",
        probe | {"targets": ["label"], "codes": {"content": []}},
        "features.npz: has no code of content to compare trials by; see abilities",
    )


def _translations() -> _Score:
    """How far images in another style are from this style's own of their class, which asks for no judge."""
    return _Score(
        "wd_exact_between",
        "final",
        "translation",
        {"extractors": []},
        "samples.npz: has no translated images to compare trials by; see abilities",
        min,
    )


def _row(trial: Trial, score: _Score, run: RunFolder) -> dict[str, Any]:
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
        "setting": score.setting,
        "metric": score.metric,
        "score": score.of(run) if status == "ok" else "",
        "status": status,
        "images": " ".join(spec.data.styles.values()),
        "validation_share": spec.data.validation_share,
        "steps": sum(row["steps"] for row in run.table("history.csv")),
        "scale": spec.scale,
        "seed": spec.seed,
        "run": spec.run,
        **origin(run),
    }
