"""Privacy in numbers beside reconstruction: who was a member, and what one gradient gives away."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from common.run_folder import RunFolder
from evaluation.rows import result


def membership(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Membership inference against what users sent last, models or discriminators (Yeom et al. 2018, loss threshold).

    An image is said to be a member if the model's loss on it, or the discriminator's on it as a real image, is below a
    threshold. `auc`: over all thresholds, how often a training image of the user has a lower loss than another image;
    0.5 is a guess. `auc_low`, `auc_high`: its 95 % interval by DeLong et al. 1988, which needs two images of each
    kind. By user, and in the mean over users, without an interval: users are asked about images that they have in
    common, and how their areas go together is not known. Of a user without images of either kind there is nothing to
    tell apart.
    """
    users = _users(run, "membership", "members", "others")
    found = [auc(*(run.samples[f"membership/{user}/{who}"] for who in ("members", "others"))) for user in users]
    for user, (value, error) in zip(users, found, strict=True):
        yield from _interval(value, error, client=f"user-{user + 1}")
    if found:
        yield _area("auc", float(np.mean([value for value, _ in found])))


def _users(run: RunFolder, attack: str, *sides: str) -> list[int]:
    """Those that have left something of an attack, and of each side an image."""
    users = sorted({int(key.split("/")[1]) for key in run.samples if key.startswith(f"{attack}/")})
    return [user for user in users if all(len(run.samples[f"{attack}/{user}/{side}"]) for side in sides)]


def _interval(value: float, error: float, **more: str) -> Iterator[dict[str, Any]]:
    from scipy.stats import norm  # a second, which only what measures membership need pay

    reach = float(norm.ppf(0.975)) * error
    yield _area("auc", value, **more)
    if math.isfinite(error):
        yield _area("auc_low", max(0.0, value - reach), **more)
        yield _area("auc_high", min(1.0, value + reach), **more)


def _area(name: str, value: float, **more: str) -> dict[str, Any]:
    return result(f"membership_{name}", "fraction", value, role="attacker-membership", **more)


def auc(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """How often a number in `above` is larger than one in `below` (ties count half), and the standard error of that.

    With fewer than two on a side the error is not a number.
    """
    from scipy.stats import rankdata

    m, n = len(above), len(below)
    ranks = rankdata(np.concatenate([above, below]))
    wins = (ranks[:m] - rankdata(above)) / n  # of each number, the share of the others that it is larger than
    losses = 1 - (ranks[m:] - rankdata(below)) / m
    error = np.sqrt(wins.var(ddof=1) / m + losses.var(ddof=1) / n) if min(m, n) > 1 else math.nan
    return float(wins.mean()), float(error)


def inversion(run: RunFolder) -> Iterator[dict[str, Any]]:
    """How near images come that were made of a user's first update: `psnr` in dB, for pixels in [0, 1].

    Found images are matched with the user's so that errors are least in sum; `psnr` is the mean over them, `recovered`
    the share of at least 30 dB, `labels` the share of the user's labels that were found, in any order, where any were
    needed.
    `setting` is `another-user` for the same against the next user's, if there is one: what chance gives.
    The mean over users of whom there are images. An image that is the same counts 120 dB.
    """
    users = _users(run, "inverted", "found", "true")
    rows: dict[tuple[str, str, str], list[float]] = {}
    for position, user in enumerate(users):
        labelled = f"inverted/{user}/taken-for" in run.samples
        found, true = (run.samples[f"inverted/{user}/{what}"] for what in ("found", "true"))
        near = psnr(found, true)
        measured = {("psnr", "decibel", ""): near.mean(), ("recovered", "fraction", ""): (near >= 30).mean()}
        if labelled:
            measured["labels", "fraction", ""] = _share_found(run, user, user)
        if len(users) > 1:
            other = users[(position + 1) % len(users)]
            measured["psnr", "decibel", "another-user"] = psnr(found, run.samples[f"inverted/{other}/true"]).mean()
            if labelled:
                measured["labels", "fraction", "another-user"] = _share_found(run, user, other)
        for key, value in measured.items():
            rows.setdefault(key, []).append(float(value))
    for (metric, unit, setting), values in rows.items():
        yield result(metric, unit, float(np.mean(values)), role="attacker-inversion", setting=setting)


def _share_found(run: RunFolder, user: int, of: int) -> float:
    """The share of the labels `of` a user that images made of another's update were taken for."""
    taken, labels = (
        Counter(run.samples[f"inverted/{k}/{what}"].tolist()) for k, what in ((user, "taken-for"), (of, "labels"))
    )
    return (taken & labels).total() / labels.total()


def psnr(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Peak signal-to-noise ratio in dB of images (n, ...), bytes, each with the one it is matched with; 120 dB of one
    that is the same, for it would be infinite."""
    from scipy.optimize import linear_sum_assignment

    a, b = (x.reshape(len(x), -1) / 255 for x in (found, true))
    errors = ((a[:, None] - b[None]) ** 2).mean(axis=2)
    return -10 * np.log10(np.maximum(errors[linear_sum_assignment(errors)], 1e-12))
