"""Inversion of FedINB's messages: exact where directions say enough, and not where they cannot."""

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from attacks.projections import Heard, Projections, matched
from objectives.slices import histogram, slices
from tests.attacks.overheard import Overheard, objective

CLASSES = 3


def _case(d: int, samples: int, directions: int, edges: int | None = None) -> tuple[torch.Tensor, Heard]:
    draw = torch.Generator().manual_seed(2)
    x = torch.randn(samples, d, generator=draw)
    theta = torch.nn.functional.normalize(torch.randn(d, directions, generator=draw), dim=0)
    ordered = slices(x, theta).sort(dim=1).values
    return x, Heard(theta, histogram(ordered, (edges or samples) - 1))


def _error(x: torch.Tensor, heard: Heard) -> float:
    """The mean squared error of a number whose variance is 1, of samples in whatever order."""
    found = matched(heard, len(x), 300, torch.Generator().manual_seed(1))
    distances = torch.cdist(found, x)
    return float((distances[linear_sum_assignment(distances)] ** 2).mean() / x.shape[1])


@pytest.mark.parametrize(("samples", "directions", "edges"), [(2, 96, None), (4, 160, None), (4, 160, 7), (4, 160, 3)])
def test_many_directions_alone_say_all(samples, directions, edges):
    assert _error(*_case(16, samples, directions, edges)) < 1e-8


def test_as_many_as_dimensions_say_the_mean_alone():
    x, heard = _case(16, 2, 16)
    assert _error(x, heard) > 0.1
    mean = matched(heard, 2, 300, torch.Generator().manual_seed(1)).mean(dim=0)
    torch.testing.assert_close(mean, x.mean(dim=0), atol=1e-3, rtol=1e-3)


def _overheard(each: int, **settings) -> Overheard:
    draw = torch.Generator().manual_seed(0)
    coarse = torch.rand(CLASSES * each, 1, 4, 4, generator=draw)
    x = torch.nn.functional.interpolate(coarse, size=(8, 8), mode="bilinear")
    y = torch.arange(CLASSES).repeat_interleave(each)
    more = {"layers": 1, "directions": 4, "iterations": 10, "map_bins": 8} | settings
    return Overheard(Projections, "fedinb", objective("autoencoder", "pixels", CLASSES), x, y, searched=100, **more)


@pytest.mark.parametrize("settings", [{}, {"bins": 1}], ids=["samples", "histograms"])
def test_two_images_of_each_class_come_back(settings):
    run = _overheard(2, **settings)
    near, labels = run.found()
    assert (near >= 30).mean() > 0.9
    assert labels is not None
    assert labels.tolist() == sorted(2 * list(range(CLASSES)))
    assert run.misled().mean() < 20


def test_what_is_sent_later_or_of_fewer_classes_is_left_aside():
    run = _overheard(2, iterations=60)
    kinds = [name.partition(".")[0] for name in run.listener.back[0]]
    assert kinds.count("slices") == sum(name.startswith("theta") for name in run.listener.sent) < 62
    assert all(t.shape[0] == CLASSES for t in run.listener.back[0].values())
