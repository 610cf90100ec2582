"""What evaluations need of runs that are listened to: what users, the cloud and eavesdroppers make."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attacks.inversion import Inversion
from common.errors import InputError
from common.keys import random_key
from common.spec import InversionSettings, SampleSettings, Spec
from diptych.generation import as_bytes
from federation import Algorithm, Simulation
from federation.data import as_float
from networks.cgan import hidden_units
from objectives.cgan import Twin, images_of
from partitions import Partition

Arrays = dict[str, np.ndarray]
ASKED = 5000
"""Images of each user whose membership is asked for, at most, and as many of others."""


def attacked(simulation: Simulation, dealt: Partition, settings: SampleSettings) -> Arrays:
    """The arrays of samples.npz of a method with twins, as docs/run-folder.md lists them."""
    arrays: Arrays = {}
    for k, member in enumerate(simulation.population.members):
        twin = simulation.cloud.twins[k]  # type: ignore[union-attr]
        arrays |= {
            f"made/{k}/labels": _labels(dealt, k, settings).numpy(),
            f"made/{k}/user": _made(simulation, dealt, k, member.generator, settings),
            f"made/{k}/cloud": _made(simulation, dealt, k, twin.generator, settings),
            f"made/{k}/cloud/loss": _by_round(twin),
            f"made/{k}/cloud/identical": np.array(_same(member.generator, twin.generator)),
            f"client/{k}/style": np.array(dealt.styles[dealt.client_styles[k]]),
        }
        arrays |= {f"membership/{k}/{which}": x for which, x in _membership(simulation, dealt, k, twin).items()}
    for eavesdropper in simulation.eavesdroppers:
        k, twin = eavesdropper.user, eavesdropper.twin  # type: ignore[attr-defined]
        images = _made(simulation, dealt, k, twin.generator, settings)
        for who, ulps in eavesdropper.labels.items():  # type: ignore[attr-defined]
            arrays[f"made/{k}/{who}"] = images
            arrays |= {f"made/{k}/{who}/ulps": np.array(ulps), f"made/{k}/{who}/loss": _by_round(twin)}
    return arrays


def attacked_so_far(simulation: Simulation, dealt: Partition, settings: SampleSettings) -> Arrays:
    """The arrays of after-<r>.npz: images of those whose best round Table 2 prints, the cloud and A1."""
    arrays: Arrays = {}
    for k, twin in enumerate(simulation.cloud.twins):  # type: ignore[union-attr]
        arrays[f"made/{k}/labels"] = _labels(dealt, k, settings).numpy()
        arrays[f"made/{k}/cloud"] = _made(simulation, dealt, k, twin.generator, settings)
    for eavesdropper in simulation.eavesdroppers:
        k, twin = eavesdropper.user, eavesdropper.twin  # type: ignore[attr-defined]
        if asked := [who for who in eavesdropper.labels if who.startswith("a1;")]:  # type: ignore[attr-defined]
            images = _made(simulation, dealt, k, twin.generator, settings)
            arrays |= {f"made/{k}/{who}": images for who in asked}
    return arrays


def _labels(dealt: Partition, user: int, settings: SampleSettings) -> Tensor:
    """Of the images that everybody makes: evenly over those that the user has."""
    known = dealt.labels[dealt.clients[user]].unique()
    return known.repeat(-(-settings.images // len(known)))[: settings.images]


def _made(simulation: Simulation, dealt: Partition, user: int, generator: Any, settings: SampleSettings) -> np.ndarray:
    """Images of these labels, from the same noise whoever makes them."""
    labels = _labels(dealt, user, settings)
    draw = torch.Generator().manual_seed(random_key(simulation.seed, "attacked", user))
    return as_bytes(images_of(generator, torch.randn(len(labels), generator.latent, generator=draw), labels))


def _same(a: Any, b: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def _by_round(twin: Twin) -> np.ndarray:
    """The generator's mean loss in each round (rounds,)."""
    return np.array([np.mean(twin.losses[round]) for round in sorted(twin.losses)])


@torch.no_grad()
def _membership(simulation: Simulation, dealt: Partition, user: int, twin: Twin) -> Arrays:
    """How real the discriminator that was last published takes images for, nothing dropped: those that the user has
    trained on, and as many test images, at most, of the same labels that nobody has."""
    own = dealt.clients[user]
    tests = dealt.all_test
    tests = tests[torch.isin(dealt.labels[tests], dealt.labels[own])]
    draw = torch.Generator().manual_seed(random_key(simulation.seed, "membership", user))
    arrays = {}
    for which, indices in (("members", own), ("others", tests)):
        rows = indices[torch.randperm(len(indices), generator=draw)[: min(len(own), len(tests), ASKED)]]
        images, labels = 2 * as_float(dealt.images[rows]) - 1, dealt.labels[rows]
        whole = [torch.ones(len(rows), units) for units in hidden_units(twin.discriminator.width)]
        arrays[which] = twin.discriminator(images, labels, whole).numpy()
    return arrays


def listener(spec: Spec, algorithm: Algorithm) -> Inversion:
    """Who inverts the first update of each client.

    Raises:
        InputError: that update is not one plain gradient step on all that a client has.
    """
    training = spec.training
    plain = training.optimiser.name == "sgd" and not training.optimiser.momentum and not training.optimiser.weight_decay
    whole = (spec.data.at_most or training.batch_size + 1) <= training.batch_size
    once = training.local_steps == 1 or (training.local_steps is None and training.local_epochs == 1)
    if not (plain and whole and once and spec.objective.get("name") == "classification"):
        raise InputError(
            "inversion: needs a classifier, plain sgd, local_epochs 1, and data.at_most up to training.batch_size"
        )
    return Inversion(algorithm.objective, training.optimiser, spec.seed)


def inversions(simulation: Simulation, inversion: Inversion, settings: InversionSettings) -> Arrays:
    """`inverted/<user>/...`: what was found, the labels that it took, and what the user has."""
    arrays: Arrays = {}
    for k in sorted(inversion.after):
        own = simulation.data.clients[k]
        true = as_float(simulation.data.images[own])
        found, labels = inversion.invert(k, tuple(true.shape), settings.iterations)
        arrays |= {f"inverted/{k}/found": as_bytes(found), f"inverted/{k}/taken-for": labels.numpy()}
        arrays |= {
            f"inverted/{k}/true": simulation.data.images[own].numpy(),
            f"inverted/{k}/labels": simulation.data.labels[own].numpy(),
        }
    return arrays
