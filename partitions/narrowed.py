"""What clients keep of what they were dealt: some classes, so many images, their part of the test images."""

import dataclasses

import numpy as np
import torch
from torch import Tensor

from common.errors import InputError
from common.keys import random_key
from partitions.deal import in_proportion
from partitions.partition import Partition


def with_some_classes(dealt: Partition, share: float, seed: int) -> Partition:
    """Each client keeps a share of the classes, drawn for it, and drops the images of the others (PaDPaF, App. C.2)."""
    keep = max(1, round(share * dealt.classes))
    clients = []
    for number, indices in enumerate(dealt.clients):
        rng = np.random.default_rng(random_key(seed, "classes", number))
        kept = torch.from_numpy(rng.permutation(dealt.classes)[:keep])
        clients.append(indices[torch.isin(dealt.labels[indices], kept)])
        if len(clients[-1]) < 2:
            raise InputError(f"data.classes_per_client: client {number} has {len(clients[-1])} images left")
    return dataclasses.replace(dealt, clients=tuple(clients))


def with_at_most(dealt: Partition, count: int, seed: int) -> Partition:
    """Each client keeps `count` of its training images, drawn for it (FedDVA's code: 5,000 faces)."""
    if dealt.turns is not None and any(len(parts) > 1 for parts in dealt.turns):
        raise InputError("data.at_most: clients that work on their images in turns keep all of them")
    rngs = [np.random.default_rng(random_key(seed, "at most", number)) for number in range(len(dealt.clients))]
    clients = tuple(
        indices[torch.from_numpy(rng.permutation(len(indices))[:count])]
        for indices, rng in zip(dealt.clients, rngs, strict=True)
    )
    turns = None if dealt.turns is None else tuple((indices,) for indices in clients)
    return dataclasses.replace(dealt, clients=clients, turns=turns)


def with_dealt_tests(dealt: Partition, seed: int) -> Partition:
    """Clients share out the test images of their source: each gets of a class what it has of the training images."""
    tests: list[Tensor] = [torch.zeros(0)] * len(dealt.clients)
    counts = dealt.class_counts()
    for style, indices in enumerate(dealt.test if dealt.own_sources else dealt.test[:1]):
        members = [k for k, s in enumerate(dealt.client_styles) if s == style or not dealt.own_sources]
        if not members:  # nobody shares out what is unseen
            continue
        rng = np.random.default_rng(random_key(seed, "test images", dealt.styles[style]))
        parts = in_proportion(dealt.labels[indices].numpy(), counts[members], rng)
        for client, part in zip(members, parts, strict=True):
            if not len(part):
                raise InputError(f"data.test_images: no test image is left for client {client} of {len(dealt.clients)}")
            tests[client] = indices[torch.from_numpy(part)]
    return dataclasses.replace(dealt, dealt_tests=tuple(tests))
