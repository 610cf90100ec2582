"""What is drawn into a client's images, as in FedDVA's code: sinusoids and ellipses, which the paper shows (Fig. 3a)
and does not specify.

Each function returns curves, (n, 2, points): rows and columns in [-1, 1], one realisation for each image. They are 32
points, a step of 0.2 radians apart, with nothing between them, so that steep curves are dotted.
"""

from collections.abc import Callable

import numpy as np
from torch import Tensor

from common.errors import choose

ANGLES = np.arange(0, 2 * np.pi, 0.2)
ECCENTRICITY = 0.9
Curves = Callable[[int, np.random.Generator], np.ndarray]


def plain(images: int, rng: np.random.Generator) -> np.ndarray:
    """Nothing."""
    return np.zeros((images, 2, 0))


def horizontal_sinusoid(images: int, rng: np.random.Generator) -> np.ndarray:
    """One period from left to right, as high as the canvas, with a random phase."""
    phase = rng.uniform(0, 2 * np.pi, (images, 1))
    columns = np.broadcast_to(ANGLES / np.pi - 1, (images, len(ANGLES)))
    return np.stack([np.sin(ANGLES + phase), columns], axis=1)


def vertical_sinusoid(images: int, rng: np.random.Generator) -> np.ndarray:
    """One period from top to bottom, as wide as the canvas, with a random phase."""
    return horizontal_sinusoid(images, rng)[:, ::-1]


def ellipse(images: int, rng: np.random.Generator) -> np.ndarray:
    """Of eccentricity 0.9, as long as the canvas, turned by a random angle."""
    turn = rng.uniform(0, np.pi, (images, 1))
    along, across = np.cos(ANGLES), np.sqrt(1 - ECCENTRICITY**2) * np.sin(ANGLES)
    return np.stack(
        [along * np.sin(turn) + across * np.cos(turn), along * np.cos(turn) - across * np.sin(turn)], axis=1
    )


MARKS: dict[str, Curves] = {
    "plain": plain,
    "horizontal-sinusoid": horizontal_sinusoid,
    "vertical-sinusoid": vertical_sinusoid,
    "ellipse": ellipse,
}


def marked(where: str, name: str, images: Tensor, rng: np.random.Generator) -> Tensor:
    """Images with a mark of this kind, at full brightness, one pixel away from the border.

    The authors' code adds 255 to bytes, so that a stroke of the digit under the mark wraps around and hides it; here
    the mark is on top.

    Args:
        where: the key that names the mark, for the sentence about a wrong one.
        images: bytes (n, channels, size, size).
    """
    curves = MARKS[choose(where, name, MARKS)](len(images), rng)
    rows, columns = np.rint(1 + (curves + 1) / 2 * (images.shape[-1] - 3)).astype(int).transpose(1, 0, 2)
    drawn = images.clone()
    drawn[np.arange(len(images))[:, None], :, rows, columns] = 255
    return drawn
