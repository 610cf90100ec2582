"""Views: random per sample, in range, decided by their generator alone."""

import threading

import pytest
import torch

from objectives.augmentation import Augmentation, AugmentationSettings
from tests.digits import objective

X = torch.rand(24, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def _view(settings: AugmentationSettings, seed: int = 1, x: torch.Tensor = X) -> torch.Tensor:
    return Augmentation.of(settings, (x.shape[-2], x.shape[-1]))(x, torch.Generator().manual_seed(seed))


def test_shape_and_range():
    view = _view(AugmentationSettings(blur=0.5))
    assert view.shape == X.shape
    assert view.min() >= 0
    assert view.max() <= 1


def test_the_generator_decides():
    settings = AugmentationSettings()
    assert torch.equal(_view(settings, 1), _view(settings, 1))
    assert not torch.equal(_view(settings, 1), _view(settings, 2))


def test_no_two_batches_are_changed_alike():
    settings, draw = AugmentationSettings(jitter_probability=1.0), torch.Generator().manual_seed(0)
    augment = Augmentation.of(settings, (16, 16))
    assert len({augment(X[:1], draw).sum().item() for _ in range(150)}) == 150


def test_every_sample_is_changed_on_its_own():
    same = X[:1].expand(24, -1, -1, -1)
    view = _view(AugmentationSettings(), x=same)
    assert len({tuple(v.flatten()[:50].tolist()) for v in view}) == 24


def test_grey_images_are_changed_as_colour_ones_that_are_grey():
    settings, grey = AugmentationSettings(jitter_probability=1.0), X[:, :1]
    in_colour = _view(settings, x=grey.repeat(1, 3, 1, 1))
    torch.testing.assert_close(_view(settings, x=grey), in_colour[:, 1:2], atol=1e-5, rtol=0)
    assert (in_colour[:, 0] - in_colour[:, 1]).abs().max() < 1e-5


def test_the_two_views_of_a_batch_differ():
    batch = objective("simclr").draw(X, torch.arange(24), torch.Generator().manual_seed(0))
    first, second = batch["views"]
    assert all(not torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert torch.equal(batch["x"], X)


def test_views_are_as_large_as_the_images():
    batch = objective("simclr").draw(torch.rand(4, 3, 8, 12), torch.arange(4), torch.Generator().manual_seed(0))
    assert [tuple(view.shape) for view in batch["views"]] == [(4, 3, 8, 12)] * 2


def test_nothing_asked_for_changes_nothing():
    plain = AugmentationSettings(crop=1.0, flip=0, jitter=0, hue=0, grey=0)
    square = _view(plain)  # a crop of the whole area still stretches it a little
    assert (square - X).abs().mean() < 0.2


def test_grey_loses_colour():
    view = _view(AugmentationSettings(jitter=0, hue=0, grey=1.0))
    torch.testing.assert_close(view[:, 0], view[:, 1])


CROP = {"crop": 1.0, "flip": 0, "jitter": 0, "hue": 0, "grey": 0}


def test_another_hue_is_neither_brighter_nor_more_colourful_and_jitter_alone_is_both():
    """Of HSV: the largest channel is the value, and the smallest beside it the saturation."""
    plain = _view(AugmentationSettings(**CROP))
    turned, jittered = (
        _view(AugmentationSettings(**CROP | {"jitter_probability": 1.0, key: 0.4})) for key in ("hue", "jitter")
    )
    assert (turned - plain).abs().flatten(1).amax(dim=1).min() > 0.01, "each image is turned"
    for of_channels in (torch.amax, torch.amin):
        value = of_channels(plain, dim=1)
        torch.testing.assert_close(of_channels(turned, dim=1), value, atol=1e-4, rtol=0)
        assert (of_channels(jittered, dim=1) - value).abs().mean() > 0.01


def test_a_flip_is_the_mirror_image():
    mirrored, plain = (_view(AugmentationSettings(**CROP | {"flip": share})) for share in (1.0, 0.0))
    torch.testing.assert_close(mirrored, plain.flip(3))


@pytest.mark.parametrize(
    ("share", "settings"),
    [
        (0.3, {"flip": 0.3}),
        (0.3, {"grey": 0.3}),
        (0.3, {"blur": 0.3}),
        (0.3, {"jitter": 0.8, "jitter_probability": 0.3}),
        (0.6, {"hue": 0.2, "jitter_probability": 0.6}),
        (0.0, {"jitter_probability": 1.0}),
    ],
)
def test_as_many_images_are_changed_as_the_settings_say(share, settings):
    """Beside the crop, which draws first, and so is the same with and without."""
    x = torch.rand(400, 3, 20, 20, generator=torch.Generator().manual_seed(2))
    plain, view = _view(AugmentationSettings(**CROP), x=x), _view(AugmentationSettings(**CROP | settings), x=x)
    changed = (plain != view).flatten(1).any(dim=1).float().mean().item()
    assert changed == pytest.approx(share, abs=0.07 if share else 0)


@pytest.mark.parametrize("least", [1.0, 0.5, 0.08])
def test_a_crop_keeps_at_least_the_share_of_the_area_that_is_asked_for(least):
    """What is left of a ramp to the right times what is left of one downwards: even from the least to all."""
    ramp = torch.linspace(0, 1, 32)
    x = torch.stack([ramp.expand(32, 32), ramp[:, None].expand(32, 32)]).expand(400, 2, 32, 32)
    view = _view(AugmentationSettings(**CROP | {"crop": least}), x=x).flatten(2)
    area = (view.amax(dim=2) - view.amin(dim=2)).prod(dim=1)
    assert area.min() > least - 0.1
    assert area.min() < least + 0.05
    assert area.mean().item() == pytest.approx((1 + least) / 2, abs=0.1)


def test_a_blur_is_a_gaussian_of_a_tenth_of_the_image_at_most_two_pixels_wide():
    """Images 224 pixels high are blurred within 23 (SimCLR); a white line gets no wider than its sides allow."""
    x = torch.zeros(60, 1, 60, 60)
    x[:, :, :, 30] = 1
    kernel = Augmentation(AugmentationSettings(**CROP | {"blur": 1.0}), (224, 60)).steps[-1].flags["kernel_size"]
    assert kernel == (23, 23)
    (blur,) = Augmentation(AugmentationSettings(**CROP | {"blur": 1.0}), (60, 60)).steps[1:]
    torch.manual_seed(0)
    peaks = blur(x)[:, 0, 30, 30]
    sharpest, softest = (torch.exp(-(torch.arange(-3, 4) ** 2) / (2 * s**2)) for s in (0.1, 2.0))
    assert (softest[3] / softest.sum()).item() <= peaks.min() + 1e-6 < 0.25
    assert 0.9 < peaks.max() <= (sharpest[3] / sharpest.sum()).item() + 1e-6


def test_threads_draw_what_one_thread_draws():
    settings, found = AugmentationSettings(), {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: [_view(settings, seed) for seed in range(n, 40, 4)]}))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(4):
        for seed, view in zip(range(n, 40, 4), found[n], strict=True):
            assert torch.equal(view, _view(settings, seed))
