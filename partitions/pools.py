"""Whose images clients take: those of their style's own source, or of one that all styles share out (`pool`)."""

import numpy as np
import torch
from torch import Tensor

from common.errors import InputError, choose
from common.keys import random_key
from common.settings import checked
from common.spec import DataSettings
from partitions.celeba import ATTRIBUTES
from partitions.deal import PARTITIONS
from partitions.drawn import drawn, resampled, stratified
from partitions.images import fitted, server_view, shown, stored_size, style_views
from partitions.partition import Partition
from partitions.source import Source
from partitions.sources import load


def own(settings: DataSettings, root: str, seed: int) -> Partition:
    """Every style's clients take images of its own source."""
    sources, expressions = _sources(settings, root), list(settings.styles.values())
    starts = np.cumsum([0] + [len(source.labels) for source in sources])
    rngs = _generators(settings, seed)
    masks = [_split(source, settings.train_fraction, rng) for source, rng in zip(sources, rngs, strict=True)]
    # of one source all have that of the first style, so that none tests on what another trains on
    training = [masks[expressions.index(expression)] for expression in expressions]
    held = [_held_by_server(settings, source, mask, seed) for source, mask in zip(sources, training, strict=True)]
    left = [mask & ~mine for mask, mine in zip(training, held, strict=True)]
    pools = [_pool(settings, *each) for each in zip(sources, left, rngs, strict=True)]
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
        images=shown(settings, sources, seed),
        labels=torch.from_numpy(np.concatenate(labels)),
        styles=tuple(settings.styles),
        sources=sources,
        train=tuple(torch.from_numpy(pool + s) for pool, s in zip(pools, starts, strict=False)),
        test=tuple(torch.from_numpy(np.flatnonzero(~mask) + s) for mask, s in zip(training, starts, strict=False)),
        server=torch.cat([torch.from_numpy(np.flatnonzero(held[n]) + starts[n]) for n in seen]),
        clients=tuple(clients),
        client_styles=tuple(client_styles),
        style_views=style_views(settings),
        server_view=server_view(settings),
    )


def together(settings: DataSettings, root: str, seed: int) -> Partition:
    """One source dealt over the clients of all styles, or held by attribute; its test images are everybody's."""
    expressions = set(settings.styles.values())
    if len(expressions) > 1:
        raise InputError(f"data.styles: with pool 'together' all styles show one source, got {sorted(expressions)}")
    source = load(expressions.pop(), settings.image_size, root)
    rng = np.random.default_rng(random_key(seed, "partition"))
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
        images=fitted(source.images, stored_size(settings, (source,)), settings.channels),
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
        style_views=style_views(settings),
        server_view=server_view(settings),
        turns=turns,
    )


# ---- what both need


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


def _deal(
    settings: DataSettings, labels: np.ndarray, rng: np.random.Generator, clients: int | None = None
) -> list[np.ndarray]:
    rule = dict(settings.deal)
    name = choose("data.deal.name", str(rule.pop("name", None)), PARTITIONS)
    given = {"labels": labels, "clients": clients or settings.clients_per_style, "rng": rng}
    return checked(PARTITIONS[name], "data.deal", rule, **given)


# ---- of sources of their own


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
    _refuse_other_classes(settings, sources)
    return sources


def _refuse_other_classes(settings: DataSettings, sources: tuple[Source, ...]) -> None:
    """InputError where styles in folders have as many classes and not the same: class 0 would be apples and bikes."""
    known = [(style, source) for style, source in zip(settings.styles, sources, strict=True) if source.class_names]
    for style, source in known[1:]:
        first = known[0][1]
        if others := sorted(set(source.class_names) - set(first.class_names)):
            raise InputError(
                f"data.styles.{style}: source '{source.name}' has a class '{others[0]}', which '{first.name}' has not; "
                "the styles of a data set show the same classes"
            )


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


# ---- of one source


def _test_images(settings: DataSettings, source: Source, pool: np.ndarray) -> tuple[Tensor, ...]:
    """The test images of each style of one source: all, or, if asked, those with one of the style's attributes."""
    if settings.test_images == "dealt" and settings.attributes:
        return tuple(torch.cat(_turns(settings, source, pool, style)).unique() for style in settings.styles)
    return (torch.from_numpy(pool),) * len(settings.styles)


def _turns(settings: DataSettings, source: Source, pool: np.ndarray, style: str) -> tuple[Tensor, ...]:
    """The images of `pool` with each of a style's attributes."""
    if settings.clients_per_style > 1 or style not in settings.attributes:
        raise InputError(f"data.attributes: every style needs a list of them, and one client; see '{style}'")
    if not settings.attributes[style]:
        raise InputError(f"data.attributes: the list of '{style}' is empty")
    held = source.extra.get("attributes", np.zeros(0))
    if held.dtype != bool or held.shape[1:] != (len(ATTRIBUTES),):
        raise InputError(
            f"data.attributes: source '{source.name}' has no array 'attributes' of true and false, "
            f"{len(ATTRIBUTES)} for each image"
        )
    columns = [ATTRIBUTES.index(choose("data.attributes", name, ATTRIBUTES)) for name in settings.attributes[style]]
    parts = [pool[held[pool, column]] for column in columns]
    for column, part in zip(columns, parts, strict=True):
        if len(part) < 2:
            raise InputError(
                f"data.attributes: '{ATTRIBUTES[column]}' has {len(part)} of {len(pool)} images in '{source.name}'"
            )
    return tuple(torch.from_numpy(part) for part in parts)
