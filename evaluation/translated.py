"""Translation between domains (FedINB, Sec. 4): how far translated images are from the domain's own, and what it took.

Distances are means over all ordered pairs of domains, as published with those of a domain to itself, and over classes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import torch

from common.errors import InputError
from common.run_arrays import Arrays
from common.run_folder import RunFolder
from common.settings import Count
from evaluation.corruption import blurred
from evaluation.frechet import extractor, frechet_distance, gaussian, or_left_out
from evaluation.rows import result
from evaluation.transport import Cost, exact, flat, mean, sinkhorn

Labelled = tuple[np.ndarray, np.ndarray]
"""Images, and their labels."""
Domains = dict[str, Labelled]
Pairs = dict[tuple[str, str], Labelled]
"""(source, target) -> what the source's images have become."""
Measured = tuple[str, str, float]
"""Metric, unit and value."""
Measure = Callable[[str, Pairs, Domains], Iterator[Measured]]
BLURS = (0.5, 1.0, 2.0)
"""Standard deviations, in pixels, of the Gaussians that other images of the target are blurred by; within five pixels,
so that of the widest 1.3 are left."""
DEFAULTS = {"iterations": 200, "directions": 10, "layers": 10}
"""J, K and L where a specification does not say them, which are FedINB's own."""
NORMS = {"translated": "", "instance-normed": ";norms=instance"}
"""How translations' instance norms were applied: the names of their arrays -> what it adds to a setting."""
NOT_NUMBERS = ("halved",)
"""What crosses the channel and is no 32-bit number."""


def translation(
    run: RunFolder,
    *,
    extractors: list[Literal["domain-classifier", "inception"]],
    test_images: list[Count] | None = None,
    controls: bool = True,
) -> Iterator[dict[str, Any]]:
    """Wasserstein and Fréchet distance after every snapshot (`after=<round>`; `start` before the first) and at the end.

    `wd` is measured as published, by Sinkhorn's algorithm stopped early; `wd_iterations` and `wd_marginal_error` say
    how early. `wd_exact` is the distance itself. `..._between` leaves out the pairs of a domain with itself, and is all
    that there is of controls without such pairs: a mean over other pairs is not to be read beside `wd`. Distances
    are squared: pixels in [0, 1], the mean over images of the summed squared differences. The Fréchet distance is taken
    on all classes together, since there are fewer images of a class than features; where it cannot be taken, a sentence
    on stderr says why, and all else is measured. `...;norms=instance` is of what was translated by each image's own
    statistics, where instance norms keep others.

    Controls: `identity`, images that are not translated; `rotation`, images turned by the angle in between;
    `other`, other images of the target's own in the place of another domain's; `blur-<sigma>`, these blurred.

    Args:
        extractors: of features for the Fréchet distance.
        test_images: how many of the run's test images, of all domains together and of each class alike, the Wasserstein
            distances are taken on at the end once more (`test_samples=<n>`), where there are more: they depend on it.
            One of each class of each domain at least.
        controls: whether they are measured: of every translator on the same images they are the same.
    """
    if not any(key.startswith("translated/") for key in run.samples):
        return
    real = _by_domain(run.samples, "real", "label")
    measures: list[Measure] = [_wasserstein]
    for name in extractors:
        with or_left_out(run.spec.run):
            measures.append(_Frechet(name, run, real))
    for setting, control, pairs in _shown(run, real, controls):
        for measure in measures if pairs else []:
            with or_left_out(run.spec.run):
                for metric, unit, value in measure(control, pairs, real):
                    yield result(metric, unit, value, setting=setting, control=control)
    for count in test_images or []:
        each = count // len(real)
        if each < min(len(labels) for _, labels in real.values()):
            classes = max(len(np.unique(labels)) for _, labels in real.values())
            if each < classes:
                raise InputError(
                    f"translation.test_images: must be at least {len(real) * classes}, an image of each of {classes} "
                    f"classes in each of {len(real)} domains, got {count}"
                )
            few = _first(real, each)
            for setting, control, pairs in _at_the_end(run, f"test_samples={count}", real, controls):
                for metric, unit, value in _wasserstein(control, _first(pairs, each), few) if pairs else []:
                    yield result(metric, unit, value, setting=setting, control=control)


def _by_domain(kept: Arrays, images: str, labels: str) -> Domains:
    names = [key.removeprefix(f"{images}/") for key in kept if key.startswith(f"{images}/")]
    return {name: (kept[f"{images}/{name}"], kept[f"{labels}/{name}"]) for name in names}


def _first(images: dict[Any, Labelled], count: int) -> dict[Any, Labelled]:
    """The first of each class, `count` of all classes together."""
    return {name: (x[rows], y[rows]) for name, (x, y) in images.items() for rows in [_of_each_class(y, count)]}


def _of_each_class(labels: np.ndarray, count: int) -> np.ndarray:
    classes = np.unique(labels)
    return np.sort(np.concatenate([np.flatnonzero(labels == c)[: count // len(classes)] for c in classes]))


def _shown(run: RunFolder, real: Domains, controls: bool) -> Iterator[tuple[str, str, Pairs]]:
    """Setting, control, and what there is to be compared."""
    for round in run.snapshots:
        yield from _by_norms(f"after={round}" if round else "start", run.after(round), real)
    yield from _at_the_end(run, "final", real, controls)


def _by_norms(setting: str, arrays: Arrays, real: Domains) -> Iterator[tuple[str, str, Pairs]]:
    for kind, norms in NORMS.items():
        yield setting + norms, "", _pairs(arrays, kind, real)


def _at_the_end(run: RunFolder, setting: str, real: Domains, controls: bool) -> Iterator[tuple[str, str, Pairs]]:
    yield from _by_norms(setting, run.samples, real)
    if not controls:
        return
    yield setting, "rotation", _pairs(run.samples, "rotated", real)
    yield setting, "identity", {(a, b): real[a] for a in real for b in real}
    others = {
        ("other", b): images for b, images in _by_domain(run.samples, "other", "other-label").items() if b in real
    }
    yield setting, "other", others
    for sigma in BLURS:
        yield setting, f"blur-{sigma:g}", {pair: (_blurred(x, sigma), y) for pair, (x, y) in others.items()}


def _blurred(images: np.ndarray, sigma: float) -> np.ndarray:
    x = torch.from_numpy(images).float() / 255
    return (blurred(x, torch.full((len(x),), sigma)) * 255).round().byte().numpy()


def _pairs(arrays: Arrays, kind: str, real: Domains) -> Pairs:
    keys = [key.split("/") for key in arrays if key.startswith(f"{kind}/")]
    for _, a, b in keys:
        if lacking := {a, b} - real.keys():
            raise InputError(f"{arrays.file}: {kind}/{a}/{b}: samples.npz has no array 'real/{min(lacking)}' beside it")
        if len(arrays[f"{kind}/{a}/{b}"]) != len(real[a][1]):
            raise InputError(f"{arrays.file}: {kind}/{a}/{b}: must be as many images as 'real/{a}' of samples.npz")
    return {(a, b): (arrays[f"{kind}/{a}/{b}"], real[a][1]) for _, a, b in keys}


def _wasserstein(control: str, pairs: Pairs, real: Domains) -> Iterator[Measured]:
    for name, measure in (("wd", sinkhorn), ("wd_exact", exact)):
        costs = {(a, b): _over_classes(measure, images, real[b]) for (a, b), images in pairs.items()}
        found = mean(list(costs.values()))
        between = [cost for (a, b), cost in costs.items() if a != b]
        if len(between) < len(costs):
            yield name, "score", found.value
        if between:
            yield f"{name}_between", "score", mean(between).value
        if measure is sinkhorn:
            yield "wd_iterations", "count", found.iterations
            yield "wd_marginal_error", "fraction", found.marginal_error


def _over_classes(measure: Callable[[np.ndarray, np.ndarray], Cost], made: Labelled, real: Labelled) -> Cost:
    (images, labels), (reference, theirs) = made, real
    if lacking := {*theirs.tolist()} - {*labels.tolist()}:
        raise InputError(f"wd: of class {min(lacking)} there are real images and none that were translated")
    # the domain's own first, as in App. E.1 and the authors' code: Sinkhorn stopped early depends on the order
    return mean([measure(flat(reference[theirs == c]), flat(images[labels == c])) for c in np.unique(theirs)])


class _Frechet:
    """The Fréchet distance to every domain's own images, whose features are made once."""

    def __init__(self, name: str, run: RunFolder, real: Domains) -> None:
        self.extract, sha = extractor(name, run)
        self.metric = f"fid:{name}-{sha[:8]}"
        self.references = {b: gaussian(self.extract(images), f"domain {b}") for b, (images, _) in real.items()}

    def __call__(self, control: str, pairs: Pairs, real: Domains) -> Iterator[Measured]:
        values = [
            frechet_distance(gaussian(self.extract(images), f"{a} as {b}"), self.references[b])
            for (a, b), (images, _) in pairs.items()
        ]
        made, own = (len(next(iter(part.values()))[0]) for part in (pairs, real))
        yield f"{self.metric}:{made}-{control or 'translated'}:{own}-test", "score", float(np.mean(values))


def exchanged(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Numbers that crossed between one client and the server, both ways, until each round (`parameters`, as in FedINB's
    figures, whose auto-encoders cross nothing), and how long training took. Of a run that has not left what crossed, or
    who its clients are, the latter alone."""
    if not any(key.startswith("translated/") for key in run.samples):
        return
    if "train_s" in run.provenance:
        yield _cost("train_time", "minutes", run.provenance["train_s"] / 60, "")
    by_round: dict[int, float] = defaultdict(float)
    clients = {row["client"] for row in run.table("partition.csv")}
    if not clients or not run.has("traffic.csv"):
        return
    for row in run.table("traffic.csv"):
        if row["name"] not in NOT_NUMBERS:
            by_round[row["round"]] += row["bytes"] / 4 / len(clients)
    for round in run.snapshots:
        sent = sum(size for r, size in by_round.items() if 0 < r <= round)
        yield _cost("parameters", "count", sent, f"after={round}" if round else "start")
    yield _cost("parameters", "count", sum(size for r, size in by_round.items() if r > 0), "final")


def iterations(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Objective evaluations of the line searches of all layers, for each class and in the mean (Tables 5 and 6)."""
    trials: dict[int, float] = defaultdict(float)
    for row in run.table("notes.csv"):
        trials[row["class"]] += row["trials"]
    if trials:
        a = DEFAULTS | run.spec.algorithm
        setting = f"j={a['iterations']};k={a['directions']};l={a['layers']}"
        for digit, count in [*sorted(trials.items()), ("all", float(np.mean(list(trials.values()))))]:
            yield {**_cost("iterations", "count", count, setting), "digit": str(digit)}


def _cost(metric: str, unit: str, value: float, setting: str) -> dict[str, Any]:
    return result(metric, unit, value, kind="cost", setting=setting)
