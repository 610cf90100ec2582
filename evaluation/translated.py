"""Translation between domains (FedINB, Sec. 4): how far translated images are from the domain's own, and what it took.

Distances are means over all ordered pairs of domains, as published with those of a domain to itself, and over classes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from pydantic import PositiveInt

from common.run_folder import RunFolder
from evaluation.frechet import extractor, frechet_distance, gaussian
from evaluation.rows import result
from evaluation.transport import Cost, exact, flat, sinkhorn

Arrays = dict[str, np.ndarray]
Pairs = dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]
"""(source, target) -> images, and their labels."""
CONTROLS = {"": "translated", "rotation": "rotated"}
DEFAULTS = {"iterations": 200, "directions": 10, "layers": 10}
"""J, K and L of FedINB where a specification does not say them."""
NOT_NUMBERS = ("halved",)
"""What crosses the channel and is no 32-bit number."""


def translation(
    run: RunFolder, *, extractors: list[Literal["domain-classifier", "inception"]], images: PositiveInt | None = None
) -> Iterator[dict[str, Any]]:
    """Wasserstein and Fréchet distance after every snapshot (`after=<round>`; `start` before the first) and at the end.

    `wd` is measured as published, by Sinkhorn's algorithm stopped early; `wd_iterations` and `wd_marginal_error` say
    how early. `wd_exact` is the distance itself. `..._between` leaves out the pairs of a domain with itself. Distances
    are squared: pixels in [0, 1], the mean over images of the summed squared differences. The Fréchet distance is taken
    on all classes together, since there are fewer images of a class than features.

    Controls: `identity`, images that are not translated; `rotation`, images turned by the angle in between;
    `other`, other images of the target's own.

    Args:
        images: of each domain, evenly over classes; all that the run has kept if not given.
    """
    if not any(key.startswith("translated/") for key in run.samples):
        return
    kept = run.samples
    domains = [key.removeprefix("real/") for key in kept if key.startswith("real/")]
    all_real = {name: (kept[f"real/{name}"], kept[f"label/{name}"]) for name in domains}
    shown: list[tuple[str, str, Pairs]] = []
    for round in run.snapshots:
        shown.append((f"after={round}" if round else "start", "", _pairs(run.after(round), "translated", all_real)))
    shown += [("final", control, _pairs(kept, kind, all_real)) for control, kind in CONTROLS.items()]
    real = {name: _some(*case, images) for name, case in all_real.items()}
    others = {name: (kept[f"other/{name}"], kept[f"other-label/{name}"]) for name in domains}
    shown.append(("final", "identity", {(a, b): real[a] for a in domains for b in domains}))
    shown.append(("final", "other", {(a, b): others[b] for a in domains for b in domains}))
    for setting, control, all_pairs in shown:
        pairs = {pair: _some(*case, images) for pair, case in all_pairs.items()}
        if pairs:
            yield from _wasserstein(setting, control, pairs, real)
            for name in extractors:
                yield _frechet(name, run, setting, control, pairs, real)


def _some(images: np.ndarray, labels: np.ndarray, count: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The first of each class, `count` in all, or all of them."""
    if count is None:
        return images, labels
    classes = np.unique(labels)
    first = np.sort(np.concatenate([np.flatnonzero(labels == c)[: -(-count // len(classes))] for c in classes]))
    return images[first], labels[first]


def _pairs(arrays: Arrays, kind: str, real: dict[str, tuple[np.ndarray, np.ndarray]]) -> Pairs:
    keys = [key.split("/") for key in arrays if key.startswith(f"{kind}/")]
    return {(a, b): (arrays[f"{kind}/{a}/{b}"], real[a][1]) for _, a, b in keys}


def _wasserstein(
    setting: str, control: str, pairs: Pairs, real: dict[str, tuple[np.ndarray, np.ndarray]]
) -> Iterator[dict[str, Any]]:
    for name, measure in (("wd", sinkhorn), ("wd_exact", exact)):
        costs = {(a, b): _over_classes(measure, images, real[b]) for (a, b), images in pairs.items()}
        between = [cost for (a, b), cost in costs.items() if a != b]
        for metric, of in ((name, list(costs.values())), (f"{name}_between", between)):
            yield result(metric, "score", _mean(of, "value"), setting=setting, control=control)
        if measure is sinkhorn:
            for metric, unit, field in (
                ("wd_iterations", "count", "iterations"),
                ("wd_marginal_error", "fraction", "marginal_error"),
            ):
                yield result(metric, unit, _mean(list(costs.values()), field), setting=setting, control=control)


def _over_classes(
    measure: Callable[[np.ndarray, np.ndarray], Cost],
    made: tuple[np.ndarray, np.ndarray],
    real: tuple[np.ndarray, np.ndarray],
) -> Cost:
    (images, labels), (reference, theirs) = made, real
    found = [measure(flat(images[labels == c]), flat(reference[theirs == c])) for c in np.unique(theirs)]
    return Cost(*(float(np.mean([getattr(cost, field) for cost in found])) for field in Cost.__annotations__))


def _mean(costs: list[Cost], field: str) -> float:
    return float(np.mean([getattr(cost, field) for cost in costs]))


def _frechet(
    name: str, run: RunFolder, setting: str, control: str, pairs: Pairs, real: dict[str, tuple[np.ndarray, np.ndarray]]
) -> dict[str, Any]:
    extract, sha = extractor(name, run)
    references = {b: gaussian(extract(images), f"domain {b}") for b, (images, _) in real.items()}
    values = [
        frechet_distance(gaussian(extract(images), f"{a} as {b}"), references[b])
        for (a, b), (images, _) in pairs.items()
    ]
    counts = f"{len(next(iter(pairs.values()))[0])}-{control or 'translated'}:{len(next(iter(real.values()))[0])}-test"
    metric = f"fid:{name}-{sha[:8]}:{counts}"
    return result(metric, "score", float(np.mean(values)), setting=setting, control=control)


def exchanged(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Numbers that crossed between one client and the server, both ways, until each round (`parameters`, as in FedINB's
    figures, whose auto-encoders cross nothing), and how long training took."""
    if not any(key.startswith("translated/") for key in run.samples):
        return
    by_round: dict[int, float] = defaultdict(float)
    clients = {row["client"] for row in run.table("partition.csv")}
    for row in run.table("traffic.csv"):
        if row["name"] not in NOT_NUMBERS:
            by_round[int(row["round"])] += int(row["bytes"]) / 4 / len(clients)
    yield _cost("train_time", "minutes", run.provenance["wall_s"] / 60, "")
    for round in run.snapshots:
        sent = sum(size for r, size in by_round.items() if 0 < r <= round)
        yield _cost("parameters", "count", sent, f"after={round}" if round else "start")
    yield _cost("parameters", "count", sum(size for r, size in by_round.items() if r > 0), "final")


def iterations(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Objective evaluations of the line searches of all layers, for each class and in the mean (Tables 5 and 6)."""
    trials: dict[str, float] = defaultdict(float)
    for row in run.table("notes.csv"):
        trials[row["class"]] += float(row["trials"])
    if trials:
        a = DEFAULTS | run.spec.algorithm
        setting = f"j={a['iterations']};k={a['directions']};l={a['layers']}"
        for digit, count in [*sorted(trials.items()), ("all", float(np.mean(list(trials.values()))))]:
            yield {**_cost("iterations", "count", count, setting), "digit": digit}


def searches(run: RunFolder) -> list[dict[str, Any]]:
    """The divergence that each iteration came to, of each class and layer (Fig. 15 and 16)."""
    return [{key: row[key] for key in ("round", "class", "iteration", "objective")} for row in run.table("notes.csv")]


def _cost(metric: str, unit: str, value: float, setting: str) -> dict[str, Any]:
    return result(metric, unit, value, kind="cost", setting=setting)
