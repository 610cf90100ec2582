"""Iterative alignment: an invertible map to a space that all domains share, layer by layer (FedINB, Algorithm 3)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

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

    def _moved(self, x, along) -> Tensor:  # type: ignore[no-untyped-def]
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
    masses: Tensor
    barycenter: Tensor
    places: Tensor

    def __init__(
        self, encoder: nn.Module, decoder: nn.Module, d: int, classes: int, layers: int, directions: int, bins: int
    ) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        shape = layers, classes, directions
        self.register_buffer("theta", torch.zeros(layers, classes, d, directions))
        normal = torch.tensor([0.0, 1.0]).expand(*shape, 2).clone()
        self.register_buffer("own", normal)
        self.register_buffer("masses", torch.linspace(0, 1, bins + 1).expand(*shape, -1).clone())
        self.register_buffer("barycenter", normal.clone())
        self.register_buffer("places", torch.linspace(0, 1, POINTS + 2).expand(*shape, -1).clone())

    def layer(self, number: int, of: int | slice = slice(None)) -> Layer:
        """A layer, from 0, of one class or of all."""
        own, centre = self.own[number, of].double(), self.barycenter[number, of].double()
        return Layer(
            self.theta[number, of],
            Distribution.of_equal_bins(own[..., :1], own[..., 1:], self.masses[number, of].double()),
            Distribution.of_equal_masses(centre[..., :1], centre[..., 1:], self.places[number, of].double()),
        )

    @torch.no_grad()
    def put(self, number: int, theta: Tensor, own: Distribution, barycenter: Distribution) -> None:
        """Set a layer, of all classes."""
        self.theta[number] = theta
        self.own[number] = torch.cat([own.mean, own.deviation], dim=-1)
        self.masses[number] = own.masses
        self.barycenter[number] = torch.cat([barycenter.mean, barycenter.deviation], dim=-1)
        self.places[number] = barycenter.places

    def latent(self, x: Tensor, y: Tensor, layers: int | None = None) -> Tensor:
        """T_m: images (batch, channels, height, width) in [0, 1] with labels y to the shared space (batch, d).

        Args:
            layers: how many of them, from the first; null for all.
        """
        return self._through(self.encoder(x), y, range(len(self.theta))[:layers], Layer.forward)

    def images(self, z: Tensor, y: Tensor, layers: int | None = None) -> Tensor:
        """T_m^-1: from the shared space to this domain's images in [0, 1]."""
        return self.decoder(self._through(z, y, range(len(self.theta))[:layers][::-1], Layer.inverse))

    def _through(self, z, y, numbers, way) -> Tensor:  # type: ignore[no-untyped-def]
        z = z.clone()
        for c in y.unique().tolist():
            rows = y == c
            part = z[rows]
            for number in numbers:
                part = way(self.layer(number, c), part)
            z[rows] = part
        return z
