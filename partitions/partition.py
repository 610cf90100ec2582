"""Who has which images: every style has its source, its clients and its test images."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from partitions.source import Source

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
        server_view: how it sees images; None if it sees them as they are.
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
    server_view: View | None = None
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
