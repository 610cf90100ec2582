"""What others than a user make of what crosses the channel: the cloud and eavesdroppers who follow its generator, who
asks for membership, and who inverts its first update."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from abilities.generation import classes_of
from abilities.trained import Arrays, Trained, as_bytes
from federation.data import as_float
from networks.cgan import hidden_units
from objectives.cgan import Twin, images_of

ASKED = 5000
"""Images of each user whose membership is asked for, at most, and as many of others."""


# ---- generators that are followed


def followed(trained: Trained) -> Arrays:
    """`made/<user>/...`: images of those whose best round Table 2 of PS-FedGAN prints, the cloud and A1."""
    arrays: Arrays = {}
    for k, twin in _twins(trained):
        arrays[f"made/{k}/labels"] = _labels(trained, k).numpy()
        arrays[f"made/{k}/cloud"] = _made(trained, k, twin.generator)
    return arrays | _eavesdropped(trained, lambda who: who.startswith("a1;"))


def overheard(trained: Trained) -> Arrays:
    """What the user makes of the same, and all other eavesdroppers; how everybody came to it; and `membership/...`."""
    arrays: Arrays = {}
    for k, twin in _twins(trained):
        generator = trained.own[k].generator
        arrays |= {
            f"made/{k}/user": _made(trained, k, generator),
            f"made/{k}/cloud/loss": _by_round(twin),
            f"made/{k}/cloud/identical": np.array(_same(generator, twin.generator)),
            f"client/{k}/style": trained.style_of(k),
        }
        arrays |= {f"membership/{k}/{which}": said for which, said in _membership(trained, k, twin).items()}
    for eavesdropper in _eavesdroppers(trained):
        for who, ulps in eavesdropper.labels.items():
            name = f"made/{eavesdropper.user}/{who}"
            arrays |= {f"{name}/ulps": np.array(ulps), f"{name}/loss": _by_round(eavesdropper.twin)}
    return arrays | _eavesdropped(trained, lambda who: not who.startswith("a1;"))


def _twins(trained: Trained) -> list[tuple[int, Twin]]:
    """The cloud's twin of every user's generator."""
    return list(enumerate(trained.simulation.server_work.twins))  # type: ignore[union-attr]


def _eavesdroppers(trained: Trained) -> list[Any]:
    return trained.simulation.eavesdroppers


def _eavesdropped(trained: Trained, wanted: Callable[[str], bool]) -> Arrays:
    """Images of the eavesdroppers with these labels; those that know the same make the same."""
    arrays: Arrays = {}
    for eavesdropper in _eavesdroppers(trained):
        if asked := list(filter(wanted, eavesdropper.labels)):
            images = _made(trained, eavesdropper.user, eavesdropper.twin.generator)
            arrays |= {f"made/{eavesdropper.user}/{who}": images for who in asked}
    return arrays


def _labels(trained: Trained, user: int) -> Tensor:
    """Of the images that everybody makes: evenly over those that the user has."""
    count, known = trained.spec.samples.images, classes_of(trained, user)
    return known.repeat(-(-count // len(known)))[:count]


def _made(trained: Trained, user: int, generator: Any) -> np.ndarray:
    """Images of these labels, from the same noise whoever makes them."""
    labels, draw = _labels(trained, user), trained.stream("attacked", user)
    return as_bytes(images_of(generator, torch.randn(len(labels), generator.latent, generator=draw), labels))


def _same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def _by_round(twin: Twin) -> np.ndarray:
    """The generator's mean loss in each round (rounds,)."""
    return np.array([np.mean(twin.losses[round]) for round in sorted(twin.losses)])


@torch.no_grad()
def _membership(trained: Trained, user: int, twin: Twin) -> Arrays:
    """How real the discriminator that was last published takes images for, nothing dropped: those that the user has
    trained on, and as many test images, at most, of the same labels that nobody has."""
    dealt = trained.dealt
    own, tests = dealt.clients[user], dealt.all_test
    tests = tests[torch.isin(dealt.labels[tests], dealt.labels[own])]
    draw = trained.stream("membership", user)
    arrays = {}
    for which, indices in (("members", own), ("others", tests)):
        rows = indices[torch.randperm(len(indices), generator=draw)[: min(len(own), len(tests), ASKED)]]
        images, labels = 2 * as_float(dealt.images[rows]) - 1, dealt.labels[rows]
        whole = [torch.ones(len(rows), units) for units in hidden_units(twin.discriminator.width)]
        arrays[which] = twin.discriminator(images, labels, whole).numpy()
    return arrays


# ---- updates that are inverted


def inverted(trained: Trained) -> Arrays:
    """`inverted/<user>/...`: what was found, the labels that it took, and what the user has."""
    inversion, settings, data = trained.inversion, trained.spec.inversion, trained.simulation.data
    assert inversion is not None
    assert settings is not None
    arrays: Arrays = {}
    for k in sorted(inversion.after):
        true = data.images[data.clients[k]]
        found, labels = inversion.invert(k, tuple(true.shape), settings.iterations)
        arrays |= {
            f"inverted/{k}/found": as_bytes(found),
            f"inverted/{k}/taken-for": labels.numpy(),
            f"inverted/{k}/true": true.numpy(),
            f"inverted/{k}/labels": data.labels[data.clients[k]].numpy(),
        }
    return arrays
