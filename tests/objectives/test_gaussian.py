"""Diagonal Gaussians against torch's distributions, and the weakened divergence of FedDVA's code by hand."""

import pytest
import torch
from torch.distributions import Independent, Normal
from torch.distributions import kl_divergence as torchs_kl

from objectives.gaussian import kl_divergence, kl_to_mixture, sample, standard_like


def _posterior(n: int, seed: int):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(n, 3, generator=draw, dtype=torch.double), torch.randn(n, 3, generator=draw, dtype=torch.double)


def _normal(of) -> Independent:
    return Independent(Normal(of[0], of[1].exp().sqrt()), 1)


def test_the_divergence_is_torchs_and_broadcasts():
    p, q = _posterior(4, 0), _posterior(4, 1)
    torch.testing.assert_close(kl_divergence(p, q), torchs_kl(_normal(p), _normal(q)))
    torch.testing.assert_close(kl_divergence(p, standard_like(p)), torchs_kl(_normal(p), _normal(standard_like(p))))
    one = (q[0][:1], q[1][:1])
    torch.testing.assert_close(kl_divergence(p, one), torchs_kl(_normal(p), _normal(one)))


@pytest.mark.parametrize("slack", [0.0, 0.01, 2.0])
def test_what_is_added_to_a_variance_is_added_where_it_divides_and_nowhere_else(slack):
    p, q = _posterior(4, 0), _posterior(4, 1)
    v, w = p[1].exp(), q[1].exp()
    by_hand = 0.5 * (((p[0] - q[0]) ** 2 + v) / (w + slack) - 1 - (v / w).log()).sum(dim=1)
    torch.testing.assert_close(kl_divergence(p, q, slack), by_hand)


@pytest.mark.parametrize("slack", [0.0, 0.5])
def test_the_bound_of_a_mixture_is_the_mean_over_pairs(slack):
    p, members = _posterior(4, 0), _posterior(5, 1)
    pairs = [
        torch.stack([kl_divergence((p[0][i], p[1][i]), (members[0][j], members[1][j]), slack) for j in range(5)]).mean()
        for i in range(4)
    ]
    torch.testing.assert_close(kl_to_mixture(p, members, slack), torch.stack(pairs))
    if not slack:
        torch.testing.assert_close(
            kl_to_mixture(p, members), torch.stack(pairs), msg="nothing is added unless asked for"
        )


def test_draws_have_the_mean_and_the_deviation():
    mean, log_variance = torch.tensor([[1.0, -2.0]]), torch.tensor([[0.0, 2.0]])
    epsilon = torch.tensor([[0.5, -1.0]])
    torch.testing.assert_close(sample((mean, log_variance), epsilon), torch.tensor([[1.5, -2 - torch.e]]))
