"""Conditional GANs for PS-FedGAN. The paper describes no layer: this pair of perceptrons is the one whose parameter
counts fit its Table 4 (3 M and 1.5 M on MNIST)."""

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.settings import Units, Width, strict_call

SLOPE = 0.2
Masks = Sequence[Tensor]
"""For each hidden layer of a discriminator, which units stay, (batch, units), 0 or 1 / (the share that stays)."""


def hidden_units(width: int) -> list[int]:
    """Of a discriminator's layers."""
    return [4 * width, 2 * width, width]


def masks(width: int, dropout: float, images: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """What a discriminator of this width drops of a batch, a share `dropout` of its hidden units."""
    stay = (torch.rand(images, units, generator=generator) >= dropout for units in hidden_units(width))
    return tuple(kept.float() / (1 - dropout) for kept in stay)


def perceptron(sizes: Sequence[int]) -> nn.ModuleList:
    """Linear layers between these sizes."""
    return nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(sizes))


def embedded(embedding: nn.Embedding, labels: Tensor) -> Tensor:
    """Of labels (batch,), or of shares of the classes (batch, classes), which whoever looks for a label moves."""
    return labels @ embedding.weight if labels.is_floating_point() else embedding(labels)


class Generator(nn.Module):
    """Noise and an embedded label -> an image in (-1, 1). 1,489,012 parameters for images of 28x28x1 and width 256."""

    @strict_call
    def __init__(self, channels: int, image_size: int, classes: int, latent: Units = 100, width: Width = 256) -> None:
        super().__init__()
        self.shape, self.latent = (channels, image_size, image_size), latent
        self.embedding = nn.Embedding(classes, classes)
        pixels = channels * image_size**2
        self.layers = perceptron([latent + classes, width, 2 * width, 4 * width, pixels])

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """z: (batch, latent), labels: (batch,) -> (batch, channels, height, width)."""
        h = torch.cat([z, embedded(self.embedding, labels)], dim=1)
        for layer in self.layers[:-1]:
            h = F.leaky_relu(layer(h), SLOPE)
        return torch.tanh(self.layers[-1](h)).unflatten(1, self.shape)


class Discriminator(nn.Module):
    """An image and an embedded label -> how real it looks, a logit. 1,470,565 parameters, likewise.

    Which hidden units are dropped is given, so that two sides can drop the same ones.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int, classes: int, width: Width = 256) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(classes, classes)
        self.layers = perceptron([channels * image_size**2 + classes, *hidden_units(width), 1])

    def forward(self, x: Tensor, labels: Tensor, masks: Masks) -> Tensor:
        """x: (batch, channels, height, width) in [-1, 1], labels: (batch,) -> (batch,)."""
        h = torch.cat([x.flatten(1), embedded(self.embedding, labels)], dim=1)
        for layer, mask in zip(self.layers[:-1], masks, strict=True):
            h = F.leaky_relu(layer(h), SLOPE) * mask
        return self.layers[-1](h).squeeze(1)
