"""Diagonal Gaussians against torch's distributions, and the weakened divergence of FedDVA's code by hand."""

import math

import pytest
import torch
from torch.distributions import Independent, Normal
from torch.distributions import kl_divergence as torchs_kl

from objectives.gaussian import kl_divergence, kl_to_mixture, sample, standard_like
from tests.mutation import mutated


def _posterior(n: int, seed: int):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(n, 3, generator=draw, dtype=torch.double), torch.randn(n, 3, generator=draw, dtype=torch.double)


def _normal(of) -> Independent:
    return Independent(Normal(of[0], of[1].exp().sqrt()), 1)


def test_the_divergence_is_torchs_and_broadcasts():
    p, q = _posterior(4, 0), _posterior(4, 1)
    torch.testing.assert_close(kl_divergence(p, q), torchs_kl(_normal(p), _normal(q)))
    torch.testing.assert_close(kl_divergence(p, standard_like(p)), torchs_kl(_normal(p), _normal(standard_like(p))))
    assert (kl_divergence(p, p).abs() < 1e-12).all()
    one = (q[0][:1], q[1][:1])
    torch.testing.assert_close(kl_divergence(p, one), torchs_kl(_normal(p), _normal(one)))


@pytest.mark.parametrize("slack", [0.0, 0.01, 2.0])
def test_what_is_added_to_a_variance_is_added_where_it_divides_and_nowhere_else(slack):
    p, q = _posterior(4, 0), _posterior(4, 1)
    v, w = p[1].exp(), q[1].exp()
    by_hand = 0.5 * (((p[0] - q[0]) ** 2 + v) / (w + slack) - 1 - (v / w).log()).sum(dim=1)
    torch.testing.assert_close(kl_divergence(p, q, slack), by_hand)


def check_the_bound(bound) -> None:
    """FedDVA's Eq. 25 and 26: the mean over pairs, and no smaller than the divergence from the mixture, by sampling."""
    p, members = _posterior(6, 0), _posterior(5, 1)
    for slack in (0.0, 0.5):
        pairs = [[kl_divergence(_row(p, i), _row(members, j), slack) for j in range(5)] for i in range(6)]
        torch.testing.assert_close(bound(p, members, slack), torch.tensor(pairs, dtype=torch.double).mean(dim=1))
    torch.testing.assert_close(bound(p, members), bound(p, members, 0.0), msg="nothing is added unless asked for")
    torch.manual_seed(0)
    drawn = _normal(p).sample((4000,))
    mixture = _normal(members).log_prob(drawn[:, :, None]).logsumexp(dim=2) - math.log(5)
    estimate = (_normal(p).log_prob(drawn) - mixture).mean(dim=0)
    assert (bound(p, members) > estimate).all()
    assert (estimate > 0).all()


def _row(of, n: int):
    return of[0][n], of[1][n]


def test_the_bound_on_the_mixture():
    check_the_bound(kl_to_mixture)


def test_of_one_posterior_the_mixture_is_itself():
    p = _posterior(1, 0)
    assert float(kl_to_mixture(p, p)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("others[None]", "mean[:, None]"),
        (".mean(dim=1)", ".sum(dim=1)"),
        ("other_log_variances[None]", "log_variance[:, None]"),
    ],
)
def test_a_wrong_bound_is_caught(right, wrong):
    with mutated("objectives.gaussian", "kl_to_mixture", right, wrong) as mutant, pytest.raises(AssertionError):
        check_the_bound(mutant)


def test_draws_have_the_mean_and_the_deviation():
    mean, log_variance = torch.tensor([[1.0, -2.0]]), torch.tensor([[0.0, 2.0]])
    epsilon = torch.tensor([[0.5, -1.0]])
    torch.testing.assert_close(sample((mean, log_variance), epsilon), torch.tensor([[1.5, -2 - torch.e]]))
