"""Ranks and critical differences: against a published worked example, brute force, and the library."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from reporting.cells import cells_of, found_in
from reporting.evidence import Evidence
from reporting.layout import Layout
from reporting.ranks import NO_RANKS, critical_difference, friedman, nemenyi, told, within_critical_difference
from reporting.tables import markdown
from reporting.verdict import Verdict
from tests.reporting.test_measures import LAYOUT, _frame, _record

# Demsar (2006), Table 6: AUC of C4.5 with m, cf, both tuned, on 14 data sets; of `voting` more digits than are printed
AUC = np.array(
    [
        *([0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967]),
        *([0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931]),
        *([0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875]),
        *([1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669]),
        *([0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970]),
    ]
)
NAMES = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]
RANKED = replace(
    LAYOUT,
    blocks=[],
    rows=["method"],
    measures={"accuracy": {"own": LAYOUT.measures["accuracy"]["own"]}},
    ranked_over=["dataset"],
)


def _records(values: np.ndarray, names: list[str] = NAMES) -> pd.DataFrame:
    """Of methods (columns) on data sets (rows)."""
    found = pd.DataFrame(values, columns=names).melt(ignore_index=False).dropna().sort_index(kind="stable")
    return _frame(*(_record(name, 1, value, dataset=f"set-{n}") for n, name, value in found.itertuples()))


def _cells(records: pd.DataFrame, layout: Layout = RANKED) -> pd.DataFrame:
    return cells_of(layout, records, lambda _: None).set_index("method")


def _at_random(g: np.random.Generator, blocks: int, methods: int) -> pd.DataFrame:
    return pd.DataFrame(g.permuted(np.tile(np.arange(1.0, methods + 1), (blocks, 1)), axis=1))


def test_a_published_example():
    """Demsar's mean ranks, statistic and critical difference, and that no pair is told apart though not all are alike.

    His chi² of 9.28 is without the correction for ties (Conover 1999, Sec. 5.8): three pairs and one of all four.
    """
    cells = _cells(_records(AUC))
    assert cells["ours"].round(3).to_dict() == dict(zip(NAMES, (3.143, 2.0, 2.893, 1.964), strict=True))
    ranks = pd.DataFrame(stats.rankdata(-AUC, axis=1))
    statistic = 12 * 14 / (4 * 5) * (np.square(ranks.mean()).sum() - 4 * 5**2 / 4)
    assert statistic == pytest.approx(9.28, abs=0.005)
    statistic /= 1 - (3 * (2**3 - 2) + (4**3 - 4)) / (14 * 4 * (4**2 - 1))
    assert friedman(ranks) == pytest.approx(stats.f.sf(13 * statistic / (14 * 3 - statistic), 3, 39))
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert cells.loc["C4.5+m+cf", "verdict"] == Verdict.BEST
    assert "best of 4 in 14 blocks" in cells.loc["C4.5+m+cf", "why"]
    assert "critical difference 1.25" in cells.loc["C4.5+m+cf", "why"]
    assert (cells["verdict"] == Verdict.NEAR_BEST).sum() == 3, "3.143 - 1.964 is less than 1.25"


@pytest.mark.parametrize(
    ("methods", "q"),
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.949), (8, 3.031), (9, 3.102), (10, 3.164)],
)
def test_critical_values_are_those_of_the_published_table(methods, q):
    """Demsar (2006), Table 5 (a)."""
    blocks = 30
    assert critical_difference(methods, blocks) == pytest.approx(
        q * np.sqrt(methods * (methods + 1) / 6 / blocks), rel=5e-4
    )


@settings(max_examples=20)
@given(st.integers(3, 7), st.integers(3, 12), st.integers(0, 10_000))
def test_a_pair_is_told_apart_just_where_it_is_farther_apart_than_the_critical_difference(methods, blocks, seed):
    """The library's p-values against our difference, which is read off the same distribution another way."""
    ranks = pd.DataFrame(
        np.random.default_rng(seed).permuted(np.tile(np.arange(1.0, methods + 1), (blocks, 1)), axis=1)
    )
    p, mean, apart = nemenyi(ranks), ranks.mean(), critical_difference(methods, blocks)
    for a, b in combinations(range(methods), 2):
        assert (p[a][b] < 0.05) == (abs(mean[a] - mean[b]) > apart)


def test_friedman_sees_in_ranks_that_are_drawn_at_random_what_chance_gives():
    """The share of 5 % of null tables is below 0.05; of one order everywhere the p-value is 0."""
    g = np.random.default_rng(0)
    found = [friedman(_at_random(g, 10, 5)) < 0.05 for _ in range(1000)]
    assert np.mean(found) == pytest.approx(0.05, abs=0.02)
    assert friedman(pd.DataFrame(np.tile(np.arange(1.0, 6), (10, 1)))) == 0


def test_where_all_tie_everywhere_all_are_alike():
    assert friedman(pd.DataFrame(np.full((4, 3), 2.0))) == 1
    verdicts = _cells(_records(np.full((4, 3), 0.5), list("abc")))["verdict"]
    assert sorted(verdicts) == [Verdict.BEST, Verdict.NEAR_BEST, Verdict.NEAR_BEST]


def test_the_best_is_told_from_the_worst_and_not_from_its_neighbour():
    order = np.tile(np.linspace(0.9, 0.1, 5), (10, 1))
    order[::2, :2] = order[::2, 1::-1]  # the first two take turns
    verdicts = _cells(_records(order, list("abcde")))["verdict"].to_dict()
    assert {verdicts["a"], verdicts["b"]} == {Verdict.BEST, Verdict.NEAR_BEST}
    assert verdicts["d"] == verdicts["e"] == Verdict.NOT_PUBLISHED


def test_where_friedman_sees_nothing_nobody_is_behind():
    g = np.random.default_rng(5)
    values = g.normal(size=(6, 4))
    assert friedman(pd.DataFrame(stats.rankdata(-values, axis=1))) > 0.05
    assert {*_cells(_records(values))["verdict"]} == {Verdict.BEST, Verdict.NEAR_BEST}


def test_pairs_are_asked_after_only_where_not_all_are_alike():
    """A table in which Nemenyi's test alone would tell the worst from the best."""
    g = np.random.default_rng(0)
    tables = (_at_random(g, 8, 8) for _ in range(5000))
    ranks = next(t for t in tables if friedman(t) > 0.05 and nemenyi(t)[t.mean().idxmin()].min() < 0.05)
    judged = within_critical_difference(
        {(n,): Evidence({str(block): rank for block, rank in ranks[n].items()}) for n in ranks}
    )
    assert [j.verdict for j in judged.values()].count(Verdict.NEAR_BEST) == 7


def test_smaller_can_be_better_and_ties_share_their_ranks():
    own = RANKED.measures["accuracy"]["own"]
    low = replace(RANKED, measures={"accuracy": {"own": {**own, "better": "low"}}})
    values = np.tile([0.1, 0.3, 0.3, 0.7], (3, 1))
    assert _cells(_records(values), low)["ours"].tolist() == [1, 2.5, 2.5, 4]
    assert _cells(_records(values))["ours"].tolist() == [4, 2.5, 2.5, 1]


def test_each_data_set_is_a_block_whose_seeds_are_averaged():
    """Method b is above a in two seeds of three, and below it in the mean."""
    values = {"a": (1.0, 1.0, 1.0), "b": (1.1, 1.1, 0.1), "c": (2.0, 2.0, 2.0), "d": (3.0, 3.0, 3.0)}
    rows = [_record(m, seed, v, dataset=d) for m in values for seed, v in enumerate(values[m]) for d in "xyz"]
    cells = _cells(_frame(*rows))
    assert cells["seeds"].tolist() == [3, 3, 3, 3]
    (evidence, *_), *_ = found_in(RANKED, _frame(*rows)).values()
    assert evidence.values == {"x": 3, "y": 3, "z": 3}
    assert cells["ours"].tolist() == [3, 4, 2, 1]
    fewer = _frame(*(row for row in rows if row["method"] != "b" or row["seed"] != "2" or row["dataset"] != "x"))
    assert "left out of the ranks" in _cells(fewer).loc["b", "why"], "whose mean would be over other seeds"
    shifted = [row | {"seed": str(int(row["seed"]) + 1)} if row["method"] == "b" else row for row in rows]
    assert {*_cells(_frame(*shifted))["why"]} == {NO_RANKS}, "as many seeds, but nobody has all"
    shifted += [row for row in rows if row["method"] == "b" and row["seed"] == "0"]
    only = _cells(_frame(*shifted, *(_record("e", s, 2.5, dataset=d) for s in range(4) for d in "xyz")))
    assert {*only["why"]} == {NO_RANKS}, "two methods have them all"
    diverged = _frame(*rows)
    diverged.loc[(diverged["method"] == "a") & (diverged["seed"] == "1"), "value"] = np.nan
    assert "left out of the ranks" in _cells(diverged).loc["a", "why"]


def test_who_is_missing_anywhere_or_diverged_is_left_out_with_a_line_that_says_so():
    values = np.random.default_rng(0).normal(size=(4, 5))
    values[2, 1] = np.nan
    records = _records(values, list("abcde"))
    records.loc[(records["method"] == "c") & (records["dataset"] == "set-0"), "value"] = np.nan
    cells = _cells(records)
    assert cells.loc["b", "verdict"] == cells.loc["c", "verdict"] == Verdict.NOT_MEASURED
    assert cells.loc["b", "why"] == "left out of the ranks: it was not measured in all of the 4 blocks"
    alone = _cells(_records(values[:, [0, 3, 4]], list("ade")))
    assert cells.loc[["a", "d", "e"], "ours"].tolist() == alone["ours"].tolist(), "ranks are among those that are left"
    assert "2 cells: left out of the ranks" in markdown(RANKED, cells_of(RANKED, records, lambda _: None), "about")


@pytest.mark.parametrize("shape", [(2, 4), (3, 2), (20, 2)])
def test_of_too_few_blocks_or_methods_there_are_no_ranks_and_one_sentence(shape):
    records = _records(np.random.default_rng(0).normal(size=shape), NAMES[: shape[1]])
    cells = cells_of(RANKED, records, lambda _: None)
    assert {*cells["verdict"]} == {Verdict.NOT_MEASURED}
    assert {*cells["why"]} == {NO_RANKS}
    page = markdown(RANKED, cells, "about")
    assert page.count(NO_RANKS) == 1
    assert within_critical_difference({}) == {}


def test_a_block_in_which_all_diverged_is_one_in_which_nobody_has_a_rank():
    records = _records(np.random.default_rng(0).normal(size=(4, 4)))
    records.loc[records["dataset"] == "set-2", "value"] = np.nan
    assert {*_cells(records)["verdict"]} == {Verdict.NOT_MEASURED}


@pytest.mark.parametrize("left", [3, 2])
def test_ranks_are_among_all_that_were_ranked_at_a_scale(left):
    """A method that another scale's ranks stand for was ranked at this one, too, and Friedman's test needs three."""
    names = list("abcdef")
    order = np.tile(np.linspace(0.9, 0.1, 6), (4, 1))
    here, there = _records(order, names), _records(order[:, left:], names[left:]).assign(scale="digits")
    cells = _cells(pd.concat([here.assign(differs="training.rounds"), there]))
    assert "best of 6 in 4 blocks" in cells.loc["a", "why"]
    assert f"best of {6 - left} in 4 blocks" in cells.loc[names[left], "why"]
    assert cells.loc["b", "verdict"] == Verdict.NEAR_BEST


def test_ceilings_are_not_ranked():
    values = np.random.default_rng(0).normal(size=(4, 4))
    cells = _cells(_records(values, ["a", "b", "c", "centralized"]))
    assert "centralized" not in cells.index
    assert cells["ours"].sum() == pytest.approx(6)


def test_a_figure_gets_every_rank_with_names_in_words():
    records = _records(AUC, ["fedavg", "ditto", "local", "apfl"])
    ranks = told(RANKED, found_in(RANKED, records))
    table = ranks.pivot_table(values="rank", index="block", columns="called", sort=False)
    assert [*table] == ["FedAvg", "Ditto", "local", "APFL"]
    assert table.sort_index().to_numpy().tolist() == pd.DataFrame(
        stats.rankdata(-AUC, axis=1), index=[f"set-{n}" for n in range(14)]
    ).sort_index().to_numpy().tolist()  # fmt: skip
    assert {*ranks["measure"]} == {"accuracy, own"}
