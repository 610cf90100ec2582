"""Wasserstein barycenters on a line, and the increasing maps to and from them (Algorithm 2).

The paper gives no number of bins; grids and clamps are those of the authors' code.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

POINTS = 100
"""Of the barycenter's inverse distribution function."""
LEAST_COUNT, EDGE = 1e-6, 1e-5
"""What every bin has at least; how near to 0 and 1 a distribution function comes."""


@dataclass(frozen=True)
class Distribution:
    """Increasing from the line onto [EDGE, 1 - EDGE]: a Gaussian's distribution function, corrected by a piecewise
    linear one. `places` and `masses` (..., points) are its corners on [0, 1]; `mean`, `deviation` (..., 1)."""

    mean: Tensor
    deviation: Tensor
    places: Tensor
    masses: Tensor

    @staticmethod
    def of_histogram(numbers: Tensor) -> Distribution:
        """With corners at evenly spaced places: what `histogram` returned, (..., bins + 2)."""
        masses, mean, deviation = numbers.double().split([numbers.shape[-1] - 2, 1, 1], dim=-1)
        return _with_bins(mean, deviation, torch.cat([torch.zeros_like(mean), masses], dim=-1))

    def histogram(self) -> Tensor:
        """The masses until the end of each bin, mean and deviation: all that there is to say if bins are equal."""
        return torch.cat([self.masses[..., 1:], self.mean, self.deviation], dim=-1)

    @staticmethod
    def of_quantiles(numbers: Tensor) -> Distribution:
        """With corners at evenly spaced masses: what `quantiles` returned, (..., points + 2)."""
        places, mean, deviation = numbers.double().split([numbers.shape[-1] - 2, 1, 1], dim=-1)
        return _with_masses(mean, deviation, places)

    def quantiles(self) -> Tensor:
        """The places of the middles of equal masses, mean and deviation: all that there is to say then."""
        return torch.cat([self.places[..., 1:-1], self.mean, self.deviation], dim=-1)

    def __call__(self, z: Tensor) -> Tensor:
        """F(z), of z (..., n)."""
        u = torch.special.ndtr((z - self.mean) / self.deviation)
        return _interpolated(u, self.places, self.masses).clamp(EDGE, 1 - EDGE)

    def inverse(self, p: Tensor) -> Tensor:
        """F^-1(p), of p (..., n) in (0, 1)."""
        u = _interpolated(p, self.masses, self.places).clamp(EDGE, 1 - EDGE)
        return torch.special.ndtri(u) * self.deviation + self.mean


def _with_bins(mean: Tensor, deviation: Tensor, masses: Tensor) -> Distribution:
    return Distribution(mean, deviation, torch.linspace(0, 1, masses.shape[-1]).to(masses), masses)


def _with_masses(mean: Tensor, deviation: Tensor, places: Tensor) -> Distribution:
    """0 and 1 are places, and have the masses 0 and 1."""
    nothing, everything = torch.zeros_like(mean), torch.ones_like(mean)
    masses = (torch.arange(places.shape[-1]).to(places) + 0.5) / places.shape[-1]
    return Distribution(
        mean,
        deviation,
        torch.cat([nothing, places, everything], dim=-1),
        torch.cat([masses.new_zeros(1), masses, masses.new_ones(1)]),
    )


def _interpolated(x: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Piecewise linear through (places, values), both increasing along the last axis, constant beyond them."""
    places, values = (t.expand(*x.shape[:-1], -1).contiguous() for t in (places, values))
    x = x.maximum(places[..., :1]).minimum(places[..., -1:]).contiguous()
    right = torch.searchsorted(places, x).clamp(1, places.shape[-1] - 1)
    x0, x1 = places.gather(-1, right - 1), places.gather(-1, right)
    y0, y1 = values.gather(-1, right - 1), values.gather(-1, right)
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0).clamp_min(torch.finfo(x.dtype).tiny)


def _standardised(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mean, deviation = z.mean(-1, keepdim=True), z.std(-1, keepdim=True, unbiased=False).clamp_min(1e-12)
    return mean, deviation, torch.special.ndtr((z - mean) / deviation)


def estimated(z: Tensor, bins: int) -> Distribution:
    """Of samples z (..., n): a histogram with bins of equal width of the Gaussian's distribution function."""
    mean, deviation, u = _standardised(z)
    which = (u * bins).floor().long().clamp(0, bins - 1)
    counts = z.new_zeros(*z.shape[:-1], bins).scatter_add_(-1, which, torch.ones_like(z)) + LEAST_COUNT
    masses = torch.cat([torch.zeros_like(mean), counts.cumsum(-1) / counts.sum(-1, keepdim=True)], dim=-1)
    return _with_bins(mean, deviation, masses)


def barycenter(domains: Distribution, points: int = POINTS) -> Distribution:
    """Whose inverse is the mean of the domains' inverses (their first axis), at `points` evenly spaced masses."""
    p = (torch.arange(points).to(domains.mean) + 0.5) / points
    curve = domains.inverse(p.expand(*domains.mean.shape[:-1], points)).mean(dim=0)
    mean, deviation, u = _standardised(curve)
    return _with_masses(mean, deviation, u)
