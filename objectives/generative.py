"""What the GAN and the β-VAE of PaDPaF have in common: latents, labels, a style-based generator, Barlow Twins."""

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeFloat
from torch import Tensor

from common.errors import InputError
from common.settings import Units, Width, settings
from networks.padpaf import StyleGenerator, StyleVectoriser, noise_sides
from objectives.objective import Objective

Noise = tuple[Tensor, ...]
NOISE = 0.02
"""Standard deviation of the noise on images and inside the generator, as in PaDPaF's code; the paper names neither."""


def barlow_twins(a: Tensor, b: Tensor, off_diagonal: float) -> Tensor:
    """The Barlow Twins loss of two batches of projected features (PaDPaF, Eq. 7 and 8; Zbontar et al. 2021).

    Args:
        a, b: (batch, dimensions), normalised by a batch norm already; Eq. 7 divides by the norms once more.
        off_diagonal: lambda_BT.
    """
    c = F.normalize(a, dim=0).T @ F.normalize(b, dim=0)  # Eq. 7
    diagonal = c.diagonal()
    return (1 - diagonal).square().sum() + off_diagonal * (c.square().sum() - diagonal.square().sum())  # Eq. 8


def of_one_style(m: Any, z_c: Tensor, z_s: Tensor, y: Tensor | None, noise: Noise) -> Tensor:
    """G^c(z^c, G^s(z^s), y): images (batch, channels, height, width) in (-1, 1)."""
    return m.generator(z_c, m.style.vectoriser(z_s), y, noise)


@settings
class Generative(Objective):
    """Generates images from a content latent and a style latent.

    Its model has the content's parts at the top (encoder, projector, generator, ...) and all that belongs to style in
    one part called `style` (encoder, projector, vectoriser, ...), so that what PaDPaF keeps private has one name.

    Attributes:
        latent: dimensions of z^c, and of z^s (PaDPaF, App. B: 128 for MNIST, 256 for CelebA).
        width: channels of the generator (half of `latent` in the authors' code).
        conditional: whether generator and content discriminator see labels.
        style_network: settings of the style encoder's network that differ from those of `network`.
        lam: lambda of Eq. 15, the weight of the Barlow Twins regulariser; not in the paper, 0.1 in its code.
        off_diagonal: lambda_BT of Eq. 8; not in the paper either.
        contrast: both terms of Eq. 14, or the content term alone, as the released code has it.
    """

    latent: Units = 128
    width: Width = 64
    conditional: bool = False
    style_network: dict[str, Any] = Field(default_factory=dict)
    lam: NonNegativeFloat = 0.1
    off_diagonal: NonNegativeFloat = 0.005
    contrast: Literal["both", "content"] = "both"

    @property
    def label_size(self) -> int:
        """Classes that the networks see; 0 without labels."""
        return self.classes if self.conditional else 0

    def generator(self) -> StyleGenerator:
        """A new generator for the objective's images."""
        side = self.image_size
        if side < 8 or 2 ** round(math.log2(side)) != side:
            raise InputError(f"data.image_size: the generator doubles its images from 4 pixels on, got {side}")
        return StyleGenerator(self.latent, self.width, self.channels, side, self.label_size)

    def vectoriser(self) -> StyleVectoriser:
        """A new style vectoriser."""
        return StyleVectoriser(self.latent)

    def latents(self, images: int, generator: torch.Generator) -> Tensor:
        """z ~ N(0, I), (images, latent)."""
        return torch.randn(images, self.latent, generator=generator)

    def noise(self, images: int, generator: torch.Generator) -> Noise:
        """What one pass through the generator adds before its norms, for this many images."""
        sides = noise_sides(self.image_size)
        flat = NOISE * torch.randn(images, sum(side**2 for side in sides), generator=generator)
        return tuple(
            part.unflatten(1, (1, side, side))
            for side, part in zip(sides, flat.split([side**2 for side in sides], dim=1), strict=True)
        )

    def one_hot(self, y: Tensor) -> Tensor | None:
        """Labels (images,) as the networks see them, (images, classes); None without labels.

        Raises:
            InputError: a label is not one of the classes.
        """
        if not self.conditional:
            return None
        if y.numel() and not 0 <= int(y.min()) <= int(y.max()) < self.classes:
            raise InputError(f"labels must be in 0..{self.classes - 1}, got {int(y.min())}..{int(y.max())}")
        return F.one_hot(y, self.classes).float()

    def generate(self, m: Any, z_c: Tensor, z_s: Tensor, y: Tensor | None, noise: Noise) -> Tensor:
        """Images (images, channels, height, width) in [0, 1] from latents and one-hot labels.

        Raises:
            InputError: a latent has the wrong size, labels are missing, or there are some where none are used.
        """
        for name, z in (("z_c", z_c), ("z_s", z_s)):
            if z.dim() != 2 or z.shape[1] != self.latent:
                raise InputError(f"{name}: must be (images, {self.latent}), got {tuple(z.shape)}")
        if (y is None) == self.conditional:
            raise InputError(f"y: the generator is {'' if self.conditional else 'not '}conditional on labels")
        return of_one_style(m, z_c, z_s, y, noise).add(1).div(2)

    def scaled(self, x: Tensor) -> Tensor:
        """Images in [0, 1] as the networks see them, in [-1, 1].

        Raises:
            InputError: the images have another size or range; PaDPaF's first colour transform reaches 1.25.
        """
        if x.shape[1:] != (self.channels, self.image_size, self.image_size):
            wanted = f"{self.channels} x {self.image_size} x {self.image_size}"
            raise InputError(f"images must be {wanted}, got {' x '.join(map(str, x.shape[1:]))}")
        pixels = x.detach()
        if x.numel() and not -1e-3 <= float(pixels.min()) <= float(pixels.max()) <= 1.25 + 1e-3:
            raise InputError(f"images must be in [0, 1], got {float(pixels.min()):g}..{float(pixels.max()):g}")
        return 2 * x - 1
