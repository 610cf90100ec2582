"""Evidence: how far a run is from the published one, and which of several is the best."""

import gzip

import pandas as pd
import pytest

from common.codehash import ROOT
from common.errors import InputError
from common.records import COLUMNS
from reporting.evidence import Evidence, Grade, as_one, evidence_by, read_base
from reporting.records import read_csv, read_rows

REFERENCE = ROOT / "results" / "reference"


def _rows(*rows: dict) -> pd.DataFrame:
    blank = dict.fromkeys(COLUMNS, "") | {"scale": "paper", "seed": "1", "budget": "1", "measured_as": ""}
    return pd.DataFrame([blank | row for row in rows])


def _of_one_cell(*rows: dict) -> list[Evidence]:
    (found,) = evidence_by(["paper"], _rows(*rows)).values()
    return found


def test_the_best_comes_first():
    best = {"value": 0.5, "scale": "c"}
    found = _of_one_cell(
        {"value": 0.1, "scale": "a", "stand_in": "yes"},
        {"value": 0.2, "scale": "b", "differs": "training.rounds", "budget": "0.9", "seed": "1"},
        {"value": 0.2, "scale": "b", "differs": "training.rounds", "budget": "0.9", "seed": "2"},
        best | {"seed": "1"},
        {"value": 0.3, "scale": "d", "differs": "training.rounds", "budget": "0.95"},
        {"value": 0.4, "scale": "e", "differs": "network.width", "budget": "0.9"},
        {"value": 0.4, "scale": "f", "differs": "unknown", "budget": ""},
        {"value": 0.4, "scale": "g", "seed": "1"},
        {"value": 0.4, "scale": "g", "seed": "2"},
    )
    assert [e.scale for e in found] == ["g", "c", "d", "b", "e", "f", "a"]
    assert [e.grade for e in found] == ["as published"] * 2 + ["reduced"] * 4 + ["stand-in"]


def test_each_cell_has_its_own():
    rows = [{"method": m, "style": s, "value": v} for m, s, v in (("b", "x", 0.1), ("a", "x", 0.2), ("b", "y", 0.3))]
    found = evidence_by(["method", "style"], _rows(*rows, rows[0] | {"seed": "2", "value": 0.5}))
    assert {key: [e.mean for e in of_cell] for key, of_cell in found.items()} == {
        ("b", "x"): [0.3],
        ("a", "x"): [0.2],
        ("b", "y"): [0.3],
    }


def test_a_seed_counts_once_whatever_tables_its_run_is_for():
    runs = ({"value": v, "seed": s, "table": t} for s, v in (("1", 0.2), ("2", 0.4)) for t in ("a", "b"))
    (found,) = _of_one_cell(*runs)
    assert (found.seeds, found.mean) == (2, pytest.approx(0.3))
    assert found.std == pytest.approx(0.02**0.5)


def test_a_run_counts_once_at_each_scale_whatever_tables_it_is_for():
    """Else the mean of 0.2, 0.2 and 0.5 were 0.3."""
    tables = ({"run": "a", "value": 0.2, "scale": "small", "table": t} for t in "xy")
    found = as_one(_rows(*tables, {"run": "a", "value": 0.5}))
    assert found.values == {"1": pytest.approx(0.35)}
    assert found.scale == "paper and small"


def test_a_number_has_had_the_least_training_of_its_seeds_and_all_their_runs_and_names():
    fid = {"metric": "fid", "value": 5.0, "measured_as": "fid:b", "run": "m n"}
    (found,) = _of_one_cell(
        fid | {"seed": "1", "budget": "0.5"},
        fid | {"seed": "2", "budget": "0.1", "measured_as": "fid:a", "run": "k"},
        fid | {"seed": "3", "budget": "0.3", "measured_as": "", "run": "n"},
    )
    assert (found.budget, found.runs, found.measured_as) == (0.1, ("k", "m", "n"), "fid:a fid:b")


def test_what_differs_in_other_keys_is_another_number():
    one = {"value": 0.2, "differs": ""}
    found = _of_one_cell(one, {"value": 0.4, "differs": "network.width"}, one | {"seed": "2"})
    assert [(e.values, e.differs) for e in found] == [({"1": 0.2, "2": 0.2}, ()), ({"1": 0.4}, ("network.width",))]


def test_two_numbers_of_one_run_are_no_mean():
    """Those of several runs are, such as a control's over methods, and so is one that stands under two tables."""
    one = {"run": "a", "value": 0.2, "table": "x"}
    for first, second in ((0.2, 0.4), (0.4, 0.2)):
        with pytest.raises(InputError, match="several numbers of a; its table does not tell them apart"):
            _of_one_cell(one | {"value": first}, one | {"value": second})
    others = ({"table": "y"}, {"run": "b", "value": 0.4}, {"scale": "tiny", "value": 0.9})
    found = _of_one_cell(one, *(one | other for other in others))
    assert [e.mean for e in found] == pytest.approx([0.3, 0.9])


def test_a_diverged_seed_makes_a_diverged_number():
    (found,) = _of_one_cell({"value": 0.5}, {"value": float("nan"), "seed": "2"})
    assert found.mean != found.mean


def test_a_stand_in_is_never_as_published():
    assert Evidence({"1": 0.5}, stand_in=True).grade is Grade.STAND_IN
    assert Evidence({"1": 0.5}, stand_in=True, differs=("data.styles.svhn",)).grade is Grade.STAND_IN


def test_a_folder_without_records(tmp_path):
    with pytest.raises(InputError, match="there are no records in it"):
        read_base(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.assign(colour="red"), "no such columns: colour"),
        (lambda rows: rows.drop(columns=["budget"]), "missing: budget"),
        (lambda rows: rows.assign(value="high"), "line 2: a value must be a number or empty, got 'high'"),
        (lambda rows: pd.concat([rows, rows.assign(value=0.6)]), "line 3: accuracy of p/c/m/v/1 is there already"),
        (lambda rows: rows.assign(budget="half"), "line 2: a budget must be a number or empty, got 'half'"),
        (lambda rows: rows.assign(budget="-0.5"), "line 2: a budget must be finite and not negative, got '-0.5'"),
        (lambda rows: rows.assign(budget="inf"), "line 2: a budget must be finite and not negative, got 'inf'"),
        (lambda rows: rows.assign(stand_in="Yes"), "line 2: a stand_in must be yes or empty, got 'Yes'"),
        (lambda rows: rows.assign(stand_in="1"), "line 2: a stand_in must be yes or empty, got '1'"),
        (lambda rows: rows.assign(seed="one"), "line 2: the seed of a run must be a whole number, got 'one'"),
        (lambda rows: rows.assign(seed=""), "line 2: the seed of a run must be a whole number, got ''"),
        (lambda rows: rows.assign(seed="1.5"), "line 2: the seed of a run must be a whole number, got '1.5'"),
        (
            lambda rows: rows.assign(run="p/c/m/1"),
            "line 2: a run must be named paper/condition/method/.*, got 'p/c/m/1'",
        ),
        (lambda rows: pd.concat([rows, rows.assign(run="p/c/m/v/1 a b")]), "line 3: a run must be named"),
        (lambda rows: rows.assign(status="fine"), "line 2: a status must be ok or diverged, got 'fine'"),
        (lambda rows: rows.assign(status="diverged"), "line 2: one that diverged has no value, got '0.5'"),
        (lambda rows: rows.assign(value=""), "line 2: one that is ok must have a finite value, got ''"),
        (lambda rows: rows.assign(value="inf"), "line 2: one that is ok must have a finite value, got 'inf'"),
    ],
)
def test_a_file_that_is_no_table_of_records(change, said, tmp_path):
    rows = _rows({"value": 0.5, "status": "ok", "metric": "accuracy", "run": "p/c/m/v/1"})[COLUMNS]
    change(rows).to_csv(tmp_path / "records.csv", index=False)
    with pytest.raises(InputError, match=said):
        read_rows(tmp_path / "records.csv")


def test_what_a_record_may_have(tmp_path):
    """Of a run or of none, as averages have, with nothing known of its training or all."""
    row = {"value": 0.5, "status": "ok", "metric": "accuracy", "run": "p/c/m/v/1"}
    others = ({"run": "", "seed": ""}, {"budget": "", "stand_in": "yes"}, {"budget": "0"}, {"budget": "1.5"})
    rows = _rows(row, *(row | {"metric": str(n)} | other for n, other in enumerate(others)))[COLUMNS]
    rows.to_csv(tmp_path / "records.csv", index=False)
    assert len(read_rows(tmp_path / "records.csv")) == 5


@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS[::-1]])
def test_a_file_that_was_cut_within_its_last_line(columns, tmp_path):
    """Without `differs` a reduced number would be as published."""
    row = {"value": 0.5, "status": "ok", "metric": "accuracy", "run": "p/c/m/v/1", "differs": "network.width"}
    row |= {"paper": "p", "bytes_down": "0"}  # a line that is empty but for commas is cut to none
    rows = _rows(row, row | {"seed": "2"})[columns]
    whole = rows.to_csv(index=False)
    for n in range(len(whole) - 2, whole[:-1].rindex("\n"), -1):
        if whole[n] == ",":
            (tmp_path / "records.csv").write_text(whole[:n])
            with pytest.raises(InputError, match=r"records.csv: line 3 has not as many values as the 41 columns"):
                read_rows(tmp_path / "records.csv")


@pytest.mark.parametrize(("kept", "rest"), [(14, b""), (10, b"\xff" * 1000)], ids=["cut", "spoilt"])
def test_a_compressed_file_that_was_cut_or_spoilt(kept, rest, tmp_path):
    (tmp_path / "records.csv.gz").write_bytes(gzip.compress(b"a file of records")[:kept] + rest)
    with pytest.raises(InputError, match=r"records.csv.gz: cannot be read as CSV"):
        read_rows(tmp_path / "records.csv.gz")


def test_a_file_with_a_value_too_many_in_every_line(tmp_path):
    """Else all would move by a column."""
    (tmp_path / "rows.csv").write_text("a,b\n1,2,3\n4,5,6\n")
    with pytest.raises(InputError, match=r"rows.csv: cannot be read as CSV \(its lines have more values"):
        read_csv(tmp_path / "rows.csv")


def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path):
    (tmp_path / "records.csv").write_text(f"{','.join(COLUMNS)}\n{','.join(COLUMNS)}\n{',' * 99}\n")
    with pytest.raises(InputError) as error:
        read_rows(tmp_path / "records.csv")
    assert "\n" not in str(error.value)


def test_the_reference_records_know_how_far_they_are():
    records = pd.concat([read_rows(file) for file in REFERENCE.glob("*/records.csv.gz")])
    assert (pd.to_numeric(records["budget"]) > 0).sum() + (records["differs"] == "unknown").sum() == len(records)
    whole = records[records["scale"] == "reference-fedinb-whole"]
    assert not whole.empty
    assert (whole["differs"] == "").all()  # as published
    before = records[records["variant"] == "first_step=0.02"]
    assert before["differs"].str.startswith("algorithm.first_step").all()
    assert not before.empty
    assert not (records["differs"] == "").all()
