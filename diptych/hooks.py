"""What a workflow does around its jobs: before the first and after the last. The Snakefile calls these; no torch."""

from pathlib import Path
from typing import Any

from snakemake.logging import logger

from diptych import forkserver
from diptych.terminal import expected_seconds

WORTH_IT = 8
"""From so many jobs on it pays to import everything once."""


def before(workflow: Any, scale: str, results: str) -> None:
    """Tell the terminal how long each job should take, and start the fork server if jobs run on this machine."""
    jobs = list(workflow.dag.needrun_jobs())
    logger.info("", extra={"expected": {workflow.dag.jobid(job): expected_seconds(job) for job in jobs}})
    if workflow.local_exec and len(jobs) >= WORTH_IT:
        forkserver.start(scale, Path(results) / "logs" / "jobs.log")
