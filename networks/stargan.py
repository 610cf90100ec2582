"""StarGAN's networks (Choi et al. 2018, App. 7.2) as DIRT's authors cut them down to rotated MNIST: fewer halvings,
and a generator that sees the domain an image comes from beside the one it shall go to."""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.errors import InputError
from common.settings import Width, strict_call

SLOPE = 0.01
"""Of the discriminator's leaky ReLUs."""
HALVINGS = 4
"""Of the discriminator, 28 pixels -> 1; smaller images are halved as often as leaves a pixel."""


class StarGANFeatures(nn.Module):
    """The discriminator up to its heads: convolutions that halve the sides and double the channels, no norm.

    Args:
        width: channels after the first convolution.

    Attributes:
        maps, side: of what the last convolution leaves; `features` are these maps, flattened.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int, width: Width = 64) -> None:
        super().__init__()
        halvings = min(HALVINGS, image_size.bit_length() - 1)
        sizes = [channels, *(width * 2**n for n in range(halvings))]
        self.layers = nn.ModuleList(nn.Conv2d(*pair, 4, stride=2, padding=1) for pair in itertools.pairwise(sizes))
        self.maps, self.side = sizes[-1], image_size >> halvings
        self.features = self.maps * self.side**2

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) in [0, 1] -> (batch, features)."""
        for layer in self.layers:
            x = F.leaky_relu(layer(x), SLOPE)
        return x.flatten(1)


def critic(encoder: StarGANFeatures) -> nn.Sequential:
    """D_src: features (batch, features) -> how real each patch of an image looks, (batch, patches)."""
    unflattened = nn.Unflatten(1, (encoder.maps, encoder.side, encoder.side))
    return nn.Sequential(unflattened, nn.Conv2d(encoder.maps, 1, 3, padding=1, bias=False), nn.Flatten())


def classifier(encoder: StarGANFeatures, domains: int) -> nn.Linear:
    """D_cls: features (batch, features) -> logits (batch, domains); a convolution whose kernel covers all maps."""
    return nn.Linear(encoder.features, domains, bias=False)


def _normalised(convolution: nn.Module, channels: int) -> list[nn.Module]:
    """A convolution and its norm, whose running statistics stand in for an image's own in evaluation mode."""
    return [convolution, nn.InstanceNorm2d(channels, affine=True, track_running_stats=True)]


def _layer(convolution: type[nn.Module], inputs: int, outputs: int, kernel: int, *, stride: int = 1) -> list[nn.Module]:
    padding = (kernel - stride + 1) // 2  # keeps the sides but for the stride
    made = convolution(inputs, outputs, kernel, stride=stride, padding=padding, bias=False)
    return [*_normalised(made, outputs), nn.ReLU()]


class _Residual(nn.Module):
    """Two 3x3 convolutions beside the identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        last = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.layers = nn.Sequential(*_layer(nn.Conv2d, channels, channels, 3), *_normalised(last, channels))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


class StarGANGenerator(nn.Module):
    """G: an image and two domains, as maps of zeros and ones -> the image in the second domain.

    Args:
        width: channels after the first convolution.
        blocks: residual blocks in the middle, at a quarter of the sides.

    Raises:
        InputError: the sides cannot be halved twice, or would leave no more than a pixel for a norm.
    """

    def __init__(self, channels: int, image_size: int, domains: int, width: int = 64, blocks: int = 6) -> None:
        super().__init__()
        if image_size < 8 or image_size % 4:
            raise InputError(
                f"data.image_size: StarGAN halves its images twice, and needs 8, 12, 16, ..., got {image_size}"
            )
        self.layers = nn.Sequential(
            *_layer(nn.Conv2d, channels + 2 * domains, width, 7),
            *_layer(nn.Conv2d, width, 2 * width, 4, stride=2),
            *_layer(nn.Conv2d, 2 * width, 4 * width, 4, stride=2),
            *(_Residual(4 * width) for _ in range(blocks)),
            *_layer(nn.ConvTranspose2d, 4 * width, 2 * width, 4, stride=2),
            *_layer(nn.ConvTranspose2d, 2 * width, width, 4, stride=2),
            nn.Conv2d(width, channels, 7, padding=3, bias=False),
            nn.Tanh(),
        )

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """x: (batch, channels, height, width), source and target: (batch, domains), one-hot -> images in (-1, 1)."""
        domains = torch.cat([source, target], dim=1)[:, :, None, None]
        return self.layers(torch.cat([x, domains.expand(-1, -1, *x.shape[2:])], dim=1))
