"""Clients' models on images of styles that no client has (FedINB, Tables 1-4 and Fig. 14)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np

from common.run_folder import RunFolder
from evaluation.curves import accuracy_is_lost, to_be_scored
from evaluation.rows import diverged, result

PROTOCOLS = {"train": "", "test": "test-images"}
"""FedINB's: on the training images once more, as the unseen style shows them (INB-09). And a sound one."""


def generalisation(run: RunFolder, *, after: dict[str, dict[str, float]] | None = None) -> Iterator[dict[str, Any]]:
    """The accuracy on each unseen style, the mean over clients, which for most methods all have the same model.

    `rounds=<n>` is that after round n. Without a setting it is that after the last round, or after a share of them; of
    a run that diverged before it is so.

    Args:
        after: data set -> style -> the share of the rounds after which it is read: see `read_after`.
    """
    for (style, part), by_round in _found(run).items():
        means = {f"rounds={round}": float(np.mean(by_round[round])) for round in sorted(by_round)}
        share = (after or {}).get(run.spec.data.dataset, {}).get(style, 1.0)
        more = {"domain": style, "protocol": PROTOCOLS[part]}
        for setting, mean in means.items():
            yield result("accuracy", "fraction", mean, **more, setting=setting)
        read = read_after(to_be_scored(run, by_round), share)
        if read in by_round:
            yield result("accuracy", "fraction", means[f"rounds={read}"], **more, setting="")
        else:
            yield diverged("accuracy", "fraction", **more, setting="")


def _found(run: RunFolder) -> dict[tuple[str, str], dict[int, list[float]]]:
    """Clients' accuracies by style and part, after each round that was scored. A classifier that diverged before the
    first of its scores has none of any."""
    found: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in run.table("scores.csv"):
        if row.get("style") and row["score"] == "accuracy":
            found[row["style"], row["part"]][row["round"]].append(row["value"])
    for of in product(run.spec.data.unseen, PROTOCOLS) if accuracy_is_lost(run) else ():
        found.setdefault(of, {})
    return found


def read_after(scored: Iterable[int], share: float) -> int:
    """The last round that was scored until a share of all rounds had passed; the first one if none had been by then."""
    rounds = sorted(scored)
    return max((n for n in rounds if n <= rounds[-1] * share), default=rounds[0])
