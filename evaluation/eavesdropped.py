"""What eavesdroppers on PS-FedGAN get (Tables 2 and 3, Fig. 3 and 4): images of theirs beside the cloud's."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from kornia.metrics import ssim
from pydantic import PositiveInt
from safetensors import safe_open

from common.run_folder import RunFolder
from evaluation.judge import load
from evaluation.rows import result


def attacks(run: RunFolder, *, pairs: PositiveInt = 1000) -> Iterator[dict[str, Any]]:
    """Of images that user, cloud and eavesdroppers make of the same noise and labels, by user and in the mean.

    `accuracy`: the judge, a classifier of real images, reads the label that was asked for; with `setting` ending in
    `;among=own`, it may choose among the user's classes alone. `nmse`: squared error relative to the cloud's image, for
    pixels in [-1, 1], and in [0, 1] with `;range=0..1`; `ssim`: its structural similarity, window 11, sigma 1.5. Both
    over at most `pairs` images. `ulps`: how far the eavesdropper's start was from the user's (-1: another network).
    `generator_max_abs_diff`: the largest difference of a pixel in [-1, 1].
    """
    found: dict[tuple[str, str, str, str], list[float]] = {}
    beside: dict[tuple[int, str], None] = {}
    for user, who, record in _records(run, pairs):
        role, setting = _named(who)
        for (metric, unit, suffix), value in record.items():
            full = ";".join(filter(None, [setting, suffix]))
            found.setdefault((metric, unit, role, full), []).append(value)
            yield result(metric, unit, value, role=role, setting=full, client=f"user-{user + 1}")
            if role.startswith("attacker-a") and setting.startswith("r="):  # Table 2 has the cloud beside each
                beside[user, setting] = None
    for user, setting in beside:
        cloud = found["accuracy", "fraction", "cloud", ""][user]
        yield result("accuracy", "fraction", cloud, role="cloud", setting=setting, client=f"user-{user + 1}")
    for (metric, unit, role, full), values in found.items():
        yield result(metric, unit, float(np.mean(values)), role=role, setting=full)


def _named(who: str) -> tuple[str, str]:
    """Role and setting of `a1;r=0.9` and the like."""
    if who in ("user", "cloud"):
        return who, ""
    name, _, setting = who.partition(";")
    return f"attacker-{name}", setting


def _records(run: RunFolder, pairs: int) -> Iterator[tuple[int, str, dict[tuple[str, str, str], float]]]:
    keys = [key.split("/") for key in run.samples if key.startswith("made/")]
    makers = [(int(user), who) for _, user, who, *more in keys if who != "labels" and not more]
    if not makers:
        return
    judge = load(run.judge)
    for user, who in sorted(makers):
        images, labels = run.samples[f"made/{user}/{who}"], run.samples[f"made/{user}/labels"]
        logits = judge.logits(images)
        own = np.unique(labels)
        record = {
            ("accuracy", "fraction", ""): float((logits.argmax(axis=1) == labels).mean()),
            ("accuracy", "fraction", "among=own"): float((own[logits[:, own].argmax(axis=1)] == labels).mean()),
        }
        if who != "cloud":
            record |= _distances(images[:pairs], run.samples[f"made/{user}/cloud"][:pairs])
        if f"made/{user}/{who}/ulps" in run.samples:
            record["ulps", "count", ""] = float(run.samples[f"made/{user}/{who}/ulps"])
        yield user, who, record


def _distances(images: np.ndarray, cloud: np.ndarray) -> dict[tuple[str, str, str], float]:
    """Of images from the cloud's, bytes."""
    ours, theirs = (torch.from_numpy(x).double() / 255 for x in (images, cloud))
    return {
        ("nmse", "score", ""): nmse(2 * ours - 1, 2 * theirs - 1),
        ("nmse", "score", "range=0..1"): nmse(ours, theirs),
        ("ssim", "score", ""): float(ssim(ours, theirs, window_size=11).mean()),
        ("generator_max_abs_diff", "score", ""): 2 * float((ours - theirs).abs().max()),
    }


def nmse(images: torch.Tensor, reference: torch.Tensor) -> float:
    """The mean over images of |image - reference|^2 / |reference|^2; images that are 0 all over have none."""
    error, size = ((x**2).flatten(1).sum(dim=1) for x in (images - reference, reference))
    return float((error[size > 0] / size[size > 0]).mean()) if (size > 0).any() else 0.0


def transmission(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Numbers that a user of a GAN sends at once (Table 4): its discriminator's, or all of its GAN's."""
    file, method = run.path / "model.safetensors", run.spec.algorithm["name"]
    if method not in ("ps-fedgan", "full-gan") or not file.is_file():
        return
    sent = ("clients/discriminator.",) if method == "ps-fedgan" else ("clients/discriminator.", "clients/generator.")
    with safe_open(file, framework="pt") as model:
        shapes = [model.get_slice(name).get_shape() for name in model.keys() if name.startswith(sent)]  # noqa: SIM118
    yield result("parameters", "count", sum(int(np.prod(shape[1:])) for shape in shapes), setting="")
