"""A layer and a stack of them: what they leave alone, and that they can be undone."""

import pytest
import torch
from scipy import stats
from torch import nn

from objectives import monotone, stiefel
from objectives.iterative import Layer, Translator
from tests.mutation import mutated

D, K, LAYERS, CLASSES = 6, 3, 4, 2


def _samples(domain: int, n: int = 400) -> torch.Tensor:
    """(classes, n, D), of a domain of its own shape and place."""
    draw = torch.Generator().manual_seed(domain)
    mixed = torch.randn(CLASSES, D, D, generator=draw)
    return torch.randn(CLASSES, n, D, generator=draw) @ mixed + 3 * torch.randn(CLASSES, 1, D, generator=draw)


def _fitted(kind=Translator) -> list[Translator]:
    """Two domains, fitted along directions that are drawn; their auto-encoder does nothing."""
    made = [kind(nn.Identity(), nn.Identity(), D, CLASSES, LAYERS, K, 30) for _ in range(2)]
    x = torch.stack([_samples(m) for m in range(2)])
    draw = torch.Generator().manual_seed(9)
    for number in range(LAYERS):
        theta = stiefel.random(CLASSES, D, K, draw).float()
        own = monotone.estimated((x @ theta).mT.double(), 30)
        centre = monotone.barycenter(own)
        for m, one in enumerate(made):
            one.put(number, theta, own.histogram()[m], centre.quantiles())
        x = torch.stack([one.layer(number).forward(x[m]) for m, one in enumerate(made)])
    return made


def _labelled(domain: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples of all classes in a mixed order."""
    x = _samples(domain)
    order = torch.randperm(CLASSES * x.shape[1], generator=torch.Generator().manual_seed(0))
    return x.flatten(0, 1)[order], torch.arange(CLASSES).repeat_interleave(x.shape[1])[order]


def check_inversion(kind=Translator) -> None:
    """T^-1 after T is nothing, of all samples but those that clamps hold at the end of a distribution."""
    for domain, one in enumerate(_fitted(kind)):
        x, y = _labelled(domain)
        z = one.latent(x, y)
        assert (z - x).abs().mean() > 0.1
        for layers in (None, 2):
            off = (one.images(one.latent(x, y, layers), y, layers) - x).abs().amax(dim=-1)
            assert off.quantile(0.99) < 1e-3


def test_a_whole_translator_is_inverted():
    check_inversion()


def test_an_image_goes_its_own_way_whatever_goes_beside_it():
    """Classes need not be of one size, nor all be there."""
    for domain, one in enumerate(_fitted()):
        x, y = _labelled(domain)
        some = torch.nonzero((y == 1) | (torch.arange(len(y)) < 7))[:, 0]
        torch.testing.assert_close(one.latent(x[some], y[some]), one.latent(x, y)[some])
        few = y[some] == 1
        torch.testing.assert_close(one.latent(x[some][few], y[some][few]), one.latent(x, y)[some][few])


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("[:layers][::-1], Layer.inverse", "[:layers], Layer.inverse"),
        ("self.layer(number, classes)", "self.layer(number, 0 * classes)"),
        ("torch.empty_like(gone).index_copy_(0, order, gone)", "gone"),
        ("range(len(self.theta))[:layers][::-1]", "range(len(self.theta))[::-1]"),
    ],
)
def test_another_order_or_class_is_caught(right, wrong):
    with mutated("objectives.iterative", "Translator", right, wrong) as mutant, pytest.raises(AssertionError):
        check_inversion(mutant)


def check_residual() -> None:
    """What is orthogonal to the directions stays, and along them each sample goes where its rank has the barycenter."""
    one, x = _fitted()[0], _samples(0)
    layer = one.layer(0)
    moved = layer.forward(x)
    rest = torch.eye(D) - layer.theta @ layer.theta.mT
    torch.testing.assert_close(moved @ rest, x @ rest, atol=1e-5, rtol=0)
    z, there = (x @ layer.theta).mT.double(), (moved @ layer.theta).mT.double()
    torch.testing.assert_close(there, layer.barycenter.inverse(layer.own(z)), atol=1e-4, rtol=1e-4)


def test_a_layer_moves_samples_along_its_directions_only():
    check_residual()


@pytest.mark.parametrize("wrong", ["(along(z) - z).mT", "along(z).mT", "x + along(z).mT"])
def test_a_layer_without_what_is_outside_its_directions_is_caught(wrong):
    with mutated("objectives.iterative", "Layer", "x + (along(z) - z).mT", wrong), pytest.raises(AssertionError):
        check_residual()


def test_layers_that_were_never_set_change_nothing():
    one = Translator(nn.Identity(), nn.Identity(), D, CLASSES, LAYERS, K, 30)
    x, y = _labelled(0)
    assert torch.equal(one.latent(x, y), x)
    assert torch.equal(one.images(x, y), x)


def test_a_layer_that_was_never_set_has_the_distributions_of_a_standard_normal():
    """Along each direction of each class, so that whatever directions it gets, nothing moves."""
    one = Translator(nn.Identity(), nn.Identity(), D, CLASSES, LAYERS, K, 30)
    z = torch.linspace(-2.5, 2.5, 41, dtype=torch.float64).expand(CLASSES, K, 41)
    normal = torch.from_numpy(stats.norm.cdf(z))
    for number in range(LAYERS):
        layer = one.layer(number)
        for distribution in (layer.own, layer.barycenter):
            torch.testing.assert_close(distribution(z), normal, atol=1e-6, rtol=0)
            torch.testing.assert_close(distribution.inverse(normal), z, atol=1e-4, rtol=0)


def test_a_class_is_not_moved_by_anothers_maps():
    one = _fitted()[0]
    x, y = _labelled(0)
    both = one.latent(x, y)
    for c in range(CLASSES):
        rows = y == c
        torch.testing.assert_close(one.latent(x[rows], y[rows]), both[rows])


def test_tensors_are_the_whole_translator():
    one, other = _fitted()
    x, y = _labelled(0)
    other.load_state_dict(one.state_dict())
    assert torch.equal(other.latent(x, y), one.latent(x, y))
    assert torch.equal(other.images(x, y), one.images(x, y))


def test_a_translation_brings_one_domain_to_the_other():
    source, target = _fitted()
    (x, y), (real, theirs) = _labelled(0), _labelled(1)
    found = target.images(source.latent(x, y), y)
    for c in range(CLASSES):
        before, after = ((part[y == c].mean(0) - real[theirs == c].mean(0)).norm() for part in (x, found))
        assert after < 0.5 * before


def test_a_layer_of_all_classes_is_that_of_each():
    one, x = _fitted()[0], _samples(0)
    together = one.layer(1).forward(x)
    for c in range(CLASSES):
        alone: Layer = one.layer(1, c)
        torch.testing.assert_close(alone.forward(x[c]), together[c])
