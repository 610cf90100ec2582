"""Corruptions, pixel by pixel, and what a judge is trained on."""

import numpy as np
import pytest
import torch
from scipy.ndimage import convolve1d

from evaluation.corruption import augmented, blurred, corrupted, noisy, shifted


def _draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _images(n: int = 3, size: int = 12) -> torch.Tensor:
    return torch.rand(n, 2, size, size, generator=_draw(9))


def test_noise_is_added_to_each_pixel_and_ends_at_black_and_white():
    x, sigma = _images(), torch.tensor([0.0, 0.1, 3.0])
    z = torch.randn(x.shape, generator=_draw())
    expected = torch.stack([(x[n] + sigma[n] * z[n]).clamp(0, 1) for n in range(3)])
    assert torch.equal(noisy(x, sigma, _draw()), expected)
    assert torch.equal(corrupted(x, "noise", 0.1, _draw()), (x + 0.1 * z).clamp(0, 1))


def test_blur_is_a_gaussian_of_five_pixels_to_either_axis():
    x, sigma = _images(), torch.tensor([0.5, 1.0, 2.0])
    places = np.arange(-2, 3)
    for n, found in enumerate(blurred(x, sigma)):
        kernel = np.exp(-(places**2) / (2 * float(sigma[n]) ** 2))
        kernel /= kernel.sum()
        by_hand = x[n].double().numpy()
        for axis in (1, 2):
            by_hand = convolve1d(by_hand, kernel, axis=axis, mode="mirror")
        np.testing.assert_allclose(found.numpy(), by_hand, atol=1e-5)
    assert torch.equal(corrupted(x, "blur", 1.0, _draw()), blurred(x, torch.ones(3)))


def test_what_a_shift_brings_in_repeats_the_border():
    x = _images(4)
    found = shifted(x, torch.tensor([2, -1, 0, 0]), torch.tensor([0, 0, 1, -2]))
    for n, (down, right) in enumerate(((2, 0), (-1, 0), (0, 1), (0, -2))):
        padded = np.pad(x[n].numpy(), ((0, 0), (2, 2), (2, 2)), mode="edge")
        np.testing.assert_array_equal(found[n].numpy(), padded[:, 2 - down : 14 - down, 2 - right : 14 - right])


@pytest.mark.parametrize("how", ["noise", "shift", "augmented"])
def test_all_that_is_random_comes_from_the_draw(how):
    x = _images(60)

    def found(seed: int) -> torch.Tensor:
        torch.seed()
        return augmented(x, _draw(seed)) if how == "augmented" else corrupted(x, how, 1, _draw(seed))

    assert torch.equal(found(1), found(1))
    assert not torch.equal(found(1), found(2))


def test_brightness_is_added_to_all_pixels():
    x = _images()
    assert torch.equal(corrupted(x, "brightness", 0.25, _draw()), (x + 0.25).clamp(0, 1))
    assert torch.equal(corrupted(x, "brightness", -0.25, _draw()), (x - 0.25).clamp(0, 1))


@pytest.mark.parametrize("strength", [1, 2])
def test_a_shift_goes_to_each_of_four_sides_about_as_often(strength):
    """A white pixel in the middle is found `strength` pixels above, below, left or right of it, and nowhere else."""
    x = torch.zeros(400, 1, 9, 9)
    x[:, 0, 4, 4] = 1
    found = corrupted(x, "shift", strength, _draw())
    assert torch.equal(found.sum(dim=(1, 2, 3)), torch.ones(400))
    places, counts = np.unique(found.nonzero()[:, 2:].numpy() - 4, axis=0, return_counts=True)
    assert sorted(map(tuple, places.tolist())) == [(-strength, 0), (0, -strength), (0, strength), (strength, 0)]
    assert counts.min() > 70


def _peak(sigma: np.ndarray) -> np.ndarray:
    """What a white pixel on grey comes to when it is blurred."""
    kernel = np.exp(-(np.arange(-2, 3) ** 2) / (2 * sigma[:, None] ** 2))
    return 0.5 + 0.5 * (kernel[:, 2] / kernel.sum(axis=1)) ** 2


def test_a_judge_is_trained_on_shifts_blur_and_noise_and_on_images_as_they_are():
    """Of images of one white pixel on grey a third is untouched; the rest is moved by up to 2, and half is blurred."""
    x = torch.full((6000, 1, 13, 13), 0.5)
    x[:, 0, 6, 6] = 1
    found = augmented(x, _draw())
    assert found.min() >= 0
    assert found.max() <= 1
    kept = (found == x).flatten(1).all(dim=1)
    assert kept.float().mean().item() == pytest.approx(1 / 3, abs=0.02)
    # far from the pixel there is nothing but noise, of 0 to 0.3, of which half the images have less than 0.15
    noise = found[~kept][:, 0, :2].flatten(1).std(dim=1)
    assert noise.median().item() == pytest.approx(0.15, abs=0.01)
    quiet = found[~kept][noise < 0.02][:, 0].flatten(1)
    sharp = quiet.amax(dim=1) > 0.9
    expected = 0.5 + 0.5 * (_peak(np.linspace(0.1, 1.2, 1000)) > 0.9).mean()
    assert sharp.float().mean().item() == pytest.approx(expected, abs=0.06)
    assert quiet.amax(dim=1).min().item() == pytest.approx(_peak(np.array([1.2]))[0], abs=0.025)
    moves = {divmod(int(place), 13) for place in quiet[sharp].argmax(dim=1)}
    assert moves == {(row, column) for row in range(4, 9) for column in range(4, 9)}
