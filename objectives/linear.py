"""PaDPaF's models of points in the plane (Sec. 5, Linear Regression; App. B and C.1): a regression and a linear GAN."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.settings import settings
from networks.padpaf import ProjectionHead
from networks.spectral import SNLinear
from objectives.gan import GAN
from objectives.objective import Model, Objective


class _Bias(nn.Module):
    """y + b."""

    def __init__(self) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.zeros(1))

    def forward(self, y: Tensor) -> Tensor:
        return y + self.b


@settings
class LinearRegression(Objective):
    """y = w x + b on points (x, y): the encoder is w, the head b, so that sharing the encoder keeps biases private."""

    def model(self) -> Any:
        """Parts: encoder, head."""
        return Model(encoder=nn.Linear(1, 1, bias=False), head=_Bias())

    def outputs(self, model: Any, batch: dict[str, Any]) -> list[Tensor]:
        """The prediction (batch, 1)."""
        return [model.head(model.encoder(batch["x"][:, :1]))]

    def criterion(self, model: Any, outputs: Any, batch: dict[str, Any]) -> Tensor:
        """Mean squared error."""
        return F.mse_loss(outputs[0], batch["x"][:, 1:])


class _Features(nn.Module):
    """φ of a discriminator of points; App. C.1: 16 features for content, 2 for style."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features, self.linear = features, SNLinear(2, features)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.linear(x))


class _Sum(nn.Module):
    """w^c z^c + b^c + s: the agnostic additive form; s = w_i^s z^s + b_i^s comes from the vectoriser."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 2)

    def forward(self, z: Tensor, s: Tensor, y: Tensor | None, noise: tuple[Tensor, ...]) -> Tensor:
        return self.linear(z) + s


@settings
class LinearGAN(GAN):
    """The adversarial game of PaDPaF over points: linear generator and style map, small discriminators."""

    def model(self) -> Any:
        """The parts of the GAN."""

        def part(features: int, **more: nn.Module) -> Model:
            project = nn.Sequential(SNLinear(features, features), nn.BatchNorm1d(features, affine=False))
            return Model(encoder=_Features(features), head=ProjectionHead(features), projector=project, **more)

        return part(16, generator=_Sum(), style=part(2, vectoriser=nn.Linear(1, 2)))

    def noise(self, images: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """None: there are no maps to add it to."""
        return ()

    def scaled(self, x: Tensor) -> Tensor:
        """Points as they are."""
        return x
