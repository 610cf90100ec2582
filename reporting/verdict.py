"""Does our number agree with the paper's? One function says so for every cell of every table."""

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite, sqrt

from scipy.special import stdtrit

TOLERANCE = {"fraction": 0.01, "score": 0.5, "count": 0.0}
"""How far a number may be off, beyond our own uncertainty: one point of accuracy, half a point of FID, no image."""
TIE = 0.0005
"""Differences below half of the last printed digit have no direction."""


class Verdict(StrEnum):
    """What comes out of a comparison."""

    AGREES = "agrees"
    TREND = "trend only"
    DISAGREES = "disagrees"
    NOT_COMPARABLE = "not comparable"
    DIVERGED = "diverged"
    NOT_MEASURED = "not measured"
    NOT_PUBLISHED = "not in the paper"


@dataclass(frozen=True)
class Ours:
    """A number of ours: its mean and standard deviation over seeds, and how many seeds.

    Attributes:
        comparable: measured on the data that the paper names and in its way, not on a stand-in.
        measured_as: the full name of a metric that can be measured in several ways.
    """

    mean: float
    std: float
    seeds: int
    comparable: bool = True
    diverged: bool = False
    measured_as: str = ""

    @property
    def half_width(self) -> float:
        """Half of the 95 % t-interval of the mean; 0 under three seeds, which say nothing about spread."""
        return float(stdtrit(self.seeds - 1, 0.975)) * self.std / sqrt(self.seeds) if self.seeds >= 3 else 0.0


def _direction(difference: float) -> int:
    return 0 if abs(difference) < TIE else 1 if difference > 0 else -1


def verdict(
    ours: Ours | None,
    paper: float | None,
    unit: str = "fraction",
    reference: tuple[Ours | None, float | None] = (None, None),
    approximate: bool = False,
    tolerance: float | None = None,
) -> Verdict:
    """Compare one cell.

    Args:
        ours: our number, None if there is none.
        paper: the printed number, None if the paper has none.
        reference: our and the printed number of the cell that a trend is measured from: the same column's baseline.
        approximate: the paper itself says "about"; 5 % off is then no disagreement.
        tolerance: how far it may be off, as a share of the printed number, in the place of the unit's tolerance.

    Returns:
        agrees: within the tolerance plus our 95 % half-width, on the paper's data.
        trend only: not that, but above, below or level with the reference as in the paper.
        disagrees: neither. not comparable: on stand-in data, and there is no reference to see a trend from.
    """
    if ours is None:
        return Verdict.NOT_MEASURED
    if paper is None:
        return Verdict.NOT_PUBLISHED
    if ours.diverged or not isfinite(ours.mean):
        return Verdict.DIVERGED
    slack = TOLERANCE.get(unit, 0.0) if tolerance is None else tolerance * abs(paper)
    slack += 0.05 * abs(paper) if approximate else 0.0
    if ours.comparable and abs(ours.mean - paper) <= slack + ours.half_width + 1e-9:
        return Verdict.AGREES
    our_reference, paper_reference = reference
    if our_reference is None or paper_reference is None or not isfinite(our_reference.mean):
        return Verdict.DISAGREES if ours.comparable else Verdict.NOT_COMPARABLE
    same = _direction(ours.mean - our_reference.mean) == _direction(paper - paper_reference)
    return Verdict.TREND if same else Verdict.DISAGREES
