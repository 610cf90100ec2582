"""The whole workflow at a tiny scale, as a user runs it."""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from diptych.study import load_study
from tests.checkout import Checkout
from tests.digits import same
from tests.workflow.checks import check_records, check_runs, check_same, results

pytestmark = pytest.mark.slow

EVERYTHING = ("tables", "figures", "claims", "report")


# ---- what comes out


def test_every_table_figure_and_claim_comes_out(finished):
    study = load_study("tiny")
    for paper, config in study.papers.items():
        for table in config.tables:
            for form in ("md", "csv", "tex"):
                assert (results(finished) / "tables" / f"{paper}-{table}.{form}").stat().st_size
        for figure in config.figures:
            for form in ("png", "pdf", "svg"):
                assert (results(finished) / "figures" / f"{paper}-{figure}.{form}").stat().st_size
        if config.claims:
            assert (results(finished) / "claims" / f"{paper}.md").stat().st_size
    report = (results(finished) / "report.html").read_text()
    assert all(config.title in report for config in study.papers.values())


def test_every_rule_has_trained_its_own_method(finished):
    check_runs(finished)


def test_every_record_says_where_it_comes_from(finished):
    check_records(finished)


def test_there_is_nothing_left_to_do(finished):
    assert "Nothing to be done" in finished.snakemake(*EVERYTHING)


def test_any_number_of_cores_gives_the_same_tables(finished, tmp_path):
    other = Checkout(tmp_path / "diptych")
    other.snakemake(*EVERYTHING, cores=8)
    for kind in ("tables", "claims", "figures"):
        check_same(finished, other, kind)


# ---- interrupted


def test_who_has_records_trains_nothing_and_has_the_same_tables(finished, tmp_path):
    other = Checkout(tmp_path / "diptych")
    records = results(finished) / "records.csv"
    other.run("snakemake", "--cores", "2", "tables", "claims", "--config", "scale=tiny", f"measured={records}")
    assert not (results(other) / "runs").exists()
    for kind in ("tables", "claims"):
        check_same(finished, other, kind)


@pytest.mark.skipif(sys.platform != "linux", reason="jobs are forked on Linux alone")
def test_no_job_outlives_a_workflow_that_is_killed(tmp_path):
    checkout = Checkout(tmp_path / "diptych")
    process, log = checkout.start("snakemake", "--cores", "4", "tables", "--config", "scale=tiny"), _log(checkout)
    _until(lambda: log.exists() and len(log.read_text().splitlines()) > 5)
    assert _at_work(checkout) - {process.pid}
    process.kill()
    _until(lambda: not _at_work(checkout) - {process.pid})
    process.communicate()


def _log(checkout: Checkout) -> Path:
    return results(checkout) / "logs" / "jobs.log"


def _until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def _at_work(checkout: Checkout) -> set[int]:
    """The processes in a checkout."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if (process / "cwd").resolve().is_relative_to(checkout.path):
                found.add(int(process.name))
    return found


def test_killed_and_run_again_gives_what_never_stopping_gives(finished, tmp_path):
    spec = yaml.safe_load(next((results(finished) / "runs").rglob("fedstyle/default/*/spec.yaml")).read_text())
    spec["training"] |= {"rounds": 40}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    train = ("diptych", "train", str(tmp_path / "spec.yaml"), "--checkpoint-every", "0", "--out")
    finished.run(*train, str(tmp_path / "whole"))
    process, checkpoint = finished.start(*train, str(tmp_path / "killed")), tmp_path / "killed" / "checkpoint.pt"
    while not checkpoint.exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "provenance.json").exists()
    assert "goes on after round" in finished.run(*train, str(tmp_path / "killed"))
    whole, killed = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert same(whole, killed)
    for name in ("features.npz", "history.csv", "traffic.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()
    assert not checkpoint.exists()
