"""How clients see their images: one transform each, as in PaDPaF (App. C.2, C.2.1 and C.3).

Each takes images (n, channels, height, width) in [0, 1] as they are stored, the side in pixels that networks see, and a
generator from which all that is random is drawn, for each image on its own and anew at every access. It returns images
(n, channels, size, size) in [0, 1], except for the two colour transforms, whose published formulas leave that range.

The paper names torchvision's transforms; kornia's work on a batch and on its device.
"""

import math
from collections.abc import Callable
from typing import Annotated

import kornia.enhance as enhance
import kornia.geometry.transform as geometry
import torch
import torch.nn.functional as F
from kornia.filters import gaussian_blur2d
from pydantic import Field
from torch import Tensor

from common.errors import choose
from common.settings import checked, strict_call
from common.spec import Named

View = Callable[..., Tensor]
Share = Annotated[float, Field(gt=0, le=1)]
Angle = Annotated[float, Field(ge=0, le=180)]


def resized(x: Tensor, size: int) -> Tensor:
    """Bilinear and antialiased, as torchvision resizes pictures."""
    if x.shape[-2:] == (size, size):
        return x
    if not len(x):  # which CUDA refuses, and a server without images of its own has
        return x.new_zeros(0, x.shape[1], size, size)
    return F.interpolate(x, (size, size), mode="bilinear", antialias=True).clamp(0, 1)


def _uniform(x: Tensor, low: float, high: float, generator: torch.Generator, *shape: int) -> Tensor:
    """Numbers for each image of x: (n, *shape)."""
    return torch.empty(len(x), *shape).uniform_(low, high, generator=generator).to(x.device)


def plain(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Images as they are."""
    return resized(x, size)


def zoom_in(x: Tensor, size: int, generator: torch.Generator, *, share: Share = 22 / 28) -> Tensor:
    """CenterCrop(22): the middle `share` of the side (22 of 28 pixels)."""
    side = max(1, round(share * x.shape[-1]))
    start = (x.shape[-1] - side) // 2
    return resized(x[..., start : start + side, start : start + side], size)


def zoom_out(x: Tensor, size: int, generator: torch.Generator, *, border: Share = 0.5) -> Tensor:
    """Pad(14): a black border of `border` of the side (14 of 28 pixels) all around."""
    return resized(F.pad(x, [round(border * x.shape[-1])] * 4), size)


def color_inversion(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """RandomInvert(p=1.0)."""
    return resized(1 - x, size)


def gaussian_blur(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """GaussianBlur(5, sigma=(0.1, 2.0))."""
    sigma = _uniform(x, 0.1, 2.0, generator, 1).expand(-1, 2)
    return resized(gaussian_blur2d(x, (5, 5), sigma), size)


def horizontal_flip(x: Tensor, size: int, generator: torch.Generator, *, share: Share = 1.0) -> Tensor:
    """RandomHorizontalFlip(p=1.0); of a `share` of the images at each access (CelebA: 0.5)."""
    flipped = _uniform(x, 0, 1, generator, 1, 1, 1) < share
    return resized(torch.where(flipped, x.flip(-1), x), size)


def vertical_flip(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """RandomVerticalFlip(p=1.0)."""
    return resized(x.flip(-2), size)


def rotation(x: Tensor, size: int, generator: torch.Generator, *, degrees: Angle = 40.0) -> Tensor:
    """RandomRotation(40): by an angle in ±40 degrees, nearest pixel, black outside."""
    angle = _uniform(x, -degrees, degrees, generator)
    return resized(geometry.rotate(x, angle, mode="nearest"), size)


def brightness(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """ColorJitter(brightness=0.8): times a number in [0.2, 1.8]."""
    return resized(enhance.adjust_brightness_accumulative(x, _uniform(x, 0.2, 1.8, generator)), size)


def grayscale(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Grayscale(3)."""
    if x.shape[1] == 3:
        weights = torch.tensor([0.299, 0.587, 0.114], device=x.device)
        x = torch.einsum("nchw,c->nhw", x, weights).unsqueeze(1).expand_as(x)
    return resized(x, size)


def perspective(x: Tensor, size: int, generator: torch.Generator, *, distortion: Share = 0.4) -> Tensor:
    """RandomPerspective(distortion_scale=0.4, p=1.0): each corner moved inwards by up to 0.2 of the side."""
    far = x.shape[-1] - 1
    corners = torch.tensor([[0, 0], [far, 0], [far, far], [0, far]], device=x.device).float().expand(len(x), -1, -1)
    inwards = torch.tensor([[1, 1], [-1, 1], [-1, -1], [1, -1]], device=x.device)
    moved = corners + inwards * _uniform(x, 0, distortion * x.shape[-1] / 2, generator, 4, 2)
    matrix = geometry.get_perspective_transform(corners, moved)
    return resized(geometry.warp_perspective(x, matrix, (far + 1, far + 1)), size)


def solarize(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """RandomSolarize(threshold=192.0): half of the images, at each access, with pixels from 192 on inverted."""
    drawn = _uniform(x, 0, 1, generator, 1, 1, 1) < 0.5
    return resized(torch.where(drawn & (x >= 192 / 255), 1 - x, x), size)


def affine(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """RandomAffine(degrees=(30, 70), translate=(0.1, 0.3), scale=(0.5, 0.75)), nearest pixel, black outside."""
    side = x.shape[-1]
    shift = torch.stack([_uniform(x, -t * side, t * side, generator) for t in (0.1, 0.3)], dim=1).round()
    scale = _uniform(x, 0.5, 0.75, generator, 1).expand(-1, 2)
    centre = torch.full((len(x), 2), (side - 1) / 2, device=x.device)
    matrix = geometry.get_affine_matrix2d(shift, centre, scale, _uniform(x, 30, 70, generator))
    return resized(geometry.warp_affine(x, matrix[:, :2], (side, side), mode="nearest"), size)


def erase(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """RandomErasing(p=1.0, scale=(0.02, 0.1)): a rectangle at 0, mid grey after Normalize, as in the code; "after
    ToTensor()", as PaDPaF's App. C.2.1 has it, it would be black."""
    x = resized(x, size)
    area = _uniform(x, 0.02, 0.1, generator) * size * size
    ratio = _uniform(x, math.log(0.3), math.log(3.3), generator).exp()
    sides = torch.stack([area * ratio, area / ratio]).sqrt().round().clamp(max=size - 1)
    starts = ((size - sides + 1) * torch.stack([_uniform(x, 0, 1, generator) for _ in range(2)])).floor()
    place = torch.arange(size, device=x.device)
    rows, columns = (
        (place >= start[:, None]) & (place < (start + side)[:, None]) for start, side in zip(starts, sides, strict=True)
    )
    return torch.where((rows[:, :, None] & columns[:, None, :]).unsqueeze(1), 0.5, x)


def _recoloured(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """(x + 0.5 u) * v in [-1, 1.5], with u and v from U(0, 1) for each channel; x in [-1, 1]."""
    u, v = (_uniform(x, 0, 1, generator, x.shape[1], 1, 1) for _ in range(2))
    return (2 * resized(x, size) - 1 + 0.5 * u) * v


def color_transform_1(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """App. C.3, 9: the formula's clip is put to the random factor, where it does nothing; up to 1.25 come out."""
    return (_recoloured(x, size, generator) + 1) / 2


def color_transform_2(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """App. C.3, 10: the same, normalised a second time (r -> 2r - 1), then clipped."""
    return ((2 * _recoloured(x, size, generator) - 1).clamp(-1, 1) + 1) / 2


VIEWS: dict[str, View] = {
    "plain": plain,
    "zoom-in": zoom_in,
    "zoom-out": zoom_out,
    "color-inversion": color_inversion,
    "gaussian-blur": gaussian_blur,
    "horizontal-flip": horizontal_flip,
    "vertical-flip": vertical_flip,
    "rotation": rotation,
    "brightness": brightness,
    "grayscale": grayscale,
    "perspective": perspective,
    "solarize": solarize,
    "affine": affine,
    "erase": erase,
    "color-transform-1": color_transform_1,
    "color-transform-2": color_transform_2,
}


def view(where: str, named: Named, size: int) -> Callable[[Tensor, torch.Generator], Tensor]:
    """The view that a specification names, for images of `size` pixels in the end.

    Raises:
        common.errors.InputError: there is no such view, or it takes no such setting.
    """
    settings = dict(named)
    kind = VIEWS[choose(f"{where}.name", str(settings.pop("name", None)), VIEWS)]

    example = {"x": torch.zeros(1, 1, 8, 8), "size": 8, "generator": torch.Generator()}
    checked(strict_call(kind), where, settings, **example)
    return lambda x, generator: kind(x, size, generator, **settings)


def redrawn(shown: Callable[[Tensor, torch.Generator], Tensor]) -> bool:
    """Whether a view shows an image otherwise at each access."""
    images, *draws = (torch.Generator().manual_seed(seed) for seed in range(3))
    x = torch.rand(64, 3, 16, 16, generator=images)
    return not torch.equal(*(shown(x, draw) for draw in draws))
