"""What a run sent."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from common.run_folder import RunFolder


def communication(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Bytes that crossed the channel, in all and in the mean per client and round in which it took part."""
    sent: Counter[str] = Counter()
    visits: dict[str, set[tuple[str, str]]] = {"up": set(), "down": set()}
    for row in run.table("traffic.csv"):
        sent[row["direction"]] += int(row["bytes"])
        visits[row["direction"]].add((row["round"], row["client"]))
    for direction in ("up", "down"):
        total, times = sent[direction], len(visits[direction])
        for metric, value in (
            (f"bytes_{direction}", total),
            (f"bytes_{direction}_per_visit", total / times if times else 0),
        ):
            yield {
                "kind": "cost",
                "style": "all",
                "metric": metric,
                "unit": "count",
                "aggregate": "none",
                "value": value,
            }


def budget(run: RunFolder) -> Iterator[dict[str, Any]]:
    """What was asked for, and how many passes over its data a client made in the mean, counted from the history."""
    training, data = run.spec.training, run.spec.data
    images: Counter[str] = Counter()
    for row in run.table("partition.csv"):
        images[row["client"]] += int(row["images"])
    steps: Counter[str] = Counter()
    for row in run.table("history.csv"):
        if row["stage"] == "round" and row["phase"] == row["update"] == "0":
            steps[row["client"]] += int(row["steps"])
    per_pass = {client: max(1, n // training.batch_size) for client, n in images.items()}
    passes = [steps[client] / n for client, n in per_pass.items()]
    for metric, unit, value in (
        ("communication_rounds", "count", training.rounds),
        ("local_epochs", "count", training.local_epochs),
        ("client_fraction", "fraction", training.participation),
        ("total_clients", "count", len(data.styles) * data.clients_per_style),
        ("epochs_per_client", "count", sum(passes) / len(passes) if passes else 0),
    ):
        yield {"kind": "cost", "style": "all", "metric": metric, "unit": unit, "aggregate": "none", "value": value}
