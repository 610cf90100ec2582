"""What eavesdroppers on PS-FedGAN get (Tables 2 and 3, Fig. 3-8): images of theirs beside the cloud's, and losses."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from pydantic import PositiveInt

from common.run_arrays import Arrays
from common.run_folder import RunFolder
from evaluation.judge import Judge, load
from evaluation.rows import Part, averaged, result

GANS = ("ps-fedgan", "full-gan")
ACCURACIES = ("accuracy", "accuracy_among_own")
UNITS = dict.fromkeys((*ACCURACIES, "one_label"), "fraction")
"""Of metrics; scores otherwise."""
Numbers = dict[str, float]
Readings = dict[tuple[int, str], Numbers]
"""Of each user, and of who made the images."""


def attacks(run: RunFolder, *, pairs: PositiveInt = 1000) -> Iterator[dict[str, Any]]:
    """Of images that user, cloud and eavesdroppers make of the same noise and labels, by user and in the mean.

    `accuracy`: the judge, a classifier of real images, reads the label that was asked for; `accuracy_among_own`: if it
    may choose among the user's classes alone. `one_label`: the largest share of images that it gives one label. `nmse`:
    squared error relative to the cloud's image, for pixels in [-1, 1], and `nmse_0_1` in [0, 1]; `ssim`: structural
    similarity to it, window 11, sigma 1.5. These over at most `pairs` images. `ulps`: how far the eavesdropper's start
    was from the user's (-1: another network), `bit_equal`: whether it was the same. `generator_max_abs_diff`: the
    largest difference of a pixel in [-1, 1], from the cloud, and of the cloud from the user. `identical`: whether the
    cloud's generator is the user's to the bit. The ceiling of `accuracy` is that of real images of all labels.

    All of this after the last round; with the protocol `rounds=best` the best of both accuracies over the snapshots and
    the last round, as Table 2 has them, of those whose images snapshots keep.
    """
    if not _makers(run.samples):
        return
    judge = load(run.judge)
    last = _read_all(judge, run.samples)
    yield from averaged(_parts(_paired(last)))
    yield from averaged(_parts((user, *_named(who), _compared(run, user, who, pairs)) for user, who in last))
    if run.snapshots:
        rounds = [*(_read_all(judge, run.after(round)) for round in run.snapshots), last]
        yield from averaged(_parts(_paired(_best(rounds)), protocol="rounds=best"))
    yield from judge.ceiling("accuracy", "target=label", role="cloud")


def _named(who: str) -> tuple[str, str]:
    """Role and setting of `a1;r=0.9` and the like."""
    if who in ("user", "cloud"):
        return who, ""
    name, _, setting = who.partition(";")
    return f"attacker-{name}", setting


def _makers(arrays: Arrays) -> list[tuple[int, str]]:
    keys = [key.split("/") for key in arrays if key.startswith("made/")]
    return sorted((int(user), who) for _, user, who, *more in keys if who != "labels" and not more)


def _parts(records: Iterable[tuple[int, str, str, Numbers]], **common: str) -> Iterator[Part]:
    """Of each user, role and setting."""
    for user, role, setting, numbers in records:
        rows = [(metric, UNITS.get(metric, "score"), value) for metric, value in numbers.items()]
        yield Part(common | {"role": role, "setting": setting}, rows, {"client": f"user-{user + 1}"})


def _read_all(judge: Judge, arrays: Arrays) -> Readings:
    """What the judge says of the images of one round, of everybody's, and for each user of the cloud's."""
    makers = _makers(arrays)
    return {
        (user, who): _read(judge.logits(arrays[f"made/{user}/{who}"]), arrays[f"made/{user}/labels"])
        for user, who in sorted({*makers, *((user, "cloud") for user, _ in makers)})
    }


def _paired(readings: Readings) -> Iterator[tuple[int, str, str, Numbers]]:
    """User, role, setting and numbers; those of the cloud once more beside each attacker that Table 2 pairs it with."""
    pairs = set()  # two attackers of the same r are beside the same numbers
    for (user, who), numbers in readings.items():
        role, setting = _named(who)
        yield user, role, setting, numbers
        beside = setting if setting.startswith("r=") else f"attack={role.removeprefix('attacker-')}"
        if role.startswith("attacker-") and "masks" not in setting and (user, beside) not in pairs:
            pairs.add((user, beside))
            yield user, "cloud", beside, readings[user, "cloud"]


def _best(rounds: list[Readings]) -> Readings:
    """The highest of each accuracy over rounds, of those who were read after every one."""
    always = set.intersection(*(set(readings) for readings in rounds))
    return {
        key: {metric: max(readings[key][metric] for readings in rounds) for metric in ACCURACIES}
        for key in sorted(always)
    }


def _read(logits: np.ndarray, labels: np.ndarray) -> Numbers:
    """How often the judge reads the label."""
    own, said = np.unique(labels), logits.argmax(axis=1)
    return {
        "accuracy": float((said == labels).mean()),
        "accuracy_among_own": float((own[logits[:, own].argmax(axis=1)] == labels).mean()),
        "one_label": float(np.bincount(said).max() / len(said)),
    }


def _compared(run: RunFolder, user: int, who: str, pairs: int) -> Numbers:
    """With the cloud's images; those of the cloud with the user's."""
    prefix = f"made/{user}/{who}"
    theirs = run.samples[f"made/{user}/{'user' if who == 'cloud' else 'cloud'}"]
    record = _distances(run.samples[prefix][:pairs], theirs[:pairs])
    if who == "cloud":
        record = {"generator_max_abs_diff": record["generator_max_abs_diff"]}
    if f"{prefix}/identical" in run.samples:
        record["identical"] = float(run.samples[f"{prefix}/identical"])
    if f"{prefix}/ulps" in run.samples:
        ulps = float(run.samples[f"{prefix}/ulps"])
        record |= {"ulps": ulps, "bit_equal": float(ulps == 0)}
    return record


def _distances(images: np.ndarray, others: np.ndarray) -> Numbers:
    """Of images from others, bytes."""
    from kornia.metrics import ssim  # half a second, which only what compares with eavesdroppers need pay

    ours, theirs = (torch.from_numpy(x).double() / 255 for x in (images, others))
    return {
        "nmse": nmse(2 * ours - 1, 2 * theirs - 1),
        "nmse_0_1": nmse(ours, theirs),
        "ssim": float(ssim(ours, theirs, window_size=11).mean()),
        "generator_max_abs_diff": 2 * float((ours - theirs).abs().max()),
    }


def nmse(images: torch.Tensor, reference: torch.Tensor) -> float:
    """The mean over images of |image - reference|^2 / |reference|^2. Where a reference is 0 all over there is none: if
    all are, the mean is 0 of images that are the same, and otherwise not a number."""
    error, size = ((x**2).flatten(1).sum(dim=1) for x in (images - reference, reference))
    if not (size > 0).any():
        return math.nan if (error > 0).any() else 0.0
    return float((error[size > 0] / size[size > 0]).mean())


def generator_losses(run: RunFolder) -> Iterator[dict[str, Any]]:
    """The loss of generators by round (Fig. 5, 6): `round=<r>` of every user's own, which is the cloud's to the bit,
    and of eavesdroppers'; `last_quarter`: its slope by round over the last quarter of them, by least squares.

    There is one of each round that the user took part in. An eavesdropper's curve that is shorter lacks the first of
    them, which it has missed.
    """
    if run.spec.algorithm["name"] not in GANS:
        return
    losses: dict[tuple[int, str, str], dict[int, float]] = defaultdict(dict)
    for row in run.table("history.csv"):
        if row["stage"] == "round" and row["update"] == 1:
            losses[row["client"], "user", ""][row["round"]] = row["loss"]
    for user, who in _makers(run.samples):
        if who not in ("user", "cloud") and f"made/{user}/{who}/loss" in run.samples:
            rounds, curve = sorted(losses[user, "user", ""]), run.samples[f"made/{user}/{who}/loss"].tolist()
            losses[(user, *_named(who))] = dict(zip(reversed(rounds), reversed(curve), strict=False))
    for (user, role, setting), by_round in losses.items():
        common = {"role": role, "client": f"user-{user + 1}"}
        curve = sorted(by_round.items())
        for round, loss in curve:
            full = ";".join(filter(None, [setting, f"round={round}"]))
            yield result("generator_loss", "nats", loss, setting=full, **common)
        last = np.array(curve[-max(2, len(curve) // 4) :])
        if len(last) > 1:
            slope = float(np.polyfit(last[:, 0], last[:, 1], 1)[0])
            full = ";".join(filter(None, [setting, "last_quarter"]))
            yield result("generator_loss_slope", "nats", slope, setting=full, **common)
