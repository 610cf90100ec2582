"""Views: random per sample, in range, decided by their generator alone."""

import threading

import pytest
import torch

from objectives.augmentation import Augmentation, AugmentationSettings

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


def test_every_sample_is_changed_on_its_own():
    same = X[:1].expand(24, -1, -1, -1)
    view = _view(AugmentationSettings(), x=same)
    assert len({tuple(v.flatten()[:50].tolist()) for v in view}) == 24


def test_the_two_views_of_a_batch_differ():
    from tests.digits import objective

    batch = objective("simclr").draw(X, torch.arange(24), torch.Generator().manual_seed(0))
    first, second = batch["views"]
    assert all(not torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert torch.equal(batch["x"], X)


def test_nothing_asked_for_changes_nothing():
    plain = AugmentationSettings(crop=1.0, flip=0, jitter=0, hue=0, grey=0)
    square = _view(plain)  # a crop of the whole area still stretches it a little
    assert (square - X).abs().mean() < 0.2


@pytest.mark.parametrize(("settings", "share"), [({"flip": 1.0}, 1.0), ({"flip": 0.0}, 0.0)])
def test_flip(settings, share):
    from kornia.augmentation import RandomHorizontalFlip

    steps = Augmentation(AugmentationSettings(**settings), (16, 16)).steps
    assert any(isinstance(step, RandomHorizontalFlip) for step in steps) == bool(share)


def test_grey_loses_colour():
    view = _view(AugmentationSettings(jitter=0, hue=0, grey=1.0))
    torch.testing.assert_close(view[:, 0], view[:, 1])


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
