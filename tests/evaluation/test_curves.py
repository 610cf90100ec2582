"""How soon a run gets there, on tables that are small enough to count by hand."""

import pytest

from common.run_folder import RunFolder
from common.spec import Spec
from evaluation.curves import curves
from tests.evaluation.test_probe import _write_run


def _run(folder) -> RunFolder:
    """Accuracy 0.2, 0.5, 0.4 after rounds 2, 4 and 6; ten bytes each way in each of six rounds, and three before."""
    run = _write_run(folder)
    run.write_spec(_of(run, rounds=6))
    scores = [
        {"round": n, "client": k, "score": "accuracy", "value": value + gain}
        for n, value in ((4, 0.5), (2, 0.2), (6, 0.4))
        for k, gain in enumerate((-0.1, 0.1))
    ]
    run.write_table("scores.csv", scores, ["round", "client", "score", "value"])
    sent = [(0, "up", 3), *((n, way, 10) for n in range(1, 7) for way in ("up", "down"))]
    columns = ["round", "client", "direction", "name", "bytes"]
    run.write_table(
        "traffic.csv", [dict(zip(columns, (n, 0, way, "w", size), strict=True)) for n, way, size in sent], columns
    )
    return RunFolder(folder)


def _of(run: RunFolder, **training) -> Spec:
    asked = {"score_every": 2, "objective": {"name": "classification"}}
    return run.spec.model_copy(update={"training": run.spec.training.model_copy(update=training), **asked})


def _found(run: RunFolder, target: float) -> dict[str, float]:
    rows = curves(run, targets={run.spec.data.dataset: target})
    return {r["metric"]: r["value"] for r in rows if not r["setting"]}


@pytest.mark.parametrize(("target", "round"), [(0.2, 2), (0.3, 4), (0.5, 4)])
def test_a_target_is_reached_by_the_mean_over_clients_and_costs_what_crossed_until_then(target, round, tmp_path):
    assert _found(_run(tmp_path / "run"), target) == {"rounds_to_target": round, "bytes_to_target": 3 + 20 * round}


def test_a_target_that_no_mean_reaches_takes_one_round_more_and_no_number_of_bytes(tmp_path):
    assert _found(_run(tmp_path / "run"), 0.55) == {"rounds_to_target": 7}, "though one client gets to 0.6"


def test_the_best_round_need_not_be_the_last(tmp_path):
    rows = list(curves(_run(tmp_path / "run")))
    found = {r["setting"]: r["value"] for r in rows if r["metric"] == "accuracy"}
    assert (found["rounds=best"], found["rounds=all"], found["rounds=half"]) == pytest.approx((0.5, 0.4, 0.2))
    assert "rounds=quarter" not in found, "nothing was scored by then"
    assert all(r["value"] == pytest.approx(0.1) for r in rows if r["metric"] == "accuracy_std_over_clients")


def test_a_model_that_all_use_has_no_deviation_over_clients(tmp_path):
    """Of a pooled run and of the server's a mean over clients is all that is left."""
    run = _run(tmp_path / "run")
    scores = [{"round": n, "client": -1, "score": "accuracy", "value": value} for n, value in ((3, 0.5), (6, 0.6))]
    run.write_table("scores.csv", scores, list(scores[0]))
    assert {r["metric"] for r in curves(run)} == {"accuracy"}


def test_each_number_has_the_unit_and_the_kind_of_what_it_counts(tmp_path):
    run = _run(tmp_path / "run")
    scores = run.table("scores.csv")
    losses = [row | {"score": score} for row in scores for score in ("reconstruction_error", "kl_c")]
    run.write_table("scores.csv", scores + losses, list(scores[0]))
    rows = list(curves(RunFolder(run.path), targets={run.spec.data.dataset: 0.5}, traffic=True))
    assert {(r["metric"], r["unit"], r["kind"]) for r in rows} == {
        ("accuracy", "fraction", "result"),
        ("accuracy_std_over_clients", "fraction", "result"),
        ("reconstruction_error", "score", "result"),
        ("kl_c", "nats", "result"),
        ("rounds_to_target", "rounds", "result"),
        ("bytes_to_target", "count", "cost"),
        ("bytes", "count", "cost"),
    }


def test_traffic_is_what_has_crossed_by_each_round_that_was_scored_and_only_if_asked_for(tmp_path):
    run = _run(tmp_path / "run")
    found = {r["setting"]: r["value"] for r in curves(run, traffic=True) if r["metric"] == "bytes"}
    assert found == {"rounds=2": 43, "rounds=4": 83, "rounds=6": 123}
    assert [r for r in curves(run, traffic=True) if r["metric"] != "bytes"] == list(curves(run))


def test_bytes_are_left_out_where_a_run_has_not_left_what_crossed(tmp_path):
    run = _run(tmp_path / "run")
    (run.path / "traffic.csv").unlink()
    assert _found(RunFolder(run.path), 0.5) == {"rounds_to_target": 4}
    assert not [r for r in curves(RunFolder(run.path), traffic=True) if r["metric"] == "bytes"]


def test_a_run_that_was_scored_when_nobody_asked_has_not_diverged(tmp_path):
    """After rounds 2, 4 and 6 of eight, by a program of somebody's own."""
    run = _run(tmp_path / "run")
    run.write_spec(_of(run, rounds=8).model_copy(update={"score_every": 0}))
    found = {r["setting"]: r["value"] for r in curves(RunFolder(run.path)) if r["metric"] == "accuracy"}
    assert (found["rounds=quarter"], found["rounds=half"], found["rounds=all"]) == pytest.approx((0.2, 0.5, 0.4))


def _diverged(folder, scored: bool) -> RunFolder:
    """The same, of nine rounds of which it did not finish the seventh; or, if nothing was scored, the second."""
    run = _run(folder)
    run.write_spec(_of(run, rounds=9))
    run.write_provenance({"status": "diverged"})
    if not scored:
        run.write_table("scores.csv", [], ["round", "client", "score", "value"])
    return RunFolder(folder)


def test_what_a_run_that_diverged_did_not_come_to_is_no_number(tmp_path):
    run = _diverged(tmp_path / "run", scored=True)
    rows = list(curves(run, targets={run.spec.data.dataset: 0.45}))
    found = {r["setting"]: (r["value"], r["status"]) for r in rows if r.get("status")}
    assert found == dict.fromkeys(("rounds=all", "rounds=best"), ("", "diverged"))
    kept = {r["setting"]: r["value"] for r in rows if r["metric"] == "accuracy" and not r.get("status")}
    early = {"rounds=2": 0.2, "rounds=4": 0.5, "rounds=6": 0.4, "rounds=quarter": 0.2, "rounds=half": 0.5}
    assert kept == pytest.approx(early)
    assert _found(run, 0.45)["rounds_to_target"] == 4
    assert _found(run, 0.6) == {"rounds_to_target": 10}, "never, and not in the round after it diverged"


@pytest.mark.parametrize(("score_every", "half"), [(4, 0.5), (3, "diverged"), (0, "diverged")])
def test_what_was_scored_before_a_run_diverged_is_a_number(score_every, half, tmp_path):
    """Half of twelve rounds is six: the last that was scored by then is the fourth, or might have been the sixth."""
    run = _diverged(tmp_path / "run", scored=True)
    run.write_spec(_of(run, rounds=12).model_copy(update={"score_every": score_every}))
    rows = [row for row in run.table("scores.csv") if row["round"] == 4]
    run.write_table("scores.csv", rows, list(rows[0]))
    accuracies = [r for r in curves(RunFolder(run.path)) if r["metric"] == "accuracy"]
    found = {r["setting"]: r.get("status", r["value"]) for r in accuracies}
    assert found["rounds=half"] == half
    assert found["rounds=all"] == found["rounds=best"] == "diverged"


def test_a_classifier_that_diverged_before_it_was_scored_says_so(tmp_path):
    run = _diverged(tmp_path / "run", scored=False)
    found = {r["setting"]: r["status"] for r in curves(run) if r["metric"] == "accuracy"}
    assert found == {f"rounds={part}": "diverged" for part in ("quarter", "half", "all", "best")}
    assert _found(run, 0.1) == {"rounds_to_target": 10}
