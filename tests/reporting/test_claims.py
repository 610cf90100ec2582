"""Claims: three-valued logic against brute force, and the paper's claims on the paper's own numbers."""

import itertools

import pandas as pd
import pytest

from common.errors import InputError
from common.records import COLUMNS
from diptych.study import load_study
from reporting.claims import Evaluator, Unknown, findings, index_of, write_claims
from reporting.records import PUBLISHED, published, read_csv

U = Unknown()


def _records(rows: list[dict]) -> pd.DataFrame:
    blank = dict.fromkeys(COLUMNS, "") | {"paper": "fedstyle", "seed": "1"}
    return pd.DataFrame([blank | row for row in rows], columns=COLUMNS).astype({"value": float})


def _evaluator(**values: float) -> Evaluator:
    """Records of accuracy by method."""
    return _over([{"metric": "accuracy", "method": m, "value": v} for m, v in values.items()])


def _over(rows: list[dict]) -> Evaluator:
    return Evaluator(_records(rows), index_of(_records(rows)))


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
        ("min(q('accuracy', method='a'), q('accuracy', method='z')) < 1", None),
        ("sum(q('accuracy', method=m) for m in ('a', 'b')) == 1", True),
        ("sum(q('accuracy', method=m) for m in ('a', 'z')) > 0", None),
        ("q('accuracy', method=('a', 'y')) == 0.75", True),
        ("q('fid', method='a') < 3", None),
    ],
)
def test_expressions(expression, truth):
    assert _evaluator(a=0.75, b=0.25).truth(expression) is truth


def test_a_number_is_the_mean_over_seeds():
    rows = [{"metric": "accuracy", "method": "a", "value": v, "seed": s} for s, v in (("1", 0.2), ("2", 0.4))]
    assert _over(rows).q("accuracy", method="a") == pytest.approx(0.3)


def test_a_diverged_number_is_unknown():
    assert isinstance(_evaluator(a=float("nan")).q("accuracy", method="a"), Unknown)


def test_two_numbers_for_one_question_are_an_error():
    rows = [{"metric": "accuracy", "method": "a", "style": s, "value": v} for s, v in (("x", 0.2), ("y", 0.4))]
    with pytest.raises(InputError, match="matches several numbers"):
        _over(rows).q("accuracy", method="a")


def test_the_papers_claims_on_the_papers_numbers():
    """What claims.csv says of the printed numbers comes out of our evaluation of the printed numbers."""
    tables = [published("fedstyle", name) for name in ("table1", "table2", "table3", "table4", "text")]
    rows = pd.concat(tables)[[c for c in COLUMNS if c in tables[0]]].to_dict("records")
    found = findings(
        "fedstyle", _records(rows), {}
    )  # columns that our records need fixed are empty in the paper's text
    claims = read_csv(PUBLISHED / "claims.csv").set_index("claim_id")["published_holds"]
    said = {"yes": "supported", "no": "contradicted", "not-printed": "not measured"}
    assert {f.claim: f.verdict for f in found} == {f.claim: said[claims[f.claim]] for f in found}
    assert len(found) == 22


def test_the_page(tmp_path):
    tables = [published("fedstyle", name) for name in ("table1", "table2", "table3", "table4", "text")]
    rows = pd.concat(tables)[[c for c in COLUMNS if c in tables[0]]].to_dict("records")
    found = findings("fedstyle", _records(rows), load_study("paper").papers["fedstyle"].claims)
    write_claims("fedstyle", found, "about", tmp_path / "fedstyle.md")
    page, table = (tmp_path / "fedstyle.md").read_text(), pd.read_csv(tmp_path / "fedstyle.csv")
    assert [f"**{claim}**" in page for claim in table["claim"]] == [True] * 22
    for outcome, n in table["verdict"].value_counts().items():
        assert f"## {str(outcome).capitalize()} ({n} of 22)" in page
    assert max(map(len, page.splitlines())) < 1000


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
    asked = [(f.statement.rpartition(" [")[2], f.verdict) for f in found if f.claim == "feddva-06"]
    assert asked == [("shared-encoder]", "contradicted"), ("own-encoder]", "supported")]
    assert [f.claim for f in found].count("feddva-01") == 1
