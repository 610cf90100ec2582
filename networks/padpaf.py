"""PaDPaF's networks (App. B; what it leaves open, as in the authors' code): spectrally normalised ResNet features, a
projection head, a style-based ResNet generator with conditional batch norm, a style vectoriser and a projector."""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.settings import Width, strict_call
from networks.spectral import SNConv2d, SNLinear, settle

SLOPE = 0.01
"""Of the discriminators' leaky ReLUs."""


class _Residual(nn.Module):
    """Two 3x3 convolutions beside a skip; halves the sides if asked. The first block starts without activation."""

    def __init__(self, inputs: int, outputs: int, conv: type, *, halve: bool, first: bool = False) -> None:
        super().__init__()
        self.halve, self.first = halve, first
        self.conv1, self.conv2 = conv(inputs, outputs, 3, padding=1), conv(outputs, outputs, 3, padding=1)
        self.skip = conv(inputs, outputs, 1) if halve else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = x if self.first else F.leaky_relu(x, SLOPE)
        h = self.conv2(F.leaky_relu(self.conv1(h), SLOPE))
        if not self.halve:
            return x + h
        # averaging and a 1x1 convolution commute, so it is done first, on the smaller map
        return F.avg_pool2d(h, 2) + self.skip(F.avg_pool2d(x, 2))


class SNResNet(nn.Module):
    """The featurizer φ of a discriminator: residual blocks, two that halve and some that do not, then average pooling.

    64 features for images of 32 pixels at width 64, as for MNIST; 512 for 64 pixels at width 128, as for CelebA.

    Args:
        width: channels.
        spectral_norm: of all convolutions.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int, width: Width = 64, spectral_norm: bool = True) -> None:
        super().__init__()
        conv = SNConv2d if spectral_norm else nn.Conv2d
        plain = max(1, round(math.log2(image_size / 8)))
        self.blocks = nn.Sequential(
            _Residual(channels, width, conv, halve=True, first=True),
            _Residual(width, width, conv, halve=True),
            *(_Residual(width, width, conv, halve=False) for _ in range(plain)),
        )
        side = image_size // 4
        self.pool = min(8, side)
        self.features = width * (side // self.pool) ** 2
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.xavier_uniform_(module.weight, gain=2**0.5 if module.kernel_size == (1, 1) else 1.0)
        settle(self)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) in [-1, 1] -> (batch, features)."""
        return F.avg_pool2d(F.leaky_relu(self.blocks(x), SLOPE), self.pool).flatten(1)


class ProjectionHead(nn.Module):
    """ψ(φ), and y^T V φ beside it where labels are used (Eq. 5; Miyato and Koyama 2018).

    Args:
        classes: 0 for a discriminator without labels.
    """

    def __init__(self, features: int, classes: int = 0) -> None:
        super().__init__()
        self.linear = SNLinear(features, 1)
        self.embedding = SNLinear(classes, features, bias=False) if classes else None

    def forward(self, h: Tensor, y: Tensor | None = None) -> Tensor:
        """h: (batch, features), y: (batch, classes) one- or multi-hot -> (batch,)."""
        score = self.linear(h).squeeze(1)
        return score if self.embedding is None else score + (self.embedding(y) * h).sum(dim=1)


def projector(features: int) -> nn.Sequential:
    """g of Eq. 14. Its last batch norm has no affine part: it is what makes the features of Eq. 7 normalised."""
    return nn.Sequential(
        SNLinear(features, 2 * features, bias=False),
        nn.BatchNorm1d(2 * features),
        nn.ReLU(),
        SNLinear(2 * features, 2 * features, bias=False),
        nn.BatchNorm1d(2 * features, affine=False),
    )


def latent_map(features: int, latent: int) -> nn.Sequential:
    """𝔷 of Assumption 2 and Algorithm 2, from features to latents; 42,624 parameters for 64 and 128."""
    hidden = [m for _ in range(8) for m in (nn.Linear(features, features), nn.BatchNorm1d(features), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(features, latent))


class _EqualisedLinear(nn.Module):
    """A linear layer that learns at a tenth of the rate: weights N(0, 1) times 0.1 (Karras et al. 2019).

    As in the authors' code the factor does not depend on the size: about 1 for the 128 latents of the paper, it lets
    less through with fewer.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(size, size)), nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, 0.1 * self.weight, 0.1 * self.bias)


class StyleVectoriser(nn.Module):
    """G^s: z^s on the unit sphere, then eight equalised layers (Karras et al. 2019)."""

    def __init__(self, latent: int, depth: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(layer for _ in range(depth) for layer in (_EqualisedLinear(latent), nn.LeakyReLU(0.2)))
        )

    def forward(self, z: Tensor) -> Tensor:
        """z: (batch, latent) -> s: (batch, latent)."""
        return self.layers(F.normalize(z, dim=1))


class ConditionalNorm(nn.Module):
    """Batch norm whose gain and bias come from a condition (De Vries et al. 2017)."""

    def __init__(self, channels: int, condition: int, bias: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.map = nn.Linear(condition, 2 * channels, bias=bias)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """x: (batch, channels, height, width), condition: (batch, dimensions)."""
        gain, bias = self.map(condition)[:, :, None, None].chunk(2, dim=1)
        return gain * self.norm(x) + bias


class StyleNorm(ConditionalNorm):
    """Conditioned on the style vector s.

    The authors' code means gains from N(1, 0.02) and no bias, but cuts the weight along its inputs: the first
    coordinates of s so move gains and biases of all channels alike. The paper is silent, its results come from that
    code, and so does this start.
    """

    def __init__(self, channels: int, latent: int) -> None:
        super().__init__(channels, latent, bias=True)
        with torch.no_grad():
            self.map.weight[:, :channels].normal_(1.0, 0.02)
            self.map.weight[:, channels:].zero_()


class LabelNorm(ConditionalNorm):
    """Conditioned on the label: gains start from N(1, 0.02), biases from 0."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, classes, bias=False)
        with torch.no_grad():
            self.map.weight[:channels].normal_(1.0, 0.02)
            self.map.weight[channels:].zero_()


class _Norm(nn.Module):
    """Noise, then conditional norm: of all channels by style, or half of them by style and half by label (App. B)."""

    def __init__(self, channels: int, latent: int, classes: int) -> None:
        super().__init__()
        self.noise_scale = nn.Parameter(torch.ones(channels, 1, 1))
        self.by_style = StyleNorm(channels // 2 if classes else channels, latent)
        self.by_label = LabelNorm(channels - channels // 2, classes) if classes else None

    def forward(self, x: Tensor, s: Tensor, y: Tensor | None, noise: Tensor) -> Tensor:
        x = x + self.noise_scale * noise
        if self.by_label is None:
            return self.by_style(x, s)
        first, second = x.split([self.by_style.norm.num_features, self.by_label.norm.num_features], dim=1)
        return torch.cat([self.by_style(first, s), self.by_label(second, y)], dim=1)


class _Up(nn.Module):
    """A residual block that doubles the sides; its skip has no convolution."""

    def __init__(self, channels: int, latent: int, classes: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = _Norm(channels, latent, classes), _Norm(channels, latent, classes)
        self.conv1, self.conv2 = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor, s: Tensor, y: Tensor | None, noise: tuple[Tensor, Tensor]) -> Tensor:
        h = F.relu(self.norm1(x, s, y, noise[0]))
        h = self.conv1(F.interpolate(h, scale_factor=2))
        h = self.conv2(F.relu(self.norm2(h, s, y, noise[1])))
        return h + F.interpolate(x, scale_factor=2)


START = 4
"""The generator's first side in pixels."""


def noise_sides(image_size: int) -> list[int]:
    """The sides of the noise maps that a generator of such images takes, in their order."""
    sides = [START * 2**n for n in range(round(math.log2(image_size / START)) + 1)]
    return [side for pair in itertools.pairwise(sides) for side in pair] + sides[-1:]


class StyleGenerator(nn.Module):
    """G^c: content enters below, style only through the conditional norms, labels through half of them (Sec. 4.1).

    Args:
        width: channels.
        classes: 0 for a generator without labels.
    """

    def __init__(self, latent: int, width: int, channels: int, image_size: int, classes: int = 0) -> None:
        super().__init__()
        doublings = round(math.log2(image_size / START))
        self.start = nn.Linear(latent, width * START**2)
        self.blocks = nn.ModuleList(_Up(width, latent, classes) for _ in range(doublings))
        self.norm, self.conv = _Norm(width, latent, classes), nn.Conv2d(width, channels, 3, padding=1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.xavier_uniform_(module.weight)

    def forward(self, z: Tensor, s: Tensor, y: Tensor | None, noise: tuple[Tensor, ...]) -> Tensor:
        """Images (batch, channels, height, width) in (-1, 1).

        Args:
            z: (batch, latent), the content.
            s: (batch, latent), the style vector.
            y: (batch, classes), one- or multi-hot; None without labels.
            noise: a map (batch, 1, side, side), N(0, 0.02^2), for each side of `noise_sides`.
        """
        x = self.start(z).unflatten(1, (-1, START, START))
        for n, block in enumerate(self.blocks):
            x = block(x, s, y, noise[2 * n : 2 * n + 2])
        return torch.tanh(self.conv(F.relu(self.norm(x, s, y, noise[-1]))))
