"""What is told from what, against SciPy's paired t-test."""

import pandas as pd
import pytest
from scipy import stats

from common.errors import InputError
from common.records import COLUMNS
from reporting.compared import compared, shelf
from reporting.expressions import Shelf

A, B, C = [0.71, 0.78, 0.64], [0.69, 0.75, 0.63], [0.70, 0.70, 0.70]
ABOVE = "q('accuracy', method='a') > q('accuracy', method='{}')"


def _shelf(**accuracies: list[float]) -> Shelf:
    blank = dict.fromkeys(COLUMNS, "") | {"paper": "common", "metric": "accuracy", "budget": "1"}
    rows = [
        blank | {"method": method, "seed": str(seed), "value": value}
        for method, values in accuracies.items()
        for seed, value in enumerate(values)
    ]
    shuffled = [row | {"control": "shuffled-labels", "value": row["value"] - 0.5} for row in rows]
    elsewhere = [row | {"dataset": "pacs", "value": 1 - row["value"]} for row in rows]
    return shelf(pd.DataFrame(rows + shuffled + elsewhere, columns=COLUMNS).astype({"value": float}))


@pytest.mark.parametrize(("other", "told"), [(B, True), (C, False)])
def test_a_comparison_is_told_by_a_paired_t_test(other, told):
    among = _shelf(a=A, b=other)
    p = stats.ttest_rel(A, other, alternative="greater").pvalue
    assert (p < 0.05) == told
    found = compared(ABOVE.format("b"), among, {"dataset": ""})
    assert (found.holds, found.told) == (True, told)
    assert found.p == pytest.approx(p)
    differences = {str(seed): a - b for seed, (a, b) in enumerate(zip(A, other, strict=True))}
    assert found.differences == [pytest.approx(differences)]


def test_that_it_does_not_hold_is_told_likewise():
    among = _shelf(a=B, b=A)
    found = compared(ABOVE.format("b"), among, {"dataset": ""})
    assert (found.holds, found.told) == (False, True)
    assert found.p == pytest.approx(stats.ttest_rel(A, B, alternative="greater").pvalue)
    assert "does not hold, told (one-sided p = " in found.said
    assert "0: -0.02, 1: -0.03, 2: -0.01" in found.said


def test_where_is_of_every_number_and_a_query_may_say_otherwise():
    among = _shelf(a=A, b=B)
    assert compared(ABOVE.format("b"), among, {"dataset": "pacs"}).holds is False
    own = "q('accuracy', method='a') > q('accuracy', method='a', control='shuffled-labels')"
    assert compared(own, among, {"dataset": ""}).differences == [pytest.approx({"0": 0.5, "1": 0.5, "2": 0.5})]


def test_of_several_all_must_be_told():
    among = _shelf(a=A, b=B, c=C)
    both = f"{ABOVE.format('b')} and {ABOVE.format('c')}"
    found = compared(both, among, {"dataset": ""})
    assert (found.holds, found.told, len(found.differences)) == (True, False, 2)
    assert "p =" not in found.said


def test_one_seed_tells_nothing_and_what_was_not_measured_neither():
    found = compared(ABOVE.format("b"), _shelf(a=A[:1], b=B[:1]), {"dataset": ""})
    assert (found.holds, found.told) == (True, False)
    assert found.said.endswith("holds, not told")
    found = compared(ABOVE.format("z"), _shelf(a=A), {"dataset": ""})
    assert (found.holds, found.told) == (None, False)
    assert found.said.endswith("not measured, or not all of it")


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("q('accuracy') >", "invalid syntax"),
        ("q('accuracy', methd='a') > 0", "did you mean 'method'"),
        ("q('accuracy') > 0", "matches several numbers"),
        ("q('accuracy', method='a')", "compares nothing"),
        ("accuracy > 0", "'accuracy' is not defined"),
    ],
)
def test_what_is_no_comparison_is_a_sentence(expression, words):
    with pytest.raises(InputError, match=words):
        compared(expression, _shelf(a=A, b=B), {"dataset": ""})
