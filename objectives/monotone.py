"""Wasserstein barycenters on a line, and the increasing maps to and from them (Algorithm 2).

The paper gives no number of bins; grids and clamps are those of the authors' code.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BINS, POINTS = 71, 100
LEAST_COUNT, EDGE = 1e-6, 1e-5
"""What every bin has at least; how near to 0 and 1 a distribution function comes."""


@dataclass(frozen=True)
class Distribution:
    """Increasing from the line onto [EDGE, 1 - EDGE]: a Gaussian's distribution function, corrected by a piecewise
    linear one. `places` and `masses` (..., points) are its corners on [0, 1]."""

    mean: Tensor
    deviation: Tensor
    places: Tensor
    masses: Tensor

    def __call__(self, z: Tensor) -> Tensor:
        """F(z), of z (..., n)."""
        u = torch.special.ndtr((z - self.mean) / self.deviation)
        return _interpolated(u, self.places, self.masses).clamp(EDGE, 1 - EDGE)

    def inverse(self, p: Tensor) -> Tensor:
        """F^-1(p), of p (..., n) in (0, 1)."""
        u = _interpolated(p, self.masses, self.places).clamp(EDGE, 1 - EDGE)
        return torch.special.ndtri(u) * self.deviation + self.mean


def _interpolated(x: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Piecewise linear through (places, values), both increasing along the last axis, constant beyond them."""
    places, values = (t.expand(*x.shape[:-1], -1).contiguous() for t in (places, values))
    x = x.maximum(places[..., :1]).minimum(places[..., -1:])
    right = torch.searchsorted(places, x.contiguous()).clamp(1, places.shape[-1] - 1)
    x0, x1 = places.gather(-1, right - 1), places.gather(-1, right)
    y0, y1 = values.gather(-1, right - 1), values.gather(-1, right)
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0).clamp_min(torch.finfo(x.dtype).tiny)


def estimated(z: Tensor, bins: int = BINS) -> Distribution:
    """Of samples z (..., n): a histogram with bins of equal width of the Gaussian's distribution function."""
    mean, deviation = z.mean(-1, keepdim=True), z.std(-1, keepdim=True, unbiased=False).clamp_min(1e-12)
    u = torch.special.ndtr((z - mean) / deviation)
    which = (u * bins).floor().long().clamp(0, bins - 1)
    counts = torch.zeros(*z.shape[:-1], bins, dtype=z.dtype).scatter_add_(-1, which, torch.ones_like(z)) + LEAST_COUNT
    masses = torch.cat([torch.zeros_like(mean), counts.cumsum(-1) / counts.sum(-1, keepdim=True)], dim=-1)
    places = torch.linspace(0, 1, bins + 1, dtype=z.dtype).expand_as(masses).contiguous()
    return Distribution(mean, deviation, places, masses)


def barycenter(domains: Distribution, points: int = POINTS) -> Distribution:
    """Whose inverse is the mean of the domains' inverses (their first axis), at `points` evenly spaced masses."""
    p = (torch.arange(points, dtype=domains.mean.dtype) + 0.5) / points
    curve = domains.inverse(p.expand(*domains.mean.shape[:-1], points)).mean(dim=0)
    mean, deviation = curve.mean(-1, keepdim=True), curve.std(-1, keepdim=True, unbiased=False).clamp_min(1e-12)
    u = torch.special.ndtr((curve - mean) / deviation)
    ends = torch.zeros_like(mean), torch.ones_like(mean)
    return Distribution(
        mean,
        deviation,
        torch.cat([ends[0], u, ends[1]], dim=-1),
        torch.cat([torch.zeros(1, dtype=p.dtype), p, torch.ones(1, dtype=p.dtype)])
        .expand(*mean.shape[:-1], -1)
        .contiguous(),
    )


def bins_for(samples: int) -> int:
    """The number of bins of the authors' code: the root of the number of samples of all domains."""
    return round(math.sqrt(samples))
