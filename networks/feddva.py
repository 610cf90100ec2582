"""FedDVA's networks (Fig. 9, App. G), with the sizes of the authors' code: 4x4 kernels, and widths that double as
images halve."""

import math

import torch
from torch import Tensor, nn

from common.errors import InputError
from common.settings import Units, Width, strict_call
from networks.mlp import mlp

Gaussian = tuple[Tensor, Tensor]
"""Mean and logarithm of the variance, (batch, latent) each."""


def halvings(image_size: int) -> int:
    """How often images are halved before 4 pixels are left; images of 28 are padded to 32 first.

    Raises:
        InputError: they cannot be.
    """
    padded = 32 if image_size == 28 else image_size
    if padded < 8 or 2 ** round(math.log2(padded)) != padded:
        raise InputError(
            f"data.image_size: FedDVA's networks halve images down to 4 pixels, from 28 or a power of two from 8 on; "
            f"got {image_size}"
        )
    return round(math.log2(padded)) - 2


def widths(image_size: int, width: int) -> list[int]:
    """Channels after each convolution."""
    return [width * 2**n for n in range(halvings(image_size) + 1)]


def _paddings(image_size: int) -> list[int]:
    first = 3 if image_size == 28 else 1
    return [first] + [1] * (halvings(image_size) - 1)


class Backbone(nn.Sequential):
    """Convolutions, each with batch norm and LeakyReLU, that halve images and at last take 4 pixels to one."""

    def __init__(self, channels: int, image_size: int, width: int) -> None:
        outputs = widths(image_size, width)
        self.features = outputs[-1]
        layers: list[nn.Module] = []
        for inputs, out, padding in zip([channels, *outputs], outputs[:-1], _paddings(image_size), strict=False):
            layers += [nn.Conv2d(inputs, out, 4, stride=2, padding=padding), nn.BatchNorm2d(out), nn.LeakyReLU()]
        layers += [nn.Conv2d(outputs[-2], outputs[-1], 4), nn.BatchNorm2d(outputs[-1]), nn.LeakyReLU(), nn.Flatten()]
        super().__init__(*layers)


class GaussianHead(nn.Module):
    """A perceptron for the mean, and one for the logarithm of the variance."""

    def __init__(self, inputs: int, latent: int) -> None:
        super().__init__()
        self.mean, self.log_variance = (mlp(inputs, inputs // 2, latent) for _ in range(2))

    def forward(self, x: Tensor) -> Gaussian:
        """x: (batch, inputs)."""
        return self.mean(x), self.log_variance(x)


class GeneralEncoder(nn.Module):
    """f: x -> q(z|x) (Fig. 2, blue)."""

    def __init__(self, channels: int, image_size: int, width: int, latent: int) -> None:
        super().__init__()
        self.backbone = Backbone(channels, image_size, width)
        self.head = GaussianHead(self.backbone.features, latent)

    def forward(self, x: Tensor) -> Gaussian:
        """x: (batch, channels, height, width) in [-1, 1]."""
        return self.head(self.backbone(x))


class PersonalEncoder(nn.Module):
    """h: (x, z) -> q(c|x, z) (Fig. 2, red): z is spread over a plane that lies on top of the image's."""

    def __init__(self, channels: int, image_size: int, width: int, z: int, latent: int) -> None:
        super().__init__()
        self.side = image_size
        self.embed_z, self.embed_x = nn.Linear(z, image_size**2), nn.Conv2d(channels, channels, 1)
        self.backbone = Backbone(channels + 1, image_size, width)
        self.head = GaussianHead(self.backbone.features, latent)

    def forward(self, x: Tensor, z: Tensor) -> Gaussian:
        """x: (batch, channels, height, width) in [-1, 1], z: (batch, latent of z)."""
        plane = self.embed_z(z).unflatten(1, (1, self.side, self.side))
        return self.head(self.backbone(torch.cat([self.embed_x(x), plane], dim=1)))


class DualEncoder(nn.Module):
    """Both encoders, one after the other. As an encoder, its features are the means [z; c].

    With latent 4 and width 64, images of 28x28x1: 2,756,416 parameters in f's backbone, 264,712 in each head, 2,757,440
    in h's backbone and 3,922 in its embeddings.

    Args:
        width: channels after the first convolution (64; 32 for images of 64 pixels).
        latent: dimensions of z, and of c.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int, width: Width = 64, latent: Units = 8) -> None:
        super().__init__()
        self.channels, self.image_size, self.width, self.latent = channels, image_size, width, latent
        self.features = 2 * latent
        self.general = GeneralEncoder(channels, image_size, width, latent)
        self.personal = PersonalEncoder(channels, image_size, width, latent, latent)

    def z(self, x: Tensor) -> Gaussian:
        """q(z|x) of images in [0, 1]."""
        return self.general(2 * x - 1)

    def c(self, x: Tensor, z: Tensor) -> Gaussian:
        """q(c|x, z) of images in [0, 1]."""
        return self.personal(2 * x - 1, z)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) in [0, 1] -> (batch, 2 * latent)."""
        z, _ = self.z(x)
        return torch.cat([z, self.c(x, z)[0]], dim=1)


class Decoder(nn.Module):
    """g: (z, c) -> x (Fig. 2, white), the encoder reversed. 2,888,769 parameters for latents of 4 and images of 28."""

    def __init__(self, encoder: DualEncoder) -> None:
        super().__init__()
        outputs = widths(encoder.image_size, encoder.width)[::-1]
        top = outputs[0]
        self.lift = nn.Sequential(
            nn.Linear(2 * encoder.latent, top // 2), nn.LeakyReLU(), nn.Linear(top // 2, top), nn.LeakyReLU()
        )
        layers: list[nn.Module] = []
        strides, paddings = [1] + [2] * (len(outputs) - 1), [0, *_paddings(encoder.image_size)[::-1]]
        shapes = zip(outputs, [*outputs[1:], encoder.channels], strides, paddings, strict=True)
        for inputs, out, stride, padding in shapes:
            layers += [nn.ConvTranspose2d(inputs, out, 4, stride, padding), nn.BatchNorm2d(out), nn.LeakyReLU()]
        self.layers = nn.Sequential(*layers[:-2], nn.Tanh())

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        """Images (batch, channels, height, width) in (-1, 1)."""
        return self.layers(self.lift(torch.cat([z, c], dim=1))[:, :, None, None])


class FedDVACNN(nn.Module):
    """The CNN that FedDVA is compared with, up to its last two layers: a backbone of twice the width and two layers, as
    released; App. G has two behind the backbone in all.

    Args:
        width: of the FedDVA networks it is compared with.
        features: as many as a dual encoder has.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int, width: Width = 64, features: Units = 16) -> None:
        super().__init__()
        self.features = features
        backbone = Backbone(channels, image_size, 2 * width)
        self.layers = nn.Sequential(backbone, *mlp(backbone.features, backbone.features // 2, features), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) in [0, 1] -> (batch, features)."""
        return self.layers(2 * x - 1)
