"""Images as they are stored, at one size and with one number of channels, and as their clients see them."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from common.keys import random_key
from common.spec import DataSettings
from partitions.marks import marked
from partitions.partition import View
from partitions.rotations import rotated
from partitions.source import Source
from partitions.views import view


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


def stored_size(settings: DataSettings, sources: tuple[Source, ...]) -> int:
    """Of the images as they are stored: what networks see, or, where clients have views, which crop and pad, their own.

    Of several sources that is the largest; of one that is not square, what networks see.
    """
    sides = [source.images.shape[1:3] for source in sources]
    square = all(height == width for height, width in sides)
    return max(height for height, _ in sides) if settings.views and square else settings.image_size


def shown(settings: DataSettings, sources: tuple[Source, ...], seed: int) -> Tensor:
    """The images of all styles, one after the other, rotated and marked."""
    size, channels = stored_size(settings, sources), settings.channels
    images = {style: fitted(s.images, size, channels) for style, s in zip(settings.styles, sources, strict=True)}
    for style in images:
        if style in settings.rotations:
            images[style] = rotated(images[style], settings.rotations[style])
        if style in settings.marks:
            rng = np.random.default_rng(random_key(seed, "marks", style))
            images[style] = marked(f"data.marks.{style}", settings.marks[style], images[style], rng)
    return torch.cat(list(images.values()))


def style_views(settings: DataSettings) -> tuple[View, ...] | None:
    """For each style, how its clients see images; None if all see them as they are."""
    if not settings.views:
        return None
    named = {style: settings.views.get(style, {"name": "plain"}) for style in settings.styles}
    return tuple(view(f"data.views.{style}", spec, settings.image_size) for style, spec in named.items())


def server_view(settings: DataSettings) -> View | None:
    """How the server sees its images, which are no client's: as they are; None where clients see them so, too."""
    return view("data.views", {"name": "plain"}, settings.image_size) if settings.views else None
