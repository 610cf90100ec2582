"""What a workflow does around its jobs: before the first and after the last. The Snakefile calls these; no torch."""

import csv
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from common.files import data_root
from common.sources import State, state
from diptych import forkserver
from diptych.terminal import Plan, expected, source_of, sources_table
from reporting.wording import plural

WORTH_IT = 8
"""From so many jobs on it pays to import everything once; whatever trains must not outlive the workflow."""
JOB_NAMES = "diptych_"
"""What the names of Slurm's jobs begin with, because `profiles/slurm` says so."""


def introduce(workflow: Any, scale: str, results: str, notice: str) -> None:
    """Show the workflow to whoever will make a page of its plan, and give notice of what it leaves out; on a cluster's
    node, start a group's fork server."""
    if "--local-groupid" in sys.argv and forkserver.ADDRESS not in os.environ:  # there, `onstart` is left out
        forkserver.start(scale, Path(results) / "logs" / f"jobs-{os.uname().nodename}-{os.getpid()}.log")
    for handler in workflow.logger_manager.get_log_handlers():
        if isinstance(screen := getattr(handler, "screen", None), Plan):
            screen.workflow = workflow
    if notice and workflow.is_main_process:
        logger.warning(notice)


def before(workflow: Any, scale: str, results: str) -> None:
    """Tell the terminal how long each job should take, and start the fork server if jobs run on this machine.

    Raises:
        WorkflowError: images are missing that nobody but the user can get, or a cluster still has jobs of a Snakemake
            that was killed.
    """
    if workflow.executor_plugin.name == "slurm":
        _refuse_twice(Path.cwd())
    jobs = list(workflow.dag.needrun_jobs())
    _refuse_missing([source_of(job.wildcards_dict) for job in jobs if job.rule.name == "source"])
    lanes = min(workflow.cores, os.cpu_count() or 1) if workflow.local_exec else workflow.nodes
    seconds = {workflow.dag.jobid(job): expected(job) for job in jobs}
    logger.info("", extra={"expected": seconds, "lanes": max(1, min(lanes, len(jobs)))})
    trains = any(job.rule.name.startswith(("train", "judge")) for job in jobs)
    if workflow.local_exec and (trains or len(jobs) >= WORTH_IT):
        forkserver.start(scale, Path(results) / "logs" / "jobs.log")


def after(workflow: Any, results: str) -> None:
    """Say where the results are, and the totals of the board: what was measured, and the verdicts."""
    from reporting.board import findings_told, numbers_told  # and pandas, which nobody else needs here

    files: dict[str, list[Path]] = {"table": [], "figure": [], "claim": [], "search": [], "report": []}
    for job in workflow.dag.jobs:
        if job.rule.name in files:
            files[job.rule.name] += [Path(file) for file in job.output if Path(file).is_file()]
    tables = [file for file in files["table"] if file.suffix == ".csv"]
    claims = [file for file in files["claim"] if file.suffix == ".csv"]
    drawn = sum(file.suffix == ".png" for file in files["figure"])
    places = {
        "table": f"{plural(len(tables), 'table')} in {results}/tables",
        "figure": f"{plural(drawn, 'figure')} in {results}/figures",
        "claim": f"claims in {results}/claims",
        "report": f"all of it, to be opened in a browser: {results}/report.html",
        "search": f"what was chosen: {results}/tuning; docs/tuning.md says how it comes into use",
    }
    found = ["; ".join(place for kind, place in places.items() if files[kind])]
    if printed := [row for table in tables for row in _rows(table) if row["paper"]]:
        counts = Counter(row[column] for row in printed for column in ("grade", "verdict"))
        counts.update(printed=len(printed), measured=sum(row["seeds"] != "0" for row in printed))
        found += numbers_told(counts)
    if asked := [row for claim in claims for row in _rows(claim)]:
        found.append(findings_told((row["claim"], row["verdict"]) for row in asked))
    lines = list(filter(None, found)) or [f"nothing to show yet; logs are in {results}/logs"]
    logger.info("", extra={"outcome": "\n".join(lines)})


def _rows(table: Path) -> list[dict[str, str]]:
    with open(table, newline="") as lines:
        return list(csv.DictReader(lines))


def _refuse_twice(folder: Path) -> None:
    """What a killed Snakemake has submitted goes on, and the next one does not know of it."""
    asked = ["squeue", "--me", "--noheader", "--format=%i|%Z|%j"]  # names of jobs of somebody else's may have anything
    queued = [line.split("|", 2) for line in subprocess.run(asked, capture_output=True, text=True).stdout.splitlines()]
    left = [job for job, where, name in queued if name.startswith(JOB_NAMES) and Path(where) == folder]
    if left:
        raise WorkflowError(
            f"Slurm still has {plural(len(left), 'job')} of an earlier start in this folder, and would do the same "
            f"twice. Wait until they have ended; or cancel them, then trainings go on from their checkpoints: "
            f"scancel {' '.join(left)}"
        )


def _refuse_missing(sources: list[str]) -> None:
    root = Path(data_root())
    if all(state(name, root) is not State.MISSING for name in sources):
        return
    Console(stderr=True).print(sources_table(sources, root))
    raise WorkflowError(
        "Some images are missing, so that not every run can be made. Put them there, or name the folder that has them "
        "(--config data=FOLDER), or leave out what needs them (--config images=here)."
    )
