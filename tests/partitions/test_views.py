"""Clients' views against torchvision's transforms, which the paper names."""

import pytest
import torch
import torchvision.transforms.functional as TF
from torchvision.transforms import InterpolationMode

from common.errors import InputError
from partitions import VIEWS
from partitions.views import affine, perspective, redrawn, resized, rotation, view
from tests.pretended import DEVICE, pretended_gpu

SIZE = 28


def _images(n: int = 6, channels: int = 3) -> torch.Tensor:
    return torch.rand(n, channels, SIZE, SIZE, generator=torch.Generator().manual_seed(0))


def _seen(name: str, x: torch.Tensor, size: int = SIZE, seed: int = 1, **settings) -> torch.Tensor:
    return VIEWS[name](x, size, torch.Generator().manual_seed(seed), **settings)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_gives_images_of_the_asked_size_from_its_generator_alone(name):
    x, before = _images(), _images()
    torch.seed()
    once, again = _seen(name, x, 32), _seen(name, x, 32)
    assert once.shape == (6, 3, 32, 32)
    assert torch.equal(once, again)
    assert torch.equal(x, before), "the images themselves stay as they are"
    assert once.isfinite().all()
    assert once.min() >= 0
    assert once.max() <= (1.25 if name == "color-transform-1" else 1 + 1e-5)
    assert VIEWS[name].__doc__


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_the_same_on_a_gpu_that_is_pretended(name):
    here = _seen(name, _images(), 32)
    with pretended_gpu():
        there = _seen(name, _images().to(DEVICE), 32).cpu()
    # torch multiplies n matrices of 3 by 3 by another in n products here, and in one there, which some CPUs round
    # differently in the last digit
    torch.testing.assert_close(there, here, rtol=0, atol=1e-5 if name == "perspective" else 0)


def test_no_images_are_seen_as_none_on_either_device():
    """CUDA refuses to bring no images to size, and of these is what a server has that has none of its own."""
    with pretended_gpu():
        for device in ("cpu", DEVICE):
            assert _seen("plain", _images(0).to(device), 32).shape == (0, 3, 32, 32)


RANDOM = {"gaussian-blur", "rotation", "brightness", "perspective", "solarize", "affine", "erase", "color-transform-1",
          "color-transform-2"}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_what_is_random_is_redrawn_at_each_access_and_for_each_image(name):
    x = _images(1).expand(8, -1, -1, -1).contiguous()
    generator = torch.Generator().manual_seed(0)
    first, second = VIEWS[name](x, SIZE, generator), VIEWS[name](x, SIZE, generator)
    assert torch.equal(first, second) == (name not in RANDOM)
    assert bool((first == first[:1]).all()) == (name not in RANDOM)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_told_to_be_redrawn_where_it_is(name):
    assert redrawn(view("data.views", {"name": name}, SIZE)) == (name in RANDOM)


def test_a_flip_of_some_is_redrawn():
    assert redrawn(view("data.views", {"name": "horizontal-flip", "share": 0.5}, SIZE))


# what is not random, by torchvision
FIXED = {
    "color-inversion": TF.invert,
    "horizontal-flip": TF.hflip,
    "vertical-flip": TF.vflip,
    "zoom-in": lambda x: TF.resize(TF.center_crop(x, [22, 22]), [SIZE, SIZE], antialias=True),
    "zoom-out": lambda x: TF.resize(TF.pad(x, [14]), [SIZE, SIZE], antialias=True),
    "grayscale": lambda x: TF.rgb_to_grayscale(x, 3),
}


@pytest.mark.parametrize("name", FIXED)
def test_fixed_views_are_torchvisions(name):
    torch.testing.assert_close(_seen(name, _images()), FIXED[name](_images()).clamp(0, 1), atol=1e-3, rtol=0)


def test_resizing_is_torchvisions():
    x = _images()
    torch.testing.assert_close(resized(x, 32), TF.resize(x, [32, 32], antialias=True).clamp(0, 1))


def test_rotations_are_torchvisions_by_angles_up_to_forty_degrees():
    x, angle = _images(1), torch.empty(1).uniform_(-40, 40, generator=torch.Generator().manual_seed(5))
    theirs = TF.rotate(x, float(angle), interpolation=InterpolationMode.NEAREST)
    assert (rotation(x, SIZE, torch.Generator().manual_seed(5)) != theirs).float().mean() < 0.01


def test_affine_maps_are_torchvisions():
    x, draw = _images(1), torch.Generator().manual_seed(5)
    shift = [round(float(torch.empty(1).uniform_(-t * SIZE, t * SIZE, generator=draw))) for t in (0.1, 0.3)]
    scale, angle = (float(torch.empty(1).uniform_(low, high, generator=draw)) for low, high in ((0.5, 0.75), (30, 70)))
    theirs = TF.affine(x, angle, shift, scale, [0.0, 0.0], interpolation=InterpolationMode.NEAREST)
    assert (affine(x, SIZE, torch.Generator().manual_seed(5)) != theirs).float().mean() < 0.02


def test_a_perspective_is_torchvisions_on_smooth_images():
    """Up to the half pixel by which torchvision's grid is off its corners."""
    x = resized(torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(0)), SIZE)
    draw = torch.Generator().manual_seed(3)
    far = SIZE - 1
    corners = torch.tensor([[0, 0], [far, 0], [far, far], [0, far]])
    inwards = torch.tensor([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    moved = corners + inwards * torch.empty(4, 2).uniform_(0, 0.2 * SIZE, generator=draw)
    theirs = TF.perspective(x, corners.tolist(), moved.tolist(), interpolation=InterpolationMode.BILINEAR)
    ours = perspective(x, SIZE, torch.Generator().manual_seed(3))
    assert (ours - theirs)[..., 8:20, 8:20].abs().max() < 0.06
    assert (ours - x).abs().max() > 0.2


def test_blur_and_brightness_are_torchvisions_at_the_drawn_strengths():
    x = _images(1)
    sigma = float(torch.empty(1, 1).uniform_(0.1, 2.0, generator=torch.Generator().manual_seed(2)))
    torch.testing.assert_close(
        _seen("gaussian-blur", x, seed=2), TF.gaussian_blur(x, [5, 5], [sigma, sigma]), atol=1e-5, rtol=0
    )
    factor = float(torch.empty(1).uniform_(0.2, 1.8, generator=torch.Generator().manual_seed(2)))
    torch.testing.assert_close(_seen("brightness", x, seed=2), TF.adjust_brightness(x, factor), atol=1e-5, rtol=0)


def test_half_of_the_images_are_solarised():
    x = _images(400)
    seen = _seen("solarize", x)
    changed = (seen != x).flatten(1).any(dim=1)
    assert 0.4 < changed.float().mean() < 0.6
    torch.testing.assert_close(seen[changed], TF.solarize(x[changed], 192 / 255), atol=1e-5, rtol=0)


def test_an_erased_rectangle_is_grey_and_covers_two_to_ten_percent():
    x = torch.zeros(300, 1, 64, 64)
    erased = _seen("erase", x, 64) == 0.5
    share = erased.flatten(1).float().mean(dim=1)
    assert share.min() > 0.015
    assert share.max() < 0.115
    rows, columns = erased.any(3).sum(2), erased.any(2).sum(2)
    assert (rows * columns == erased.sum((2, 3))).all(), "it is a rectangle"
    assert 0.25 < (rows / columns).min() < (rows / columns).max() < 4


def test_colour_transforms_follow_their_formulas():
    """(x + 0.5 u) * v in [-1, 1]; the second once more normalised and clipped (App. C.3)."""
    x, draw = _images(2), torch.Generator().manual_seed(4)
    u, v = (torch.empty(2, 3, 1, 1).uniform_(0, 1, generator=draw) for _ in range(2))
    recoloured = (2 * x - 1 + 0.5 * u) * v
    torch.testing.assert_close(2 * _seen("color-transform-1", x, seed=4) - 1, recoloured)
    torch.testing.assert_close(2 * _seen("color-transform-2", x, seed=4) - 1, (2 * recoloured - 1).clamp(-1, 1))


def test_wrong_views_are_refused():
    with pytest.raises(InputError, match=r"data\.views\.a\.name: unknown name 'zoom'"):
        view("data.views.a", {"name": "zoom"}, 8)
    with pytest.raises(InputError, match=r"data\.views\.a\.share: .*less than or equal to 1, got 3"):
        view("data.views.a", {"name": "zoom-in", "share": 3}, 8)
    with pytest.raises(InputError, match=r"data\.views\.a\.angle: unknown key"):
        view("data.views.a", {"name": "rotation", "angle": 3}, 8)
