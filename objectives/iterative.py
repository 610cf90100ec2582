"""Iterative alignment: an invertible map to a space that all domains share, layer by layer (FedINB, Algorithm 3)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from objectives.monotone import POINTS, Distribution
from objectives.slices import slices


@dataclass(frozen=True)
class Layer:
    """x <- x + theta (t(theta^T x) - theta^T x), with t = F_bary^-1 after F along each direction.

    Algorithm 3 leaves out what lies outside theta's span, and so would project everything into it.

    Attributes:
        theta: (..., d, K), columns orthonormal; a layer of zeros leaves everything as it is.
        own, barycenter: distributions along the directions, (..., K).
    """

    theta: Tensor
    own: Distribution
    barycenter: Distribution

    def forward(self, x: Tensor) -> Tensor:
        """A domain's samples (..., n, d) on their way to the space that all share."""
        return self._moved(x, lambda z: self.barycenter.inverse(self.own(z)))

    def inverse(self, x: Tensor) -> Tensor:
        """And back."""
        return self._moved(x, lambda z: self.own.inverse(self.barycenter(z)))

    def _moved(self, x: Tensor, along: Callable[[Tensor], Tensor]) -> Tensor:
        z = slices(x, self.theta).double()
        return x + (along(z) - z).mT.to(x) @ self.theta.mT


class Translator(nn.Module):
    """One domain's T_m, a map for each class, and the auto-encoder around it.

    All layers are there from the start, as buffers of zero directions, which change nothing until they are set.

    Args:
        encoder, decoder: (batch, channels, height, width) -> (batch, d), and back.
        d, classes: of the codes.
        layers, directions: L and K.
        bins: of the domains' histograms (B1 in App. C.4).
    """

    theta: Tensor
    own: Tensor
    barycenter: Tensor

    def __init__(
        self, encoder: nn.Module, decoder: nn.Module, d: int, classes: int, layers: int, directions: int, bins: int
    ) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.register_buffer("theta", torch.zeros(layers, classes, d, directions))
        normal = torch.tensor([0.0, 1.0])
        even = {"own": torch.arange(1, bins + 1) / bins, "barycenter": (torch.arange(POINTS) + 0.5) / POINTS}
        for name, numbers in even.items():
            self.register_buffer(name, torch.cat([numbers, normal]).repeat(layers, classes, directions, 1))

    def layer(self, number: int, of: Tensor | slice = slice(None)) -> Layer:
        """A layer, from 0, of these classes or of all."""
        own, barycenter = self.own[number, of], self.barycenter[number, of]
        return Layer(self.theta[number, of], Distribution.of_histogram(own), Distribution.of_quantiles(barycenter))

    def put(self, number: int, theta: Tensor, own: Tensor, barycenter: Tensor) -> None:
        """Set a layer, of all classes: directions, the domain's histogram and the barycenter's quantiles."""
        self.theta[number], self.own[number], self.barycenter[number] = theta, own, barycenter

    def latent(self, x: Tensor, y: Tensor, layers: int | None = None) -> Tensor:
        """T_m: images (batch, channels, height, width) in [0, 1] with labels y to the shared space (batch, d).

        Args:
            layers: how many of them, from the first; null for all.
        """
        return self.aligned(self.encoder(x), y, layers)

    def aligned(self, z: Tensor, y: Tensor, layers: int | None = None) -> Tensor:
        """The same from codes (batch, d)."""
        return self._through(z, y, range(len(self.theta))[:layers], Layer.forward)

    def images(self, z: Tensor, y: Tensor, layers: int | None = None) -> Tensor:
        """T_m^-1: from the shared space to this domain's images in [0, 1]."""
        return self.decoder(self._through(z, y, range(len(self.theta))[:layers][::-1], Layer.inverse))

    def _through(self, z: Tensor, y: Tensor, numbers: range, way: Callable[[Layer, Tensor], Tensor]) -> Tensor:
        classes, counts = y.unique(return_counts=True)
        order = y.argsort(stable=True)
        parts = pad_sequence(z[order].split(counts.tolist()), batch_first=True)  # all classes go through at once
        for number in numbers:
            parts = way(self.layer(number, classes), parts)
        gone = torch.cat([part[:count] for part, count in zip(parts, counts.tolist(), strict=True)])
        return torch.empty_like(gone).index_copy_(0, order, gone)
