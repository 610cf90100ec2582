"""What our number says of the paper's: one function says so for every cell of every table.

Firm words need the published experiment and three seeds:

- *agrees*: equivalent to the printed number, by two one-sided t-tests (TOST, Schuirmann 1987), to within the metric's
  tolerance and the deviation that the paper prints;
- *disagrees*: farther off than that, by a t-test.

More noise makes either harder, and so does a seed less. Else all that can be seen is whether a trend is the paper's:
above or below the reference row, by a t-test on differences within seeds. Their spread is pooled over the table's rows,
as the mean square within groups of an analysis of variance is, since few seeds say little of it, and a single one
nothing; but only where Bartlett's test does not tell the rows' spreads apart, and it is never taken to be less than the
row's own. Rows have seeds and reference in common, so that its degrees of freedom are fewer than the rows' together.
There is no trend to see where the paper's own numbers are as close as its deviations (Welch's t-test) or, where it
prints none, the tolerance.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite, isnan, nan, sqrt

import numpy as np
import pandas as pd
from scipy import stats

from common.errors import InputError
from reporting.evidence import Evidence, Grade
from reporting.wording import ROUNDING, plural

ALPHA = 0.05
"""The level of every test."""
SEEDS = 3
"""Below which nothing is said firmly of a random number."""
BySeed = Mapping[str, float]
"""A number with each seed."""


@dataclass(frozen=True)
class Tolerance:
    """How far a number may be off: by so much, and by a share of the printed one."""

    absolute: float = 0.0
    share: float = 0.0

    def around(self, printed: float, approximate: bool) -> float:
        """In the metric's unit. Where the paper itself says "about", 5 % more."""
        return self.absolute + (self.share + (0.05 if approximate else 0.0)) * abs(printed)


TOLERANCES = {
    ("accuracy", "fraction"): Tolerance(absolute=0.01),  # one point
    ("fid", "score"): Tolerance(absolute=0.5),
    ("ssim", "score"): Tolerance(absolute=0.01),
    ("nmse", "score"): Tolerance(share=0.05),
    ("mse", "score"): Tolerance(share=0.05),
    ("iterations", "count"): Tolerance(share=0.01),  # what FedINB's claims 9 and 11 call similar
    ("parameters", "count"): Tolerance(),
    ("images", "count"): Tolerance(),
    ("classes", "count"): Tolerance(),
}
"""Of each metric and unit that a table compares."""
COUNTED = frozenset(
    {"bytes_down", "bytes_down_per_visit", "bytes_per_step", "bytes_up", "bytes_up_per_visit", "numbers_per_step"}
    | {"parameters", "images", "classes", "clients", "total_clients", "identities", "latent_dim", "xi_over_dim_c"}
    | {"communication_rounds", "local_epochs", "local_steps", "epochs_per_client", "client_fraction"}
    | {"server_real_fraction", "generator_max_abs_diff", "discriminator_max_abs_diff", "gradient_max_abs_diff"}
    | {"theta_max_abs_diff"}
)
"""Metrics with no chance in them, of which one run is as good as several: counts, settings, and identities."""
TIMED = frozenset({"train_time"})
"""Metrics that no two runs agree on. Their numbers stand in the records alone, so that equal runs leave equal files."""


class Verdict(StrEnum):
    """What comes out of a comparison."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"
    TREND_HOLDS = "trend holds"
    TREND_FAILS = "trend fails"
    WITHIN_NOISE = "within noise"
    NOT_COMPARABLE = "not comparable"
    DIVERGED = "diverged"
    NOT_MEASURED = "not measured"
    NOT_PUBLISHED = "not in the paper"
    BEST = "best"
    NEAR_BEST = "within noise of the best"


BESTS = frozenset({Verdict.BEST, Verdict.NEAR_BEST})
OF_OURS = frozenset({Verdict.NOT_PUBLISHED, *BESTS})
"""What is said of numbers that no paper prints."""
FIRM = frozenset({Verdict.AGREES, Verdict.DISAGREES})


@dataclass(frozen=True)
class Printed:
    """A number as the paper prints it.

    Attributes:
        std, runs: the deviation that it prints, over so many runs; 0 where it does not.
        approximate: the paper itself says "about".
    """

    value: float
    metric: str = "accuracy"
    unit: str = "fraction"
    std: float = 0.0
    runs: int = 0
    approximate: bool = False

    @property
    def tolerance(self) -> float:
        """How far ours may be off, whatever the deviation that the paper prints.

        Raises:
            InputError: nobody has said how far this metric may be off in this unit.
        """
        if (self.metric, self.unit) not in TOLERANCES:
            raise InputError(
                f"{self.metric} in the unit '{self.unit}': cannot be compared with the paper's, since it has no "
                "tolerance; add one to TOLERANCES in reporting/verdict.py"
            )
        return TOLERANCES[self.metric, self.unit].around(self.value, self.approximate)


@dataclass(frozen=True)
class Spread:
    """A standard deviation, pooled, and its degrees of freedom; 0 if nothing has two seeds."""

    std: float = 0.0
    freedom: float = 0.0

    @classmethod
    def pooled(cls, groups: Iterable[BySeed]) -> "Spread":
        """Within groups: the root of the mean square.

        Groups of the same seeds go up and down together. Their sum of squares has the degrees of freedom of Box (1954)
        and Greenhouse and Geisser (1959), (tr S)^2 / tr S^2 times those of one group, where S is the covariance of the
        groups: as many as one group has if all are alike, and with three seeds at most twice as many, since so few
        hardly tell what is independent from what is not. Were each to add its own, a one-sided test at 5 % of 24 rows
        that correlate by 0.95 would find something in 10 % of cases where nothing is.
        """
        several = [group for group in groups if len(group) > 1]
        if not several:
            return cls()
        values = pd.DataFrame(several)
        residuals = values.sub(values.mean(axis=1), axis=0).fillna(0.0).to_numpy()
        degrees = values.count(axis=1).to_numpy() - 1.0
        size = np.abs(residuals).max()
        if size <= _rounding(values.to_numpy()[values.notna()]):  # a mean of equal values may be rounded
            return cls(0.0, float(degrees.min()))
        products = (residuals / size) @ (residuals / size).T  # scaled, so that fourth powers stay within range
        freedom = np.trace(products) ** 2 / (products**2 / np.sqrt(np.outer(degrees, degrees))).sum()
        return cls(float(size * np.sqrt(np.trace(products) / degrees.sum())), float(freedom))

    @classmethod
    def shared(cls, groups: Collection[BySeed]) -> "Spread":
        """Pooled where the groups may have one spread; of none where Bartlett's test (1937) says that they have not.

        A run that diverged is left out, and a group of equal values where others vary: it says nothing of their spread.
        Brown and Forsythe's test, which normality matters less to, tells groups of three apart hardly ever.
        """
        finite = [{seed: value for seed, value in group.items() if isfinite(value)} for group in groups]
        several = [(group, [*group.values()]) for group in finite if len(group) > 1]
        wide = [(group, values) for group, values in several if np.std(values) > _rounding(values)]
        apart = len(wide) > 1 and stats.bartlett(*(values for _, values in wide)).pvalue < ALPHA
        return cls() if apart else cls.pooled(group for group, _ in wide or several)


def _rounding(values: Collection[float]) -> float:
    """How far apart computing leaves what is equal: by a share of the largest, or of 1, as of differences of numbers of
    that size, which may themselves be zero."""
    return ROUNDING * max(1.0, float(np.abs(np.asarray([*values])).max()))


def is_counted(ours: Evidence) -> bool:
    """Whether a number has no chance in it: what is counted, as long as all seeds come to the same.

    What a line search sends, say, is counted and differs, which one seed alone does not show.
    """
    values = [*ours.values.values()]
    return ours.metric in COUNTED and max(values) - min(values) <= ROUNDING * abs(values[0])


@dataclass(frozen=True)
class Judgement:
    """A verdict, and the reason for it in words."""

    verdict: Verdict
    why: str = ""


def above_zero(differences: Collection[float], spread: Spread = Spread()) -> float:
    """The p-value against a mean that is not above zero, by a one-sided t-test; NaN where no spread is known, or of one
    difference none but zero.

    Args:
        differences: within seeds.
        spread: shared with what is alike. The differences' own is taken where it is larger, with its own degrees: a
            row that is noisier than others may be so without Bartlett's test, see `Spread.shared`, noticing.
    """
    if max(spread.freedom, len(differences) - 1) == 0:
        return nan
    values = np.asarray([*differences])
    mean, own = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0
    std, freedom = (own, len(values) - 1) if own > spread.std else (spread.std, spread.freedom)
    error = std / sqrt(len(values))
    if abs(mean) < ROUNDING and error < ROUNDING:  # what computing leaves of a tie
        mean, error = 0.0, 0.0
    if error == 0:  # a single difference, and nothing that varies where others are alike, tells nothing
        return nan if len(values) == 1 else 0.5 if mean == 0 else float(mean < 0)
    return float(stats.t.sf(mean / error, freedom))


def wider(one: Evidence, other: Evidence) -> float:
    """The p-value against a deviation over seeds that is not above another one, by a one-sided F-test.

    It takes seeds to be normal, as the t-tests do. Brown and Forsythe's test does not, but with three seeds its p-value
    is above 0.11 whatever the deviations. That both have the same seeds makes this one no less strict: a correlation
    leaves less chance in the ratio (Pitman 1939).
    """
    own, theirs = (0.0 if found.std < ROUNDING * abs(found.mean) else found.std for found in (one, other))
    if theirs == 0:
        return 0.5 if own == 0 else 0.0
    return float(stats.f.sf((own / theirs) ** 2, one.seeds - 1, other.seeds - 1))


def within_seeds(ours: Evidence, other: Evidence) -> dict[str, float]:
    """The differences of two numbers, of the seeds that both have."""
    return {seed: value - other.values[seed] for seed, value in ours.values.items() if seed in other.values}


def verdict(
    ours: Evidence | None,
    paper: Printed | None,
    reference: tuple[Evidence, Printed] | None = None,
    spread: Spread = Spread(),
) -> Judgement:
    """Compare one cell.

    Args:
        ours: our number, None if there is none.
        paper: the printed number, None if the paper has none.
        reference: our and the printed number that a trend is read from, of the same scale: the column's baseline.
        spread: of differences from the reference, within seeds, over the table's rows.

    Raises:
        InputError: the metric has no tolerance in its unit.
    """
    if ours is None:
        return Judgement(Verdict.NOT_MEASURED)
    if paper is None:
        return Judgement(Verdict.NOT_PUBLISHED)
    if not isfinite(ours.mean):
        return Judgement(Verdict.DIVERGED)
    firm = _firm(ours, paper)
    return firm if firm.verdict in FIRM else _trend(ours, paper, reference, spread, firm)


def _firm(ours: Evidence, paper: Printed) -> Judgement:
    """Agrees or disagrees, or why neither can be said."""
    margin, values = paper.tolerance + paper.std, ours.values.values()
    if ours.grade is not Grade.AS_PUBLISHED:
        return Judgement(Verdict.NOT_COMPARABLE, ours.grade)
    if is_counted(ours):
        near = abs(ours.mean - paper.value) <= margin + ROUNDING
        return Judgement(Verdict.AGREES if near else Verdict.DISAGREES, "counted, no test")
    if ours.seeds < SEEDS:
        return Judgement(Verdict.UNDECIDED, f"{plural(ours.seeds, 'seed')}, of which {SEEDS} are needed")
    bound = margin + 2 * ROUNDING  # what lies on the margin is within it, and no tie
    equivalent = max(above_zero([bound + sign * (value - paper.value) for value in values]) for sign in (1, -1))
    apart = 2 * min(above_zero([sign * (value - paper.value) - bound for value in values]) for sign in (1, -1))
    if equivalent < ALPHA:
        return Judgement(Verdict.AGREES, f"within {margin:.3g}: TOST, p = {equivalent:.2g}")
    if apart < ALPHA:
        return Judgement(Verdict.DISAGREES, f"beyond {margin:.3g}: t-test, p = {apart:.2g}")
    why = f"within {margin:.3g}: TOST, p = {equivalent:.2g}; beyond it: t-test, p = {min(apart, 1):.2g}"
    return Judgement(Verdict.UNDECIDED, why)


def _trend(
    ours: Evidence, paper: Printed, reference: tuple[Evidence, Printed] | None, spread: Spread, firm: Judgement
) -> Judgement:
    """Whether ours is on the paper's side of the reference; without one, what could be said without it."""
    if reference is None or not isfinite(reference[0].mean):
        return _without_trend(firm, f"{firm.why}, and no row to see a trend from")
    theirs = paper.value - reference[1].value
    if not _apart(paper, reference[1]):
        return _without_trend(firm, "the paper's own numbers are too close for a trend")
    differences = within_seeds(ours, reference[0]).values()
    if not differences:
        return _without_trend(firm, "no seed that the reference row has, too")
    if is_counted(ours) and is_counted(reference[0]):
        ahead = float(np.mean([*differences]))
        if abs(ahead) <= ROUNDING * abs(ours.mean):
            return Judgement(Verdict.WITHIN_NOISE, "a tie, counted")
        same = (ahead > 0) == (theirs > 0)
        return Judgement(Verdict.TREND_HOLDS if same else Verdict.TREND_FAILS, "counted, no test")
    above = above_zero(differences, spread)
    if isnan(above):
        return Judgement(
            Verdict.WITHIN_NOISE, "one seed, and no row with several that vary: nothing is known of the noise"
        )
    p = 2 * min(above, 1 - above)
    if p >= ALPHA:
        return Judgement(Verdict.WITHIN_NOISE, f"{plural(len(differences), 'seed')}, t-test within seeds, p = {p:.2g}")
    same = (above < 0.5) == (theirs > 0)
    holds = Verdict.TREND_HOLDS if same else Verdict.TREND_FAILS
    return Judgement(holds, f"{plural(len(differences), 'seed')}, t-test within seeds, p = {p:.2g}")


def _without_trend(firm: Judgement, why: str) -> Judgement:
    """Where there is none to see: undecided as published stays so, and else nothing can be compared."""
    return firm if firm.verdict is Verdict.UNDECIDED else Judgement(Verdict.NOT_COMPARABLE, why)


def _apart(paper: Printed, reference: Printed) -> bool:
    """Whether two printed numbers differ: by Welch's t-test where both have a deviation, else by the tolerance."""
    if paper.std and reference.std and min(paper.runs, reference.runs) > 1:
        one, other = ((x.value, x.std, x.runs) for x in (paper, reference))
        return bool(stats.ttest_ind_from_stats(*one, *other, equal_var=False).pvalue < ALPHA)
    return abs(paper.value - reference.value) > paper.tolerance + ROUNDING
