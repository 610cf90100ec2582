"""Training the judge of a condition: on real training images, as every client sees them."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from common.keys import random_key
from common.spec import Spec
from diptych.configuration import JudgeSettings
from evaluation.judge import JudgeNetwork, Quality, Views, examined, fit, save
from federation.data import as_float
from partitions import Partition, partition

BATCH = 64
EXAMINED = 5000
"""Test images of which a judge's quality is taken, at most: its accuracy is known to half a percent."""


def train_judge(spec: Spec, settings: JudgeSettings, data_root: str, out: Path) -> Quality:
    """Train a judge for the data of a run and write it; what it says of test images is returned and written, too."""
    dealt = partition(spec.data, data_root, spec.seed)
    shape = {
        "channels": spec.data.channels,
        "size": spec.data.image_size,
        "width": settings.width,
        "features": settings.features,
        "classes": dealt.classes,
        "clients": len(dealt.clients),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(random_key(spec.seed, "judge"))
        network = JudgeNetwork(**shape)
    draw = torch.Generator().manual_seed(random_key(spec.seed, "judge images"))
    train = _not_for_tests(dealt) if spec.data.dataset in settings.whole else dealt.train
    fit(network, [_pass(dealt, train, draw) for _ in range(settings.epochs)], draw)
    indices, styles = _pool(dealt, dealt.test)
    rows = torch.randperm(len(indices), generator=draw)[:EXAMINED]
    indices, eyes = indices[rows], _eyes(styles[rows], draw)
    seen = _seen(dealt, indices, eyes, draw)
    others = styles[rows].scatter(1, eyes.unsqueeze(1), 0)
    two = dealt.style_views is not None and bool(others.any(dim=1).all())
    again = _seen(dealt, indices, _eyes(others, draw), draw)[0] if two else None
    quality = examined(network, seen, again, draw)
    save(network, shape, quality, out)
    return quality


def _not_for_tests(dealt: Partition) -> tuple[Tensor, ...]:
    """All images that show each style but its test images, whether anybody was dealt them or not."""
    shows = dealt.image_styles
    everything = torch.arange(len(dealt.images))
    of_styles = (everything if shows is None else everything[shows == style] for style in range(len(dealt.styles)))
    return tuple(images[~torch.isin(images, tests)] for images, tests in zip(of_styles, dealt.test, strict=True))


def _pool(dealt: Partition, of_styles: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """The images (n,) that a judge may see, and who may see them: (n, styles that clients have), 0 or 1.

    Where styles deal one source's images out between them, each style sees all of them here: the judge is not a client.
    Where images have their style by an attribute, they keep it.
    """
    of_seen = tuple(of_styles[style] for style in dealt.seen)
    shared = not dealt.own_sources and dealt.turns is None
    everyone = (torch.cat(of_seen).unique(),) * len(of_seen) if shared else of_seen
    indices = torch.cat(everyone).unique()
    return indices, torch.stack([torch.isin(indices, own) for own in everyone], dim=1).float()


def _pass(dealt: Partition, of_styles: tuple[Tensor, ...], draw: torch.Generator) -> Iterator[Views]:
    """Every image once, in random order, as a client that is drawn at random sees it."""
    indices, styles = _pool(dealt, of_styles)
    for rows in torch.randperm(len(indices), generator=draw).split(BATCH):
        if len(rows) > 1:  # batch norm needs two
            yield _seen(dealt, indices[rows], _eyes(styles[rows], draw), draw)


def _eyes(styles: Tensor, draw: torch.Generator) -> Tensor:
    """For each image one of the styles that may see it, (n,), given which may (n, styles)."""
    return torch.multinomial(styles, 1, generator=draw).squeeze(1)


def _seen(dealt: Partition, indices: Tensor, places: Tensor, draw: torch.Generator) -> Views:
    """Images, in their order, as clients of these styles see them, their labels and these clients."""
    members = torch.tensor(dealt.client_styles)
    parts, owners = [], []
    for place in places.unique().tolist():
        style, own = dealt.seen[place], torch.nonzero(places == place).squeeze(1)
        images = as_float(dealt.images[indices[own]])
        parts.append(images if dealt.style_views is None else dealt.style_views[style](images, draw))
        of_style = torch.nonzero(members == style).squeeze(1)
        owners.append(of_style[torch.randint(len(of_style), (len(own),), generator=draw)])
    back = places.argsort(stable=True).argsort()
    return torch.cat(parts)[back], dealt.labels[indices], torch.cat(owners)[back]
