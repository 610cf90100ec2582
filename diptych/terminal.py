"""What a workflow shows: before it, a page of what would be done; while it runs, a line that moves; of failures, why.

All else that Snakemake has to say is in its own log, `.snakemake/log`, and what jobs say in `results/<scale>/logs`.
"""

import logging
import os
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.table import Table
from rich.text import Text
from snakemake_interface_logger_plugins.common import LogEvent

from common.files import data_root
from common.sources import State, how_to_get, state
from diptych.cost import of_a_job
from diptych.progress import duration
from reporting.wording import plural

LISTED = 12
"""Up to so many jobs a plan names them, with the reason of each; of more it gives the numbers."""
UNATTENDED = 30.0
"""Seconds between lines where nobody sees a line move: in a file or a pipe."""
PRIOR = 30.0
"""Seconds of work after which the speed of this machine counts as much as the one that was expected."""


class Screen(Protocol):
    """What shows the records that Snakemake's logger emits."""

    def show(self, record: logging.LogRecord) -> None:
        """Take note of a record, and show what is of interest in it."""

    def close(self) -> None:
        """The last record has been shown."""


def source_of(wildcards: Mapping[str, str]) -> str:
    """The name of the source that a job of the rule `source` gets ready."""
    return wildcards["source"].replace("--", "/")


def expected(job: Any) -> float:
    """Seconds of one processor that one of Snakemake's jobs should take."""
    return of_a_job(job.rule.name, job.input, job.output)


def of_interest(record: logging.LogRecord) -> bool:
    """Whether a record that is no event is shown: a warning, an error, or that nothing is to be done."""
    said = record.getMessage()
    return record.levelno >= logging.WARNING or said.startswith("Nothing to be done")


def sentence(record: logging.LogRecord) -> str:
    """What a record says, without where in the Snakefile an error of the user's was noticed."""
    lines = record.getMessage().strip().splitlines()
    at_fault = [line for line in lines if not line.startswith(("WorkflowError in", '  File "'))]
    return "\n".join(at_fault)


def sources_table(sources: list[str], root: Path) -> Table:
    """Which sources of images are there, which will be downloaded, and what has to be put where."""
    table = Table.grid(padding=(0, 2))
    table.add_row("images", f"below {root}/")
    names: dict[State, dict[str, None]] = {found: {} for found in State}
    for source in sorted(sources):
        names[state(source, root)][source.partition("/")[0]] = None
    for found in (State.THERE, State.DOWNLOADED):
        if names[found]:
            table.add_row(f" {found}", ", ".join(names[found]))
    for name in names[State.MISSING]:
        table.add_row(f" {State.MISSING}", f"{name}: put there {how_to_get(name)}")
    return table


# ---- a dry run


class Plan:
    """Jobs by rule with the time they are expected to take; a few are named, with the reason of each.

    Attributes:
        workflow: Snakemake's, of which the page is made: to be told of thousands of jobs one by one takes seconds.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.workflow: Any = None
        self.planned = False

    def show(self, record: logging.LogRecord) -> None:
        """Take note that all jobs are known, from which on the page can be made."""
        event = getattr(record, "event", None)
        self.planned |= event == LogEvent.RUN_INFO
        if event in (None, LogEvent.ERROR) and of_interest(record):
            self.console.print(Text(sentence(record)), soft_wrap=True)

    def close(self) -> None:
        """Print the page."""
        if not self.planned:
            return
        self.planned = False  # it is closed again when the interpreter ends
        jobs = list(self.workflow.dag.needrun_jobs())
        if len(jobs) <= LISTED:
            for job in jobs:
                reason = _shortened(str(self.workflow.dag.reason(job)))
                self.console.print(Text(f"{job.message or job.rule.name}: {reason}"), soft_wrap=True)
        self.console.print(_by_rule(jobs))
        root, sources = Path(data_root()), [source_of(job.wildcards_dict) for job in jobs if job.rule.name == "source"]
        if any(state(name, root) is not State.THERE for name in sources):
            self.console.print(sources_table(sources, root))
        number = plural(len(jobs), "job")
        self.console.print(f"{number}, about {_time(sum(map(expected, jobs)))}. Nothing was done.", soft_wrap=True)


def _time(seconds: float) -> str:
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    here = f", {duration(seconds / processors)} on the {processors} of this machine" if processors > 1 else ""
    return f"{duration(seconds)} of one processor{here}"


def _by_rule(jobs: list[Any]) -> Table:
    count: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    for job in jobs:
        count[job.rule.name] += 1
        seconds[job.rule.name] += expected(job)
    table = Table("rule", box=None, header_style="bold")
    table.add_column("jobs", justify="right")
    table.add_column("processor time", justify="right")
    for rule, number in count.items():
        table.add_row(rule, str(number), duration(seconds[rule]) if seconds[rule] else "")
    return table


def _shortened(reason: str, length: int = 160) -> str:
    return reason if len(reason) <= length else f"{reason[: length - 3]}..."


# ---- while jobs run


class Works:
    """One line that moves: what is running, how much is done, and how long the whole will still take."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.expected: dict[int, float] = {}
        self.lanes = 1
        self.running: dict[int, tuple[str, float]] = {}
        self.done = 0
        self.failed: dict[str, list[str]] = {}
        self.ended: set[int] = set()
        self.began = self.printed = time.monotonic()
        self.progress = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=20),
            _Line(self),
            console=console,
            transient=True,
        )
        self.task = self.progress.add_task("", total=None)

    def show(self, record: logging.LogRecord) -> None:
        """Update the line, or print what is more than progress."""
        event, said = getattr(record, "event", None), vars(record)
        if hasattr(record, "expected"):
            self._begin(said["expected"], said["lanes"])
        elif event == LogEvent.JOB_INFO:
            self.running[said["jobid"]] = said["rule_msg"] or said["rule_name"], time.monotonic()
            self.ended.discard(said["jobid"])
        elif event == LogEvent.JOB_FINISHED:
            self.failed.pop(self._end(said["job_id"]), None)  # a cluster may have tried it more than once
            self.done += 1
        elif event == LogEvent.JOB_ERROR:
            what = self._end(said["jobid"]) or said["rule_name"]
            self.failed[what] = said["log"]
            self._failure(what, said["rule_msg"], said["log"])
        elif event == LogEvent.GROUP_ERROR:
            self._failure(f"jobs that were submitted together ({said['groupid']})", None, said["aux_logs"])
        elif hasattr(record, "outcome"):
            self._conclude(said["outcome"])
        elif event in (None, LogEvent.ERROR) and of_interest(record):
            self.console.print(Text(sentence(record)), soft_wrap=True)
        self._move()

    def close(self) -> None:
        """Take the line away."""
        if self.progress.live.is_started:
            self.progress.stop()

    def _begin(self, expected: dict[int, float], lanes: int) -> None:
        self.expected, self.lanes, self.began = expected, lanes, time.monotonic()
        self.progress.update(self.task, total=sum(expected.values()))
        if self.console.is_terminal:
            self.progress.start()

    def _end(self, job: int) -> str:
        self.ended.add(job)
        what, _ = self.running.pop(job, ("", 0.0))
        return what

    def _conclude(self, outcome: str) -> None:
        self.close()
        self.expected = {}  # there is no line to be moved any more
        took = f"{self.done} jobs in {duration(time.monotonic() - self.began)}"
        self.console.print(Text(f"{took}{f', {len(self.failed)} failed' if self.failed else ''}."))
        for what, logs in self.failed.items():
            self.console.print(Text(f"failed: {what}; see {', '.join(logs) or '.snakemake/log'}", style="red"))
        self.console.print(Text(outcome), soft_wrap=True)

    def _failure(self, what: str, why: str | None, logs: list[str]) -> None:
        self.console.print(Text(f"failed: {what}", style="red"))
        if why:
            self.console.print(Text(f"    {why}"), soft_wrap=True)
        for log in logs:
            lines = Path(log).read_text(errors="replace").strip().splitlines() if Path(log).is_file() else []
            for line in lines[-3:]:
                self.console.print(Text(f"    {line}"))
            self.console.print(Text(f"    log: {log}"))

    def _move(self) -> None:
        """Where nobody sees a line move, print one now and then."""
        if self.expected and not self.console.is_terminal and time.monotonic() - self.printed >= UNATTENDED:
            self.printed = time.monotonic()
            self.console.print(Text(self.line()), soft_wrap=True)

    def line(self) -> str:
        """How it stands now."""
        now, total = time.monotonic(), sum(self.expected.values())
        at_work = list(self.running.items())[: self.lanes]  # the others wait
        begun = (min(0.9 * self.expected.get(job, 0.0), now - since) for job, (_, since) in at_work)
        done = sum(self.expected.get(job, 0.0) for job in self.ended) + sum(begun)
        self.progress.update(self.task, completed=done)
        speed = (done + PRIOR * self.lanes) / (now - self.began + PRIOR)
        counts = f"{self.done} of {len(self.expected)} jobs" + (f", {len(self.failed)} failed" if self.failed else "")
        newest = list(self.running.values())[-1:] or [("", 0.0)]
        others = f" and {len(self.running) - 1} more" if len(self.running) > 1 else ""
        return f"{counts}, about {duration((total - done) / speed)} left: {newest[0][0]}{others}"


class _Line(ProgressColumn):
    """The words beside the bar, made anew at each look."""

    max_refresh = 1.0

    def __init__(self, works: Works) -> None:
        super().__init__()
        self.works = works

    def render(self, task: Task) -> Text:
        return Text(self.works.line(), no_wrap=True, overflow="ellipsis")
