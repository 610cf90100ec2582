"""Rules that deal the images of one style out to its clients.

Each takes labels (images,), a number of clients and a random generator, and returns one array of indices per client.
"""

from collections.abc import Callable, Iterator
from typing import Annotated

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from common.errors import InputError
from common.settings import strict_call

Deal = Callable[..., list[np.ndarray]]
Concentration = Annotated[float, Field(ge=1e-3, le=1e6)]
"""Of a Dirichlet distribution: from one class for each client to the same classes for all."""


def _size(labels: np.ndarray, clients: int) -> int:
    if clients > len(labels):
        raise InputError(f"clients_per_style: {clients} clients cannot share {len(labels)} images")
    return len(labels) // clients


@strict_call
def iid(labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Equal shares with the same class proportions (FedStyle, Sec. Datasets); disjoint.

    What does not divide, at most clients - 1 images, is left out at random.
    """
    order = rng.permutation(len(labels))[: _size(labels, clients) * clients]
    order = order[np.argsort(labels[order], kind="stable")]
    return [order[client::clients] for client in range(clients)]


def largest_remainder(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers in proportion to `shares` (which sum to 1) that sum to `total`."""
    exact = shares * total
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts


def _endless(indices: np.ndarray, rng: np.random.Generator) -> Iterator[int]:
    """All indices in random order, again and again: an image comes twice only after all of its class have come once."""
    while True:
        yield from rng.permutation(indices).tolist()


@strict_call
def dirichlet(labels: np.ndarray, clients: int, rng: np.random.Generator, *, beta: Concentration) -> list[np.ndarray]:
    """Class proportions of each client from Dir(beta * 1), equal client sizes (FedStyle, App. B).

    With equal sizes and free proportions the clients together may ask for more images of a class than there are; its
    images are then dealt again, so that clients may share images and other images stay unused.
    """
    size = _size(labels, clients)
    classes = np.unique(labels)
    pools = [_endless(np.flatnonzero(labels == c), rng) for c in classes]
    dealt = []
    for _ in range(clients):
        counts = largest_remainder(rng.dirichlet(np.full(len(classes), beta)), size)
        dealt.append(np.array([next(pool) for pool, n in zip(pools, counts, strict=True) for _ in range(n)]))
    return dealt


@strict_call
def label_skew(labels: np.ndarray, clients: int, rng: np.random.Generator, *, alpha: Concentration) -> list[np.ndarray]:
    """Class proportions of each client from Dir(alpha * prior), equal client sizes, disjoint (Hsu et al. 2019).

    `prior` are the classes' shares of all images. Each image's class is drawn from its client's proportions; a class
    that has been used up leaves them. FedDVA's App. F has 20 clients and no alpha.
    """
    size = _size(labels, clients)
    classes, counts = np.unique(labels, return_counts=True)
    pools = [rng.permutation(np.flatnonzero(labels == c)).tolist() for c in classes]
    proportions = rng.dirichlet(alpha * counts / counts.sum(), clients)
    dealt = []
    for wanted in proportions:
        taken: list[int] = []
        while len(taken) < size:
            left = np.array([len(pool) for pool in pools])
            shares = np.where(left > 0, wanted, 0) + np.where(left > 0, 1e-12, 0)  # all it wants may be gone
            drawn = rng.multinomial(size - len(taken), shares / shares.sum())
            for pool, n in zip(pools, np.minimum(drawn, left), strict=True):
                taken += [pool.pop() for _ in range(n)]
        dealt.append(np.array(taken))
    return dealt


@strict_call
def shards(
    labels: np.ndarray, clients: int, rng: np.random.Generator, *, each: PositiveInt, repeat: bool = False
) -> list[np.ndarray]:
    """`each` shards of a single class for every client; disjoint and complete (SDA-FL's and PS-FedGAN's splits).

    Every class is cut into as many shards as the others. Which client gets which is drawn at random; two of one class
    only if `repeat`, so that otherwise a client has exactly `each` classes.
    """
    classes = np.unique(labels)
    per_class, rest = divmod(clients * each, len(classes))
    if rest or not per_class:
        raise InputError(
            f"data.deal.each: {clients} clients with {each} shards each are {clients * each}, which is no multiple of "
            f"{len(classes)} classes"
        )
    if not repeat and max(per_class - clients, each - len(classes)) > 0:
        raise InputError(f"data.deal.each: {each} different classes for each of {clients} clients cannot be had")
    owners = _owners(len(classes), per_class, clients, each, repeat, rng)
    dealt: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for c, mine in zip(classes, owners, strict=True):
        members = rng.permutation(np.flatnonzero(labels == c))
        if len(members) < per_class:
            raise InputError(
                f"data.deal.each: {len(members)} images of class {c} cannot be cut into {per_class} shards"
            )
        for client, shard in zip(mine, np.array_split(members, per_class), strict=True):
            dealt[client].append(shard)
    return [np.concatenate(parts) for parts in dealt]


def _owners(
    classes: int, per_class: int, clients: int, each: int, repeat: bool, rng: np.random.Generator
) -> list[list[int]]:
    """The clients that get the shards of each class."""
    if repeat:
        return rng.permutation(np.repeat(np.arange(clients), each)).reshape(classes, per_class).tolist()
    left, owners = np.full(clients, each), []
    for _ in range(classes):  # to those with most shards still to come, drawn among equals: this always comes out even
        order = np.lexsort([rng.random(clients), -left])[:per_class]
        left[order] -= 1
        owners.append(order.tolist())
    return [owners[n] for n in rng.permutation(classes)]


@strict_call
def by_class(
    labels: np.ndarray, clients: int, rng: np.random.Generator, *, of: list[list[NonNegativeInt]]
) -> list[np.ndarray]:
    """Client k has all images of the classes of[k] (PS-FedGAN's Setup-1), in random order."""
    named = [c for group in of for c in group]
    if len(of) != clients or len(set(named)) != len(named) or not all(of):
        raise InputError(f"data.deal.of: must name different classes for each of {clients} clients, got {of}")
    dealt = [rng.permutation(np.flatnonzero(np.isin(labels, group))) for group in of]
    for group, indices in zip(of, dealt, strict=True):
        if not len(indices):
            raise InputError(f"data.deal.of: there is no image of {group}")
    return dealt


def in_proportion(labels: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Test images dealt so that each client's part of each class is its part of that class's training images.

    Args:
        labels: (images,) of the test images.
        shares: (clients, classes), training images of each.
    """
    dealt: list[list[int]] = [[] for _ in shares]
    for c in np.unique(labels):
        owned = shares[:, c].astype(float)
        members = rng.permutation(np.flatnonzero(labels == c))
        counts = largest_remainder(owned / owned.sum(), len(members)) if owned.sum() else np.zeros(len(owned), int)
        for client, part in enumerate(np.split(members[: counts.sum()], np.cumsum(counts)[:-1])):
            dealt[client] += part.tolist()
    return [np.array(part, dtype=int) for part in dealt]


PARTITIONS: dict[str, Deal] = {
    "iid": iid,
    "dirichlet": dirichlet,
    "label-skew": label_skew,
    "shards": shards,
    "by-class": by_class,
}
