"""From sources to clients: every style has its source, its clients and its test images."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from common.errors import InputError, choose
from common.keys import random_key
from common.settings import checked
from common.spec import DataSettings
from partitions.celeba import ATTRIBUTES
from partitions.deal import PARTITIONS, in_proportion, largest_remainder
from partitions.drawn import drawn
from partitions.marks import marked
from partitions.rotations import rotated
from partitions.source import Source
from partitions.sources import load
from partitions.views import view

View = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Partition:
    """The images of all styles in one tensor, and who has which.

    Attributes:
        images: (images, channels, size, size) bytes.
        labels: (images,) class indices.
        styles: the names of the styles.
        sources: for each style, the source that plays it.
        train, test: for each style, the indices of its training images (before resampling) and test images. The former
            may repeat if they are drawn in several parts.
        clients: for each client, the indices of its training images; they may repeat.
        client_styles: for each client, the index of its style; the indices rise, and those of unseen styles are left
            out.
        own_sources: whether every style has a source of its own, whose images are all stored, style after style;
            otherwise all styles show the same images.
        style_views: for each style, how its clients see images; None if all see them as they are.
        turns: for each client, the parts of its images that it works on in turn; None if it works on all of them.
        server: the indices of the server's own training images, which no client has.
        dealt_tests: for each client, the test images that were dealt to it; None if it has all of its style's.
    """

    images: Tensor
    labels: Tensor
    styles: tuple[str, ...]
    sources: tuple[Source, ...]
    train: tuple[Tensor, ...]
    test: tuple[Tensor, ...]
    clients: tuple[Tensor, ...]
    client_styles: tuple[int, ...]
    own_sources: bool = True
    style_views: tuple[View, ...] | None = None
    turns: tuple[tuple[Tensor, ...], ...] | None = None
    server: Tensor = dataclasses.field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    dealt_tests: tuple[Tensor, ...] | None = None

    @property
    def tests(self) -> tuple[Tensor, ...]:
        """For each client, the indices of its test images."""
        return self.dealt_tests or tuple(self.test[style] for style in self.client_styles)

    @property
    def seen(self) -> tuple[int, ...]:
        """The indices of the styles that clients have."""
        return tuple(dict.fromkeys(self.client_styles))

    @property
    def all_train(self) -> Tensor:
        """The indices of the training images of all styles that clients have, style after style; they may repeat."""
        return torch.cat([self.train[style] for style in self.seen])

    @property
    def all_test(self) -> Tensor:
        """The indices of the test images of all styles that clients have, each once."""
        return torch.cat([self.test[style] for style in self.seen]).unique()

    @property
    def image_styles(self) -> Tensor | None:
        """For each stored image, the index of the style that it shows; None if all styles show the same images."""
        if not self.own_sources:
            return None
        return torch.arange(len(self.styles)).repeat_interleave(torch.tensor([len(s.labels) for s in self.sources]))

    @property
    def views(self) -> tuple[View, ...] | None:
        """For each client, how it sees its images."""
        return None if self.style_views is None else tuple(self.style_views[style] for style in self.client_styles)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.sources[0].classes

    def class_counts(self) -> np.ndarray:
        """Training images by client and class, (clients, classes)."""
        return np.stack([np.bincount(self.labels[i].numpy(), minlength=self.classes) for i in self.clients])


def resampled(indices: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """`size` of `indices`: each equally often, and those that come once more than others drawn at random."""
    whole, rest = divmod(size, len(indices))
    return np.concatenate([np.tile(indices, whole), rng.permutation(indices)[:rest]])


def stratified(labels: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """A mask over images that takes `fraction` of each class (rounded), at random."""
    mask = np.zeros(len(labels), dtype=bool)
    for c in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == c))
        mask[members[: round(fraction * len(members))]] = True
    return mask


def fitted(images: np.ndarray, size: int, channels: int) -> Tensor:
    """Images (n, height, width[, 3]) as bytes (n, channels, size, size).

    The square in the middle is taken and brought to size bilinearly; grey is copied, colour averaged.
    """
    x = torch.from_numpy(images)
    x = x.unsqueeze(1) if x.dim() == 3 else x.permute(0, 3, 1, 2)
    side = min(x.shape[-2:])
    top, left = ((extent - side) // 2 for extent in x.shape[-2:])
    x = x[..., top : top + side, left : left + side]
    if x.shape[-2:] != (size, size):
        parts = [F.interpolate(part.float(), (size, size), mode="bilinear", antialias=True) for part in x.split(4096)]
        x = torch.cat([part.round().clamp(0, 255).byte() for part in parts])
    if channels == 1 and x.shape[1] == 3:
        x = x.float().mean(dim=1, keepdim=True).round().byte()
    return x.expand(-1, channels, -1, -1).contiguous()


def partition(settings: DataSettings, root: str, seed: int) -> Partition:
    """Load the sources, split them into training and test images and deal the former out to clients.

    All that is random depends on `seed`, style (or source, where domains are paired) and client alone.

    Raises:
        InputError: a source cannot be had or read, the styles do not have the same classes, or the deal's settings
            do not fit.
    """
    _refuse(settings)
    dealt = _together(settings, root, seed) if settings.pool == "together" else _own(settings, root, seed)
    if settings.classes_per_client < 1:
        dealt = _with_some_classes(dealt, settings.classes_per_client, seed)
    if settings.test_images == "dealt" and not settings.attributes and not settings.validation_share:
        dealt = _with_dealt_tests(dealt, seed)
    if settings.at_most is not None:
        dealt = _with_at_most(dealt, settings.at_most, seed)
    return _with_validation(dealt, settings, seed) if settings.validation_share else dealt


def _refuse(settings: DataSettings) -> None:
    """InputError where keys do not fit each other, before anything is loaded."""
    for key in ("views", "attributes", "marks", "rotations", "label_shift", "unseen"):
        for style in getattr(settings, key):
            choose(f"data.{key}", style, settings.styles)
    if settings.pool == "together":
        for key in ("marks", "rotations", "per_class", "label_shift", "unseen"):
            if getattr(settings, key):
                raise InputError(f"data.{key}: with pool 'together' all styles show the same images; see data.pool")
    if settings.attributes and settings.pool == "own":
        raise InputError("data.attributes: clients hold images by attribute with pool 'together'; see data.pool")
    if not settings.seen:
        raise InputError(f"data.unseen: must leave a style for clients, got all {len(settings.styles)}")
    if settings.validation_share and settings.unseen:
        raise InputError(f"data.validation_share: '{settings.unseen[0]}' is scored on its test images; see data.unseen")
    if settings.drawn_in > 1 and (settings.per_class is None or settings.per_class % settings.drawn_in):
        per_class = "null" if settings.per_class is None else settings.per_class
        raise InputError(f"data.drawn_in: must divide data.per_class, which is {per_class}, got {settings.drawn_in}")


def _own(settings: DataSettings, root: str, seed: int) -> Partition:
    """Every style's clients take images of its own source."""
    sources = _sources(settings, root)
    starts = np.cumsum([0] + [len(source.labels) for source in sources])
    rngs = _generators(settings, seed)
    splits = [_split(source, settings.train_fraction, rng) for source, rng in zip(sources, rngs, strict=True)]
    held = [_held_by_server(settings, source, mask, seed) for source, mask in zip(sources, splits, strict=True)]
    tests = [torch.from_numpy(np.flatnonzero(~mask) + start) for mask, start in zip(splits, starts, strict=False)]
    splits = [mask & ~mine for mask, mine in zip(splits, held, strict=True)]
    pools = [_pool(settings, *each) for each in zip(sources, splits, rngs, strict=True)]
    seen = [number for number, style in enumerate(settings.styles) if style in settings.seen]
    size = round(np.mean([len(pools[number]) for number in seen]))
    clients, client_styles = [], []
    for number in seen:
        pool, rng = pools[number], rngs[number]
        if settings.resample == "mean":
            pool = resampled(pool, size, rng)
        for share in _deal(settings, sources[number].labels[pool], rng):
            clients.append(torch.from_numpy(pool[share] + starts[number]))
            client_styles.append(number)
    shifts = [settings.label_shift.get(style, 0) for style in settings.styles]
    labels = [(source.labels + shift) % source.classes for source, shift in zip(sources, shifts, strict=True)]
    return Partition(
        images=_shown(settings, sources, seed),
        labels=torch.from_numpy(np.concatenate(labels)),
        styles=tuple(settings.styles),
        sources=sources,
        train=tuple(torch.from_numpy(pool + s) for pool, s in zip(pools, starts, strict=False)),
        test=tuple(tests),
        server=torch.cat([torch.from_numpy(np.flatnonzero(held[n]) + starts[n]) for n in seen]),
        clients=tuple(clients),
        client_styles=tuple(client_styles),
        style_views=_style_views(settings),
    )


def _sources(settings: DataSettings, root: str) -> tuple[Source, ...]:
    """For each style its source, which is loaded once for all styles that show it."""
    loaded = {expression: load(expression, settings.image_size, root) for expression in settings.styles.values()}
    sources = tuple(loaded[expression] for expression in settings.styles.values())
    for style, source in zip(settings.styles, sources, strict=True):
        if source.classes != sources[0].classes:
            raise InputError(
                f"data.styles.{style}: source '{source.name}' has {source.classes} classes, "
                f"but '{sources[0].name}' has {sources[0].classes}; the styles of a data set show the same classes"
            )
    return sources


def _generators(settings: DataSettings, seed: int) -> list[np.random.Generator]:
    """What each style's images are drawn with; paired domains, which show one source, draw the same of it."""
    keys = settings.styles.values() if settings.paired else settings.styles
    return [np.random.default_rng(random_key(seed, "partition", key)) for key in keys]


def _pool(settings: DataSettings, source: Source, mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The indices of a style's training images: all in `mask`, or as many of each class as are asked for."""
    pool = np.flatnonzero(mask)
    if settings.per_class is None:
        return pool
    return drawn(source.labels, pool, source.classes, settings.per_class, settings.drawn_in, rng)


def _shown(settings: DataSettings, sources: tuple[Source, ...], seed: int) -> Tensor:
    """The images of all styles, one after the other, rotated and marked."""
    stored = {style: _stored(settings, source) for style, source in zip(settings.styles, sources, strict=True)}
    for style, degrees in settings.rotations.items():
        stored[style] = rotated(stored[style], degrees)
    for style, mark in settings.marks.items():
        rng = np.random.default_rng(random_key(seed, "marks", style))
        stored[style] = marked(f"data.marks.{style}", mark, stored[style], rng)
    return torch.cat(list(stored.values()))


def _together(settings: DataSettings, root: str, seed: int) -> Partition:
    """One source dealt over the clients of all styles, or held by attribute; its test images are everybody's."""
    expressions = set(settings.styles.values())
    if len(expressions) > 1:
        raise InputError(f"data.styles: with pool 'together' all styles show one source, got {sorted(expressions)}")
    source, rng = (
        load(expressions.pop(), settings.image_size, root),
        np.random.default_rng(random_key(seed, "partition")),
    )
    mask = _split(source, settings.train_fraction, rng)
    held = _held_by_server(settings, source, mask, seed)
    pool = np.flatnonzero(mask & ~held)
    turns = None
    if settings.attributes:
        turns = tuple(_turns(settings, source, pool, style) for style in settings.styles)
        clients = [torch.cat(parts).unique() for parts in turns]
    else:
        shares = _deal(settings, source.labels[pool], rng, clients=len(settings.styles) * settings.clients_per_style)
        clients = [torch.from_numpy(pool[share]) for share in shares]
    styles = tuple(n // settings.clients_per_style for n in range(len(clients)))
    return Partition(
        images=_stored(settings, source),
        labels=torch.from_numpy(source.labels),
        styles=tuple(settings.styles),
        sources=(source,) * len(settings.styles),
        train=tuple(
            torch.cat([c for c, style in zip(clients, styles, strict=True) if style == number]).unique()
            for number in range(len(settings.styles))
        ),
        test=_test_images(settings, source, np.flatnonzero(~mask)),
        server=torch.from_numpy(np.flatnonzero(held)),
        clients=tuple(clients),
        client_styles=styles,
        own_sources=False,
        style_views=_style_views(settings),
        turns=turns,
    )


def _held_by_server(settings: DataSettings, source: Source, mask: np.ndarray, seed: int) -> np.ndarray:
    """A mask of the server's images, a share of each class of the training images in `mask`."""
    held = np.zeros_like(mask)
    if settings.server_share:
        rng = np.random.default_rng(random_key(seed, "server", source.name))
        training = np.flatnonzero(mask)
        held[training[stratified(source.labels[training], settings.server_share, rng)]] = True
        left = len(training) - held.sum()
        if not held.any() or not left:
            who = "the server" if left else "clients"
            raise InputError(f"data.server_share: {settings.server_share:g} of '{source.name}' leaves {who} no image")
    return held


def _test_images(settings: DataSettings, source: Source, pool: np.ndarray) -> tuple[Tensor, ...]:
    """The test images of each style of one source: all, or, if asked, those with one of the style's attributes."""
    if settings.test_images == "dealt" and settings.attributes:
        return tuple(torch.cat(_turns(settings, source, pool, style)).unique() for style in settings.styles)
    return (torch.from_numpy(pool),) * len(settings.styles)


def _turns(settings: DataSettings, source: Source, pool: np.ndarray, style: str) -> tuple[Tensor, ...]:
    """The images of `pool` with each of a style's attributes."""
    if settings.clients_per_style > 1 or style not in settings.attributes:
        raise InputError(f"data.attributes: every style needs a list of them, and one client; see '{style}'")
    if "attributes" not in source.extra:
        raise InputError(f"data.attributes: source '{source.name}' has no attributes")
    columns = [ATTRIBUTES.index(choose("data.attributes", name, ATTRIBUTES)) for name in settings.attributes[style]]
    parts = [pool[source.extra["attributes"][pool, column]] for column in columns]
    for column, part in zip(columns, parts, strict=True):
        if len(part) < 2:
            raise InputError(
                f"data.attributes: '{ATTRIBUTES[column]}' has {len(part)} of {len(pool)} images in '{source.name}'"
            )
    return tuple(torch.from_numpy(part) for part in parts)


def _with_some_classes(dealt: Partition, share: float, seed: int) -> Partition:
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


def _with_dealt_tests(dealt: Partition, seed: int) -> Partition:
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


def _with_at_most(dealt: Partition, count: int, seed: int) -> Partition:
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


def _with_validation(dealt: Partition, settings: DataSettings, seed: int) -> Partition:
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


def _stored(settings: DataSettings, source: Source) -> Tensor:
    """Images at the size that networks see; where clients have views, which crop and pad, at their own."""
    square = source.images.shape[1] == source.images.shape[2]
    size = source.images.shape[1] if settings.views and square else settings.image_size
    return fitted(source.images, size, settings.channels)


def _style_views(settings: DataSettings) -> tuple[View, ...] | None:
    if not settings.views:
        return None
    named = {style: settings.views.get(style, {"name": "plain"}) for style in settings.styles}
    return tuple(view(f"data.views.{style}", spec, settings.image_size) for style, spec in named.items())


def _split(source: Source, train_fraction: float, rng: np.random.Generator) -> np.ndarray:
    """The mask of training images: the official split where there is one.

    Raises:
        InputError: there is no training image, or no test image.
    """
    mask = ~source.test if source.test is not None else stratified(source.labels, train_fraction, rng)
    if mask.all() or not mask.any():
        why = "" if source.test is not None else f"; see data.train_fraction, {train_fraction:g}"
        raise InputError(f"source '{source.name}': of {len(mask)} images {mask.sum()} are for training{why}")
    return mask


def _deal(
    settings: DataSettings, labels: np.ndarray, rng: np.random.Generator, clients: int | None = None
) -> list[np.ndarray]:
    rule = dict(settings.deal)
    name = choose("data.deal.name", str(rule.pop("name", None)), PARTITIONS)
    given = {"labels": labels, "clients": clients or settings.clients_per_style, "rng": rng}
    return checked(PARTITIONS[name], "data.deal", rule, **given)
