"""Tables of measures: each number in its place, the best marked as by hand, what is lacking said, ceilings apart."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from common.errors import InputError
from common.records import COLUMNS
from diptych.configuration import read_paper
from reporting.cells import cells_of
from reporting.evidence import Evidence
from reporting.layout import Layout
from reporting.measures import against_best
from reporting.records import reached
from reporting.tables import NO_MARKS, latex, markdown
from reporting.verdict import Verdict

MEASURES = {
    "accuracy": {
        "own": {"where": {"metric": ["accuracy"], "role": ["own"]}, "better": "high", "lacks": "no heads"},
        "shared": {"where": {"metric": ["accuracy"], "role": ["shared"]}, "better": "high", "lacks": "no head"},
    },
    "images": {"FD": {"where": {"metric": ["fid"]}, "better": "low"}},
    "costs": {"MB": {"of": ["bytes_up", "bytes_down"], "per": 1e6, "unit": "MB"}},
}
LAYOUT = Layout(
    paper="common",
    table="natural",
    title="Digits",
    blocks=["split"],
    rows=["method", "variant"],
    columns=["ability", "measure"],
    where={"client": [""]},
    reference={},
    measures=MEASURES,
    unable={"accuracy": "no labels", "images": "no images"},
    apart={"method": ["centralized"]},
)
UNDER = {"bytes_up": "2000000", "bytes_down": "500000"}


def _record(method: str, seed: int, value: float, **more: str) -> dict[str, Any]:
    cell = dict.fromkeys(COLUMNS, "") | {"paper": "common", "split": "equal", "scale": "tiny", "metric": "accuracy"}
    of_run = {"method": method, "seed": str(seed), "run": f"common/equal/{method}/default/{seed}", "budget": "1"}
    return cell | of_run | UNDER | {"role": "own", "unit": "fraction"} | more | {"value": value}


def _frame(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS).assign(measured_as="")


def _several(method: str, *values: float, **more: str) -> list[dict[str, Any]]:
    return [_record(method, seed, value, **more) for seed, value in enumerate(values)]


def _cells(*rows: dict[str, Any], layout: Layout = LAYOUT) -> dict[tuple[str, ...], dict[Any, Any]]:
    """By method, measure and control."""
    cells = cells_of(layout, _frame(*rows), lambda _: None).to_dict("records")
    return {(cell["method"], cell["measure"], cell["control"]): cell for cell in cells}


def test_what_it_took_to_a_target_is_of_those_whose_every_seed_has_reached_it():
    """Of the others the quick seeds alone would be compared."""
    until = {"metric": "bytes_to_target", "kind": "cost", "role": "", "unit": "count"}
    rounds = until | {"metric": "rounds_to_target", "kind": "result", "unit": "rounds"}
    rows = [
        *_several("a", 5, 5, 5, **until),
        *_several("a", 1, 1, 1, **rounds),
        *_several("b", 2, **until),
        *_several("b", 1, 9, 9, **rounds),
        *_several("c", 9, 9, 9, **rounds),
    ]
    left = reached(_frame(*rows))
    assert left.groupby(["method", "metric"]).size().to_dict() == {
        ("a", "bytes_to_target"): 3,
        **{(method, "rounds_to_target"): 3 for method in "abc"},
    }


FIRST, NEAR, BEHIND = (0.9, 0.8, 0.7), (0.89, 0.79, 0.7), (0.88, 0.77, 0.67)


@pytest.mark.parametrize("better", ["high", "low"])
def test_the_best_and_what_is_not_told_from_it_as_by_hand(better):
    """Differences of 0.01, 0.01 and 0: t = 2, p = 0.09 with two degrees; of 0.02, 0.03 and 0.03: t = 8, p = 0.008."""
    sign = 1 if better == "high" else -1
    several = {
        name: [sign * value for value in values] for name, values in zip("abc", (FIRST, NEAR, BEHIND), strict=True)
    }
    methods = {(name,): Evidence({str(n): v for n, v in enumerate(values)}) for name, values in several.items()}
    judged = against_best(methods, better == "high")
    verdicts = {key[0]: judgement.verdict for key, judgement in judged.items()}
    assert verdicts == {"a": Verdict.BEST, "b": Verdict.NEAR_BEST, "c": Verdict.NOT_PUBLISHED}
    side = "greater" if better == "high" else "less"
    for name in "bc":
        p = stats.ttest_rel(several["a"], several[name], alternative=side).pvalue
        assert f"p = {p:.2g}" in judged[name,].why
    assert stats.ttest_rel(FIRST, NEAR, alternative="greater").statistic == pytest.approx(2)
    assert stats.ttest_rel(FIRST, BEHIND, alternative="greater").statistic == pytest.approx(8)


def test_pairs_and_not_means_decide():
    """The same numbers in another order are as noisy as the seeds are."""
    shuffled = (BEHIND[2], BEHIND[0], BEHIND[1])
    cells = _cells(*_several("a", *FIRST), *_several("b", *shuffled))
    assert cells["b", "own", ""]["verdict"] == Verdict.NEAR_BEST
    assert _cells(*_several("a", *FIRST), *_several("b", *BEHIND))["b", "own", ""]["verdict"] == Verdict.NOT_PUBLISHED


def test_with_two_seeds_nothing_is_marked_and_the_page_says_so():
    records = _frame(*_several("a", *FIRST[:2]), *_several("b", *BEHIND[:2]))
    cells = cells_of(LAYOUT, records, lambda _: None)
    assert {*cells["verdict"]} == {Verdict.NOT_PUBLISHED}
    assert NO_MARKS in markdown(LAYOUT, cells, "about")
    marked = markdown(
        LAYOUT, cells_of(LAYOUT, _frame(*_several("a", *FIRST), *_several("b", *BEHIND)), lambda _: None), ""
    )
    assert "★" in marked
    assert NO_MARKS not in marked


def test_one_with_other_seeds_is_not_told_from_the_best():
    other = [_record("b", seed, value) for seed, value in enumerate(BEHIND, 7)]
    cell = _cells(*_several("a", *FIRST), *other)["b", "own", ""]
    assert (cell["verdict"], cell["why"]) == (Verdict.NEAR_BEST, "0 seeds in common with the best")


def test_one_with_fewer_seeds_or_without_a_number_is_not_compared():
    cells = _cells(
        *_several("a", *FIRST),
        *_several("b", *NEAR),
        *_several("few", 1.0, 1.0),
        *_several("lost", 1.0, 1.0, float("nan")),
    )
    verdicts = {method: cell["verdict"] for (method, measure, _), cell in cells.items() if measure == "own"}
    assert verdicts == {
        "a": Verdict.BEST,
        "b": Verdict.NEAR_BEST,
        "few": Verdict.NOT_PUBLISHED,
        "lost": Verdict.DIVERGED,
    }


def test_numbers_of_two_scales_are_not_compared():
    cells = _cells(*_several("a", *FIRST), *_several("b", *BEHIND), *_several("c", 1.0, 1.0, 1.0, scale="digits"))
    assert cells["a", "own", ""]["verdict"] == Verdict.BEST
    assert cells["c", "own", ""]["verdict"] == Verdict.NOT_PUBLISHED, "alone at its scale"
    better = _several("a", *FIRST, differs="training.rounds")
    both = [*better, *_several("a", *FIRST, scale="digits")]  # which stands for it, as it is as published
    worse = [*_several("b", *BEHIND, differs="training.rounds"), *_several("c", *NEAR, differs="training.rounds")]
    cells = _cells(*both, *worse)
    assert cells["a", "own", ""]["verdict"] == Verdict.NOT_PUBLISHED, "alone at the scale that stands for it"
    assert cells["b", "own", ""]["verdict"] == Verdict.NOT_PUBLISHED, "and it is before the others at theirs"
    assert cells["c", "own", ""]["verdict"] == Verdict.NEAR_BEST


def test_ceilings_stand_apart_and_are_not_the_best():
    cells = _cells(*_several("centralized", 1.0, 1.0, 1.0), *_several("a", *FIRST), *_several("b", *BEHIND))
    assert cells["a", "own", ""]["verdict"] == Verdict.BEST
    assert cells["centralized", "own", "pooled"]["verdict"] == Verdict.NOT_PUBLISHED
    assert not [key for key in cells if key[0] == "centralized" and key[2] == ""]


def test_what_is_lacking_is_said_by_ability_and_found_from_what_is_there():
    """`a` has heads of its own only, `b` makes images only; neither name is known to anything."""
    cells = _cells(
        *_several("a", *FIRST), *_several("b", *FIRST, metric="fid", role=""), *_several("c", *FIRST, role="shared")
    )
    why = {key[:2]: cell["why"] for key, cell in cells.items() if cell["verdict"] == Verdict.NOT_MEASURED}
    assert why == {
        ("a", "shared"): "no head",
        ("a", "FD"): "no images",
        ("b", "own"): "no labels",
        ("b", "shared"): "no labels",
        ("c", "own"): "no heads",
        ("c", "FD"): "no images",
    }


def test_a_measure_that_nobody_has_is_no_column():
    assert {measure for _, measure, _ in _cells(*_several("a", *FIRST))} == {"own", "MB"}


def test_what_a_run_costs_is_counted_once_for_each_run_and_not_marked():
    rows = [*_several("a", *FIRST), *_several("a", *FIRST, role="shared"), *_several("b", *FIRST, control="untrained")]
    cell = _cells(*rows)["a", "MB", ""]
    assert (cell["ours"], cell["unit"], cell["seeds"], cell["verdict"]) == (2.5, "MB", 3, Verdict.NOT_PUBLISHED)
    assert ("b", "MB", "") not in _cells(*rows), "there is nothing of it but a control"


def test_what_a_run_costs_does_not_depend_on_what_else_was_measured_otherwise():
    probed = _several("a", *FIRST, differs="network.width evaluation.probe.epochs")
    cell = _cells(*probed, *_several("a", *FIRST, differs="network.width", role="shared"))["a", "MB", ""]
    assert (cell["differs"], cell["passed_over"], cell["seeds"]) == ("network.width", "", 3)


def test_a_control_that_nobody_knows_stands_behind_those_that_are_known():
    cells = _cells(*(_several("a", 0.1, control=c)[0] for c in ("my-floor", "untrained", "ceiling")), *_several("a", 1))
    assert [control for _, _, control in cells if control] == ["untrained", "ceiling", "my-floor"]


def test_a_table_without_floors_has_none():
    assert {control for *_, control in _cells(*_several("a", *FIRST))} == {""}


def test_a_floor_is_the_mean_over_the_methods_it_was_measured_on():
    rows = [*_several("a", 0.1, control="untrained"), *_several("b", 0.3, control="untrained"), *_several("a", 0.9)]
    cell = _cells(*rows)["", "own", "untrained"]
    assert (cell["ours"], cell["seeds"]) == (pytest.approx(0.2), 1)


def test_what_a_floor_differs_in_is_of_its_own_scale():
    of_two = {"control": "untrained", "differs": "network.width"}, {"control": "untrained", "scale": "digits"}
    cell = _cells(*_several("a", *FIRST), *_several("a", 0.1, **of_two[0]), *_several("a", 0.2, **of_two[1]))
    floor = cell["", "own", "untrained"]
    assert (floor["scale"], floor["differs"], floor["grade"]) == ("digits", "", "as published")
    assert floor["passed_over"] == "0.1 at tiny, reduced, 1 seed"


def test_columns_stand_in_the_order_of_the_layout_above_controls_as_well():
    rows = [
        *_several("a", *FIRST, role="shared"),
        *_several("b", *FIRST),
        *_several("b", *FIRST, control="shuffled-labels", role="shared"),
        *_several("b", *FIRST, control="pixels"),
    ]
    heads = [line for line in markdown(LAYOUT, cells_of(LAYOUT, _frame(*rows), lambda _: None), "").splitlines()
             if line.startswith(("| Method", "| Control"))]  # fmt: skip
    assert len(heads) == 2
    assert all(line.index("accuracy, own") < line.index("accuracy, shared") for line in heads)


def test_latex_has_a_table_for_each_ability_with_heads_in_words():
    rows = [*_several("a", *FIRST), *_several("b", *BEHIND), *_several("a", *FIRST, metric="fid", role="")]
    text = latex(LAYOUT, cells_of(LAYOUT, _frame(*rows), lambda _: None), "about")
    assert text.count(r"\begin{longtable}") == 3
    assert r"$\bigstar$" in text
    assert " & own \\\\" in text
    assert "('" not in text


def test_a_reader_is_told_which_way_is_better_and_by_which_test():
    rows = [*_several("a", *FIRST), *_several("b", *BEHIND), *_several("a", *FIRST, metric="fid", role="")]
    page = markdown(LAYOUT, cells_of(LAYOUT, _frame(*rows), lambda _: None), "about")
    assert "Smaller is better: images FD." in page
    assert "one-sided t-tests on differences within seeds (p < 0.05)." in page
    assert "not able to, or not measured" in page
    assert "printed in the paper" not in page
    other = replace(LAYOUT, measures={"accuracy": MEASURES["accuracy"]})
    assert "Smaller is better" not in markdown(other, cells_of(other, _frame(*rows), lambda _: None), "about")


# ---- configuration


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"columns": ["metric"]}, "columns: must name ability and measure, got metric"),
        ({"ranked_over": ["dataset"]}, "measures: 'MB' says not what is better, so that nothing can be ranked by it"),
        ({"ranked_over": ["datset"]}, "column: unknown name 'datset'; did you mean 'dataset'?"),
        ({"unable": {"acuracy": "no labels"}}, "unable: unknown name 'acuracy'; did you mean 'accuracy'?"),
        ({"measures": {"costs": {"MB": {"of": ["bytes_upp"]}}}}, "column: unknown name 'bytes_upp'"),
        ({"measures": {"costs": {"MB": {"better": "big"}}}}, "better: unknown name 'big'"),
        ({"measures": {"costs": {"MB": {"per": 0.0}}}}, "per: should be greater than 0, got 0.0"),
    ],
)
def test_a_wrong_layout_is_one_clear_sentence(wrong, said):
    with pytest.raises(InputError) as error:
        read_paper("common", {"tables": {"natural": wrong}})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_ranks_need_measures():
    ranked = {"title": "t", "rows": ["method"], "columns": ["metric"], "ranked_over": ["dataset"]}
    with pytest.raises(InputError, match="ranked_over: needs measures"):
        read_paper("common", {"tables": {"other": ranked}})
