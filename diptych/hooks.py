"""What a workflow does around its jobs: before the first and after the last. The Snakefile calls these; no torch."""

from pathlib import Path
from typing import Any

from rich.console import Console
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from common.files import data_root
from common.sources import State, state
from diptych import forkserver
from diptych.terminal import expected_seconds, source_of, sources_table

WORTH_IT = 8
"""From so many jobs on it pays to import everything once."""


def before(workflow: Any, scale: str, results: str) -> None:
    """Tell the terminal how long each job should take, and start the fork server if jobs run on this machine.

    Raises:
        WorkflowError: images are missing that nobody but the user can get.
    """
    jobs = list(workflow.dag.needrun_jobs())
    _refuse_missing([source_of(job.wildcards_dict) for job in jobs if job.rule.name == "source"])
    logger.info("", extra={"expected": {workflow.dag.jobid(job): expected_seconds(job) for job in jobs}})
    if workflow.local_exec and len(jobs) >= WORTH_IT:
        forkserver.start(scale, Path(results) / "logs" / "jobs.log")


def _refuse_missing(sources: list[str]) -> None:
    root = Path(data_root())
    if all(state(name, root) is not State.MISSING for name in sources):
        return
    Console(stderr=True).print(sources_table(sources, root))
    raise WorkflowError(
        "Some images are missing, so that not every run can be made. Put them there, or name the folder that has them "
        "(--config data=FOLDER), or leave out what needs them (--config images=here)."
    )
