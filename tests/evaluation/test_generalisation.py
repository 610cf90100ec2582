"""Accuracy on styles that no client has, on a table that is small enough to average by hand."""

import pytest

from abilities import COLUMNS
from common.run_folder import RunFolder
from evaluation.curves import curves
from evaluation.generalisation import generalisation
from tests.evaluation.test_probe import _write_run
from tests.mutation import mutated


def _scored(folder) -> RunFolder:
    """Two clients after rounds 2 and 10; on what is unseen they are 0.3 apart."""
    run = _write_run(folder)
    run.write_spec(run.spec.model_copy(update={"training": run.spec.training.model_copy(update={"rounds": 10})}))
    rows = []
    for round, own in ((10, 0.9), (2, 0.8)):
        rows += [(round, k, "accuracy", own, "", "") for k in (0, 1)]
        for style, value in (("75", 0.4), ("90", 0.2)):
            for part, gain in (("train", 0.1), ("test", 0.0)):
                rows += [(round, k, "accuracy", value + gain + round / 100 + 0.3 * k, style, part) for k in (0, 1)]
                rows += [(round, k, "loss", 7.0, style, part) for k in (0, 1)]
    run.write_table("scores.csv", [dict(zip(COLUMNS, row, strict=True)) for row in rows], COLUMNS)
    return RunFolder(folder)


def check_generalisation(measure, folder) -> None:
    found = {(r["domain"], r["protocol"], r["setting"]): r for r in measure(_scored(folder))}
    assert {(r["metric"], r["unit"], r["style"]) for r in found.values()} == {("accuracy", "fraction", "all")}
    expected = {}
    for style, value in (("75", 0.4), ("90", 0.2)):
        for protocol, gain in (("", 0.1), ("test-images", 0.0)):
            expected |= {(style, protocol, f"rounds={n}"): value + gain + n / 100 + 0.15 for n in (2, 10)}
            expected[style, protocol, ""] = expected[style, protocol, "rounds=10"]
    assert {key: r["value"] for key, r in found.items()} == pytest.approx(expected)


def test_generalisation(tmp_path):
    check_generalisation(generalisation, tmp_path / "run")


@pytest.mark.parametrize(
    ("of", "right", "wrong"),
    [
        ("generalisation", "style, 1.0)", "style, 0.2)"),
        ("generalisation", "np.mean", "np.max"),
        ("generalisation", "PROTOCOLS[part]", 'PROTOCOLS["train"]'),
        ("_found", ' and row["score"] == "accuracy"', ""),
    ],
)
def test_a_wrong_mean_is_caught(of, right, wrong, tmp_path):
    with mutated("evaluation.generalisation", of, right, wrong) as mutant, pytest.raises(AssertionError):
        check_generalisation(mutant if of == "generalisation" else generalisation, tmp_path / "run")


@pytest.mark.parametrize(
    ("after", "rounds"),
    [
        ({"d": {"75": 0.5}}, (2, 10)),
        ({"d": {"75": 0.2, "90": 0.99}}, (2, 2)),
        ({"d": {"75": 0.1}}, (2, 10)),  # before the first that was scored
        ({"d": {"90": 1.0}}, (10, 10)),
        ({"another": {"75": 0.5}}, (10, 10)),
    ],
)
def test_a_style_is_read_after_its_own_share_of_the_rounds(after, rounds, tmp_path):
    rows = list(generalisation(_scored(tmp_path / "run"), after=after))
    found = {(r["domain"], r["protocol"], r["setting"]): r["value"] for r in rows}
    for style, round in zip(("75", "90"), rounds, strict=True):
        for protocol in ("", "test-images"):
            assert found[style, protocol, ""] == found[style, protocol, f"rounds={round}"]


def test_what_a_run_that_diverged_did_not_come_to_is_no_number(tmp_path):
    run = _scored(tmp_path / "run")  # after rounds 2 and 10 of 12
    training = run.spec.training.model_copy(update={"rounds": 12})
    run.write_spec(run.spec.model_copy(update={"training": training, "score_every": 2}))
    run.write_provenance({"status": "diverged"})
    rows = list(generalisation(RunFolder(run.path), after={"d": {"75": 0.2}}))
    read = {r["domain"]: r.get("status", r["value"]) for r in rows if not r["setting"] and not r["protocol"]}
    assert read == {"75": pytest.approx(0.67), "90": "diverged"}, "75 was read after two rounds"


def test_a_run_that_diverged_and_was_scored_when_nobody_asked_is_read_where_it_came_to(tmp_path):
    """After rounds 2 and 10 of 12: at a sixth and at 5/6 it was scored, and by the last it had diverged."""
    run = _scored(tmp_path / "run")
    training = run.spec.training.model_copy(update={"rounds": 12})
    run.write_spec(run.spec.model_copy(update={"training": training, "score_every": 0}))
    run.write_provenance({"status": "diverged"})
    for share, read in ((1 / 6, 0.67), (10 / 12, 0.75), (1.0, "diverged")):
        rows = generalisation(RunFolder(run.path), after={"d": {"75": share}})
        (found,) = [r for r in rows if r["domain"] == "75" and not r["setting"] and not r["protocol"]]
        assert found.get("status", found["value"]) == (read if isinstance(read, str) else pytest.approx(read))


def test_a_run_that_diverged_before_it_was_ever_scored_has_none_of_what_was_asked(tmp_path):
    """Else a mean over seeds would be one over those that were left."""
    run = _write_run(tmp_path / "run")
    data = run.spec.data.model_copy(update={"unseen": ["wax"]})
    asked = {"data": data, "objective": {"name": "classification"}, "score_every": 2}
    run.write_spec(run.spec.model_copy(update=asked))
    run.write_provenance({"status": "diverged"})
    rows = [(r["domain"], r["protocol"], r["setting"], r["status"]) for r in generalisation(RunFolder(run.path))]
    assert sorted(rows) == [("wax", "", "", "diverged"), ("wax", "test-images", "", "diverged")]
    run.write_spec(run.spec.model_copy(update=asked | {"score_every": 0}))
    assert not list(generalisation(RunFolder(run.path))), "nothing was to be scored"


def check_curves(measure, folder) -> None:
    found = {r["setting"]: r["value"] for r in measure(_scored(folder)) if r["metric"] == "accuracy"}
    assert found == pytest.approx(
        {
            "rounds=2": 0.8,
            "rounds=10": 0.9,
            "rounds=quarter": 0.8,
            **dict.fromkeys(("rounds=all", "rounds=best"), 0.9),
            "rounds=half": 0.8,
        }
    )


def test_what_is_unseen_is_no_part_of_clients_curves(tmp_path):
    check_curves(curves, tmp_path / "run")


def test_curves_that_count_the_unseen_are_caught(tmp_path):
    with mutated("evaluation.curves", "_scores", 'row.get("style")', "False"), pytest.raises(AssertionError):
        check_curves(curves, tmp_path / "run")


def test_a_table_without_styles_has_none_that_are_unseen(tmp_path):
    run = _write_run(tmp_path / "run")
    run.write_table("scores.csv", [{"round": 1, "client": 0, "score": "accuracy", "value": 0.5}], COLUMNS[:4])
    assert not list(generalisation(run))
    assert [r["value"] for r in curves(run) if r["setting"] == "rounds=1" and r["metric"] == "accuracy"] == [0.5]
