"""Clients' scores on their test images over rounds: how good, how far apart, how soon (FedDVA, Fig. 6 and 7)."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from common.run_folder import RunFolder
from evaluation.rows import result

UNITS = {"accuracy": "fraction", "reconstruction_error": "score"}
"""Of a score; nats otherwise."""
PARTS = {"quarter": 0.25, "half": 0.5, "all": 1.0}


def curves(
    run: RunFolder, *, targets: dict[str, float] | None = None, traffic: bool = False
) -> Iterator[dict[str, Any]]:
    """Every score after every round that was scored: the mean over clients, and for accuracy its deviation.

    `rounds=quarter`, `half` and `all` name the last round scored in that part of a run, so that runs of different
    lengths have the same columns; `rounds=best` is the best accuracy of all rounds, chosen on the test images as
    PS-FedGAN does. `rounds_to_target` is the first round whose mean accuracy reaches the data set's
    target; one more than were trained if none does. `bytes_to_target`: all that has crossed the channel until
    then; left out if it was not reached.

    Args:
        targets: data set -> accuracy.
        traffic: whether all `bytes` that have crossed the channel by then are given beside the accuracy after a round.
    """
    scores: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in run.table("scores.csv"):
        if row.get("style"):  # one that no client has: evaluation/generalisation.py
            continue
        scores[row["score"]][row["round"]].append(row["value"])
    for name, by_round in scores.items():
        for setting, values in _columns(by_round):
            yield result(name, UNITS.get(name, "nats"), float(np.mean(values)), setting=setting)
            if name == "accuracy":
                yield result("accuracy_std_over_clients", "fraction", float(np.std(values)), setting=setting)
    if "accuracy" in scores:
        best = max(float(np.mean(values)) for values in scores["accuracy"].values())
        yield result("accuracy", "fraction", best, setting="rounds=best")
    target = (targets or {}).get(run.spec.data.dataset)
    if "accuracy" in scores and target is not None:
        rounds = sorted(scores["accuracy"])
        reached = [round for round in rounds if np.mean(scores["accuracy"][round]) >= target]
        yield result("rounds_to_target", "rounds", reached[0] if reached else rounds[-1] + 1, setting="")
        if reached:
            yield result("bytes_to_target", "count", _sent(run, reached[0]), kind="cost", setting="")
    for round in scores["accuracy"] if traffic else ():
        yield result("bytes", "count", _sent(run, round), kind="cost", setting=f"rounds={round}")


def _sent(run: RunFolder, until: int) -> int:
    """All that has crossed the channel by the end of a round."""
    return sum(row["bytes"] for row in run.table("traffic.csv") if row["round"] <= until)


def _columns(by_round: dict[int, list[float]]) -> Iterator[tuple[str, list[float]]]:
    rounds = sorted(by_round)
    for round in rounds:
        yield f"rounds={round}", by_round[round]
    for name, part in PARTS.items():
        until = [round for round in rounds if round <= part * rounds[-1]]
        if until:
            yield f"rounds={name}", by_round[until[-1]]
