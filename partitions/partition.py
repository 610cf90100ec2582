"""From sources to clients: every style has its source, its clients and its test images."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from common.errors import InputError, choose
from common.keys import random_key
from common.settings import checked
from common.spec import DataSettings
from partitions.deal import PARTITIONS
from partitions.source import Source
from partitions.sources import load


@dataclass(frozen=True)
class Partition:
    """The images of all styles in one tensor, and who has which.

    Attributes:
        images: (images, channels, size, size) bytes.
        labels: (images,) class indices.
        styles: the names of the styles.
        sources: for each style, the source that plays it.
        train, test: for each style, the indices of its training images (before resampling) and test images.
        clients: for each client, the indices of its training images; they may repeat.
        client_styles: for each client, the index of its style.
    """

    images: Tensor
    labels: Tensor
    styles: tuple[str, ...]
    sources: tuple[Source, ...]
    train: tuple[Tensor, ...]
    test: tuple[Tensor, ...]
    clients: tuple[Tensor, ...]
    client_styles: tuple[int, ...]

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
    """Images (n, height, width[, 3]) as bytes (n, channels, size, size): bilinear, grey copied or colour averaged."""
    x = torch.from_numpy(images)
    x = x.unsqueeze(1) if x.dim() == 3 else x.permute(0, 3, 1, 2)
    if x.shape[-2:] != (size, size):
        parts = [F.interpolate(part.float(), (size, size), mode="bilinear", antialias=True) for part in x.split(4096)]
        x = torch.cat([part.round().clamp(0, 255).byte() for part in parts])
    if channels == 1 and x.shape[1] == 3:
        x = x.float().mean(dim=1, keepdim=True).round().byte()
    return x.expand(-1, channels, -1, -1).contiguous()


def partition(settings: DataSettings, root: str, seed: int) -> Partition:
    """Load the sources, split them into training and test images and deal the former out to clients.

    All that is random depends on `seed`, style and client alone.

    Raises:
        InputError: a source cannot be had or read, the styles do not have the same classes, or the deal's settings
            do not fit.
    """
    sources = tuple(load(expression, settings.image_size, root) for expression in settings.styles.values())
    for style, source in zip(settings.styles, sources, strict=True):
        if source.classes != sources[0].classes:
            raise InputError(
                f"data.styles.{style}: source '{source.name}' has {source.classes} classes, "
                f"but '{sources[0].name}' has {sources[0].classes}; the styles of a data set show the same classes"
            )
    starts = np.cumsum([0] + [len(source.labels) for source in sources])
    rngs = [np.random.default_rng(random_key(seed, "partition", style)) for style in settings.styles]
    splits = [_split(source, settings.train_fraction, rng) for source, rng in zip(sources, rngs, strict=True)]
    size = round(np.mean([mask.sum() for mask in splits]))
    clients, client_styles = [], []
    for number, (source, mask, rng) in enumerate(zip(sources, splits, rngs, strict=True)):
        pool = np.flatnonzero(mask)
        if settings.resample == "mean":
            pool = resampled(pool, size, rng)
        for share in _deal(settings, source.labels[pool], rng):
            clients.append(torch.from_numpy(pool[share] + starts[number]))
            client_styles.append(number)
    return Partition(
        images=torch.cat([fitted(source.images, settings.image_size, settings.channels) for source in sources]),
        labels=torch.from_numpy(np.concatenate([source.labels for source in sources])),
        styles=tuple(settings.styles),
        sources=sources,
        train=tuple(torch.from_numpy(np.flatnonzero(m) + s) for m, s in zip(splits, starts, strict=False)),
        test=tuple(torch.from_numpy(np.flatnonzero(~m) + s) for m, s in zip(splits, starts, strict=False)),
        clients=tuple(clients),
        client_styles=tuple(client_styles),
    )


def _split(source: Source, train_fraction: float, rng: np.random.Generator) -> np.ndarray:
    """The mask of training images: the official split where there is one."""
    return ~source.test if source.test is not None else stratified(source.labels, train_fraction, rng)


def _deal(settings: DataSettings, labels: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    rule = dict(settings.deal)
    name = choose("data.deal.name", str(rule.pop("name", None)), PARTITIONS)
    given = {"labels": labels, "clients": settings.clients_per_style, "rng": rng}
    return checked(PARTITIONS[name], "data.deal", rule, **given)
