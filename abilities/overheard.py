"""What others than a user make of what crosses the channel: the cloud and eavesdroppers who follow its generator, who
asks for membership, and who inverts its first update."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from abilities.generation import classes_of
from abilities.trained import Arrays, Trained, as_bytes
from attacks.inversion import Inversion
from attacks.membership import COMPANY, Membership, says
from common.keys import random_key
from federation import copied
from federation.hooks import Preparing
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
    heard = _published(trained)
    for k, twin in _twins(trained):
        generator = trained.own[k].generator
        arrays |= {
            f"made/{k}/user": _made(trained, k, generator),
            f"made/{k}/cloud/loss": _by_round(twin),
            f"made/{k}/cloud/identical": np.array(_same(generator, twin.generator)),
            f"client/{k}/style": trained.style_of(k),
        }
        if k in heard:
            arrays |= _by_discriminator(trained, k, twin, _asked(trained, k, trained.dealt.all_test, ASKED))
    for eavesdropper in _eavesdroppers(trained):
        for who, ulps in eavesdropper.labels.items():
            name = f"made/{eavesdropper.user}/{who}"
            arrays |= {f"{name}/ulps": np.array(ulps), f"{name}/loss": _by_round(eavesdropper.twin)}
    return arrays | _eavesdropped(trained, lambda who: not who.startswith("a1;"))


def _twins(trained: Trained) -> list[tuple[int, Twin]]:
    """The cloud's twin of every user's generator."""
    return list(enumerate(trained.simulation.server_work.twins))  # type: ignore[union-attr]


def _published(trained: Trained) -> set[int]:
    """Users whose discriminator has crossed: the server's twins of all others are what nobody has trained."""
    sent = trained.simulation.channel.traffic
    return {user for _, user, _, name in sent if name.startswith("published.discriminator.")}


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
    """The generator's mean loss in each round that it was followed in (rounds,)."""
    return np.array([np.mean(twin.losses[round]) for round in sorted(twin.losses)])


@torch.no_grad()
def _by_discriminator(trained: Trained, user: int, twin: Twin, asked: dict[str, Tensor]) -> Arrays:
    """How real the discriminator that was last published takes images for, nothing dropped: those that the user has
    trained on, and others, as it sees them."""
    arrays, discriminator = {}, copied(twin.discriminator).cpu()
    for which, rows in asked.items():
        images, labels = _seen(trained, user, rows)
        whole = [torch.ones(len(rows), units) for units in hidden_units(discriminator.width)]
        arrays[f"membership/{user}/{which}"] = discriminator(2 * images - 1, labels, whole).numpy()
    return arrays


def _asked(trained: Trained, user: int, tests: Tensor, count: int) -> dict[str, Tensor]:
    """As many of a user's training images as of test images with its labels, `count` at most: of a user that has as
    many of each, as PS-FedGAN's have."""
    dealt = trained.dealt
    own = dealt.clients[user]
    tests = tests[torch.isin(dealt.labels[tests], dealt.labels[own])]
    draw, most = trained.stream("membership", user), min(len(own), len(tests), count)
    return {
        which: indices[torch.randperm(len(indices), generator=draw)[:most]]
        for which, indices in (("members", own), ("others", tests))
    }


# ---- who asks what was last sent


def membership(trained: Trained) -> Arrays:
    """`membership/<user>/...`: what the model, or discriminator, that a user has last sent says of its training images,
    and of as many test images of its style, label by label, up to `samples.members` of each. Nothing of a user of whose
    labels none is tested."""
    wiretap = trained.listening(Membership)
    assert wiretap is not None
    if hasattr(trained.simulation.server_work, "twins"):
        heard = _published(trained)
        twins = {k: twin for k, twin in _twins(trained) if k in heard}
        parts = [_by_discriminator(trained, k, twins[k], asked) for k, asked in _pairs(trained, twins)]
    else:
        parts = [_by_loss(trained, wiretap, k, asked) for k, asked in _pairs(trained, sorted(wiretap.back))]
    return {key: said for part in parts for key, said in part.items()}


def _pairs(trained: Trained, users: Iterable[int]) -> Iterator[tuple[int, dict[str, Tensor]]]:
    """Users, and which images are asked about: of those that have any."""
    for user in users:
        asked = _alike(trained, user)
        if len(asked["members"]):
            yield user, asked


def _alike(trained: Trained, user: int) -> dict[str, Tensor]:
    """Some of a user's training images, and test images of its style: of each label as many of one as of the other.

    A model knows best what its user has most of: an attack would take commonness for membership.
    """
    dealt, draw = trained.dealt, trained.stream("membership", user)
    pairs: list[tuple[int, int]] = []
    for label in classes_of(trained, user):
        both = (i[dealt.labels[i] == label] for i in (dealt.clients[user], dealt.test[dealt.client_styles[user]]))
        shuffled = (i[torch.randperm(len(i), generator=draw)].tolist() for i in both)
        pairs += zip(*shuffled, strict=False)  # as many as there are of the rarer
    order = torch.randperm(len(pairs), generator=draw)[: trained.spec.samples.members]
    members, others = torch.tensor(pairs, dtype=torch.long).view(-1, 2)[order].T
    return {"members": members, "others": others}


def _by_loss(trained: Trained, wiretap: Membership, user: int, asked: dict[str, Tensor]) -> Arrays:
    dealt = trained.dealt
    style = dealt.client_styles[user]
    rest = dealt.all_test[~torch.isin(dealt.all_test, asked["others"])]
    company = _seen(trained, user, trained.some(rest, COMPANY, "company", user))
    shown = None if dealt.image_styles is None else int(style)
    begun, seed = _begun(trained)[user], random_key(trained.simulation.seed, "membership", user)
    return {
        f"membership/{user}/{which}": says(
            trained.algorithm, wiretap, user, begun, _seen(trained, user, rows), company, shown, seed
        ).numpy()
        for which, rows in asked.items()
    }


def _seen(trained: Trained, user: int, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Images as a user sees them, in [0, 1], and their labels."""
    return trained.seen(user, rows, "attacked"), trained.dealt.labels[rows]


def _begun(trained: Trained) -> list[Any]:
    """What all users have begun with, on the CPU."""
    members = [copied(trained.simulation.template).cpu() for _ in trained.clients]
    if isinstance(trained.algorithm, Preparing):
        trained.algorithm.prepare(members, trained.simulation.seed)
    return members


# ---- messages that are inverted


def inverted(trained: Trained) -> Arrays:
    """`inverted/<user>/...`: what was found, the labels that it took if it needed any, and what the user has."""
    inversion, dealt, begun = trained.listening(Inversion), trained.dealt, _begun(trained)
    assert inversion is not None
    arrays: Arrays = {}
    for k in sorted(inversion.back):
        rows = trained.simulation.data.share(k, 1)
        true = trained.seen(k, rows, "attacked")
        styles = None if dealt.image_styles is None else dealt.image_styles[rows]
        found, labels = inversion.invert(k, begun[k], tuple(true.shape), styles)
        arrays |= {
            f"inverted/{k}/found": as_bytes(found),
            f"inverted/{k}/true": as_bytes(true),
            f"inverted/{k}/labels": dealt.labels[rows].numpy(),
        }
        if labels is not None:
            arrays[f"inverted/{k}/taken-for"] = labels.numpy()
    return arrays
