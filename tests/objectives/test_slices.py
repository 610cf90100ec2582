"""What FedINB is made of, against autograd, POT and definitions."""

import numpy as np
import ot
import pytest
import torch

from objectives import monotone, slices, stiefel


def _case(domains=3, classes=2, n=17, d=6, k=4, seed=0):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(domains, classes, n, d, generator=draw, dtype=torch.float64)
    x += torch.randn(domains, classes, 1, d, generator=draw, dtype=torch.float64)
    return x, stiefel.random(classes, d, k, draw)


def _ordered(x, theta):
    return slices.slices(x, theta).sort(dim=-1).values


def _by_autograd(x, theta, detach: bool, bins: int | None = None):
    theta = theta.clone().requires_grad_()
    ordered = _ordered(x, theta)
    if bins is None:
        centre = ordered.mean(dim=0)
    else:
        centre = slices.pseudo_samples(slices.histogram(ordered, bins).mean(dim=0), x.shape[2])
    total = slices.loss(ordered, centre.detach() if detach else centre).sum()
    return torch.autograd.grad(total, theta)[0], (centre.detach())


def test_remark_1_a_constant_barycenter_gives_the_same_gradient():
    x, theta = _case()
    constant, centre = _by_autograd(x, theta, detach=True)
    torch.testing.assert_close(constant, _by_autograd(x, theta, detach=False)[0])
    torch.testing.assert_close(constant, slices.gradient(x, theta, centre).sum(dim=0))


def test_and_does_not_for_histograms():
    x, theta = _case()
    constant, centre = _by_autograd(x, theta, detach=True, bins=4)
    assert (constant - _by_autograd(x, theta, detach=False, bins=4)[0]).abs().max() > 1e-3
    torch.testing.assert_close(constant, slices.gradient(x, theta, centre).sum(dim=0))


def test_histograms_are_quantiles():
    ordered = torch.randn(2, 3, 50, dtype=torch.float64).sort(dim=-1).values
    edges = slices.histogram(ordered, 8)
    expected = np.quantile(ordered.numpy(), np.linspace(0, 1, 9), axis=-1)
    np.testing.assert_allclose(edges.numpy(), np.moveaxis(expected, 0, -1))
    assert torch.equal(edges[..., [0, -1]], ordered[..., [0, -1]])


def test_with_a_bin_between_any_two_samples_nothing_is_lost():
    ordered = torch.randn(2, 3, 50, dtype=torch.float64).sort(dim=-1).values
    torch.testing.assert_close(slices.pseudo_samples(slices.histogram(ordered, 49), 50), ordered)


def test_the_loss_is_the_distance_to_the_barycenter():
    """-1/K sum_k W2^2 to the barycenter, by POT's."""
    x, theta = _case(classes=1)
    ordered = _ordered(x, theta)
    centre = ordered.mean(dim=0)
    for m in range(3):
        by_pot = np.mean([ot.wasserstein_1d(ordered[m, 0, k].numpy(), centre[0, k].numpy(), p=2) for k in range(4)])
        assert -slices.loss(ordered, centre)[m, 0].item() == pytest.approx(by_pot)


# ---- the manifold


def test_directions_start_orthonormal():
    theta = stiefel.random(3, 9, 4, torch.Generator().manual_seed(1))
    torch.testing.assert_close(theta.mT @ theta, torch.eye(4, dtype=torch.float64).expand(3, 4, 4))


def test_a_step_stays_on_the_manifold_and_is_the_full_cayley_transform():
    x, theta = _case()
    g = _by_autograd(x, theta, detach=True)[0]
    tau = torch.tensor([0.3, 7.0], dtype=torch.float64)
    moved = stiefel.cayley(theta, g, tau)
    torch.testing.assert_close(moved.mT @ moved, torch.eye(4, dtype=torch.float64).expand(2, 4, 4))
    a = g @ theta.mT - theta @ g.mT
    eye, half = torch.eye(6, dtype=torch.float64), tau[:, None, None] / 2
    torch.testing.assert_close(moved, torch.linalg.solve(eye + half * a, (eye - half * a) @ theta))


def test_slope_is_the_derivative_along_the_step():
    x, theta = _case()
    g, centre = _by_autograd(x, theta, detach=True)
    small = torch.full((2,), 1e-6, dtype=torch.float64)

    def value(at):
        return slices.loss(_ordered(x, at), centre).sum(dim=0)

    ahead, behind = (value(stiefel.cayley(theta, g, step)) for step in (small, -small))
    torch.testing.assert_close((ahead - behind) / 2e-6, stiefel.slope(theta, g), rtol=1e-4, atol=1e-7)


# ---- maps on a line


def test_the_barycenter_is_pots():
    """Of Gaussians: mean of the means, mean of the deviations; POT's barycenter of large samples on a grid agrees."""
    draw = torch.Generator().manual_seed(2)
    means, deviations = torch.tensor([-2.0, 0.0, 5.0]).double(), torch.tensor([0.5, 1.0, 3.0]).double()
    z = means[:, None] + deviations[:, None] * torch.randn(3, 4000, generator=draw, dtype=torch.float64)
    centre = monotone.barycenter(monotone.estimated(z))
    p = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)
    expected = np.mean([np.quantile(row, p) for row in z.numpy()], axis=0)
    np.testing.assert_allclose(centre.inverse(p).numpy(), expected, atol=0.08)
    free = ot.lp.free_support_barycenter(
        [z[m, :200, None].numpy() for m in range(3)], [ot.unif(200)] * 3, np.linspace(-5, 9, 200)[:, None]
    )
    ours = centre.inverse((torch.arange(200, dtype=torch.float64) + 0.5) / 200).numpy()
    assert ot.wasserstein_1d(np.sort(free[:, 0]), ours, p=2) < 0.1


def test_maps_are_increasing_and_invertible():
    draw = torch.Generator().manual_seed(3)
    z = torch.cat([torch.randn(2, 3, 300, generator=draw), 4 + torch.randn(2, 3, 200, generator=draw)], dim=-1).double()
    domains = monotone.estimated(z)
    centre = monotone.barycenter(domains)
    inside = z.sort(dim=-1).values[..., 25:-25]
    there = centre.inverse(domains(inside))
    assert (there.diff(dim=-1) >= 0).all()
    torch.testing.assert_close(domains.inverse(centre(there)), inside, rtol=0, atol=1e-3)
    of_each = there.flatten(0, 1)
    assert (of_each.mean(-1).reshape(2, 3).std(dim=0) < 0.05).all(), "both domains come to the same place"
