"""Steps on matrices with orthonormal columns, against the definition of the Cayley transform."""

import pytest
import torch

from objectives import stiefel
from tests.mutation import mutated

D, K = 9, 4
STEPS = (1e-3, 0.3, 7.0, 50.0)


def _eye(k: int = K) -> torch.Tensor:
    return torch.eye(k, dtype=torch.float64)


def _theta(classes: int = len(STEPS)) -> torch.Tensor:
    return stiefel.random(classes, D, K, torch.Generator().manual_seed(1))


def _gradient() -> torch.Tensor:
    return torch.randn(len(STEPS), D, K, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def _by_definition(theta, gradient, tau):
    """(I + tau / 2 A)^-1 (I - tau / 2 A) theta with A = g theta^T - theta g^T."""
    a = gradient @ theta.mT - theta @ gradient.mT
    half = tau[:, None, None] / 2 * a
    return torch.linalg.solve(_eye(D) + half, (_eye(D) - half) @ theta)


def test_directions_start_orthonormal_and_evenly():
    theta = _theta(4000)
    torch.testing.assert_close(theta.mT @ theta, _eye().expand(4000, K, K))
    assert theta.mean(dim=0).abs().max() < 5 / (4000 * D) ** 0.5
    torch.testing.assert_close(theta.square().mean(dim=0), torch.full((D, K), 1 / D).double(), atol=0.02, rtol=0)


def test_directions_are_those_of_the_draw():
    torch.testing.assert_close(_theta(), _theta(), rtol=0, atol=0)
    assert not torch.allclose(_theta(), stiefel.random(len(STEPS), D, K, torch.Generator().manual_seed(2)))


def test_what_is_orthonormal_already_stays_as_it_is():
    theta = _theta()
    torch.testing.assert_close(stiefel.orthonormal(theta), theta)


def check_step(cayley) -> None:
    theta, g, tau = _theta(), _gradient(), torch.tensor(STEPS).double()
    moved = cayley(theta, g, tau)
    torch.testing.assert_close(moved.mT @ moved, _eye().expand(len(STEPS), K, K))
    torch.testing.assert_close(moved, _by_definition(theta, g, tau))


def test_a_step_is_the_cayley_transform_and_stays_on_the_manifold():
    check_step(stiefel.cayley)


@pytest.mark.parametrize(
    ("right", "wrong"), [("tau / 2", "tau"), ("theta - tau", "theta + tau"), ("-gradient", "gradient")]
)
def test_another_step_is_caught(right, wrong):
    with mutated("objectives.stiefel", "cayley", right, wrong) as mutant, pytest.raises(AssertionError):
        check_step(mutant)


def test_slope_is_the_derivative_along_the_step():
    theta, g, target = _theta(), _gradient(), _gradient().flip(0)
    theta.requires_grad_()

    def value(at):
        return (at * g).sum(dim=(-1, -2)) + (at - target).square().sum(dim=(-1, -2)).sin()

    slope_of = torch.autograd.grad(value(theta).sum(), theta)[0]
    small = torch.full((len(STEPS),), 1e-6, dtype=torch.float64)
    with torch.no_grad():
        ahead, behind = (value(stiefel.cayley(theta, slope_of, step)) for step in (small, -small))
    torch.testing.assert_close((ahead - behind) / 2e-6, stiefel.slope(theta, slope_of).detach(), rtol=1e-5, atol=1e-6)


# ---- what clients make of two points, to halve a step by themselves


def check_recovered(recovered) -> None:
    theta, g, tau = _theta(), _gradient(), torch.tensor(STEPS).double()
    found = recovered(theta, stiefel.cayley(theta, g, tau), tau)
    for part in (1.0, 0.5, 0.125):
        moved = stiefel.cayley(theta, found, part * tau)
        torch.testing.assert_close(moved, _by_definition(theta, g, part * tau), atol=1e-9, rtol=0)


def test_two_points_and_the_step_between_them_give_every_other_step():
    check_recovered(stiefel.recovered)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("/ 2\n", "\n"),
        ("2 / tau", "1 / tau"),
        ("force - theta @ inside", "force"),
    ],
)
def test_another_gradient_is_caught(right, wrong):
    with mutated("objectives.stiefel", "recovered", right, wrong) as mutant, pytest.raises(AssertionError):
        check_recovered(mutant)


def test_numbers_that_have_travelled_are_good_enough():
    """32-bit points: half of a step is off by no more than a few roundings, also of a long or a tiny one."""
    theta, g, tau = _theta().float().double(), _gradient(), torch.tensor(STEPS).double()
    found = stiefel.recovered(theta, stiefel.cayley(theta, g, tau).float().double(), tau)
    half = stiefel.cayley(theta, found, tau / 2)
    assert (half - _by_definition(theta, g, tau / 2)).abs().max() < 1e-5
    assert (half.mT @ half - _eye()).abs().max() < 1e-6


def test_a_point_that_did_not_move_needs_no_gradient():
    theta = _theta()
    assert stiefel.recovered(theta, theta, torch.ones(len(STEPS)).double()).abs().max() < 1e-12
