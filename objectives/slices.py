"""Sliced Wasserstein distances between several domains: Zhou, Azam, Brinton and Inouye 2023, Sec. 2.2 and 2.4.

Shapes: samples (domains, classes, n, d), directions theta (classes, d, K), slices (domains, classes, K, n).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


def slices(x: Tensor, theta: Tensor) -> Tensor:
    """The samples along each direction, theta_k^T x, in their own order."""
    return theta.mT.contiguous() @ x.mT  # three times as fast as (x @ theta).mT


@dataclass(frozen=True)
class Sorted:
    """Slices in ascending order, and of each rank the sample that has it; both (domains, classes, K, n)."""

    values: Tensor
    order: Tensor


def sorted_slices(x: Tensor, theta: Tensor, which: Tensor | None = None) -> Sorted:
    """(theta_k^T x_m)_[i].

    Args:
        which: the classes in x that theta (len(which), d, K) is for, all if not given.
    """
    if which is None or len(which) == x.shape[1]:
        own = slices(x, theta)
    else:  # class by class, since to pick them from x would copy it
        own = torch.stack([slices(x[:, c], one) for c, one in zip(which.tolist(), theta, strict=True)], dim=1)
    return Sorted(own.gather(-1, order := _order(own)), order)


def _order(values: Tensor) -> Tensor:
    """Along the last axis; on a CPU numpy needs a third of torch's time."""
    return (
        torch.from_numpy(np.argsort(values.detach().numpy())) if values.device.type == "cpu" else values.argsort(dim=-1)
    )


def histogram(ordered: Tensor, bins: int) -> Tensor:
    """Variable-bin-width histograms (Definition 1): the bins + 1 edges (..., bins + 1) are evenly spaced quantiles.

    Linear between samples, so that the least and the largest are edges; with n - 1 bins the edges are the n samples.
    """
    return _resampled(ordered, bins + 1)


def pseudo_samples(edges: Tensor, n: int) -> Tensor:
    """The inverse of the distribution that a histogram describes at n evenly spaced points from 0 to 1, as released;
    Sec. 2.4 has it at i/n, without 0."""
    return _resampled(edges, n)


def _resampled(values: Tensor, points: int) -> Tensor:
    """Two or more values at evenly spaced places in [0, 1], interpolated at as many points as asked for."""
    left, part = _between(values, values.shape[-1], points)
    return values[..., left] * (1 - part) + values[..., left + 1] * part


def gathered(values: Tensor, size: int) -> Tensor:
    """What values at evenly spaced points come to at `size` evenly spaced places that they were interpolated from: the
    transpose of `pseudo_samples`, whose places are edges, and of `histogram`, whose places are samples."""
    left, part = _between(values, size, values.shape[-1])
    found = values.new_zeros(*values.shape[:-1], size)
    return found.index_add_(-1, left, values * (1 - part)).index_add_(-1, left + 1, values * part)


def _between(values: Tensor, size: int, points: int) -> tuple[Tensor, Tensor]:
    """The place on the left of each point, and which part of the way to the next it is."""
    where = torch.linspace(0, 1, points, dtype=torch.float64, device=values.device) * (size - 1)
    left = where.floor().long().clamp(max=size - 2)
    return left, (where - left).to(values)


def loss(ordered: Tensor, barycenter: Tensor) -> Tensor:
    """-1 / K n sum |slice - barycenter|^2 of every domain and class (Algorithm 1; Eq. 3 with the sign of a loss).

    Args:
        ordered: (..., K, n).
        barycenter: the same, of all domains.
    """
    return -(ordered - barycenter).square().mean(dim=(-1, -2), dtype=torch.float64)


def gradient(x: Tensor, ordered: Sorted, barycenter: Tensor, which: Tensor | None = None) -> Tensor:
    """Of `loss` by theta, the barycenter constant (Remark 1): (domains, classes, d, K).

    In closed form: each sample is drawn away from the place that its rank has in the barycenter.

    Args:
        which: the classes in x that the others are of, all if not given.
    """
    directions, n = ordered.values.shape[-2:]
    apart = torch.empty_like(ordered.values).scatter_(-1, ordered.order, ordered.values - barycenter)
    if which is None or len(which) == x.shape[1]:
        pulls = apart @ x  # several times as fast as x.mT @ apart.mT
    else:
        pulls = torch.stack([apart[:, i] @ x[:, c] for i, c in enumerate(which.tolist())], dim=1)
    return pulls.mT * (-2 / (n * directions))
