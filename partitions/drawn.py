"""Images drawn at random: as many of each class, a share of each, or each equally often."""

import numpy as np

from common.errors import InputError


def drawn(
    labels: np.ndarray, pool: np.ndarray, classes: int, each: int, parts: int, rng: np.random.Generator
) -> np.ndarray:
    """`each` images of every class from `pool`, (classes * each,) indices, class by class.

    They are drawn in `parts` of equal size. No part has an image twice, but two parts may have the same one, as the ten
    index files of FedINB's code do: of n images, parts of m leave n (1 - (1 - m / n)^parts) different ones on average.

    Args:
        labels: (images,) of the whole source.
        pool: (training images,) indices.
        each: a multiple of `parts`.

    Raises:
        InputError: a class has fewer images than a part.
    """
    part = each // parts
    shares = []
    for c in range(classes):
        members = pool[labels[pool] == c]
        if len(members) < part:
            raise InputError(
                f"data.per_class: at most the {len(members)} training images of class {c} can be drawn without "
                f"repetition, got {part}"
            )
        shares += [rng.choice(members, part, replace=False) for _ in range(parts)]
    return np.concatenate(shares)


def stratified(labels: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """A mask over images that takes `fraction` of each class (rounded), at random."""
    mask = np.zeros(len(labels), dtype=bool)
    for c in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == c))
        mask[members[: round(fraction * len(members))]] = True
    return mask


def resampled(indices: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """`size` of `indices`: each equally often, and those that come once more than others drawn at random."""
    whole, rest = divmod(size, len(indices))
    return np.concatenate([np.tile(indices, whole), rng.permutation(indices)[:rest]])
