"""What a run sent, and what it called for."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from common.run_folder import RunFolder
from common.work import Kind, kinds, work_of
from evaluation.rows import result


def communication(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Bytes that crossed the channel: in all, and in rounds, in the mean per client and round in which it took part.
    What is announced before the first round, or sent after the last, is in the former alone.

    `bytes_before`: both ways in the runs that this one went on from, such as FedDIRT from FedINB's translators. Nothing
    of runs that have not left what crossed.
    """
    sent: dict[str, Counter[tuple[int, int]]] = {"up": Counter(), "down": Counter()}
    for row in run.table("traffic.csv"):
        sent[row["direction"]][row["round"], row["client"]] += row["bytes"]
    for direction, by_visit in sent.items() if run.has("traffic.csv") else ():
        visits = [size for (round, _), size in by_visit.items() if 1 <= round <= run.spec.training.rounds]
        yield _cost(f"bytes_{direction}", by_visit.total())
        yield _cost(f"bytes_{direction}_per_visit", sum(visits) / len(visits) if visits else 0)
    earlier = _before(run)
    if earlier and all(each.has("traffic.csv") for each in earlier):
        yield _cost("bytes_before", sum(row["bytes"] for each in earlier for row in each.table("traffic.csv")))


def _before(run: RunFolder) -> list[RunFolder]:
    """What it went on from, what that went on from, and so on."""
    return [] if run.before is None else [run.before, *_before(run.before)]


def budget(run: RunFolder) -> Iterator[dict[str, Any]]:
    """What was asked for, and how many passes over its data a client made in the mean, in all phases of its rounds,
    counted from the history, where it is there and says who was trained."""
    training, data = run.spec.training, run.spec.data
    images: Counter[int] = Counter()
    for row in run.table("partition.csv"):
        images[row["client"]] += row["images"]
    steps: Counter[int] = Counter()
    for row in run.table("history.csv"):
        if row["stage"] == "round" and row["update"] == 0:
            steps[row["client"]] += row["steps"]
    per_pass = {client: max(1, n // training.batch_size) for client, n in images.items()}
    passes = [steps[client] / n for client, n in per_pass.items()]
    # one trainer, on images that are not those of client 0, who would be sent something if it alone was sampled
    pooled = len(images) > 1 and set(steps) == {0} and not run.table("traffic.csv")
    local = "local_epochs" if training.local_steps is None else "local_steps"
    for metric, unit, value in (
        ("communication_rounds", "count", training.rounds),
        (local, "count", getattr(training, local)),
        ("client_fraction", "fraction", training.participation),
        ("total_clients", "count", len(data.seen) * data.clients_per_style),
    ):
        yield _cost(metric, value, unit)
    if passes and run.has("history.csv") and not pooled:
        yield _cost("epochs_per_client", sum(passes) / len(passes))
    if data.server_share:
        yield _cost("server_real_fraction", data.server_share, "fraction")


def work(run: RunFolder) -> Iterator[dict[str, Any]]:
    """What a run calls for by its specification: `operations` on floats in all of it, and `model_mb`, a client's model.

    `operations_before`: in the runs that it went on from. Nothing of a kind that nobody has counted (docs/costs.md).
    """
    if counted := kinds().get(Kind.of(run.spec)):
        yield _cost("operations", work_of(run.spec).flops)
        yield _cost("model_mb", counted.model_mb, "MiB")
    earlier = [each.spec for each in _before(run)]
    if earlier and all(Kind.of(spec) in kinds() for spec in earlier):
        yield _cost("operations_before", sum(work_of(spec).flops for spec in earlier))


def transmission(run: RunFolder) -> Iterator[dict[str, Any]]:
    """What a user of a GAN sends at once (Table 4): the numbers of its discriminator, or of all of its GAN.

    `parameters`: as the paper counts them. `numbers_per_step`: those that crossed the channel in the first round, z and
    labels among them, for each step of a user; `bytes_per_step` likewise.
    """
    method = run.spec.algorithm["name"]
    if method not in ("ps-fedgan", "full-gan") or not (run.path / "model.safetensors").exists():
        return
    parts = ("discriminator",) if method == "ps-fedgan" else ("discriminator", "generator")
    sent = run.shapes(*(f"clients/{part}." for part in parts))  # of every client, along the first axis
    yield _cost("parameters", sum(math.prod(shape[1:]) for shape in sent.values()))
    steps = sum(row["steps"] for row in run.table("history.csv") if row["round"] == row["update"] == 1)
    first = [row for row in run.table("traffic.csv") if row["round"] == 1 and row["direction"] == "up"]
    if steps and run.has("traffic.csv"):
        yield _cost("bytes_per_step", sum(row["bytes"] for row in first) / steps)
        numbers = (row["bytes"] / (8 if row["name"].endswith(".labels") else 4) for row in first)
        yield _cost("numbers_per_step", sum(numbers) / steps)


def _cost(metric: str, value: float, unit: str = "count") -> dict[str, Any]:
    return result(metric, unit, value, kind="cost")
