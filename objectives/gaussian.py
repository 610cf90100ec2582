"""Diagonal Gaussians: what encoders of variational auto-encoders return, and how far they are from each other."""

import torch
from torch import Tensor

Posterior = tuple[Tensor, Tensor]
"""Mean and logarithm of the variance, (batch, latent) each."""


def sample(of: Posterior, epsilon: Tensor) -> Tensor:
    """The reparameterisation trick."""
    mean, log_variance = of
    return mean + (log_variance / 2).exp() * epsilon


def standard_like(of: Posterior) -> Posterior:
    """N(0, I)."""
    return torch.zeros_like(of[0]), torch.zeros_like(of[1])


def kl_divergence(p: Posterior, q: Posterior, slack: float = 0.0) -> Tensor:
    """D_KL(p || q), summed over the last dimension (FedDVA, Eq. 24); the others are broadcast.

    Args:
        slack: added to the variance of q where it divides, as FedDVA's code does; the result is then no divergence.
    """
    (mean, log_variance), (other, other_log_variance) = p, q
    precision = 1 / (other_log_variance.exp() + slack)
    distance = (mean - other).square() * precision + log_variance.exp() * precision
    return 0.5 * (distance - 1 - (log_variance - other_log_variance)).sum(dim=-1)


def kl_to_mixture(p: Posterior, members: Posterior, slack: float = 0.0) -> Tensor:
    """An upper bound of D_KL(p_i || mean_j members_j) by Jensen: the mean of the pairwise divergences (FedDVA, Eq. 26).

    Returns:
        One number for each p_i.
    """
    (mean, log_variance), (others, other_log_variances) = p, members
    pairs = (mean[:, None], log_variance[:, None]), (others[None], other_log_variances[None])
    return kl_divergence(*pairs, slack).mean(dim=1)
