"""Maps on a line, and the barycenter between them, against SciPy, NumPy and POT."""

import numpy as np
import ot
import pytest
import torch
from scipy import stats

from objectives import monotone
from tests.mutation import mutated


def _samples(n: int = 500) -> torch.Tensor:
    """(domains, directions, n): one Gaussian each, and two heaps."""
    draw = torch.Generator().manual_seed(3)
    plain = torch.randn(3, 1, n, generator=draw, dtype=torch.float64) * torch.tensor([0.5, 1.0, 3.0])[:, None, None]
    plain += torch.tensor([-2.0, 0.0, 5.0])[:, None, None]
    heaps = torch.randn(3, 1, n, generator=draw, dtype=torch.float64) + 6 * (torch.arange(n) % 3 == 0)
    return torch.cat([plain, heaps], dim=1)


def test_a_distribution_is_a_histogram_of_the_gaussians_distribution_function():
    """Of unit mass, with corners at evenly spaced places and 1e-6 more in every bin (authors' code)."""
    z, at = _samples(), np.linspace(-10, 20, 99)
    found = monotone.estimated(z, 20)
    ours = found(torch.from_numpy(at).expand(3, 2, 99)).numpy()
    for m, k in np.ndindex(3, 2):
        row = z[m, k].numpy()
        u = stats.norm.cdf((row - row.mean()) / row.std())
        counts = np.histogram(u, bins=20, range=(0, 1))[0] + 1e-6
        masses = np.concatenate([[0], np.cumsum(counts) / counts.sum()])
        np.testing.assert_allclose(found.masses[m, k].numpy(), masses, atol=1e-12)
        expected = np.interp(stats.norm.cdf((at - row.mean()) / row.std()), np.linspace(0, 1, 21), masses)
        np.testing.assert_allclose(ours[m, k], expected.clip(1e-5, 1 - 1e-5), atol=1e-7)


def check_barycenter(barycenter) -> None:
    """POT's barycenter of the samples, along each direction."""
    z = _samples()
    points = (torch.arange(500, dtype=torch.float64) + 0.5) / 500
    ours = barycenter(monotone.estimated(z, 40)).inverse(points.expand(2, 500)).numpy()
    for k in range(2):
        rows = [z[m, k].numpy() for m in range(3)]
        free = ot.lp.free_support_barycenter(
            [row[:, None] for row in rows], [ot.unif(500)] * 3, np.linspace(-8, 15, 500)[:, None], numItermax=50
        )
        apart = ot.wasserstein_1d(free[:, 0], ours[k], p=2)
        assert apart < 0.004 * free.var()


def test_the_barycenter_is_pots():
    check_barycenter(monotone.barycenter)


@pytest.mark.parametrize(
    ("right", "wrong"), [("mean(dim=0)", "median(dim=0).values"), ("+ 0.5) / points", "+ 2) / (points + 4)")]
)
def test_another_barycenter_is_caught(right, wrong):
    with mutated("objectives.monotone", "barycenter", right, wrong) as mutant, pytest.raises(AssertionError):
        check_barycenter(mutant)


def test_maps_are_increasing_invertible_and_meet():
    z = _samples()
    own = monotone.estimated(z, 40)
    centre = monotone.barycenter(own)
    inside = z.sort(dim=-1).values[..., 3:-3]  # of 100 masses, the outermost are half a hundredth from the end
    there = centre.inverse(own(inside))
    assert (there.diff(dim=-1) >= 0).all()
    assert (own.inverse(centre(there)) - inside).abs().max() < 1e-3
    assert (there.mean(dim=-1).std(dim=0) < 0.05).all(), "all domains come to the same place"


def test_the_ends_are_where_the_gaussian_has_a_hundred_thousandth_left():
    """So that both ways stay finite for whatever comes."""
    own = monotone.estimated(_samples(), 20)
    far = torch.tensor([-1e9, 1e9], dtype=torch.float64).expand(3, 2, 2)
    torch.testing.assert_close(own(far), torch.tensor([1e-5, 1 - 1e-5], dtype=torch.float64).expand(3, 2, 2))
    ends = own.inverse(torch.tensor([0.0, 1.0], dtype=torch.float64).expand(3, 2, 2))
    expected = own.mean + own.deviation * torch.from_numpy(stats.norm.ppf([1e-5, 1 - 1e-5]))
    torch.testing.assert_close(ends, expected)


def test_a_sample_far_from_all_others_is_in_the_last_bin():
    """Its place on [0, 1] is 1 to the last digit."""
    z = torch.zeros(1, 1, 400, dtype=torch.float64)
    z[..., ::2], z[..., -1] = 1.0, 1e6
    masses = monotone.estimated(z, 10).masses[0, 0]
    assert (masses[-1] - masses[-2]).item() == pytest.approx(1 / 400, rel=1e-3)


def test_samples_that_are_all_the_same_stay_finite():
    same = monotone.estimated(torch.full((2, 1, 30), 4.0, dtype=torch.float64), 10)
    centre = monotone.barycenter(same)
    there = centre.inverse(same(torch.full((2, 1, 5), 4.0, dtype=torch.float64)))
    torch.testing.assert_close(there, torch.full((2, 1, 5), 4.0, dtype=torch.float64))


def test_what_is_not_a_number_stays_so_and_moves_nobody_else():
    """Codes of an auto-encoder that has diverged: no place is on their right."""
    own = monotone.estimated(_samples(), 20)
    centre = monotone.barycenter(own)
    z = _samples()[..., :7]
    for way, given in ((own, z), (own.inverse, own(z)), (centre, z), (centre.inverse, own(z))):
        broken = given.clone()
        broken[..., 3] = torch.nan
        found = way(broken)
        assert found[..., 3].isnan().all()
        others = [0, 1, 2, 4, 5, 6]
        torch.testing.assert_close(found[..., others], way(given)[..., others], rtol=0, atol=0)


def test_what_is_said_of_a_distribution_is_all_of_it():
    """A histogram by its masses, a barycenter by its places; both with mean and deviation."""
    z = torch.randn(2, 3, 200, generator=torch.Generator().manual_seed(4), dtype=torch.float64) * 2 + 1
    own = monotone.estimated(z, 15)
    centre = monotone.barycenter(own)
    assert own.histogram().shape == (2, 3, 15 + 2)
    assert centre.quantiles().shape == (3, monotone.POINTS + 2)
    for given, again in (
        (own, monotone.Distribution.of_histogram(own.histogram())),
        (centre, monotone.Distribution.of_quantiles(centre.quantiles())),
    ):
        p = torch.linspace(0.01, 0.99, 50, dtype=torch.float64).expand(*given.mean.shape[:-1], 50)
        torch.testing.assert_close(again.inverse(p), given.inverse(p))
        torch.testing.assert_close(again(given.inverse(p)), given(given.inverse(p)))
