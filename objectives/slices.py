"""Sliced Wasserstein distances between several domains: Zhou, Gong, Lohit, Kulkarni and Inouye 2023, Sec. 2.2 and 2.4.

Shapes: samples (domains, classes, n, d), directions theta (classes, d, K), slices (domains, classes, K, n).
"""

import torch
from torch import Tensor


def slices(x: Tensor, theta: Tensor) -> Tensor:
    """The samples along each direction, theta_k^T x, in their own order."""
    return (x @ theta).transpose(-1, -2)


def histogram(ordered: Tensor, bins: int) -> Tensor:
    """Variable-bin-width histograms (Definition 1): the bins + 1 edges (..., bins + 1) are evenly spaced quantiles.

    Linear between samples, so that the least and the largest are edges; with n - 1 bins the edges are the n samples.
    """
    return _at(ordered, torch.linspace(0, 1, bins + 1, dtype=ordered.dtype, device=ordered.device))


def pseudo_samples(edges: Tensor, n: int) -> Tensor:
    """The inverse of the distribution that a histogram describes at n evenly spaced points from 0 to 1 (Sec. 2.4)."""
    return _at(edges, torch.linspace(0, 1, n, dtype=edges.dtype, device=edges.device))


def _at(values: Tensor, points: Tensor) -> Tensor:
    """Values at evenly spaced places in [0, 1], interpolated at these points."""
    where = points * (values.shape[-1] - 1)
    left = (
        where.floor().long().clamp(max=values.shape[-1] - 2) if values.shape[-1] > 1 else torch.zeros_like(where).long()
    )
    right = (left + 1).clamp(max=values.shape[-1] - 1)
    part = where - left
    return values[..., left] * (1 - part) + values[..., right] * part


def loss(ordered: Tensor, barycenter: Tensor) -> Tensor:
    """-1 / K n sum |slice - barycenter|^2 of every domain and class (Algorithm 1; Eq. 3 with the sign of a loss).

    Args:
        ordered: (..., K, n).
        barycenter: the same, of all domains.
    """
    return -(ordered - barycenter).square().mean(dim=(-1, -2))


def gradient(x: Tensor, theta: Tensor, barycenter: Tensor) -> Tensor:
    """Of `loss` by theta, the barycenter constant (Remark 1): (domains, classes, d, K).

    In closed form: each sample is drawn away from the place that its rank has in the barycenter.
    """
    own = slices(x, theta)
    ranks = own.argsort(dim=-1).argsort(dim=-1)
    apart = own - torch.gather(barycenter.expand_as(own), -1, ranks)
    return -2 * x.transpose(-1, -2) @ apart.transpose(-1, -2) / (own.shape[-1] * own.shape[-2])
