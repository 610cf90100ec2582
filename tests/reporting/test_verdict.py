"""Verdicts: each by an example, and the properties that they must have whatever the numbers are."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from common.errors import InputError
from reporting.evidence import Evidence
from reporting.verdict import FIRM, TOLERANCES, Printed, Spread, Verdict, above_zero, verdict

REDUCED = {"differs": ("training.rounds",)}
TRENDS = {Verdict.TREND_HOLDS: Verdict.TREND_FAILS, Verdict.TREND_FAILS: Verdict.TREND_HOLDS}


def _ours(*values: float, **more) -> Evidence:
    return Evidence(_by_seed(values), **more)


def _by_seed(values: Iterable[float]) -> dict[str, float]:
    return {str(seed): value for seed, value in enumerate(values)}


def _spread(mean: float, std: float, seeds: int, **more) -> Evidence:
    """Numbers with this mean and standard deviation."""
    pattern = np.linspace(-1, 1, seeds) if seeds > 1 else np.zeros(1)
    return _ours(*(mean + std * pattern / (pattern.std(ddof=1) if seeds > 1 else 1)), **more)


def _with_reference(ours: Evidence, other: Evidence, paper: float, theirs: float, spread=Spread()) -> Verdict:  # noqa: B008
    return verdict(ours, Printed(paper), (other, Printed(theirs)), spread).verdict


CASES = {
    "nothing measured": (None, Printed(0.9), Verdict.NOT_MEASURED),
    "nothing published": (_ours(0.9), None, Verdict.NOT_PUBLISHED),
    "nothing at all": (None, None, Verdict.NOT_MEASURED),
    "the same, three times": (_ours(0.9, 0.9, 0.9), Printed(0.9), Verdict.AGREES),
    "nearly the same": (_ours(0.901, 0.899, 0.902), Printed(0.9), Verdict.AGREES),
    "far off": (_ours(0.801, 0.799, 0.802), Printed(0.9), Verdict.DISAGREES),
    "nobody knows": (_ours(0.93, 0.88, 0.90), Printed(0.9), Verdict.UNDECIDED),
    "the same, with two seeds": (_ours(0.9, 0.9), Printed(0.9), Verdict.UNDECIDED),
    "far off, with two seeds": (_ours(0.1, 0.1), Printed(0.9), Verdict.UNDECIDED),
    "the same with fewer rounds": (_ours(0.9, 0.9, 0.9, **REDUCED), Printed(0.9), Verdict.NOT_COMPARABLE),
    "the same on a stand-in": (_ours(0.9, 0.9, 0.9, stand_in=True), Printed(0.9), Verdict.NOT_COMPARABLE),
    "diverged": (_ours(0.9, float("nan")), Printed(0.9), Verdict.DIVERGED),
    "overflowed": (_ours(0.9, 0.9, float("inf")), Printed(0.9), Verdict.DIVERGED),
    "overflowed below": (_ours(0.9, 0.9, float("-inf")), Printed(0.9), Verdict.DIVERGED),
    "one image off": (_ours(7290, metric="images"), Printed(7291, "images", "count"), Verdict.DISAGREES),
    "as many images": (_ours(7291, metric="images"), Printed(7291, "images", "count"), Verdict.AGREES),
    "about as many": (_ours(9298, metric="images"), Printed(9500, "images", "count", approximate=True), Verdict.AGREES),
    "as many numbers as chance has": (
        _ours(7290, 7310, 7285, metric="parameters"),
        Printed(7291, "parameters", "count"),
        Verdict.UNDECIDED,
    ),
    "SSIM of noise and of a copy": (_ours(0.5, 0.5, 0.5), Printed(0.0196, "ssim", "score"), Verdict.DISAGREES),
    "on the margin": (_ours(0.81, 0.81, 0.81), Printed(0.80), Verdict.AGREES),  # by 1e-17 beyond it as computed
    "on the margin, and within as computed": (_ours(0.41, 0.41, 0.41), Printed(0.40), Verdict.AGREES),
    "on the margin below": (_ours(0.79, 0.79, 0.79), Printed(0.80), Verdict.AGREES),
    "a printed deviation": (_ours(0.89, 0.90, 0.91, 0.90), Printed(0.93, std=0.04, runs=4), Verdict.AGREES),
    "the same without it": (_ours(0.89, 0.90, 0.91, 0.90), Printed(0.93), Verdict.DISAGREES),
}


@pytest.mark.parametrize("case", CASES)
def test_without_a_reference(case):
    ours, paper, expected = CASES[case]
    assert verdict(ours, paper).verdict == expected


@pytest.mark.parametrize(
    ("metric", "unit", "printed", "within", "beyond"),
    [
        ("accuracy", "fraction", 0.8, 0.0099, 0.0101),
        ("fid", "score", 20.0, 0.499, 0.501),
        ("ssim", "score", 0.5, 0.0099, 0.0101),
        ("nmse", "score", 0.4, 0.0199, 0.0201),
        ("mse", "score", 3.0, 0.149, 0.151),
        ("iterations", "count", 700.0, 6.9, 7.1),
        ("parameters", "count", 700.0, 0.0, 1.0),
        ("images", "count", 700.0, 0.0, 1.0),
        ("classes", "count", 7.0, 0.0, 1.0),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_may_be_off_as_far_as_the_page_says(metric, unit, printed, within, beyond, sign):
    for about, more in ((False, 0.0), (True, 0.05 * printed)):
        paper = Printed(printed, metric, unit, approximate=about)
        near, far = (_ours(*[printed + sign * (off + more)] * 3, metric=metric) for off in (within, beyond))
        assert verdict(near, paper).verdict == Verdict.AGREES
        assert verdict(far, paper).verdict == Verdict.DISAGREES


TREND_CASES = {
    "as in the paper": (_ours(0.8, 0.81, **REDUCED), _ours(0.7, 0.711, **REDUCED), 0.9, 0.8, Verdict.TREND_HOLDS),
    "the other way": (_ours(0.7, 0.711, **REDUCED), _ours(0.8, 0.81, **REDUCED), 0.9, 0.8, Verdict.TREND_FAILS),
    "on a stand-in": (_ours(0.8, 0.81, stand_in=True), _ours(0.7, 0.711), 0.9, 0.8, Verdict.TREND_HOLDS),
    "noise": (_ours(0.8, 0.7, **REDUCED), _ours(0.7, 0.75, **REDUCED), 0.9, 0.8, Verdict.WITHIN_NOISE),
    "one seed": (_ours(0.8, **REDUCED), _ours(0.1, **REDUCED), 0.9, 0.8, Verdict.WITHIN_NOISE),
    "the paper's tie": (_ours(0.8, 0.81, **REDUCED), _ours(0.7, 0.711, **REDUCED), 0.9, 0.9, Verdict.NOT_COMPARABLE),
    "the paper's tie, as published": (_ours(0.93, 0.88, 0.90), _ours(0.7, 0.8, 0.9), 0.9, 0.9, Verdict.UNDECIDED),
    "the paper's tie, two seeds": (_ours(0.8, 0.81), _ours(0.7, 0.711), 0.9, 0.9, Verdict.UNDECIDED),
    "a reference of another seed": (_ours(0.8, 0.81), Evidence({"7": 0.7}), 0.9, 0.8, Verdict.UNDECIDED),
    "a reference that diverged": (_ours(0.8, 0.8, **REDUCED), _ours(float("nan")), 0.9, 0.8, Verdict.NOT_COMPARABLE),
    "a reference that overflowed": (_ours(0.8, 0.8, **REDUCED), _ours(float("inf")), 0.9, 0.8, Verdict.NOT_COMPARABLE),
    "as published, and far off": (_ours(0.8, 0.8, 0.8), _ours(0.7, 0.7, 0.7), 0.9, 0.8, Verdict.DISAGREES),
    "as published, two seeds": (_ours(0.8, 0.81), _ours(0.7, 0.711), 0.9, 0.8, Verdict.TREND_HOLDS),
}


@pytest.mark.parametrize("case", TREND_CASES)
def test_with_a_reference(case):
    *given, expected = TREND_CASES[case]
    assert _with_reference(*given) == expected


@pytest.mark.parametrize(
    ("lead", "deviations", "runs", "trend"),
    [
        (0.1, (0.1, 0.1), (4, 4), False),
        (0.005, (0.001, 0.001), (3, 3), True),  # though below the tolerance
        (0.05, (0.02, 0.06), (3, 12), True),  # and not if both had one deviation
        (0.06, (0.06, 0.02), (3, 12), False),  # and told apart if they had
    ],
)
def test_printed_deviations_decide_whether_there_is_a_trend(lead, deviations, runs, trend):
    one, other = ([*_spread(*of).values.values()] for of in zip((0.8 + lead, 0.8), deviations, runs, strict=True))
    assert (stats.ttest_ind(one, other, equal_var=False).pvalue < 0.05) == trend
    assert _has_trend(lead, deviations, runs) is trend


@pytest.mark.parametrize(
    ("deviations", "runs"),
    [((0.1, 0.0), (4, 4)), ((0.0, 0.1), (4, 4)), ((0.1, 0.1), (1, 4)), ((0.1, 0.1), (4, 1)), ((0.1, 0.1), (0, 0))],
)
def test_a_deviation_on_one_side_or_of_one_run_leaves_a_trend_to_the_tolerance(deviations, runs):
    assert _has_trend(0.011, deviations, runs)
    assert not _has_trend(0.009, deviations, runs)


def _has_trend(lead: float, deviations: tuple[float, float], runs: tuple[int, int]) -> bool:
    """Whether ours, far above the reference, is seen to have the paper's trend, whose numbers are so much apart."""
    values = zip((0.8 + lead, 0.8), deviations, runs, strict=True)
    paper, theirs = (Printed(value, std=std, runs=n) for value, std, n in values)
    found = verdict(_ours(0.8, 0.81, **REDUCED), paper, (_ours(0.7, 0.711, **REDUCED), theirs)).verdict
    assert found in (Verdict.TREND_HOLDS, Verdict.NOT_COMPARABLE)
    return found == Verdict.TREND_HOLDS


def test_one_seed_is_judged_by_the_spread_of_the_others():
    one = _ours(0.8, **REDUCED), _ours(0.7, **REDUCED), 0.9, 0.8
    assert _with_reference(*one, Spread(0.01, 6)) == Verdict.TREND_HOLDS
    assert _with_reference(*one, Spread(0.1, 6)) == Verdict.WITHIN_NOISE


def test_what_is_counted_is_compared_without_a_test_only_with_what_is():
    fixed, varied = _ours(250, 250, 250, metric="parameters"), _ours(150, 240, 352, metric="parameters")
    paper, theirs = Printed(300, "parameters", "count"), Printed(200, "parameters", "count")
    reduced = [replace(ours, differs=("data",)) for ours in (fixed, varied)]
    assert verdict(reduced[0], paper, (reduced[1], theirs)).verdict == Verdict.WITHIN_NOISE
    assert verdict(reduced[1], paper, (reduced[0], theirs)).verdict == Verdict.WITHIN_NOISE
    assert verdict(reduced[0], paper, (replace(reduced[0], values={"0": 200}), theirs)).verdict == Verdict.TREND_HOLDS
    assert verdict(reduced[0], paper, (replace(reduced[0], values={"0": 300}), theirs)).verdict == Verdict.TREND_FAILS
    assert verdict(reduced[0], paper, (replace(reduced[0], values={"0": 249}), theirs)).verdict == Verdict.TREND_HOLDS
    assert verdict(reduced[0], paper, (replace(reduced[0], values={"0": 251}), theirs)).verdict == Verdict.TREND_FAILS


@pytest.mark.parametrize("theirs", [200, 400])
@pytest.mark.parametrize("reference", [{"0": 250.0}, {"0": 250.0 + 1e-8}, {"0": 250.0, "1": 250.0}])
def test_a_counted_tie_is_on_neither_side(reference, theirs):
    ours = _ours(250.0, 250.0, metric="parameters", **REDUCED)
    beside = replace(ours, values=reference), Printed(theirs, "parameters", "count")
    judged = verdict(ours, Printed(300, "parameters", "count"), beside)
    assert (judged.verdict, judged.why) == (Verdict.WITHIN_NOISE, "a tie, counted")


def _sf(values, std: float, degrees: float) -> float:
    """By a t-test with the larger deviation, and whatever degrees."""
    values = np.asarray(values)
    return stats.t.sf(values.mean() / (max(values.std(ddof=1), std) / len(values) ** 0.5), degrees)


def test_the_larger_of_two_deviations_counts_with_its_own_degrees():
    differences = [0.0, 2.0, 4.0]  # mean and deviation 2
    for std, degrees in ((0.1, 2), (1.9, 2), (2.1, 10), (5.0, 10)):
        expected = stats.t.sf(2 / (max(2.0, std) / 3**0.5), degrees)
        assert above_zero(differences, Spread(std, 10)) == pytest.approx(expected)


def test_a_row_that_is_noisier_than_others_is_not_told_from_nothing_more_often_than_one_in_twenty():
    """Of eight rows and three seeds, of which Bartlett's test notices a threefold deviation in every third table; with
    the others' degrees it would be more."""
    draw, tables, told, naive = np.random.default_rng(0), 600, 0, 0
    for _ in range(tables):
        rows = draw.normal(size=(8, 3)) * np.array([3.0, *[1.0] * 7])[:, None]
        spread = Spread.shared([_by_seed([*row]) for row in rows])
        above, by_others = above_zero(rows[0], spread), _sf(rows[0], spread.std, max(spread.freedom, 2))
        told += min(above, 1 - above) < 0.025
        naive += min(by_others, 1 - by_others) < 0.025
    assert told / tables <= 0.05 < naive / tables


def test_one_difference_and_rows_that_do_not_vary_tell_nothing():
    assert np.isnan(above_zero([0.3], Spread(0.0, 2)))
    assert above_zero([0.3, 0.3, 0.3], Spread(0.0, 2)) == 0
    reduced = replace(_ours(0.3), differs=("data",)), replace(_ours(0.2), differs=("data",))
    paper = Printed(0.3), Printed(0.2)
    for still in (0.1, 0.3, 0.7):  # whose mean over three seeds is rounded, of some
        spread = Spread.shared([_by_seed([still] * 3), {"0": 0.1}])
        assert (spread.std, spread.freedom) == (0, 2)
        judged = verdict(reduced[0], paper[0], (reduced[1], paper[1]), spread)
        assert judged.verdict == Verdict.WITHIN_NOISE
        assert "no row with several that vary" in judged.why


def test_a_difference_that_computing_leaves_is_none():
    left = 0.1 + 0.2 - 0.3
    assert left > 0
    assert above_zero([left] * 3) == above_zero([-left, left, -left]) == above_zero([0.0] * 3) == 0.5
    assert above_zero([2e-8] * 3) < 0.001, "as small as distances are between images and their copies"


def test_papers_numbers_that_are_a_tolerance_apart_show_no_trend():
    """0.81 - 0.80 is a little more than 0.01 in floating point."""
    ours, theirs = (replace(_ours(v, v + 0.01, v - 0.01), differs=("data",)) for v in (0.9, 0.1))
    assert verdict(ours, Printed(0.81), (theirs, Printed(0.80))).verdict == Verdict.NOT_COMPARABLE
    assert verdict(ours, Printed(0.82), (theirs, Printed(0.80))).verdict == Verdict.TREND_HOLDS


def test_the_tests_are_scipys():
    rng = np.random.default_rng(0)
    differences = rng.normal(0.3, 1, 5)
    expected = stats.ttest_1samp(differences, 0, alternative="greater").pvalue
    assert above_zero(list(differences)) == pytest.approx(expected)
    groups = [rng.normal(size=n) for n in (3, 4, 2)]
    within = sum(group.var(ddof=1) * (len(group) - 1) for group in groups) / 6
    assert Spread.pooled(map(_by_seed, groups)).std == pytest.approx(within**0.5)
    a, b = rng.normal(0, 1, 4), rng.normal(0.5, 1, 4)
    paired = stats.ttest_rel(a, b, alternative="greater").pvalue
    assert above_zero(list(a - b)) == pytest.approx(paired)


@pytest.mark.parametrize(
    ("other", "freedom"),
    [
        ([5.0, 3.0, 1.0], 2.0),  # the same up to its size and mean
        ([1.0, 3.0, 5.0], 2.0),  # its mirror image
        ([2.0, -4.0, 2.0], 2 * 32**2 / (8**2 + 24**2)),  # 8 and 24 are the sums of squares, and nothing in common
        ([0.0, -2.0, 2.0], 2 * 16**2 / (8**2 + 8**2 + 2 * 4**2)),  # products of -4
    ],
)
def test_what_goes_up_and_down_together_is_known_once(other, freedom):
    """Box's degrees of freedom by hand; the first group's residuals are 2, 0 and -2."""
    assert Spread.pooled([_by_seed([3.0, 1.0, -1.0]), _by_seed(other)]).freedom == pytest.approx(freedom)
    assert Spread.pooled([_by_seed(other)]).freedom == 2.0


def test_rows_with_few_seeds_take_nothing_from_what_others_know():
    """By Satterthwaite's formula, of rows that have no seed in common: (8 + 2 + 2)^2 / (8^2 / 2 + 2^2 + 2^2)."""
    apart = [{"1": 3.0, "2": 1.0, "3": -1.0}, {"4": 1.0, "5": -1.0}, {"6": 0.0, "7": 2.0}]
    assert Spread.pooled(apart) == Spread(pytest.approx(3**0.5), pytest.approx(144 / 40))
    alone = _by_seed(np.random.default_rng(0).normal(size=20))
    assert Spread.pooled([alone]).freedom == pytest.approx(19)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_spread_knows_no_less_than_a_row_and_no_more_than_all(rows):
    spread, several = Spread.pooled(map(_by_seed, rows)), [len(row) - 1 for row in rows if len(row) > 1]
    assert spread.std >= 0
    assert min(several, default=0) * (1 - 1e-9) <= spread.freedom <= sum(several) * (1 + 1e-9)


def test_rows_that_share_their_seeds_are_told_from_nothing_in_a_twentieth_of_cases():
    """Of 24 rows that correlate by 0.95, none of which differs from nothing; with 48 degrees it would be a tenth."""
    rng, naive, told, times = np.random.default_rng(0), 0, 0, 1500
    for _ in range(times):
        rows = 0.95**0.5 * rng.normal(size=3) + 0.05**0.5 * rng.normal(size=(24, 3))
        spread = Spread.pooled(map(_by_seed, rows))
        told += above_zero(rows[0], spread) < 0.05
        naive += _sf(rows[0], spread.std, 48) < 0.05
    assert told / times < 0.055 < 0.08 < naive / times


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (1, Spread(1.0, 2)),
        (6.4, Spread((41.96 / 2) ** 0.5, 2)),
        (6.6, Spread()),
    ],
)
def test_a_spread_is_shared_up_to_where_bartlett_says_that_there_are_two(times, expected):
    """Of two groups of three with variances 1 and r: (4 ln((1 + r) / 2) - 2 ln r) / 1.25 = 3.84 where r = 6.49 ** 2."""
    two = [_by_seed([4.0, 5.0, 6.0]), _by_seed([-times, 0.0, times])]
    shared = Spread.shared(two)
    assert (shared.std, shared.freedom) == (pytest.approx(expected.std), pytest.approx(expected.freedom))
    assert Spread.shared([*two, _by_seed([7.0, 7.0, 7.0])]) == shared, "equal values say nothing"


def test_rows_of_equal_values_narrow_no_spread():
    """By hand: 1, 3 and -4 have squares of 26, so that their deviation is 13 ** 0.5 with two degrees of freedom."""
    varied, equal = _by_seed([1.0, 3.0, -4.0]), [_by_seed([7.0, 7.0, 7.0]), _by_seed([0.0, 0.0, 0.0])]
    assert Spread.shared([varied, *equal]) == Spread(pytest.approx(13**0.5), 2)
    assert Spread.shared(equal) == Spread(0.0, 2), "of which there is none to be seen"


@pytest.mark.parametrize("beside", [[], [[0.01, 0.0, -0.01]], [[0.01, 0.0, -0.01], [0.012, 0.002, -0.009]]])
@pytest.mark.parametrize("left", [0.1 + 0.2 - 0.3, 1e-12])
def test_what_computing_leaves_of_equal_values_is_no_spread(beside, left):
    """Not even of a row of zeros, of which there is no share."""
    rows = [*map(_by_seed, beside), {"0": 0.001}]
    exact, rounded = (Spread.shared([*rows, _by_seed(row)]) for row in ([0.0] * 3, [left, 0.0, 0.0]))
    assert rounded == exact
    assert Spread.pooled([_by_seed([left, 0.0, 0.0])]) == Spread(0.0, 2)


def test_a_run_that_diverged_is_left_out_of_the_spread_that_others_share():
    """By hand: -1, 0 and 1 have variance 1 with two degrees of freedom."""
    diverged = float("nan")
    assert Spread.shared([_by_seed([1e-4]), _by_seed([0.2, diverged])]) == Spread(), "nothing has two seeds"
    assert Spread.shared([_by_seed([-1.0, 0.0, diverged, 1.0]), _by_seed([0.2, diverged])]) == Spread(1.0, 2)


def test_a_metric_without_a_tolerance():
    with pytest.raises(InputError, match=r"psnr in the unit 'dB': cannot be compared .* no tolerance"):
        verdict(_ours(20.0), Printed(20.0, "psnr", "dB"))
    with pytest.raises(InputError, match="accuracy in the unit 'percent'"):
        verdict(_ours(20.0), Printed(20.0, "accuracy", "percent"))


# ---- properties

numbers = st.floats(-1, 1, allow_nan=False).map(lambda x: round(x, 4))
deviations = st.floats(0, 0.1).map(lambda x: round(x, 5))
metrics = st.sampled_from(sorted(TOLERANCES))
printed = st.builds(
    lambda value, which, std: Printed(value, *which, std=std, runs=4 if std else 0), numbers, metrics, deviations
)


@given(numbers, deviations, deviations, st.integers(1, 6), printed)
def test_noise_never_turns_a_disagreement_into_an_agreement(mean, std, more, seeds, paper):
    before, after = (verdict(_spread(mean, s, seeds), paper).verdict for s in (std, std + more))
    if before == Verdict.DISAGREES:
        assert after != Verdict.AGREES
    if after in FIRM and seeds > 1:
        assert before == after, "noise never makes a verdict firm"


@given(numbers, deviations, st.integers(1, 6), st.integers(0, 5), printed)
def test_fewer_seeds_never_make_a_verdict_firmer(mean, std, seeds, fewer, paper):
    many, few = (verdict(_spread(mean, std, n), paper).verdict for n in (seeds, max(1, seeds - fewer)))
    if few in FIRM:
        assert many == few


@given(numbers, numbers, deviations, st.integers(2, 6), st.integers(0, 5))
def test_fewer_seeds_never_make_a_trend_firmer(mean, other, std, seeds, fewer):
    def found(n: int) -> Verdict:
        return _with_reference(_spread(mean, std, n, **REDUCED), _ours(*[other] * n, **REDUCED), 0.9, 0.5)

    if (few := found(max(1, seeds - fewer))) in TRENDS:
        assert found(seeds) == few


@given(numbers, deviations, st.integers(1, 6), printed, numbers, st.booleans())
def test_nothing_but_the_published_experiment_is_firm(mean, std, seeds, paper, other, stand_in):
    ours = _spread(mean, std, seeds, stand_in=stand_in, differs=() if stand_in else ("training.rounds",))
    reference = (_spread(other, std, seeds), Printed(paper.value + 0.5, paper.metric, paper.unit))
    for beside in (None, reference):
        assert verdict(ours, paper, beside).verdict not in FIRM


@given(printed, deviations, st.integers(1, 6), st.sampled_from([-1, 1]), st.floats(1.001, 100))
def test_a_number_beyond_its_tolerance_never_agrees(paper, std, seeds, sign, times):
    off = paper.value + sign * times * max(paper.tolerance + paper.std, 1e-6)
    assert verdict(_spread(off, std, seeds), paper).verdict != Verdict.AGREES


@given(numbers, numbers, deviations, st.integers(2, 6), numbers, numbers)
def test_swapping_two_methods_swaps_the_trend(mean, other, std, seeds, paper, theirs):
    a, b = _spread(mean, std, seeds, **REDUCED), _ours(*[other] * seeds, **REDUCED)
    found, swapped = _with_reference(a, b, paper, theirs), _with_reference(b, a, paper, theirs)
    assert swapped == TRENDS.get(found, found)
    assert _with_reference(b, a, theirs, paper) == found, "both swapped"


def test_firm_words_follow_from_scipys_tests():
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(300):
        values = rng.normal(0.5 + rng.uniform(-0.06, 0.06), rng.uniform(0.001, 0.02), rng.integers(3, 7))
        inside = [
            stats.ttest_1samp(values, 0.49, alternative="greater"),
            stats.ttest_1samp(values, 0.51, alternative="less"),
        ]
        beyond = [
            stats.ttest_1samp(values, 0.51, alternative="greater"),
            stats.ttest_1samp(values, 0.49, alternative="less"),
        ]
        agrees, disagrees = max(t.pvalue for t in inside) < 0.05, min(t.pvalue for t in beyond) < 0.025
        found = verdict(_ours(*values), Printed(0.5)).verdict
        assert found == ("agrees" if agrees else "disagrees" if disagrees else "undecided")
        seen.add(found)
    assert len(seen) == 3


def test_trends_follow_from_scipys_paired_test():
    rng = np.random.default_rng(2)
    seen = set()
    for _ in range(300):
        n = rng.integers(2, 7)
        a, b = rng.normal(rng.uniform(-0.1, 0.1), 0.05, n), rng.normal(0, 0.05, n)
        paired = stats.ttest_rel(a, b)
        expected = "within noise" if paired.pvalue >= 0.05 else "trend holds" if paired.statistic > 0 else "trend fails"
        found = _with_reference(_ours(*a, **REDUCED), _ours(*b, **REDUCED), 0.9, 0.8)
        assert found == expected
        seen.add(found)
    assert len(seen) == 3
