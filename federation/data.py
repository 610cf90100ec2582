"""The clients' data: one tensor of images for everybody, and each client's indices into it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from common.errors import InputError

View = Callable[[Tensor, torch.Generator], Tensor]
"""How a client sees images (batch, channels, height, width) in [0, 1]; what is random is drawn at each access."""


@dataclass(frozen=True)
class ClientData:
    """Images and labels of all clients, stored once.

    Attributes:
        images: (images, channels, height, width), bytes in 0..255 or whatever the objective's `draw` expects.
        labels: (images,) class indices.
        clients: for each client, the indices of its training images; an image may occur more than once.
        views: for each client, how it sees its images; None if all see them as they are.
        turns: for each client, the parts of its images that it works on in turn, one in each round; None if it always
            works on all of them.
        server: the indices of the server's own images.
        server_view: how it sees images, by nothing random; None if it sees them as they are.
        styles: (images,) the index of the style that each image shows, which every batch then has as `style`; None if
            images show none.

    Raises:
        InputError: a client has no images.
    """

    images: Tensor
    labels: Tensor
    clients: tuple[Tensor, ...]
    views: tuple[View, ...] | None = None
    turns: tuple[tuple[Tensor, ...], ...] | None = None
    server: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    server_view: View | None = None
    styles: Tensor | None = None

    def __post_init__(self) -> None:
        empty = [client for client, indices in enumerate(self.clients) if not len(indices)]
        if empty:
            raise InputError(f"data: client {empty[0]} of {len(self.clients)} has no training images")

    def seen_by_server(self, indices: Tensor) -> Tensor:
        """Images, in [0, 1], as the server sees its own."""
        images = as_float(self.images[indices])
        return images if self.server_view is None else self.server_view(images, torch.Generator())

    def share(self, client: int, round: int) -> Tensor:
        """The indices of the images that a client works on in a round."""
        if self.turns is None:
            return self.clients[client]
        return self.turns[client][max(0, round - 1) % len(self.turns[client])]


def as_float(images: Tensor) -> Tensor:
    """Bytes in 0..255 as floats in [0, 1]; floats as they are."""
    return images.float().div_(255) if images.dtype == torch.uint8 else images


def steps_of(size: int, batch_size: int, epochs: float) -> int:
    """Batches in `epochs` passes over `size` samples, at least one unless `epochs` is 0.

    A pass drops its last partial batch, unless the client has less than one full batch.
    """
    return max(1, round(epochs * max(1, size // batch_size))) if epochs else 0


def batches(size: int, batch_size: int, steps: int, generator: torch.Generator) -> Iterator[Tensor]:
    """`steps` batches of positions in 0..size-1, reshuffled at each pass."""
    per_pass = max(1, size // batch_size)
    for step in range(steps):
        if step % per_pass == 0:
            order = torch.randperm(size, generator=generator)
        start = step % per_pass * batch_size
        yield order[start : start + batch_size]


def on_device(batch: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The batch where its images are: what is random is drawn on the CPU, so that every device sees the same."""
    return changed(batch, lambda tensor: tensor.to(device))


def changed(batch: dict[str, Any], change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """The batch with what `change` makes of each of its tensors."""
    return {
        key: tuple(map(change, value)) if isinstance(value, tuple) else change(value) for key, value in batch.items()
    }


def tensors_of(batch: dict[str, Any]) -> Iterator[Tensor]:
    """All tensors of a batch, in an order that its keys decide."""
    for value in batch.values():
        yield from value if isinstance(value, tuple) else (value,)


def split_batch(batch: dict[str, Any], sizes: list[int]) -> Iterator[dict[str, Any]]:
    """The batch in parts of these sizes along the samples; values are tensors or tuples of tensors."""
    parts = {
        key: list(zip(*(tensor.split(sizes) for tensor in value), strict=True)) or [()] * len(sizes)
        if isinstance(value, tuple)
        else value.split(sizes)
        for key, value in batch.items()
    }
    for n in range(len(sizes)):
        yield {key: pieces[n] for key, pieces in parts.items()}
