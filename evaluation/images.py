"""What the judge says of images that somebody made, and how far they are from others: what `asked` and `moved` share.

Images are bytes (n, channels, size, size).
"""

import math
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch

from common.keys import random_key
from common.run_arrays import Arrays
from common.run_folder import RunFolder
from evaluation.frechet import frechet_distance, gaussian, or_left_out
from evaluation.judge import load
from evaluation.rows import Number
from evaluation.transport import exact, flat

Said = tuple[np.ndarray, np.ndarray, np.ndarray]
"""What the judge says of images: features (n, d), labels (n,) and clients (n,)."""
OF_LABELS = ("accuracy", "label_agreement")
"""Metrics that are read off labels, two names for the same; others are off clients."""


class Judged:
    """Arrays of a run in the eyes of its judge, who looks at each once and knows the clients of each style."""

    def __init__(self, run: RunFolder, arrays: Arrays) -> None:
        self.run, self.arrays = run, arrays
        self.styles = {int(row["client"]): str(row["style"]) for row in run.table("partition.csv")}
        self.judge = cache(lambda: load(run.judge))
        self.read = cache(lambda key: self.judge()(arrays[key]))
        self.noise = np.random.default_rng(random_key(run.spec.seed, "noise"))

    def numbers(
        self, reads: Iterable[str], control: str, names: list[str], style: str, against: str, known: str = ""
    ) -> Iterator[Number]:
        """What is said of images of a style, and how far they are from others.

        Args:
            reads: `accuracy` or `label_agreement`: the judge reads the label that they ought to show, unless that is
                -1. `style_agreement`: it takes them for a client's of the style.
            control: `noise` is uniform noise in their place, `shuffled-labels` their labels in another order; of a
                `ceiling` there are no distances.
            names: the arrays of the images, and of their labels.
            against, known: see `distances` and `compared`; nothing without such an array.
        """
        (images, labels), said = (self.arrays[name] for name in names), self.read(names[0])
        if control == "noise":
            images = self.noise.integers(0, 256, images.shape, dtype=np.uint8)
            said = self.judge()(images)
        elif control == "shuffled-labels":
            labels = np.random.default_rng(0).permutation(labels)
        of_style = [k for k, own in self.styles.items() if own == style]
        ought = {metric: labels if metric in OF_LABELS else of_style for metric in reads}
        yield from agreement(said, {metric: truth for metric, truth in ought.items() if np.min(truth) >= 0})
        if against and control != "ceiling":
            both = names[0], against
            yield from distances(images, said, self.arrays[against], self.read(against), both, self.run.spec.run)
        if known in self.arrays:
            yield from compared(images, self.arrays[known])


def agreement(said: Said, ought: dict[str, Any]) -> Iterator[Number]:
    """The share of images of which the judge says what it ought to.

    Args:
        ought: metric -> the truth: of each image (n,), or one for all, or those of which any will do.
            `attribute_change` is the share of images of which the judge says something else.
    """
    for metric, truth in ought.items():
        read = said[1 if metric in OF_LABELS else 2]
        right = read == truth if isinstance(truth, np.ndarray) else np.isin(read, truth)
        yield metric, "fraction", float((~right if metric == "attribute_change" else right).mean())


def distances(
    images: np.ndarray, said: Said, real: np.ndarray, said_of_real: Said, names: tuple[str, str], run: str
) -> Iterator[Number]:
    """How far images are from real ones, all classes together: `fid`, on the judge's features, and `wd_exact`.

    The former is not a number if there are too few of either, which is said of them by `names`.
    """
    fid = math.nan
    with or_left_out(run):
        fid = frechet_distance(*(gaussian(by[0], name) for by, name in zip((said, said_of_real), names, strict=True)))
    yield "fid", "score", fid
    yield "wd_exact", "score", exact(flat(images), flat(real)).value


def compared(images: np.ndarray, known: np.ndarray) -> Iterator[Number]:
    """How far each image is from what it ought to look like: mean absolute difference of a pixel in [0, 1], and
    structural similarity, window 11."""
    from kornia.metrics import ssim  # half a second, which only what is compared with others need pay

    ours, theirs = (torch.from_numpy(x).double() / 255 for x in (images, known))
    yield "pixel_error", "score", float((ours - theirs).abs().mean())
    yield "ssim", "score", float(ssim(ours, theirs, window_size=11).mean())
