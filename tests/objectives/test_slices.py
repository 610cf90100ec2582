"""Slices, their histograms and the gradient that clients take (Remark 1), against autograd, NumPy and POT."""

import numpy as np
import ot
import pytest
import torch

from objectives import slices
from tests.mutation import mutated
from tests.pretended import DEVICE, pretended_gpu


def _case(domains=3, classes=2, n=17, d=6, k=4):
    """Samples (domains, classes, n, d) of domains that lie apart, and any directions."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(domains, classes, n, d, generator=draw, dtype=torch.float64)
    x += torch.randn(domains, classes, 1, d, generator=draw, dtype=torch.float64)
    return x, torch.linalg.qr(torch.randn(classes, d, k, generator=draw, dtype=torch.float64)).Q


def _by_autograd(x, theta, *, constant: bool, bins: int | None = None):
    """Gradient of the loss over all domains by theta, and the barycenter; all of it spelled out."""
    theta = theta.clone().requires_grad_()
    ordered = torch.einsum("mcnd,cdk->mckn", x, theta).sort(dim=-1).values
    if bins is None:
        centre = ordered.mean(dim=0)
    else:
        q = torch.linspace(0, 1, bins + 1, dtype=torch.float64)
        edges = torch.quantile(ordered, q, dim=-1).movedim(0, -1).mean(dim=0)
        centre = torch.quantile(edges, torch.linspace(0, 1, x.shape[2], dtype=torch.float64), dim=-1).movedim(0, -1)
    against = centre.detach() if constant else centre
    total = -(ordered - against).square().mean(dim=(-1, -2)).sum()
    return torch.autograd.grad(total, theta)[0], centre.detach()


def check_gradient(gradient, bins: int | None = None) -> None:
    x, theta = _case()
    constant, centre = _by_autograd(x, theta, constant=True, bins=bins)
    torch.testing.assert_close(gradient(x, slices.sorted_slices(x, theta), centre).sum(dim=0), constant)


def test_remark_1_a_constant_barycenter_gives_the_gradient_of_all_data_together():
    x, theta = _case()
    constant, _ = _by_autograd(x, theta, constant=True)
    torch.testing.assert_close(constant, _by_autograd(x, theta, constant=False)[0])
    check_gradient(slices.gradient)


def test_for_histograms_it_does_not_and_it_is_held_constant():
    x, theta = _case()
    constant, _ = _by_autograd(x, theta, constant=True, bins=4)
    assert (constant - _by_autograd(x, theta, constant=False, bins=4)[0]).abs().max() > 1e-3
    check_gradient(slices.gradient, bins=4)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("ordered.values - barycenter", "ordered.values"),
        ("scatter_(-1, ordered.order,", "copy_("),
        ("-2 /", "2 /"),
        ("(n * directions)", "n"),
    ],
)
def test_another_gradient_is_caught(right, wrong):
    with mutated("objectives.slices", "gradient", right, wrong) as mutant, pytest.raises(AssertionError):
        check_gradient(mutant)


def test_each_domain_has_its_own_part_of_the_gradient():
    """What a client sends is of its own loss, with the barycenter that it was told."""
    x, theta = _case()
    ordered = slices.sorted_slices(x, theta)
    centre = ordered.values.mean(dim=0)
    parts = slices.gradient(x, ordered, centre)
    for m in range(3):
        at = theta.clone().requires_grad_()
        own = slices.sorted_slices(x[m : m + 1], at).values
        torch.testing.assert_close(parts[m], torch.autograd.grad(slices.loss(own, centre).sum(), at)[0])


def test_the_loss_is_the_distance_to_the_barycenter():
    """-1/K sum_k W2^2 to the barycenter, by POT's."""
    x, theta = _case()
    z = (x @ theta).numpy()
    ordered = slices.sorted_slices(x, theta).values
    centre = np.sort(z, axis=2).mean(axis=0)
    losses = slices.loss(ordered, ordered.mean(dim=0))
    for m, c in np.ndindex(3, 2):
        by_pot = ot.wasserstein_1d(z[m, c], centre[c], p=2)  # of each column
        assert -losses[m, c].item() == pytest.approx(np.mean(by_pot))


def test_losses_of_32_bit_samples_are_summed_with_64():
    """A line search compares losses that differ in late digits."""
    ordered = torch.rand(2, 3, 4, 1000).sort(dim=-1).values
    found = slices.loss(ordered, ordered.mean(dim=0))
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, slices.loss(ordered.double(), ordered.mean(dim=0).double()), rtol=1e-7, atol=0)


# ---- histograms


def check_quantiles(histogram) -> None:
    ordered = torch.randn(2, 3, 50, dtype=torch.float64).sort(dim=-1).values
    for bins in (1, 8, 49, 120):
        expected = np.quantile(ordered.numpy(), np.linspace(0, 1, bins + 1), axis=-1)
        np.testing.assert_allclose(histogram(ordered, bins).numpy(), np.moveaxis(expected, 0, -1))


def test_edges_are_quantiles():
    check_quantiles(slices.histogram)


@pytest.mark.parametrize("wrong", ["_resampled(ordered, bins)", "_resampled(ordered.mean(0, keepdim=True), bins + 1)"])
def test_other_edges_are_caught(wrong):
    with (
        mutated("objectives.slices", "histogram", "_resampled(ordered, bins + 1)", wrong) as mutant,
        pytest.raises(AssertionError),
    ):
        check_quantiles(mutant)


def test_with_a_bin_between_any_two_samples_nothing_is_lost():
    ordered = torch.randn(2, 3, 50, dtype=torch.float64).sort(dim=-1).values
    torch.testing.assert_close(slices.histogram(ordered, 49), ordered)
    torch.testing.assert_close(slices.pseudo_samples(ordered, 50), ordered)


def test_pseudo_samples_are_evenly_spaced_points_of_the_inverse():
    edges = torch.tensor([[0.0, 1.0, 5.0]], dtype=torch.float64)
    found = slices.pseudo_samples(edges, 5)
    np.testing.assert_allclose(found.numpy(), [[0.0, 0.5, 1.0, 3.0, 5.0]])


def _all_of_it(x, theta):
    """All that is made of slices, histograms in both ways."""
    ordered = slices.sorted_slices(x, theta)
    edges = slices.histogram(ordered.values, 5)
    return ordered.values, ordered.order, edges, slices.pseudo_samples(edges, 17), slices.gathered(ordered.values, 6)


def test_a_gpu_that_is_pretended_sorts_and_resamples_as_the_cpu_does():
    """Where NumPy does not sort, and where no index may be on the CPU."""
    x, theta = _case()
    here = _all_of_it(x, theta)
    with pretended_gpu():
        there = [found.cpu() for found in _all_of_it(x.to(DEVICE), theta.to(DEVICE))]
    for ours, theirs in zip(here, there, strict=True):
        assert torch.equal(ours, theirs)
