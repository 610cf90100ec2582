"""What is measured of all methods alike, on what `abilities.comparable` leaves: answers; images of labels that were
asked for; images in another client's style. What a method is not able to has no record."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from common.keys import random_key
from common.run_folder import RunFolder
from evaluation.frechet import frechet_distance, gaussian
from evaluation.judge import load
from evaluation.rows import result
from evaluation.transport import exact, flat

Arrays = dict[str, np.ndarray]


def answers(run: RunFolder) -> Iterator[dict[str, Any]]:
    """The share of test images whose label is read right, the mean over clients and by client: by each client's own
    model, and by the model that all share (`role`). On a style that no client has (`domain`), the mean over images.

    A client's test images are all of its style's, of labels, too, that it has never seen. With `labels=own` each label
    counts as much as among its training images.
    """
    arrays = {key: array for key, array in run.features.items() if key.startswith("answers/")}
    had: dict[int, dict[int, int]] = defaultdict(dict)
    for row in run.table("partition.csv") if arrays else ():
        had[int(row["client"])][int(row["class"])] = int(row["images"])
    for role in ("own", "shared"):
        if f"answers/{role}" in arrays:
            right, client = arrays[f"answers/{role}"], arrays["answers/client"]
            by = {k: float(right[client == k].mean()) for k in np.unique(client).tolist()}
            yield result("accuracy", "fraction", float(np.mean(list(by.values()))), role=role)
            yield result("accuracy_worst_client", "fraction", min(by.values()), role=role)
            own = [_by_own_labels(right[client == k], arrays["answers/label"][client == k], had[k]) for k in by]
            yield result("accuracy", "fraction", float(np.mean(own)), role=role, setting="labels=own")
            for k, value in by.items():
                yield result("accuracy", "fraction", value, role=role, client=f"client-{k + 1}")
        for key in arrays:
            if key.count("/") == 2 and key.endswith(f"/{role}"):
                domain = key.split("/")[1]
                yield result("accuracy", "fraction", float(arrays[key].mean()), role=role, domain=domain)


def _by_own_labels(right: np.ndarray, labels: np.ndarray, had: dict[int, int]) -> float:
    """Accuracy by label, weighed by how many training images a client has of it."""
    of_each = {label: right[labels == label].mean() for label in np.unique(labels).tolist()}
    return float(np.average(list(of_each.values()), weights=[had[label] for label in of_each]))


class Shown(NamedTuple):
    """Images of one style, and what they ought to be.

    Attributes:
        images: bytes (n, channels, size, size).
        labels: what they ought to show, (n,); -1 where nothing was asked for.
        style: whose they ought to be.
        known: what each ought to look like, as images; None where nobody knows.
    """

    images: np.ndarray
    labels: np.ndarray
    style: str
    known: np.ndarray | None = None


Real = dict[int | str, Shown]
"""Client or style -> its test images."""
Cases = dict[str, list[tuple[Shown, int | str]]]
"""Control -> images, and whose test images they are held against."""


def asked_images(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Images of labels that a client's own generator was asked for, the mean over clients.

    `label_agreement`: the judge reads that label. `style_agreement`: it takes the image for one of the client's style.
    `fid`, on the judge's features, and `wd_exact`, over all classes together: how far they are from the client's test
    images of these labels. Controls: `floor`, training images of its style, of which the judge has seen some; `noise`,
    uniform noise; `ceiling`, the test images themselves, of which there is no distance.
    """
    arrays, styles = run.samples, _styles(run)
    clients = sorted({int(key.split("/")[1]) for key in arrays if key.startswith("asked/")})
    if not clients:
        return
    rng = np.random.default_rng(random_key(run.spec.seed, "noise"))
    asked = {k: Shown(arrays[f"asked/{k}/made"], arrays[f"asked/{k}/labels"], styles[k]) for k in clients}
    floor = {k: Shown(arrays[f"asked/{k}/other"], arrays[f"asked/{k}/other-labels"], styles[k]) for k in clients}
    real: Real = {k: Shown(arrays[f"asked/{k}/real"], arrays[f"asked/{k}/real-labels"], styles[k]) for k in clients}
    noise = {k: own._replace(images=rng.integers(0, 256, own.images.shape, dtype=np.uint8)) for k, own in real.items()}
    by_control = {"": asked, "floor": floor, "noise": noise, "ceiling": real}
    cases: Cases = {control: [(shown, k) for k, shown in by.items()] for control, by in by_control.items()}
    yield from _measured(run, "images=asked", cases, real)


def translated_images(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Images of each style in every other, the mean over ordered pairs; floor and ceiling, the mean over styles.

    As of `asked_images`, with the label of the image that was translated, and distances to the target's test images;
    where it is known what an image ought to look like, `pixel_error`, the mean absolute difference of a pixel in
    [0, 1], and `ssim`. Controls: `identity`, nothing was translated; `floor`, training images of the target's own;
    `ceiling`, its test images; `counterpart`, what the images ought to look like.
    """
    arrays = run.samples
    pairs = [tuple(key.split("/")[1:]) for key in arrays if key.startswith("translated/")]
    pairs = [(a, b) for a, b in pairs if a != b]
    if not pairs:
        return

    def shown(key: str, a: str, b: str) -> tuple[Shown, str]:
        return Shown(arrays[key], arrays[f"label/{a}"], b, arrays.get(f"counterpart/{a}/{b}")), b

    targets = dict.fromkeys(b for _, b in pairs)
    real: Real = {b: Shown(arrays[f"real/{b}"], arrays[f"label/{b}"], b) for b in targets}
    cases: Cases = {
        "": [shown(f"translated/{a}/{b}", a, b) for a, b in pairs],
        "identity": [shown(f"real/{a}", a, b) for a, b in pairs],
        "floor": [(Shown(arrays[f"other/{b}"], arrays[f"other-label/{b}"], b), b) for b in targets],
        "ceiling": [(own, b) for b, own in real.items()],
    }
    if all(f"counterpart/{a}/{b}" in arrays for a, b in pairs):
        cases["counterpart"] = [shown(f"counterpart/{a}/{b}", a, b) for a, b in pairs]
    yield from _measured(run, "images=translated", cases, real)


def _styles(run: RunFolder) -> dict[int, str]:
    """The style of each client."""
    return {int(row["client"]): str(row["style"]) for row in run.table("partition.csv")}


def _measured(run: RunFolder, setting: str, cases: Cases, real: Real) -> Iterator[dict[str, Any]]:
    """The means over a control's images, each against the test images that they are held against."""
    judge, styles = load(run.judge), _styles(run)
    features = {whose: gaussian(judge(x.images)[0], f"test images of {x.style}") for whose, x in real.items()}
    for control, shown in cases.items():
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        for made, whose in shown:
            said, labels, client = judge(made.images)
            if made is not real[whose]:
                distance = frechet_distance(gaussian(said, f"{setting} of {made.style}"), features[whose])
                found["fid", "score"].append(distance)
                found["wd_exact", "score"].append(exact(flat(made.images), flat(real[whose].images)).value)
            of_style = np.array([styles[k] == made.style for k in client.tolist()])
            found["style_agreement", "fraction"].append(float(of_style.mean()))
            if (made.labels >= 0).all():
                found["label_agreement", "fraction"].append(float((labels == made.labels).mean()))
            if made.known is not None:
                for name, value in compared(made.images, made.known).items():
                    found[name, "score"].append(value)
        for (metric, unit), values in found.items():
            yield result(metric, unit, float(np.mean(values)), setting=setting, control=control)


def compared(images: np.ndarray, known: np.ndarray) -> dict[str, float]:
    """How far images (n, channels, size, size), bytes, are from what they ought to look like: mean absolute difference
    of a pixel in [0, 1], and structural similarity, window 11."""
    from kornia.metrics import ssim  # half a second, which only what is compared with others need pay

    ours, theirs = (torch.from_numpy(x).double() / 255 for x in (images, known))
    return {
        "pixel_error": float((ours - theirs).abs().mean()),
        "ssim": float(ssim(ours, theirs, window_size=11).mean()),
    }
