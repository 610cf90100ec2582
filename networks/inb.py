"""FedINB's auto-encoders (App. E.1): what translation works on instead of pixels. An encoder makes its own decoder."""

import torch
from torch import Tensor, nn

from common.errors import InputError
from common.settings import strict_call

CLAMP = 1e-6
"""How near to 0 and 1 a pixel may come before it is taken for a probability (authors' code)."""


class Pixels(nn.Module):
    """No auto-encoder: every pixel as the point below which a standard normal variable lies with that probability.

    So that what comes back is in [0, 1] whatever was done in between.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int) -> None:
        super().__init__()
        self.shape = (channels, image_size, image_size)
        self.features = channels * image_size**2

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) in [0, 1] -> (batch, channels * height * width)."""
        return torch.special.ndtri(x.flatten(1).clamp(CLAMP, 1 - CLAMP))

    def decoder(self) -> nn.Module:
        """The way back."""
        return _FromNormal(self.shape)


class _FromNormal(nn.Module):
    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, z: Tensor) -> Tensor:
        return torch.special.ndtr(z).unflatten(1, self.shape)


def _up() -> nn.Module:
    return nn.UpsamplingBilinear2d(scale_factor=2)


class INBDigits(nn.Module):
    """That for MNIST: two convolutions (16, 8) with max-pooling; 8 x 7 x 7 numbers of 28 pixels. 3,217 parameters with
    its decoder."""

    @strict_call
    def __init__(self, channels: int, image_size: int) -> None:
        super().__init__()
        if image_size % 4:
            raise InputError(f"data.image_size: network 'inb-mnist' needs a multiple of 4, got {image_size}")
        self.channels, self.side = channels, image_size // 4
        self.features = 8 * self.side**2
        self.layers = nn.Sequential(
            *(nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Flatten(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) in [0, 1] -> (batch, features), not negative."""
        return self.layers(x)

    def decoder(self) -> nn.Module:
        """(batch, features) -> (batch, channels, height, width) in [0, 1]."""
        return nn.Sequential(
            nn.Unflatten(1, (8, self.side, self.side)),
            *(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), _up()),
            *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), _up()),
            *(nn.Conv2d(16, self.channels, 3, padding=1), nn.Sigmoid()),
        )


class INBClothes(nn.Module):
    """That for FashionMNIST: three strided convolutions (8, 16, 32), one batch norm; 32 x 3 x 3 numbers. 11,825
    parameters with its decoder."""

    @strict_call
    def __init__(self, channels: int, image_size: int) -> None:
        super().__init__()
        if image_size != 28:
            raise InputError(f"data.image_size: network 'inb-fmnist' needs 28, got {image_size}")
        self.channels, self.features = channels, 32 * 3 * 3
        self.layers = nn.Sequential(
            *(nn.Conv2d(channels, 8, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, stride=2), nn.ReLU()),
            nn.Flatten(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, 28, 28) in [0, 1] -> (batch, 288), not negative."""
        return self.layers(x)

    def decoder(self) -> nn.Module:
        """(batch, 288) -> (batch, channels, 28, 28) in [0, 1]."""
        return nn.Sequential(
            nn.Unflatten(1, (32, 3, 3)),
            *(nn.ConvTranspose2d(32, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU()),
            *(nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1), nn.BatchNorm2d(8), nn.ReLU()),
            *(nn.ConvTranspose2d(8, self.channels, 3, stride=2, padding=1, output_padding=1), nn.Sigmoid()),
        )
