"""Validation images: training images that nobody trains on."""

import dataclasses

import numpy as np
import torch
from torch import Tensor

from common.errors import InputError
from common.keys import random_key
from common.spec import DataSettings
from partitions.deal import largest_remainder
from partitions.partition import Partition


def with_validation(dealt: Partition, settings: DataSettings, seed: int) -> Partition:
    """Held-out training images take the place of all test images, which nobody sees.

    Each client holds out a share of its different images, of each class in proportion: the first in an order that is
    drawn once. So clients that have the same pictures, in whatever style, hold out the same ones, and what one of them
    holds out no other trains on.
    """
    pictures = _pictures(dealt)
    order = np.random.default_rng(random_key(seed, "validation")).permutation(len(pictures))
    held_out = np.zeros(len(pictures), dtype=bool)
    for client, indices in enumerate(dealt.clients):
        mine = indices.unique().numpy()
        first = mine[_first_of_each_class(dealt.labels[mine].numpy(), order[pictures[mine]], settings.validation_share)]
        if not len(first):
            raise InputError(
                f"data.validation_share: a share of {settings.validation_share:g} of the {len(mine)} images of client "
                f"{client} is none"
            )
        held_out[pictures[first]] = True
    mask = torch.from_numpy(held_out[pictures])
    for client, parts in enumerate(dealt.turns or [(indices,) for indices in dealt.clients]):
        if any(mask[part].all() for part in parts):
            raise InputError(f"data.validation_share: client {client} has no image left to train on")
    held = tuple(indices[mask[indices]].unique() for indices in dealt.clients)
    everybodys = not dealt.own_sources and settings.test_images == "all"
    tests = [
        torch.cat([h for h, s in zip(held, dealt.client_styles, strict=True) if everybodys or s == style]).unique()
        for style in range(len(dealt.styles))
    ]

    def left(indices: Tensor) -> Tensor:
        return indices[~mask[indices]]

    return dataclasses.replace(
        dealt,
        train=tuple(left(indices) for indices in dealt.train),
        test=tuple(tests),
        clients=tuple(left(indices) for indices in dealt.clients),
        turns=None if dealt.turns is None else tuple(tuple(map(left, parts)) for parts in dealt.turns),
        dealt_tests=held if settings.test_images == "dealt" else None,
    )


def _pictures(dealt: Partition) -> np.ndarray:
    """For each stored image, the first that shows the same picture, as all styles of one source do: (images,)."""
    sources = dealt.sources if dealt.own_sources else dealt.sources[:1]
    starts = np.cumsum([0] + [len(source.labels) for source in sources])
    first = {source.name: start for source, start in reversed(list(zip(sources, starts, strict=False)))}
    return np.concatenate([first[source.name] + np.arange(len(source.labels)) for source in sources])


def _first_of_each_class(labels: np.ndarray, order: np.ndarray, share: float) -> np.ndarray:
    """Positions of a share of all images, rounded, and of each class in proportion: the first of it in `order`."""
    classes, counts = np.unique(labels, return_counts=True)
    wanted = largest_remainder(counts / len(labels), round(share * len(labels)))
    members = [np.flatnonzero(labels == c) for c in classes]
    return np.concatenate([m[np.argsort(order[m])[:n]] for m, n in zip(members, wanted, strict=True)])
