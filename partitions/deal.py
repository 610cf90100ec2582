"""Rules that deal the images of one style out to its clients.

Each takes labels (images,), a number of clients and a random generator, and returns one array of indices per client.
"""

from collections.abc import Callable, Iterator
from typing import Annotated

import numpy as np
from pydantic import ConfigDict, Field, validate_call

from common.errors import InputError

Deal = Callable[..., list[np.ndarray]]
_arrays = validate_call(config=ConfigDict(arbitrary_types_allowed=True))


def _size(labels: np.ndarray, clients: int) -> int:
    if clients > len(labels):
        raise InputError(f"clients_per_style: {clients} clients cannot share {len(labels)} images")
    return len(labels) // clients


@_arrays
def iid(labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Equal shares with the same class proportions (FedStyle, Sec. Datasets); disjoint, at most clients - 1 left."""
    size = _size(labels, clients)
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    return [order[client::clients][:size] for client in range(clients)]


def _largest_remainder(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers in proportion to `shares` (which sum to 1) that sum to `total`."""
    exact = shares * total
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts


def _endless(indices: np.ndarray, rng: np.random.Generator) -> Iterator[int]:
    """All indices in random order, again and again: an image comes twice only after all of its class have come once."""
    while True:
        yield from rng.permutation(indices).tolist()


@_arrays
def dirichlet(
    labels: np.ndarray, clients: int, rng: np.random.Generator, *, beta: Annotated[float, Field(gt=0)]
) -> list[np.ndarray]:
    """Class proportions of each client from Dir(beta * 1), equal client sizes (FedStyle, App. B).

    With equal sizes and free proportions the clients together may ask for more images of a class than there are; its
    images are then dealt again, so that clients may share images and other images stay unused.
    """
    size = _size(labels, clients)
    classes = np.unique(labels)
    pools = [_endless(np.flatnonzero(labels == c), rng) for c in classes]
    dealt = []
    for _ in range(clients):
        counts = _largest_remainder(rng.dirichlet(np.full(len(classes), beta)), size)
        dealt.append(np.array([next(pool) for pool, n in zip(pools, counts, strict=True) for _ in range(n)]))
    return dealt


PARTITIONS: dict[str, Deal] = {"iid": iid, "dirichlet": dirichlet}
