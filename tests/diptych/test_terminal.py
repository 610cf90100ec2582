"""What a workflow shows, made from the records that Snakemake emits."""

import io
import logging
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from snakemake.exceptions import WorkflowError
from snakemake_interface_logger_plugins.common import LogEvent

from common.sources import State, state
from diptych import hooks, terminal
from diptych.study import load_study
from diptych.terminal import Plan, Works
from diptych.workflow import Workflow


def _record(said: str = "", level: int = logging.INFO, **more: Any) -> logging.LogRecord:
    record = logging.LogRecord("snakemake", level, "", 0, said, (), None)
    vars(record).update(more)
    return record


def _job(number: int, rule: str, message: str) -> logging.LogRecord:
    return _record(event=LogEvent.JOB_INFO, jobid=number, rule_name=rule, rule_msg=message)


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=100)


def _said(console: Console) -> str:
    return console.file.getvalue()


@pytest.fixture(autouse=True)
def times(monkeypatch) -> dict[str, float]:
    """Seconds that a job of a rule takes."""
    times = {"train_fedavg": 60.0, "table": 1.0}
    monkeypatch.setattr(terminal, "of_a_job", lambda rule, *files: times.get(rule, 0.0))
    return times


# ---- a dry run


def _planned(console: Console, *jobs: tuple[str, str, dict[str, str]], reason: str = "because") -> str:
    """What the plan of jobs says: (rule, message, wildcards) each."""
    found = [
        SimpleNamespace(rule=SimpleNamespace(name=rule), message=said, wildcards_dict=wildcards, input=[], output=[])
        for rule, said, wildcards in jobs
    ]
    plan = Plan(console)
    plan.workflow = SimpleNamespace(dag=SimpleNamespace(needrun_jobs=lambda: found, reason=lambda _: reason))
    plan.show(_record("Building DAG of jobs..."))
    plan.show(_record("Job stats", event=LogEvent.RUN_INFO))
    plan.close()
    plan.close()
    return " ".join(_said(console).split())


def test_a_plan_gives_the_number_and_the_time_of_the_jobs_of_each_rule(console):
    said = _planned(console, *[("train_fedavg", "train it", {})] * 20, ("table", "lay it out", {}))
    assert "train_fedavg 20 20 min 0 s" in said
    assert "table 1 1 s" in said
    assert said.count("21 jobs, about 20 min 1 s of one processor") == 1
    assert "DAG" not in said
    assert "because" not in said


def test_a_plan_of_few_jobs_names_them_and_says_why(console):
    said = _planned(console, ("table", "lay out table1", {}), reason="x" * 500)
    assert "lay out table1: xxx" in said
    assert len(said) < 500


def test_a_plan_says_which_images_are_there_and_what_to_put_where(console, monkeypatch, tmp_path):
    monkeypatch.setenv("DIPTYCH_DATA", str(tmp_path))
    sources = ("digits-plain", "mnist", "office-home--Art", "office-home--Real World")
    said = _planned(console, *(("source", "", {"source": source}) for source in sources))
    assert "there digits-plain" in said
    assert "to download mnist" in said
    assert said.count("missing") == 1
    assert "office-home: put there office-home/<style>/<class>/*.jpg, from hemanthdv.org" in said


def test_a_workflow_of_the_images_that_are_here_says_how_many_runs_that_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setenv("DIPTYCH_DATA", "")  # which a workflow sets
    datasets = [spec.labels["dataset"] for spec in load_study("reference-common").trained.values()]
    others = len(datasets) - datasets.count("pacs")
    (tmp_path / "pacs.npz").touch()
    said = Workflow({"scale": "reference-common", "images": "here", "data": str(tmp_path)}).notice
    named = ", ".join(sorted({*datasets} - {"pacs"}))
    assert said == f"left out: {others:,} of {len(datasets):,} runs, since not all images of {named} are here"
    assert others > datasets.count("pacs") > 0
    assert Workflow({"scale": "digits", "images": "here"}).notice == ""


@pytest.mark.parametrize(("notice", "main", "warned"), [("left out", True, 1), ("", True, 0), ("left out", False, 0)])
def test_what_is_left_out_is_said_once_and_by_none_of_a_workflows_jobs(notice, main, warned, monkeypatch, tmp_path):
    said: list[str] = []
    monkeypatch.setattr(hooks.logger, "warning", said.append)
    manager = SimpleNamespace(get_log_handlers=list)
    hooks.introduce(SimpleNamespace(logger_manager=manager, is_main_process=main), "tiny", str(tmp_path), notice)
    assert said == [notice] * warned


def test_a_plan_with_nothing_to_do_says_so(console):
    plan = Plan(console)
    plan.show(_record("Nothing to be done (all requested files are present and up to date)."))
    plan.close()
    assert "Nothing to be done" in _said(console)


# ---- while jobs run


def test_the_line_says_what_runs_how_much_is_done_and_how_long_the_rest_takes(console, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock.now)
    works = Works(console)
    works.show(_record(expected={1: 100.0, 2: 100.0, 3: 200.0}, lanes=2))
    works.show(_job(1, "train_fedavg", "train one"))
    works.show(_job(2, "train_fedavg", "train two"))
    clock.now = 31.0
    works.show(_record(event=LogEvent.PROGRESS, done=0, total=3))
    assert "0 of 3 jobs" in _said(console)
    assert "train two and 1 more" in _said(console)
    clock.now = 60.0
    works.show(_record(event=LogEvent.JOB_FINISHED, job_id=1))
    clock.now = 100.0
    works.show(_record(event=LogEvent.JOB_FINISHED, job_id=2))
    last = _said(console).splitlines()[-1]
    assert "2 of 3 jobs" in last
    # 200 of 400 seconds of work in 100 s, on two processors as expected: the rest takes as long
    assert "1 min 40 s left" in last


def _failed(job: int, log: Path) -> logging.LogRecord:
    why = "SLURM-job '12' failed, SLURM status is: 'TIMEOUT'."
    return _record(event=LogEvent.JOB_ERROR, jobid=job, rule_name="train_fedavg", rule_msg=why, log=[str(log)])


def test_a_failure_is_shown_when_it_happens_and_again_at_the_end(console, tmp_path):
    log = tmp_path / "train.log"
    log.write_text("first\nsecond\nthird\ndiptych: data.styles: no such thing\n")
    works = Works(console)
    works.show(_record(expected={1: 1.0, 2: 1.0}, lanes=2))
    works.show(_job(1, "train_fedavg", "train one"))
    works.show(_failed(1, log))
    assert "failed: train one" in _said(console)
    assert "SLURM status is: 'TIMEOUT'" in _said(console)
    assert "diptych: data.styles: no such thing" in _said(console)
    assert "first" not in _said(console)
    works.show(_record(outcome="tables in results/tiny/tables: 3"))
    works.close()
    tail = " ".join(_said(console).split()).partition("1 failed.")[2]
    assert f"failed: train one; see {log}" in tail
    assert "tables in results/tiny/tables: 3" in tail


def test_what_a_cluster_did_at_the_second_try_has_not_failed(console, tmp_path):
    works = Works(console)
    works.show(_record(expected={1: 1.0, 2: 1.0}, lanes=2))
    works.show(_job(1, "train_fedavg", "train one"))
    works.show(_record(event=LogEvent.GROUP_ERROR, groupid="training", aux_logs=["slurm.log"]))
    works.show(_failed(1, tmp_path / "train.log"))
    assert "failed: jobs that were submitted together (training)\n    log: slurm.log" in _said(console)
    works.show(_job(1, "train_fedavg", "train one"))
    works.show(_record(event=LogEvent.JOB_FINISHED, job_id=1))
    works.show(_record(outcome="done"))
    works.close()
    assert "1 jobs in" in _said(console).splitlines()[-2]
    assert "failed" not in _said(console).splitlines()[-2]


def test_an_error_of_the_users_is_one_sentence(console):
    works = Works(console)
    said = 'WorkflowError in file "x", line 3:\n--config gpus: must be a number\n  File "y.py", line 3, in z'
    works.show(_record(said, logging.ERROR, event=LogEvent.ERROR))
    works.show(_record("Select jobs to execute..."))
    works.close()
    assert _said(console) == "--config gpus: must be a number\n"


# ---- around the jobs


def _outcome(files: dict[str, list[Any]], monkeypatch) -> list[str]:
    """What is said at the end of a workflow whose rules have made these files."""
    jobs = [SimpleNamespace(rule=SimpleNamespace(name=rule), output=[*map(str, of)]) for rule, of in files.items()]
    said: dict[str, Any] = {}
    monkeypatch.setattr(hooks.logger, "info", lambda _, extra: said.update(extra))
    hooks.after(SimpleNamespace(dag=SimpleNamespace(jobs=jobs)), "results/tiny")
    return said["outcome"].splitlines()


def test_tables_end_with_where_they_are_and_the_totals_of_the_board_in_three_lines(tmp_path, monkeypatch):
    table = tmp_path / "a.csv"
    table.write_text(
        "style,ours,paper,seeds,grade,verdict\n"
        "v,0.5,0.6,3,as published,agrees\nw,0.5,0.6,1,stand-in,not comparable\nx,,0.6,1,reduced,diverged\n"
        "y,,0.7,0,,not measured\nz,0.5,,1,reduced,not in the paper\n"
    )
    assert _outcome({"table": [table]}, monkeypatch) == [
        "1 table in results/tiny/tables",
        "4 printed numbers, 3 of them measured (1 as published, 1 reduced, 1 stand-in)",
        "1 agrees, 1 not comparable, 1 diverged, 1 not measured",
    ]
    claims, figure = tmp_path / "c.csv", tmp_path / "f.png"
    claims.write_text("claim,verdict\np-01,for\np-01,undecided\np-02,for\n")
    figure.touch()
    whole = _outcome({"table": [table], "claim": [claims], "figure": [figure]}, monkeypatch)
    assert whole[0] == "1 table in results/tiny/tables; 1 figure in results/tiny/figures; claims in results/tiny/claims"
    assert whole[-1] == "3 findings on 2 claims: 2 for, 1 undecided"


def test_of_what_there_is_not_nothing_is_counted(tmp_path, monkeypatch):
    assert _outcome({"table": [tmp_path / "a.csv"]}, monkeypatch) == [
        "nothing to show yet; logs are in results/tiny/logs"
    ]
    table = tmp_path / "b.csv"
    table.write_text("style,ours,paper,seeds,grade,verdict\nz,0.5,,1,reduced,not in the paper\n")
    assert _outcome({"table": [table]}, monkeypatch) == ["1 table in results/tiny/tables"]


@pytest.mark.parametrize(
    ("expression", "files", "expected"),
    [
        ("digits-plain[0::3]", [], State.THERE),
        ("mnist", [], State.DOWNLOADED),
        ("usps", ["usps.bz2"], State.DOWNLOADED),
        ("usps[::4]", ["usps.bz2", "usps.t.bz2"], State.THERE),
        ("office-home/Art", [], State.MISSING),
        ("office-home/Art", ["office-home/Clipart/x"], State.MISSING),
        ("office-home/Art", ["office-home/Art/x"], State.THERE),
        ("mnist-m", ["mnist-m.npz"], State.THERE),
        ("mnist-m", ["mnist-m/0/x.jpg"], State.MISSING),
        ("usps", ["usps/0/x.jpg"], State.DOWNLOADED),
        ("celeba", ["celeba/img_align_celeba/x.jpg"], State.MISSING),
        ("celeba", ["celeba.npz"], State.THERE),
        ("mine", [], State.MISSING),
        ("mine", ["mine.npz"], State.THERE),
        ("mine/style", ["mine/style/class/x.jpg"], State.THERE),
    ],
)
def test_where_a_source_is(expression, files, expected, tmp_path):
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert state(expression, tmp_path) is expected


@pytest.mark.parametrize(("name", "refused"), [("my job | of mine", False), ("diptych_train", True)])
def test_jobs_of_somebody_elses_with_any_name_are_let_be(name, refused, tmp_path, monkeypatch):
    squeue = tmp_path / "squeue"
    squeue.write_text(
        "#!/bin/sh\n"
        'for said in "$@"; do case $said in --format=*) format=${said#--format=};; esac; done\n'
        f"echo \"$format\" | sed 's#%i#17#; s#%Z#{tmp_path}#; s#%j#{name}#'\n"
    )
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(WorkflowError, match="scancel 17") if refused else nullcontext():
        hooks._refuse_twice(tmp_path)
