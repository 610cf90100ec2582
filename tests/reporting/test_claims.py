"""Claims: three-valued logic against brute force, and the paper's claims on the paper's own numbers."""

import itertools
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from common.errors import InputError
from common.records import COLUMNS
from diptych.study import load_study
from reporting.claims import FIRM, Doubt, Finding, Outcome, findings, write_claims
from reporting.evidence import as_one
from reporting.expressions import Evaluator, Shelf, Unknown
from reporting.records import PUBLISHED, published, read_csv
from reporting.verdict import Spread, wider

U = Unknown()
FEDSTYLE = ("table1", "table2", "table3", "table4", "table5", "text")
"""Where the paper prints its numbers."""


def _records(rows: list[dict]) -> pd.DataFrame:
    blank = dict.fromkeys(COLUMNS, "") | {"paper": "fedstyle", "seed": "1", "scale": "paper", "budget": "1"}
    return pd.DataFrame([blank | row for row in rows], columns=COLUMNS).astype({"value": float})


def _evaluator(**values: float) -> Evaluator:
    """Records of accuracy by method."""
    return _over([{"metric": "accuracy", "method": m, "value": v} for m, v in values.items()])


def _over(rows: list[dict]) -> Evaluator:
    return Evaluator(Shelf.of(_records(rows)))


@cache
def _claims() -> pd.DataFrame:
    return read_csv(PUBLISHED / "claims.csv")


@cache
def _claim(inequality: str) -> pd.DataFrame:
    """One claim of FedStyle, which asks for this."""
    return _claims().query("claim_id == 'fedstyle-01'").assign(inequality=inequality)


def _known(result: object) -> bool | None:
    return None if isinstance(result, Unknown) else bool(result)


@pytest.mark.parametrize("truths", list(itertools.product([True, False, None], repeat=3)))
def test_all_is_known_when_no_completion_changes_it(truths):
    options = [[t] if t is not None else [True, False] for t in truths]
    outcomes = {all(completion) for completion in itertools.product(*options)}
    found = _known(_evaluator().all(U if t is None else t for t in truths))
    assert found == (outcomes.pop() if len(outcomes) == 1 else None)


@pytest.mark.parametrize(
    ("expression", "truth"),
    [
        ("q('accuracy', method='a') > q('accuracy', method='b')", True),
        ("q('accuracy', method='b') > q('accuracy', method='a')", False),
        ("q('accuracy', method='a') > q('accuracy', method='z')", None),
        ("q('accuracy', method='z') + 1 > 0", None),
        ("all(q('accuracy', method=m) > 0.1 for m in ('a', 'b'))", True),
        ("all(q('accuracy', method=m) > 0.5 for m in ('a', 'b', 'z'))", False),
        ("all(q('accuracy', method=m) > 0.1 for m in ('a', 'b', 'z'))", None),
        ("max(q('accuracy', method=m) for m in ('a', 'b')) == 0.75", True),
        ("max(('a', 'b'), key=lambda m: q('accuracy', method=m)) == 'a'", True),
        ("max(('a', 'z'), key=lambda m: q('accuracy', method=m)) == 'a'", None),
        ("min(q('accuracy', method='a'), q('accuracy', method='z')) < 1", True),
        ("min(q('accuracy', method='a'), q('accuracy', method='z')) < 0.5", None),
        ("max(q('accuracy', method='z'), q('accuracy', method='y')) > 0", None),
        ("max(q('accuracy', method='z'), 0.5) - 0.1 > 0", None),
        ("max(q('accuracy', method=m) for m in 'az') == 0.75", None),
        ("abs(max(q('accuracy', method=m) for m in 'az')) < 1", None),
        ("sum(q('accuracy', method=m) for m in ('a', 'b')) == 1", True),
        ("sum(q('accuracy', method=m) for m in ('a', 'z')) > 0", None),
        ("q('accuracy', method=('a', 'y')) == 0.75", True),
        ("sum(q('accuracy', method=m) > 0.5 for m in 'ab') == 1", True),
        ("sum(q('accuracy', method=m) > 0.5 for m in 'ab') == 2", False),
        ("sum(q('accuracy', method=m) > 0.5 for m in 'abz') == 1", None),
        ("sum(q('accuracy', method=m) > 0.5 for m in 'abz') != 1", None),
        ("sum(q('accuracy', method=m) > 0.5 for m in 'abz') == 3", False),
        ("q('fid', method='a') < 3", None),
    ],
)
def test_expressions(expression, truth):
    assert _evaluator(a=0.75, b=0.25).truth(expression) is truth


@pytest.mark.parametrize("values", list(itertools.product([0.2, 0.5, 0.8, None], repeat=3)))
@pytest.mark.parametrize(
    "asked",
    [
        "q('m', method='a') {} {}(q('m', method=x) for x in 'bc')",
        "{1}(q('m', method=x) for x in 'bc') {0} q('m', method='a')",
    ],
)
def test_a_comparison_with_the_largest_is_known_when_no_completion_changes_it(asked, values):
    """Of what was not measured, it may be below all that was, as high, or above: by Python's own arithmetic."""
    completions = list(itertools.product(*[[v] if v is not None else [-9.0, 0.2, 0.5, 0.8, 9.0] for v in values]))
    measured = [{"metric": "m", "method": m, "value": v} for m, v in zip("abc", values, strict=True) if v is not None]
    over = _over([*measured, {"metric": "other", "value": 0}])
    for extreme, compared in itertools.product(("max", "min"), ("<", "<=", ">", ">=")):
        expression = asked.format(compared, extreme)
        outcomes = {eval(expression, {"q": lambda _, method, c=c: c["abc".index(method)]}) for c in completions}
        expected = outcomes.pop() if len(outcomes) == 1 and values[0] is not None else None
        assert over.truth(expression) is expected


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_of_two_that_are_level_neither_is_the_largest_and_noise_may_hide_which(order):
    expression = f"max({tuple(order)}, key=lambda m: q('accuracy', method=m)) == 'a'"
    evaluator = _evaluator(a=0.5, b=0.5)
    assert evaluator.truth(expression) is False
    evaluator.referee.spreads = {}
    assert evaluator.truth(expression) is None
    found = _said(expression, a=[0.5, 0.52, 0.48], b=[0.51, 0.5, 0.49])
    assert (found.verdict, found.points) == ("undecided", "against")


@pytest.mark.parametrize(
    ("rivals", "verdict"),
    [
        ({"b": 0.1, "c": 0.2}, "supported"),
        ({"b": 0.9, "c": 0.1}, "contradicted"),
        ({"b": 0.9, "c": 0.9}, "contradicted"),  # neither rival is told from the other, both are above
        ({"b": 0.9}, "contradicted"),  # the third was not measured
        ({"b": 0.1}, "not measured"),
        ({"b": 0.5, "c": 0.1}, "undecided"),
    ],
)
def test_who_is_the_largest_is_refuted_by_each_that_is_above_it(rivals, verdict):
    noise = {"a": (0.0, 0.01, -0.01), "b": (0.01, -0.01, 0.0), "c": (-0.01, 0.02, 0.01)}
    several = {m: [level + n for n in noise[m]] for m, level in ({"a": 0.5} | rivals).items()}
    assert _said("max(('a', 'b', 'c'), key=lambda m: q('accuracy', method=m)) == 'a'", **several).verdict == verdict


def test_who_is_the_largest_is_refuted_at_five_percent_divided_by_the_number_of_rivals():
    """One rival is above by a test at 4 %: enough for a claim of one comparison, not for one of three."""
    rival = [0.5 + 0.05 + n for n in (0.0, 0.026, -0.026)]
    verdicts = [
        _said(
            f"max({names}, key=lambda m: q('accuracy', method=m)) == 'a'",
            a=[0.5] * 3,
            b=rival,
            c=[0.1] * 3,
            d=[0.1] * 3,
        )
        for names in (("a", "b"), ("a", "b", "c", "d"))
    ]
    assert [found.verdict for found in verdicts] == ["contradicted", "undecided"]


def test_two_numbers_of_a_seed_are_refused_beside_one_that_diverged():
    rows = [{"metric": "accuracy", "method": "a", "value": v} for v in (float("nan"), 0.1, 0.5)]
    with pytest.raises(InputError, match="matches several numbers"):
        _over(rows).truth("q('accuracy', method='a') > 0.2")


def test_of_two_that_do_not_reach_a_target_nobody_knows_who_is_first():
    claim = "q('rounds_to_target', method='a') < q('rounds_to_target', method='b')"
    rows = [{"metric": "rounds_to_target", "method": m, "value": 40.0, "seed": s} for m in "ab" for s in "123"]
    evaluator = _over(rows)
    evaluator.referee.spreads = {}
    assert evaluator.truth(claim) is None
    first = [row | {"value": row["value"] - 20 - int(row["seed"]) * (row["method"] == "a")} for row in rows]
    evaluator = _over(first)
    evaluator.referee.spreads = {}
    assert evaluator.truth(claim) is True


def test_a_number_is_the_mean_over_seeds():
    rows = [{"metric": "accuracy", "method": "a", "value": v, "seed": s} for s, v in (("1", 0.2), ("2", 0.4))]
    assert _over(rows).q("accuracy", method="a").mean == pytest.approx(0.3)


def test_an_identity_holds_with_every_seed_or_not_at_all():
    assert _said("q('accuracy', method='a') == 0.5", a=[0.5, 0.5, 0.5]).verdict == "supported"
    assert _said("q('accuracy', method='a') == 0.5", a=[0.5, 0.6, 0.5]).verdict == "contradicted"


@pytest.mark.parametrize(
    ("a", "verdict", "seeds"),
    [
        ([0.5], "for", 1),
        ([0.6], "against", 1),
        ([0.5, 0.5, 0.5], "supported", 3),
    ],
)
def test_an_identity_rests_on_its_seeds_as_any_comparison_does(a, verdict, seeds):
    asked = "q('accuracy', method='a') == 0.5 and q('accuracy', method='b') > 0.4"
    found = _said(asked, a=a, b=[0.90, 0.91, 0.92])
    assert (found.verdict, found.seeds) == (verdict, seeds)


def test_a_clients_number_is_meant_only_where_it_is_asked_for():
    place = {"metric": "accuracy", "method": "a"}
    over = _over([place | {"value": 0.3}, place | {"value": 0.9, "client": "client-1"}])
    assert over.q("accuracy", method="a").mean == pytest.approx(0.3)
    assert over.q("accuracy", method="a", client="client-1").mean == pytest.approx(0.9)
    assert _known(_over([place | {"value": 0.9, "client": "client-1"}]).q("accuracy", method="a") > 0.5) is None


def test_what_a_claim_itself_asks_for_goes_before_what_is_fixed_for_it():
    rows = [{"metric": "accuracy", "method": "a", "table": t, "value": v} for t, v in (("one", 0.3), ("two", 0.9))]
    fixed = Evaluator(Shelf.of(_records(rows)), fixed={"table": "one"})
    assert fixed.q("accuracy", method="a").mean == pytest.approx(0.3)
    assert fixed.q("accuracy", method="a", table="two").mean == pytest.approx(0.9)


def test_floors_and_ceilings_are_no_part_of_a_claim():
    asked = "q('accuracy', method='a') > q('accuracy', method='b')"
    ceiling = [{"metric": "accuracy", "method": "b", "control": "ceiling", "seed": n, "value": 0.99} for n in "012"]
    assert _said(asked, *ceiling, a=[0.9, 0.91, 0.92], b=[0.5, 0.51, 0.52]).verdict == "supported"


def test_a_number_rests_on_a_stand_in_if_one_of_its_seeds_does():
    rows = [{"value": 0.5, "seed": str(seed), "stand_in": "yes" * (seed == 1)} for seed in range(3)]
    assert as_one(_records(rows)).stand_in
    assert not as_one(_records(rows[::2])).stand_in


def test_a_number_differs_in_all_that_one_of_its_seeds_differs_in():
    ways = ["", "training.rounds", "data network"]
    rows = [{"value": 0.5, "seed": str(seed), "differs": keys} for seed, keys in enumerate(ways)]
    assert as_one(_records(rows)).differs == ("data", "network", "training.rounds")


def test_a_diverged_number_is_unknown():
    assert isinstance(_evaluator(a=float("nan")).q("accuracy", method="a"), Unknown)


def test_two_numbers_for_one_question_are_an_error():
    rows = [{"metric": "accuracy", "method": "a", "style": s, "value": v} for s, v in (("x", 0.2), ("y", 0.4))]
    with pytest.raises(InputError, match="matches several numbers"):
        _over(rows).q("accuracy", method="a")


def _of_methods_and_seeds(several: dict[str, str], **columns: str) -> list[dict]:
    """Records of the same number, of each method with these seeds."""
    asked = [(method, seed) for method, seeds in several.items() for seed in seeds]
    return [{"metric": "accuracy", "method": m, "value": 0.5, "seed": seed} | columns for m, seed in asked]


@pytest.mark.parametrize("several", [{"a": "12", "b": "34"}, {"a": "12", "b": "23", "c": "34"}])
def test_two_cells_without_a_seed_in_common_are_no_one_number(several):
    with pytest.raises(InputError, match="matches several numbers"):
        _over(_of_methods_and_seeds(several)).q("accuracy")


def test_a_number_may_stand_under_several_tables_with_other_seeds():
    one, other = (_of_methods_and_seeds({"a": seeds}, table=t, kind=t) for t, seeds in (("x", "12"), ("y", "34")))
    assert len(_over([*one, *other]).q("accuracy").values) == 4
    assert len(_over(_of_methods_and_seeds({"a": "12", "b": "23"})).q("accuracy").values) == 3


def test_the_papers_claims_on_the_papers_numbers():
    """What claims.csv says of the printed numbers comes out of our evaluation of the printed numbers."""
    tables = [published("fedstyle", name) for name in FEDSTYLE]
    rows = pd.concat(tables)[[c for c in COLUMNS if c in tables[0]]].to_dict("records")
    found = findings(
        "fedstyle", _records(rows), {}
    )  # columns that our records need fixed are empty in the paper's text
    claims = _claims().set_index("claim_id")["published_holds"]
    said = {"yes": "for", "no": "against", "not-printed": ""}
    assert {f.claim: f.points for f in found} == {f.claim: said[claims[f.claim]] for f in found}
    assert {f.verdict for f in found} == {Outcome.UNDECIDED, Outcome.NOT_MEASURED, Outcome.SUPPORTED}
    assert [f.claim for f in found if f.verdict is Outcome.SUPPORTED] == ["fedstyle-14"], "which no chance is in"
    assert len(found) == 22


def test_the_page(tmp_path):
    tables = [published("fedstyle", name) for name in FEDSTYLE]
    rows = pd.concat(tables)[[c for c in COLUMNS if c in tables[0]]].to_dict("records")
    found = findings("fedstyle", _records(rows), load_study("paper").papers["fedstyle"].claims)
    write_claims("fedstyle", found, "about", tmp_path / "fedstyle.md")
    page, table = (tmp_path / "fedstyle.md").read_text(), pd.read_csv(tmp_path / "fedstyle.csv")
    assert [f"**{claim}**" in page for claim in table["claim"]] == [True] * 22
    for outcome, n in table["verdict"].value_counts().items():
        assert f"## {str(outcome).capitalize()} ({n} of 22)" in page
    assert max(map(len, page.splitlines())) < 1100


def test_a_claim_is_asked_once_with_each_set_of_columns():
    """c is clustered by each client's own encoders, and not by the shared ones."""
    found_by = {"shared-encoder": {"c": 0.3, "z": 0.3}, "own-encoder": {"c": 0.9, "z": 0.3}}
    place = {"paper": "feddva", "method": "feddva", "variant": "reconstruction", "dataset": "mnist"}
    rows = [
        place
        | {"split": "client-marks", "role": role, "metric": "accuracy", "value": value}
        | {"setting": f"probe=linear;features={code};target=client"}
        for role, codes in found_by.items()
        for code, value in codes.items()
    ]
    config = load_study("paper").papers["feddva"]
    found = findings("feddva", _records(rows), config.claims, config.aliases)
    asked = [(f.statement.rpartition(" [")[2], f.points) for f in found if f.claim == "feddva-06"]
    assert asked == [("shared-encoder]", "against"), ("own-encoder]", "for")]
    assert [f.claim for f in found].count("feddva-01") == 1


# ---- verdicts


def _claimed(*pairs: tuple[float, ...], seeds: int = 3, **more: str) -> str:
    """What is said of feddva-06, that one accuracy is above another by 0.2, when they are so in each seed."""
    place = {"paper": "feddva", "method": "feddva", "metric": "accuracy", "variant": ""}
    rows = [
        place | more | {"setting": f"probe=linear;features={code};target=client", "value": value, "seed": str(seed)}
        for seed, pair in enumerate(pairs[:seeds])
        for code, value in zip("cz", pair, strict=True)
    ]
    return next(f.verdict for f in findings("feddva", _records(rows), {}) if f.claim == "feddva-06")


HOLDS, FAILS = [(0.9, 0.3), (0.91, 0.32), (0.9, 0.31)], [(0.4, 0.3), (0.41, 0.32), (0.4, 0.31)]


@pytest.mark.parametrize(
    ("pairs", "more", "expected"),
    [
        (HOLDS, {}, "supported"),
        (FAILS, {}, "contradicted"),
        ([(0.9, 0.3), (0.4, 0.32), (0.7, 0.31)], {}, "undecided"),
        (HOLDS, {"differs": "training.rounds"}, "for"),
        (FAILS, {"differs": "training.rounds"}, "against"),
        (HOLDS, {"differs": "unknown"}, "for"),
        (HOLDS, {"stand_in": "yes"}, "for"),
        (FAILS, {"stand_in": "yes"}, "against"),
        (HOLDS[:2], {}, "for"),
        (HOLDS[:1], {}, "undecided"),
        (FAILS[:1], {}, "undecided"),
        ([], {}, "not measured"),
    ],
)
def test_firm_words_need_the_published_experiment_three_seeds_and_little_noise(pairs, more, expected):
    assert _claimed(*pairs, **more) == expected


EVERY = "all(q('accuracy',style=t,method='a') > q('accuracy',style=t,method='b') for t in 'xyz')"


def _every(monkeypatch, by_style: dict[str, list[float]], **more: str):
    """What is said of `a` above `b` in each of three styles, where it is so by this much, seed by seed."""
    claims = _claim(EVERY)
    monkeypatch.setattr("reporting.claims.read_csv", lambda _: claims)
    rows = [
        {"metric": "accuracy", "method": method, "style": style, "seed": str(seed), "value": value} | more
        for style, differences in by_style.items()
        for seed, difference in enumerate(differences)
        for method, value in (("a", 0.5 + difference), ("b", 0.5))
    ]
    (found,) = findings("fedstyle", _records(rows), {})
    return found


UP, LEVEL, DOWN = [0.1, 0.11, 0.1], [0.001, -0.002, 0.0], [-0.1, -0.11, -0.1]
NOISY = [0.04, -0.02, 0.01]


@pytest.mark.parametrize(
    ("by_style", "more", "expected", "hold"),
    [
        ({"x": UP, "y": UP, "z": UP}, {}, "supported", (3, 3, 3)),
        ({"x": UP, "y": UP, "z": LEVEL}, {}, "undecided", (2, 3, 3)),
        ({"x": UP, "y": UP, "z": DOWN}, {}, "contradicted", (2, 3, 3)),
        ({"x": UP, "y": UP, "z": DOWN}, {"differs": "network.width"}, "against", (2, 3, 3)),
        ({"x": UP, "y": UP}, {}, "for", (2, 2, 3)),
        ({"x": UP, "y": NOISY}, {}, "undecided", (2, 2, 3)),
        ({"x": UP, "y": DOWN}, {}, "contradicted", (1, 2, 3)),
        ({}, {}, "not measured", (0, 0, 0)),
    ],
)
def test_every_comes_with_the_count_that_holds(by_style, more, expected, hold, monkeypatch):
    found = _every(monkeypatch, by_style, **more)
    assert found.verdict == expected
    assert (found.hold, found.measured) == hold[:2]
    assert found.asked == hold[2] or not by_style


def test_a_style_with_one_seed_is_judged_by_the_noise_of_the_others(monkeypatch):
    assert _every(monkeypatch, {"x": UP, "y": UP, "z": [0.1]}).verdict == "for"
    assert _every(monkeypatch, {"x": UP, "y": UP, "z": [0.001]}).verdict == "undecided"


def test_a_wide_comparison_leaves_a_narrow_one_decided(monkeypatch):
    """Pooled, z would have t = 0.1 / (1.63 / 3 ** 0.5) = 0.1; by itself it has t = 0.1 / (0.01 / 3 ** 0.5) = 17."""
    wide, narrow = [9.0, 11.0, 13.0], [0.09, 0.1, 0.11]
    assert _every(monkeypatch, {"x": wide, "y": wide, "z": narrow}).verdict == "supported"
    assert _every(monkeypatch, {"x": wide, "y": wide, "z": [-d for d in narrow]}).verdict == "contradicted"


def test_comparisons_of_two_quantities_share_no_spread(monkeypatch):
    """0.05 and 0.01 might be one spread, but not of two metrics: 0.02 is 3.5 own errors, and 1.0 of pooled ones."""
    ask = "q('nmse', method='a') > 1 and q('ssim', method='a') < 0.05"
    claims = _claim(ask)
    monkeypatch.setattr("reporting.claims.read_csv", lambda _: claims)
    measured = {"nmse": [1.45, 1.5, 1.55], "ssim": [0.02, 0.03, 0.04]}
    rows = [
        {"metric": metric, "method": "a", "seed": str(seed), "value": value}
        for metric, values in measured.items()
        for seed, value in enumerate(values)
    ]
    (found,) = findings("fedstyle", _records(rows), {})
    assert found.verdict == "supported"


@pytest.mark.parametrize(
    ("ask", "values", "expected"),
    [
        ("q('x', method='a') - q('x', method='b') >= 0.05", (0.55, 0.50), "supported"),
        ("q('x', method='a') - q('x', method='b') >= 0.05", (0.45, 0.40), "supported"),
        ("q('x', method='a') - q('x', method='b') > 0.05", (0.55, 0.50), "contradicted"),
        ("q('x', method='a') + q('x', method='b') + 0.3 > 0.3 + q('x', method='b') + q('x', method='a')",
         (0.1, 0.2), "contradicted"),
    ],
)  # fmt: skip
def test_what_computing_leaves_of_a_tie_decides_nothing(ask, values, expected, monkeypatch):
    claims = _claim(ask)
    monkeypatch.setattr("reporting.claims.read_csv", lambda _: claims)
    rows = [
        {"metric": "x", "method": m, "seed": s, "value": v} for m, v in zip("ab", values, strict=True) for s in "123"
    ]
    (found,) = findings("fedstyle", _records(rows), {})
    assert found.verdict == expected


differences = st.lists(st.floats(-0.2, 0.2).map(lambda d: round(d, 3)), min_size=1, max_size=4)


@settings(max_examples=25)
@given(st.dictionaries(st.sampled_from("xyz"), differences, min_size=1), st.sampled_from(["stand_in", "differs"]))
def test_nothing_but_the_published_experiment_is_firm(by_style, mark):
    with pytest.MonkeyPatch.context() as patch:
        assert _every(patch, by_style, **{mark: "yes"}).verdict not in FIRM


@settings(max_examples=25)
@given(st.lists(differences.filter(lambda d: len(d) == 4), min_size=1, max_size=3), st.integers(1, 4))
def test_fewer_than_three_seeds_are_never_firm_and_what_is_points_where_the_means_do(several, seeds):
    by_style = dict(zip("xyz", [d[:seeds] for d in several], strict=False))
    with pytest.MonkeyPatch.context() as patch:
        found = _every(patch, by_style)
    assert found.verdict not in FIRM or seeds >= 3
    points = {"supported": "for", "for": "for", "contradicted": "against", "against": "against"}
    assert found.points == points.get(found.verdict, found.points)


@settings(max_examples=25)
@given(st.lists(differences.filter(lambda d: len(d) >= 3), min_size=1, max_size=3), st.floats(1, 10))
def test_noise_never_makes_a_claim_firm(several, times):
    """Every difference as far from its mean as before, or farther."""
    wider = [[np.mean(d) + times * (x - np.mean(d)) for x in d] for d in several]
    before, after = [], []
    with pytest.MonkeyPatch.context() as patch:
        before, after = (_every(patch, dict(zip("xyz", part, strict=False))).verdict for part in (several, wider))
    assert after not in FIRM or after == before


@settings(max_examples=25)
@given(differences.filter(any))
def test_swapping_two_methods_swaps_what_is_said_of_a_single_comparison(several):
    swapped = {"for": "against", "against": "for", "supported": "contradicted", "contradicted": "supported"}
    with pytest.MonkeyPatch.context() as patch:
        found, other = (
            _every(patch, {style: [sign * d for d in several] for style in "xyz"}).verdict for sign in (1, -1)
        )
    assert other == swapped.get(found, found) or "undecided" in (found, other), "one of three alike needs more"


def test_what_no_chance_is_in_needs_one_run():
    place = {"paper": "psfedgan", "metric": "parameters", "unit": "count"}
    rows = [
        place | {"method": method, "dataset": dataset, "value": value}
        for dataset in ("mnist", "fmnist", "svhn", "cifar10")
        for method, value in (("ps-fedgan", 2.0), ("full-gan", 5.0))
    ]
    found = {f.claim: f for f in findings("psfedgan", _records(rows), {})}
    assert found["psfedgan-06"].verdict == found["psfedgan-07"].verdict == "supported"
    assert found["psfedgan-06"].said.startswith("paper, as published, 1 seed; no chance in it, no test")


def test_that_something_is_small_is_no_easier_with_noise():
    """As with two one-sided tests: |mean| and not the mean of |difference|."""
    for spread, expected in ((0.0, True), (0.001, True), (0.5, None)):
        rows = [
            {"metric": "accuracy", "method": m, "value": 0.5 + v * spread, "seed": str(v)}
            for v in (-1, 0, 1)
            for m in "a"
        ]
        evaluator = _over(rows)
        evaluator.referee.spreads = {}
        assert evaluator.truth("abs(q('accuracy', method='a') - 0.5) <= 0.01") is expected


def test_the_best_founded_finding_stands_and_others_can_be_looked_up(monkeypatch):
    claims = _claim(EVERY)
    monkeypatch.setattr("reporting.claims.read_csv", lambda _: claims)
    rows = [
        {"metric": "accuracy", "method": m, "style": style, "seed": seed, "value": value, "scale": scale, "differs": d}
        for scale, d, worse in (("small", "training.rounds", 0.1), ("paper", "", 0.9))
        for style in "xyz"
        for seed in "123"
        for m, value in (("a", 0.5), ("b", worse + 0.001 * int(seed)))
    ]
    unasked = {"metric": "fid", "method": "a", "value": 5.0, "scale": "other"}
    (found,) = findings("fedstyle", _records([*rows, unasked]), {})
    assert (found.verdict, found.scale) == ("contradicted", "paper")
    assert found.passed_over == "for at small, reduced, 3 seeds, 3 of 3 hold"


@pytest.mark.parametrize(
    ("budgets", "stands"),
    [
        ((("0.1", "0.1"), ("0.5", "0.5")), "longer"),
        ((("0.1", "0.1"), ("0.5", "0.05")), "a-short"),  # the least of those that it rests on
        ((("0.1", "0.1"), ("0.5", "")), "a-short"),  # and what is not known is no length
    ],
)
def test_of_two_findings_alike_the_one_on_longer_runs_stands(budgets, stands, monkeypatch):
    claims = _claim(EVERY)
    monkeypatch.setattr("reporting.claims.read_csv", lambda _: claims)
    rows = [
        {"metric": "accuracy", "method": m, "style": style, "seed": seed, "value": value, "scale": scale}
        | {"differs": "training.rounds", "budget": share}
        for scale, shares in zip(("a-short", "longer"), budgets, strict=True)
        for style in "xyz"
        for seed in "1234"[: 3 + (scale == "a-short")]
        for m, value, share in (("a", 0.5, shares[0]), ("b", 0.1 + 0.001 * int(seed), shares[1]))
    ]
    (found,) = findings("fedstyle", _records(rows), {})
    assert found.scale == stands
    assert found.budget == (0.5 if stands == "longer" else 0.1)


@pytest.mark.parametrize(
    ("differs", "scale", "measured"),
    [("", "digits and things", 2), ("training.rounds", "digits", 1)],
    ids=["as published", "reduced"],
)
def test_what_no_scale_has_alone_is_asked_of_what_is_as_published_of_several(differs, scale, measured, monkeypatch):
    """Of reduced numbers it is not, which are of two experiments. A seed that both have counts once."""
    ask = (
        "all(q('accuracy', dataset=d, method='a') > q('accuracy', dataset=d, method='b') for d in ('mnist', 'fmnist'))"
    )
    claims = _claim(ask)
    monkeypatch.setattr("reporting.claims.read_csv", lambda _: claims)
    runs = [("digits", "mnist", "123", ""), ("things", "fmnist", "12", differs), ("things", "mnist", "1", "")]
    rows = [
        {"metric": "accuracy", "dataset": d, "method": m, "seed": seed, "value": value, "scale": at, "differs": other}
        for at, d, seeds, other in runs
        for seed in seeds
        for m, value in (("a", 0.9), ("b", 0.1 + 0.001 * int(seed) + 0.0001 * (at == "things")))
    ]
    (found,) = findings("fedstyle", _records(rows), {})
    assert (found.scale, found.measured) == (scale, measured)
    assert found.seeds == (2 if differs == "" else 3)


BOTH = "all(q('accuracy', dataset=d, method='a') > q('accuracy', dataset=d, method='b') for d in ('mnist', 'fmnist'))"
MIXED = "q('accuracy', dataset='mnist', method='a') > q('accuracy', dataset='fmnist', method='b')"
LARGEST = "max(('mnist', 'fmnist'), key=lambda d: q('accuracy', dataset=d, method='a')) == 'mnist'"


@pytest.mark.parametrize(
    ("ask", "doubt", "expected"),
    [
        (BOTH, "", ("against", "short and things", 2, 1)),  # on digits, told; on things within noise
        (BOTH, "things", ("undecided", "things", 1, 1)),
        (BOTH, "digits", ("against", "short and things", 2, 1)),  # whose numbers are not asked
        (MIXED, "", ("not measured", "", 0, 0)),
        (LARGEST, "", ("not measured", "", 0, 0)),
    ],
)
def test_each_data_set_is_asked_where_it_was_trained_longest_and_compared_with_no_other(
    ask, doubt, expected, monkeypatch
):
    """`digits` and `short` have one data set, trained for 1 and 2 % of the paper's, `things` another, for 4 %."""
    claims = _claim(ask)
    monkeypatch.setattr("reporting.claims.read_csv", lambda _: claims)
    of = {"digits": ("mnist", "0.01", 0.3), "short": ("mnist", "0.02", -0.3), "things": ("fmnist", "0.04", 0.001)}
    shared = {"metric": "accuracy", "differs": "training.rounds"}
    rows = [
        shared | {"dataset": d, "budget": budget, "scale": scale, "method": m, "seed": str(seed), "value": value}
        for scale, (d, budget, lead) in of.items()
        for seed, noise in enumerate((-0.02, 0.0, 0.021))
        for m, value in (("a", 0.5 + lead + noise), ("b", 0.5))
    ]
    doubts = {doubt: {"fedstyle-01": Doubt("too short")}} if doubt else {}
    (found,) = findings("fedstyle", _records(rows), {}, {}, doubts)
    said = found.verdict, found.scale, found.measured, found.hold
    assert said[0] == expected[0]
    assert found.verdict == "not measured" or said == expected


def _at(scales: dict[str, tuple[str, str, dict]], asked: str, doubts: dict[str, Doubt] | None = None) -> Finding:
    """What is said of a claim where `a` is 0.4 ahead of `b` with three seeds at each scale, which has one data set; two
    budgets, the first of `a`; and other columns."""
    rows = [
        {"metric": "accuracy", "scale": scale, "dataset": d, "method": m, "budget": share, "seed": str(seed)}
        | {"value": value, **more}
        for scale, (d, budgets, more) in scales.items()
        for seed, noise in enumerate((-0.02, 0.0, 0.021))
        for m, value, share in zip("ab", (0.9 + noise, 0.5), budgets.split(","), strict=True)
    ]
    of_claim = {scale: {"fedstyle-01": doubt} for scale, doubt in (doubts or {}).items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reporting.claims.read_csv", lambda _: _claim(asked))
        (found,) = findings("fedstyle", _records(rows), {}, {}, of_claim)
    return found


SHORTER, STAND_IN = {"differs": "training.rounds"}, {"stand_in": "yes"}


@pytest.mark.parametrize(
    ("closer", "farther"),
    [
        (("0.01,0.01", SHORTER), ("0.5,0.5", STAND_IN)),
        (("0.02,0.02", SHORTER), ("0.05,0.01", SHORTER)),  # the least that one of its runs has had
        (("0.02,0.02", SHORTER), ("0.01,0.05", SHORTER)),
        (("0.01,0.01", SHORTER), ("0.5,", SHORTER)),  # and what is not known is less than any
    ],
)
def test_of_each_data_set_those_records_are_taken_that_come_closest_to_the_papers(closer, farther):
    for one, other in (("m", "z"), ("z", "m")):
        scales = {one: ("mnist", *closer), other: ("mnist", *farther), "things": ("fmnist", "0.04,0.04", SHORTER)}
        assert _at(scales, BOTH).scale == " and ".join(sorted([one, "things"]))


@pytest.mark.parametrize(
    ("more", "verdict"), [({}, "supported"), (STAND_IN, "not measured"), (SHORTER, "not measured")]
)
def test_two_data_sets_are_compared_across_scales_only_as_published(more, verdict):
    scales = {"digits": ("mnist", "1,1", {}), "things": ("fmnist", "1,1", more)}
    assert _at(scales, MIXED).verdict == verdict


LEAD = "q('accuracy', dataset='mnist', method='a') > q('accuracy', dataset='mnist', method='b')"


@pytest.mark.parametrize(
    ("more", "until", "expected"),
    [
        (SHORTER, "", ("undecided", "too short")),
        (SHORTER, f"{LEAD} + 0.5", ("undecided", "too short")),
        (SHORTER, "q('accuracy', method='c') > 0", ("undecided", "too short")),
        (SHORTER, f"{LEAD} + 0.3", ("for", "reduced")),
        (STAND_IN, "", ("undecided", "too short")),
        ({}, "", ("supported", "")),  # what is as published decides whatever is said of its scale
    ],
)
def test_a_doubt_holds_until_the_numbers_of_its_scale_remove_it(more, until, expected):
    found = _at({"digits": ("mnist", "0.5,0.5", more)}, LEAD, {"digits": Doubt("too short", until)})
    assert (found.verdict, found.why) == expected


def test_a_doubt_of_one_scale_takes_nothing_from_what_is_as_published_of_several():
    scales = {"digits": ("mnist", "1,1", {}), "things": ("fmnist", "1,1", {})}
    for doubts in ({}, {"things": Doubt("too short")}):
        found = _at(scales, MIXED, doubts)
        assert (found.verdict, found.scale) == ("supported", "digits and things")


@pytest.mark.parametrize(("scales", "expected"), [(("short", "things"), "for"), (("things", "things"), "undecided")])
def test_noise_at_one_scale_hides_nothing_at_another(scales, expected, monkeypatch):
    """A lead of twice its deviation is told by a t-test, p = 0.037, the smaller one not by the noise of both."""
    claims = _claim(BOTH)
    monkeypatch.setattr("reporting.claims.read_csv", lambda _: claims)
    leads = {"mnist": (scales[0], 0.03), "fmnist": (scales[1], 0.006)}
    differences = {d: [noise * (2 + sign) for sign in (-1, 0, 1)] for d, (_, noise) in leads.items()}
    assert all(stats.ttest_1samp(values, 0, alternative="greater").pvalue < 0.05 for values in differences.values())
    assert stats.bartlett(*differences.values()).pvalue > 0.05
    shared = {"metric": "accuracy", "differs": "training.rounds", "budget": "0.01"}
    rows = [
        shared | {"dataset": d, "scale": leads[d][0], "method": m, "seed": str(seed), "value": value}
        for d, values in differences.items()
        for seed, lead in enumerate(values)
        for m, value in (("a", 0.5 + lead), ("b", 0.5))
    ]
    (found,) = findings("fedstyle", _records(rows), {})
    assert (found.verdict, found.measured, found.hold) == (expected, 2, 2)


def test_one_of_several_comparisons_is_false_at_a_stricter_level(monkeypatch):
    """p = 0.03 by the noise of all three, which of three is no news; the noise is that of the comparison itself."""
    doubtful = [-0.04, -0.008, -0.03]
    turned = [[doubtful[(seed + shift) % 3] for seed in range(3)] for shift in range(3)]
    pooled = Spread.pooled({str(n): value for n, value in enumerate(values)} for values in turned)
    p = stats.t.cdf(np.mean(doubtful) / (pooled.std / 3**0.5), pooled.freedom)
    assert 0.05 / 3 < p < 0.05
    x, y = ([0.5 + value for value in values] for values in turned[1:])
    assert _every(monkeypatch, {"x": x, "y": y, "z": doubtful}).verdict == "undecided"


def _said(inequality: str, *beside: dict, **by_method: list[float | None]) -> Finding:
    """What is said of a claim on accuracies of methods, seed by seed; None where a seed was not run.

    `beside` are other records, such as of controls.
    """
    own = [
        {"metric": "accuracy", "method": method, "seed": str(seed), "value": value}
        for method, values in by_method.items()
        for seed, value in enumerate(values)
        if value is not None
    ]
    claims = _claim(inequality)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reporting.claims.read_csv", lambda _: claims)
        (found,) = findings("fedstyle", _records([*own, *beside]), {})
    return found


@pytest.mark.parametrize(
    "asked",
    [
        "abs(q('accuracy', method='a')) < {bound}",
        "-{bound} < q('accuracy', method='a') < {bound}",
        "all(abs(q('accuracy', method=m)) < {bound} for m in ('a', 'a', 'a'))",
    ],
    ids=["both sides", "chain", "repeated"],
)
@pytest.mark.parametrize(("bound", "expected"), [(0.016, "undecided"), (0.017, "supported")])
def test_a_comparison_that_is_made_again_tells_no_more_of_the_noise(asked, bound, expected):
    """By SciPy's two one-sided tests, of two degrees of freedom. With those of both sides p would be 0.025 at 0.016."""
    values = [0.0, 0.0115, -0.006]
    sides = (
        stats.ttest_1samp(values, -bound, alternative="greater"),
        stats.ttest_1samp(values, bound, alternative="less"),
    )
    assert (max(side.pvalue for side in sides) < 0.05) == (expected == "supported")
    assert _said(asked.format(bound=bound), a=values).verdict == expected


ABOVE_ALL = "q('accuracy', method='a') > max(q('accuracy', method=m) for m in 'bc')"
ONE_ABOVE = "max(q('accuracy', method=m) for m in 'bc') > q('accuracy', method='a')"
TIGHT, WILD = [0.80, 0.82, 0.81], [0.30, 0.81, 1.20]
"""Of which the first has the larger mean."""


@pytest.mark.parametrize("asked", [ABOVE_ALL, "max(q('accuracy', method=m) for m in 'bc') < q('accuracy', method='a')"])
def test_above_the_largest_is_what_is_above_each(asked):
    a = [0.90, 0.91, 0.92]
    assert stats.ttest_rel(a, TIGHT, alternative="greater").pvalue < 0.05
    assert stats.ttest_rel(a, WILD, alternative="greater").pvalue == pytest.approx(0.32, abs=0.01)
    assert _said(asked, a=a, b=TIGHT, c=WILD).verdict == "undecided"
    assert _said(asked, a=a, b=TIGHT, c=TIGHT).verdict == "supported"


def test_one_that_is_above_refutes_whatever_the_largest_mean_is():
    higher = [value + 0.1 for value in WILD]
    assert np.mean(higher) > np.mean(TIGHT)
    assert _said(ABOVE_ALL, a=[0.70, 0.71, 0.72], b=TIGHT, c=higher).verdict == "contradicted"


def test_below_the_smallest_is_what_is_below_each():
    asked = ABOVE_ALL.replace(" > max", " < min")
    higher = [2 - value for value in WILD]
    assert _said(asked, a=[0.70, 0.71, 0.72], b=TIGHT, c=higher).verdict == "undecided"
    assert _said(asked, a=[0.70, 0.71, 0.72], b=TIGHT, c=TIGHT).verdict == "supported"


@pytest.mark.parametrize(
    ("lead", "expected"),
    [([0.015, 0.03, 0.045], "undecided"), ([0.02, 0.03, 0.04], "supported")],
)
def test_that_the_largest_is_above_takes_one_that_is_by_more_than_chance_among_so_many(lead, expected):
    """By SciPy, of one lead p is below 0.05, and of the other below 0.05 / 2."""
    p = stats.ttest_1samp(lead, 0, alternative="greater").pvalue
    assert p < 0.05
    assert (p < 0.025) == (expected == "supported")
    ahead, wild = [0.5 + d for d in lead], [0.1, 0.4, 0.9]
    assert _said(ONE_ABOVE, a=[0.5, 0.5, 0.5], b=ahead, c=wild).verdict == expected


accuracies = st.lists(st.floats(0, 1).map(lambda x: round(x, 2)), min_size=3, max_size=3)


@settings(max_examples=50)
@given(st.lists(accuracies, min_size=3, max_size=3))
def test_a_comparison_with_the_largest_is_that_with_each_of_them(values):
    by_method = dict(zip("abc", values, strict=True))
    each = "q('accuracy', method='a') {} q('accuracy', method=m) for m in 'bc'"
    asked = {ABOVE_ALL: f"all({each.format('>')})", ONE_ABOVE: f"sum({each.format('<')}) >= 1"}
    for of_largest, of_each in asked.items():
        found, same = _said(of_largest, **by_method), _said(of_each, **by_method)
        assert (found.verdict, found.points) == (same.verdict, same.points)


A, EACH = "q('accuracy', method='a')", "(q('accuracy', method=m) for m in 'bc')"
B, C = "q('accuracy', method=m)", "q('accuracy', method=n)"


@settings(max_examples=30)
@given(st.lists(accuracies, min_size=3, max_size=3))
def test_arithmetic_on_a_largest_is_that_on_each_of_them(values):
    by_method = dict(zip("abc", values, strict=True))
    asked = {
        f"{A} - max{EACH} > 0.05": f"all({A} - {B} > 0.05 for m in 'bc')",
        f"max{EACH} - {A} < 0.05": f"all({B} - {A} < 0.05 for m in 'bc')",
        f"1 - min{EACH} < {A} * 2": f"all(1 - {B} < {A} * 2 for m in 'bc')",
        f"max{EACH} - min{EACH} <= 0.1": f"all({B} - {C} <= 0.1 for m in 'bc' for n in 'bc')",
        f"max{EACH} <= 1.05 * min{EACH}": f"all({B} <= 1.05 * {C} for m in 'bc' for n in 'bc')",
        f"max{EACH} * -1 > {A} - 1": f"all({B} * -1 > {A} - 1 for m in 'bc')",
        f"{A} > max{EACH} / 2": f"all({A} > {B} / 2 for m in 'bc')",
    }
    for of_largest, of_each in asked.items():
        found, same = _said(of_largest, **by_method), _said(of_each, **by_method)
        assert (found.verdict, found.points) == (same.verdict, same.points), of_largest


def test_that_it_is_ahead_by_so_much_is_no_easier_than_that_it_is_ahead():
    asked = f"{A} - max{EACH} > 0.05"
    assert _said(asked, a=[0.90, 0.91, 0.92], b=TIGHT, c=TIGHT).verdict == "supported"
    assert _said(asked, a=[0.90, 0.91, 0.92], b=TIGHT, c=WILD).verdict == "undecided"


@pytest.mark.parametrize("parts", [("{b} > {a}", "{c} < {a}"), ("{a} < {b}", "0 < {c} < {a}")])
@pytest.mark.parametrize(
    ("b", "c", "expected"),
    [
        ([0.9, 0.1, 0.6], [0.95, 0.96, 0.94], "contradicted"),  # what noise hides hides nothing else
        ([0.28, 0.30, 0.27], [0.11, 0.11, 0.11], "undecided"),  # false at p = 0.03, which of several is no news
        ([0.90, 0.91, 0.92], [0.10, 0.11, 0.12], "supported"),
    ],
)
def test_the_order_of_what_is_claimed_together_changes_nothing(parts, b, c, expected):
    a = [0.50, 0.50, 0.50] if expected != "undecided" else [0.32, 0.32, 0.32]
    names = {name: f"q('accuracy', method='{name}')" for name in "abc"}
    one, other = (part.format(**names) for part in parts)
    for asked in (f"{one} and {other}", f"{other} and {one}"):
        assert _said(asked, a=a, b=b, c=c).verdict == expected


def test_what_noise_hides_was_measured_whatever_else_was_not():
    """So that the rest, which holds, proves nothing; c was not measured beside b."""
    hidden, missing = "q('accuracy', method=m) > 0.5", "q('accuracy', method=n) > 0.5"
    values = {"a": [0.9, 0.1, 0.9], "b": [0.90, 0.91, 0.92], "d": [0.90, 0.91, 0.92]}
    for parts in (f"{hidden} and {missing}", f"{missing} and {hidden}"):
        assert _said(f"all({parts} for m, n in ('ac', 'bd'))", **values).verdict == "undecided"


@pytest.mark.parametrize(("other", "expected"), [(240.0, "supported"), (262.0, "undecided")])
def test_what_is_counted_and_differs_by_seed_is_tested(other, expected):
    """A line search sends as much as it needs, which chance has a part in."""
    rows = [
        {"metric": "parameters", "method": method, "seed": str(seed), "value": value}
        for method, values in {"a": (270.0, 265.0, 268.0), "b": (other, other - 8, other + 7)}.items()
        for seed, value in enumerate(values)
    ]
    claims = _claim("q('parameters', method='b') < q('parameters', method='a')")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reporting.claims.read_csv", lambda _: claims)
        (found,) = findings("fedstyle", _records(rows), {})
        (one,) = findings("fedstyle", _records(rows[::3]), {})
    assert found.verdict == expected
    assert one.verdict == "supported", "of one seed nobody knows that it differs"


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        ("{b} > max({a}, 0.5)", "supported"),
        ("{b} > max({a}, 0.9)", "undecided"),
        ("{b} > max({a}, 0.99)", "contradicted"),
        ("max({a}, 0.5) - 0.1 < {b}", "supported"),
        ("min({b}, 0.5) > {a}", "supported"),
        ("{b} > max(0.2, 0.5)", "supported"),
    ],
)
def test_a_constant_may_be_the_largest_or_the_smallest(asked, verdict):
    asked = asked.format(**{name: f"q('accuracy', method='{name}')" for name in "ab"})
    assert _said(asked, a=[0.30, 0.31, 0.32], b=[0.90, 0.91, 0.89]).verdict == verdict


def test_one_that_is_above_refutes_though_another_was_not_measured():
    """One that is below proves nothing, and arithmetic does not know with which to go on."""
    unknown = ABOVE_ALL.replace("'bc'", "'bz'")
    assert _said(unknown, a=[0.70, 0.71, 0.72], b=TIGHT).verdict == "contradicted"
    assert _said(unknown, a=[0.90, 0.91, 0.92], b=TIGHT).verdict == "not measured"
    assert _said(unknown, a=[0.80, 0.81, 0.85], b=TIGHT).verdict == "not measured", (
        "within noise, which decides nothing"
    )
    assert _said(f"{unknown} + 9", a=[0.70, 0.71, 0.72], b=TIGHT).verdict == "not measured"
    alone, beside = ABOVE_ALL.replace("'bc'", "'b'"), ABOVE_ALL.replace("'bc'", "'wz'")
    values = {"a": [0.90, 0.92, 0.91], "b": [0.88, 0.89, 0.87], "w": [0.80, 0.78, 0.89]}
    for other in (beside, "q('accuracy', method='z') > 0"):
        assert _said(f"all([{alone}, {other}])", **values).verdict == "for", "what decides nothing is no noise"
    deviations = "sd('accuracy', method='a') > max(sd('accuracy', method=m) for m in 'bz')"
    low, high = ([*_spread(std, 6)] for std in (0.1, 0.3))
    assert _said(deviations, a=low, b=high).verdict == "contradicted"
    assert _said(deviations, a=high, b=low).verdict == "not measured"


def test_a_deviation_above_the_largest_is_above_each():
    """By SciPy's F-test the larger deviation is passed, and not the smaller one, which is of three seeds."""
    assert stats.f.sf(3.0**2, 5, 5) < 0.05 < stats.f.sf(3.1**2, 5, 2)
    a, b, c = ([*_spread(std, seeds)] for std, seeds in ((0.3, 6), (0.1, 6), (0.3 / 3.1, 3)))
    asked = "sd('accuracy', method='a') > max(sd('accuracy', method=m) for m in {})"
    assert _said(asked.format("'b'"), a=a, b=b, c=c).verdict == "supported"
    assert _said(asked.format("'bc'"), a=a, b=b, c=c).verdict == "undecided"


def test_a_finding_has_the_fewest_seeds_that_a_comparison_rests_on():
    """Each number has three, but a and b have the last of a's alone in common."""
    asked = "all(q('accuracy', method='a') > q('accuracy', method=m) for m in 'bc')"
    a, b, c = [0.90, 0.91, 0.92, None, None], [None, None, 0.41, 0.40, 0.42], [0.40, 0.43, 0.41]
    found = _said(asked, a=a, b=b, c=c)
    assert (found.verdict, found.seeds, found.why) == ("for", 1, "1 seed, of which 3 are needed")
    both = _said(asked, a=a, b=[*b[:1], 0.42, *b[2:]], c=c)
    assert (both.verdict, both.seeds) == ("for", 2)
    assert _said(asked, a=a, b=c, c=c).verdict == "supported"


def test_a_number_whose_partner_is_missing_is_no_seed_of_a_finding():
    asked = "all(q('accuracy', method=m) > q('accuracy', method=n) for m, n in ('ac', 'bd'))"
    found = _said(asked, a=[0.90, 0.91, 0.92], b=[0.8], c=[0.40, 0.43, 0.41])
    assert (found.measured, found.asked, found.seeds) == (1, 2, 3)


@pytest.mark.parametrize(("sign", "of_three"), [(">", "contradicted"), (">=", "supported")])
def test_a_tie_decides_if_it_is_one_with_several_seeds(sign, of_three):
    """The spread of the other comparison is known in both cases."""
    asked = f"all(q('accuracy', method=m) {sign} q('accuracy', method='c') for m in 'ab')"
    a, c = [0.90, 0.91, 0.93], [0.40, 0.40, 0.40]
    assert _said(asked, a=a, b=[0.40], c=c).verdict == "undecided"
    assert _said(asked, a=a, b=[0.40, 0.40, 0.40], c=c).verdict == of_three


def test_what_is_far_below_is_not_small():
    rows = [{"metric": "accuracy", "method": "a", "value": 0.1, "seed": seed} for seed in "123"]
    for spreads in (None, {}):
        evaluator = _over(rows)
        evaluator.referee.spreads = spreads
        assert evaluator.truth("abs(q('accuracy', method='a') - 0.5) <= 0.01") is False


def test_a_claim_is_as_good_as_the_worst_of_its_numbers(monkeypatch):
    claims = _claim(EVERY)
    monkeypatch.setattr("reporting.claims.read_csv", lambda _: claims)
    rows = [
        {"metric": "accuracy", "method": m, "style": style, "seed": seed, "value": value, "differs": differs}
        for style in "xyz"
        for seed in "123"
        for m, value, differs in (("a", 0.6, "training.rounds" if style == "z" else ""), ("b", 0.5, ""))
    ]
    (found,) = findings("fedstyle", _records(rows), {})
    assert (found.verdict, found.grade) == ("for", "reduced")


def test_files_of_two_equal_runs_are_equal_though_one_took_longer(monkeypatch, tmp_path):
    claims = _claims().query("claim_id == 'fedinb-20'")
    monkeypatch.setattr("reporting.claims.read_csv", lambda _: claims)
    pages = []
    for minutes in (5.0, 5.5):
        timed = {"paper": "fedinb", "metric": "train_time", "unit": "minutes"}
        rows = [timed | {"method": m, "value": v} for m, v in (("fedinb-hist-indae", minutes), ("fedstargan", 150.0))]
        found = findings("fedinb", _records(rows), {})
        assert found[0].points == "for"
        write_claims("fedinb", found, "", tmp_path / "claims.md")
        pages.append([(tmp_path / name).read_bytes() for name in ("claims.md", "claims.csv")])
    assert pages[0] == pages[1]


# ---- deviations, and how many comparisons hold

MOST = "sum(sd('accuracy',style=t,method='a') > max(sd('accuracy',style=t,method=m) for m in 'bc') for t in 'xyz') > 1"


def _spread(std: float, seeds: int) -> np.ndarray:
    """Numbers with this deviation."""
    values = np.arange(seeds, dtype=float)
    return 0.5 + (values - values.mean()) * (std / values.std(ddof=1) if seeds > 1 else 0)


def _most(by_style: dict[str, tuple[float, float]], seeds: int = 5, inequality: str = MOST, **more: str):
    """What is said of most styles' deviations of `a` above those of `b` and `c`, when they are these."""
    rows = [
        {"metric": "accuracy", "method": method, "style": style, "seed": str(seed), "value": value} | more
        for style, (a, b) in by_style.items()
        for method, std in (("a", a), ("b", b), ("c", b / 2))
        for seed, value in enumerate(_spread(std, seeds))
    ]
    claims = _claim(inequality)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reporting.claims.read_csv", lambda _: claims)
        (found,) = findings("fedstyle", _records(rows), {})
    return found


WIDE, ALIKE, NARROW = (0.1, 0.01), (0.011, 0.01), (0.01, 0.1)


@pytest.mark.parametrize(
    ("styles", "seeds", "more", "expected"),
    [
        ([WIDE, WIDE, WIDE], 5, {}, "supported"),
        ([WIDE, WIDE, ALIKE], 5, {}, "supported"),
        ([WIDE, WIDE, NARROW], 5, {}, "supported"),
        ([WIDE, ALIKE, ALIKE], 5, {}, "undecided"),
        ([WIDE, NARROW, NARROW], 5, {}, "contradicted"),
        ([NARROW, NARROW, ALIKE], 5, {}, "contradicted"),
        ([WIDE, WIDE, WIDE], 5, {"differs": "training.rounds"}, "for"),
        ([NARROW, NARROW, NARROW], 5, {"stand_in": "yes"}, "against"),
        ([WIDE, WIDE, WIDE], 3, {}, "supported"),  # p = 1 / 101
        ([(0.05, 0.01)] * 3, 3, {}, "undecided"),  # p = 1 / 26, where 0.05 / 3 is asked for
        ([WIDE, WIDE, WIDE], 2, {}, "undecided"),
        ([(1e6, 1e-6)] * 3, 2, {}, "undecided"),
        ([WIDE, WIDE, WIDE], 1, {}, "not measured"),
        ([WIDE, WIDE], 5, {}, "supported"),  # the third changes nothing
        ([WIDE], 5, {}, "not measured"),
    ],
)
def test_most_deviations_are_larger(styles, seeds, more, expected):
    assert _most(dict(zip("xyz", styles, strict=False)), seeds, **more).verdict == expected


def test_deviations_are_compared_by_an_f_test():
    """By hand: of two degrees of freedom each, P(F > f) is 1 / (1 + f)."""
    one, other = (as_one(_records([{"value": v, "seed": str(n)} for n, v in enumerate(_spread(s, 3))])) for s in (3, 1))
    assert wider(one, other) == pytest.approx(1 / (1 + 9))
    assert wider(one, other) + wider(other, one) == pytest.approx(1)
    alike = as_one(_records([{"value": 0.1, "seed": str(n)} for n in range(3)]))  # whose std is 2e-17
    assert wider(alike, alike) == 0.5


def test_one_of_several_comparisons_of_deviations_is_false_at_a_stricter_level():
    """p = 0.03, which of two comparisons is no news."""
    ratio = float(np.sqrt(stats.f.isf(0.03, 4, 4)))
    low, high = [*_spread(0.01, 5)], [*_spread(ratio * 0.01, 5)]
    one, other = (f"sd('accuracy', method='{m}') > sd('accuracy', method='{n}')" for m, n in ("ab", "cd"))
    several = {"a": low, "b": high, "c": [*_spread(0.1, 5)], "d": low}
    assert _said(one, **several).verdict == "contradicted"
    assert _said(f"all([{one}, {other}])", **several).verdict == "undecided"


SINGLE = "sd('accuracy',style='x',method='a') > sd('accuracy',style='x',method='b')"
stds = st.floats(0.001, 1)


@settings(max_examples=25)
@given(stds, stds, st.integers(2, 6))
def test_swapping_two_methods_swaps_what_is_said_of_their_deviations(a, b, seeds):
    swapped = {"supported": "contradicted", "contradicted": "supported"}
    found, other = (_most({"x": pair}, seeds, SINGLE).verdict for pair in ((a, b), (b, a)))
    assert other == swapped.get(found, found)


@settings(max_examples=25)
@given(st.lists(st.tuples(stds, stds), min_size=3, max_size=3), st.floats(0, 2), st.integers(3, 6))
def test_noise_on_all_sides_never_makes_a_claim_on_deviations_firm(pairs, noise, seeds):
    """Variances add."""
    noisy = [(float(np.hypot(a, noise)), float(np.hypot(b, noise))) for a, b in pairs]
    before, after = (_most(dict(zip("xyz", part, strict=True)), seeds, NO_MAX).verdict for part in (pairs, noisy))
    assert after not in FIRM or after == before


NO_MAX = "sum(sd('accuracy',style=t,method='a') > sd('accuracy',style=t,method='b') for t in 'xyz') > 1"


@settings(max_examples=25)
@given(st.lists(st.tuples(stds, stds), min_size=3, max_size=3), st.integers(1, 5))
def test_fewer_seeds_never_make_a_claim_on_deviations_firmer(pairs, fewer):
    by_style = dict(zip("xyz", pairs, strict=True))
    before, after = (_most(by_style, seeds, NO_MAX).verdict for seeds in (6, fewer))
    assert after not in FIRM or after == before
    assert after not in FIRM or fewer >= 3


def test_counted_comparisons_are_each_decided_at_a_stricter_level():
    """p = 0.02 each: it does by itself and in `all`, but that some two of three hold takes p < 0.017."""
    ratio = float(np.sqrt(stats.f.isf(0.02, 4, 4)))
    pairs = dict.fromkeys("xyz", (ratio * 0.01, 0.01))
    assert _most(pairs, 5, NO_MAX).verdict == "undecided"
    assert _most(pairs, 5, NO_MAX.replace("sum(", "all(").removesuffix(" > 1")).verdict == "supported"


@pytest.mark.parametrize("counted", ["ab", "bb", "bx", "xb"])
@pytest.mark.parametrize("asked", ["> 1", ">= 2", "== 2"])
def test_a_count_that_noise_leaves_open_was_measured(counted, asked):
    """Without it those that are left would all hold."""
    ask = f"all(sum(q('accuracy', method=m) > 0.5 for m in ms) {asked} for ms in ('{counted}', 'cd', 'xz'))"
    high = [0.90, 0.91, 0.92]
    rows = _records(
        [
            {"metric": "accuracy", "method": m, "seed": str(seed), "value": value}
            for m, values in {"a": high, "b": [0.9, 0.1, 0.7], "c": high, "d": high}.items()
            for seed, value in enumerate(values)
        ]
    )
    evaluator = Evaluator(Shelf.of(rows), partly=True)
    evaluator.referee.spreads = {}
    assert evaluator.truth(ask) is None
    assert evaluator.truth(ask.replace(counted, "ac")) is True


def test_what_noise_hides_of_a_count_leaves_a_claim_undecided():
    ask = "all(sum(q('accuracy', method=m) > 0.5 for m in ms) > 1 for ms in ('ab', 'cd', 'xz'))"
    high = [0.90, 0.91, 0.92]
    assert _said(ask, a=high, b=[0.9, 0.1, 0.7], c=high, d=high).verdict == "undecided"
    assert _said(ask, a=high, b=high, c=high, d=high).verdict == "for"


@pytest.mark.parametrize("truths", list(itertools.product([True, False, None], repeat=3)))
@pytest.mark.parametrize("bound", [0, 1, 2, 3])
def test_a_count_is_known_when_no_completion_changes_it(truths, bound):
    """Of three unknown truths nothing says that they are truths."""
    options = [[t] if t is not None else [True, False] for t in truths]
    outcomes = {sum(completion) > bound for completion in itertools.product(*options)}
    found = _known(_evaluator().sum(U if t is None else t for t in truths) > bound)
    expected = outcomes.pop() if len(outcomes) == 1 else None
    assert found == (expected if any(t is not None for t in truths) else None)
