"""Three styles of the digits that come with scikit-learn: no download, and small enough for a few cores.

All three show the same 1,797 digits (8x8 pixels, enlarged to 16x16): styles of one experiment should take disjoint
ones, as in `digits-plain[0::3]`, `digits-photo[1::3]`. None of them is MNIST, SVHN or USPS.
"""

import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from partitions.source import Source

SIZE = 16


def _scikit_learn(file: str) -> Path:
    """A data file of scikit-learn, found without importing the library, which takes two seconds in every process."""
    spec = find_spec("sklearn")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "datasets" / file


@cache
def _digits() -> tuple[Tensor, np.ndarray]:
    """Strokes (1797, 1, 16, 16) in [0, 1] and labels (1797,)."""
    with gzip.open(_scikit_learn("data/digits.csv.gz"), "rt") as lines:
        table = np.loadtxt(lines, delimiter=",")
    strokes = torch.from_numpy(table[:, :-1] / 16).float().view(-1, 1, 8, 8)
    return F.interpolate(strokes, (SIZE, SIZE), mode="bilinear"), table[:, -1].astype(np.int64)


def _source(name: str, pictures: Tensor) -> Source:
    """A source from pictures (1797, 1 or 3, 16, 16) in [0, 1]."""
    images = pictures.mul(255).round().byte().permute(0, 2, 3, 1).squeeze(3).numpy()
    return Source(name, images, _digits()[1], test=None, classes=10)


@cache
def plain() -> Source:
    """Digits as they are: light strokes on black."""
    return _source("digits-plain", _digits()[0])


@cache
def bold() -> Source:
    """Digits written with a thick soft pen: strokes widened by one pixel to each side, then blurred."""
    wide = F.max_pool2d(_digits()[0], 3, stride=1, padding=1)
    return _source("digits-bold", F.avg_pool2d(wide, 3, stride=1, padding=1, count_include_pad=False))


@cache
def photo() -> Source:
    """Digits in colour on crops of two photographs: |photograph - stroke|, as MNIST-M is made."""
    strokes, labels = _digits()
    photographs = [
        np.asarray(Image.open(_scikit_learn(f"images/{name}.jpg")).convert("RGB"), dtype=np.float32) / 255
        for name in ("china", "flower")
    ]
    rng = np.random.default_rng(0)  # part of what the style is, so the same for every seed of an experiment
    crops = []
    for n in range(len(labels)):
        picture = photographs[n % 2]
        top, left = (rng.integers(0, extent - 2 * SIZE) for extent in picture.shape[:2])
        crops.append(picture[top : top + 2 * SIZE : 2, left : left + 2 * SIZE : 2])
    grounds = torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2)
    return _source("digits-photo", (grounds - strokes).abs())
