"""Clients' scores on their test images over rounds: how good, how far apart, how soon (FedDVA, Fig. 6 and 7)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from common.run_folder import RunFolder
from evaluation.rows import diverged, result

UNITS = {"accuracy": "fraction", "reconstruction_error": "score"}
"""Of a score; nats otherwise."""
PARTS = {"quarter": 0.25, "half": 0.5, "all": 1.0}
ByRound = dict[int, list[float]]
"""Clients' values of a score, after each round that was scored."""


def curves(
    run: RunFolder, *, targets: dict[str, float] | None = None, traffic: bool = False
) -> Iterator[dict[str, Any]]:
    """Every score after every round that was scored: the mean over clients, and for accuracy its deviation; not of a
    model that all use, a pooled run's or the server's, of which a mean alone is left.

    `rounds=quarter`, `half` and `all` name the last round scored in that part of a run, so that runs of different
    lengths have the same columns; `rounds=best` is the best accuracy of all rounds, chosen on the test images as
    PS-FedGAN does. `rounds_to_target` is the first round whose mean accuracy reaches the data set's
    target; one more than were asked for if none does. `bytes_to_target`: all that has crossed the channel until
    then; left out if it was not reached, or if the run has not left what crossed. Where a run diverged, its best is so,
    and whatever it did not come to.

    Args:
        targets: data set -> accuracy.
        traffic: whether all `bytes` that have crossed the channel by then are given beside the accuracy after a round.
    """
    scores, last, traffic_known = _scores(run), run.spec.training.rounds, run.has("traffic.csv")
    for name, by_round in scores.items():
        for setting, values in _columns(by_round, to_be_scored(run, by_round), last):
            yield from _numbers(name, values, setting)
    accuracies = {round: float(np.mean(values)) for round, values in scores.get("accuracy", {}).items()}
    if run.provenance["status"] == "diverged" and "accuracy" in scores:
        yield diverged("accuracy", "fraction", setting="rounds=best")
    elif accuracies:
        yield result("accuracy", "fraction", max(accuracies.values()), setting="rounds=best")
    target = (targets or {}).get(run.spec.data.dataset)
    if "accuracy" in scores and target is not None:
        reached = min((round for round, accuracy in accuracies.items() if accuracy >= target), default=None)
        yield result("rounds_to_target", "rounds", reached or last + 1, setting="")
        if reached and traffic_known:
            yield result("bytes_to_target", "count", _sent(run, reached), kind="cost", setting="")
    for round in accuracies if traffic and traffic_known else ():
        yield result("bytes", "count", _sent(run, round), kind="cost", setting=f"rounds={round}")


def _scores(run: RunFolder) -> dict[str, ByRound]:
    """By score. A classifier that diverged before the first of its scores has none of its accuracy."""
    scores: dict[str, ByRound] = defaultdict(lambda: defaultdict(list))
    for row in run.table("scores.csv"):
        if not row.get("style"):  # one that no client has: evaluation/generalisation.py
            scores[row["score"]][row["round"]].append(row["value"])
    if accuracy_is_lost(run):
        scores.setdefault("accuracy", {})
    return scores


def accuracy_is_lost(run: RunFolder) -> bool:
    """Whether a classifier that was to be scored diverged: what it has not left is then no number, and not unasked."""
    asked = run.spec.score_every and run.spec.objective.get("name") == "classification"
    return bool(asked) and run.provenance["status"] == "diverged"


def _numbers(name: str, values: list[float] | None, setting: str) -> Iterator[dict[str, Any]]:
    """Of a score after a round: the mean over clients, and of accuracies the deviation; of none, that it diverged."""
    unit = UNITS.get(name, "nats")
    if values is None:
        yield diverged(name, unit, setting=setting)
        return
    yield result(name, unit, float(np.mean(values)), setting=setting)
    if name == "accuracy" and len(values) > 1:
        yield result("accuracy_std_over_clients", "fraction", float(np.std(values)), setting=setting)


def _sent(run: RunFolder, until: int) -> int:
    """All that has crossed the channel by the end of a round."""
    return sum(row["bytes"] for row in run.table("traffic.csv") if row["round"] <= until)


def to_be_scored(run: RunFolder, scored: Iterable[int]) -> list[int]:
    """The rounds after which a run that was scored after these was to be. Where its specification does not say, one
    that diverged might have been after any later one."""
    rounds = sorted(scored)
    stopped = run.provenance["status"] == "diverged"
    later = range(max(rounds, default=0) + 1, run.spec.training.rounds + 1) if stopped else ()
    return run.spec.scored_rounds or [*rounds, *later]


def _columns(by_round: ByRound, asked: list[int], last: int) -> Iterator[tuple[str, list[float] | None]]:
    """After every round that was scored, and after the parts of a run of so many; None where it did not come so far.

    Args:
        asked: the rounds after which it was to be scored.
    """
    for round in sorted(by_round):
        yield f"rounds={round}", by_round[round]
    for name, part in PARTS.items():
        until = [round for round in asked if round <= part * last]
        if not by_round or (until and until[-1] not in by_round):
            yield f"rounds={name}", None
        elif until:
            yield f"rounds={name}", by_round[until[-1]]
