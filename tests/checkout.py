"""Copies in which a test may do what a user does: of the checkout here, of `config` by the fixture of that name."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from common.codehash import ROOT
from diptych.configuration import paper_yaml
from diptych.study import load_study

LIMIT = 900
"""Seconds after which a command hangs: the whole workflow takes two minutes, on a machine that is busy six."""
GENERATED = ("results", ".git", ".venv", ".snakemake", "__pycache__", "*.egg-info", ".*_cache", "data")


def read_again() -> None:
    """Forget what has been read of `config`."""
    load_study.cache_clear()
    paper_yaml.cache_clear()


class Checkout:
    """A copy of the project at `path`, and commands run in it.

    Args:
        source: what is copied; another checkout with all that it has made. None: the copy is there already.
    """

    def __init__(self, path: Path, source: Path | None = ROOT) -> None:
        if source == ROOT:
            shutil.copytree(ROOT, path, ignore=shutil.ignore_patterns(*GENERATED))
            shutil.copytree(ROOT / "results" / "paper", path / "results" / "paper")
        elif source is not None:
            shutil.copytree(source, path, symlinks=True)
        self.path = path
        # the copy's own packages, wherever the project is installed; no data but what comes with it
        self.environment = {k: v for k, v in os.environ.items() if k != "DIPTYCH_DATA"}
        self.environment |= {"PYTHONPATH": str(path), "PYTHONFAULTHANDLER": "1"}

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a command in a process group of its own; stdout and stderr come together."""
        return subprocess.Popen(
            command,
            cwd=self.path,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, *command: str, fails: bool = False) -> str:
        """What a command says; it must succeed, or fail. One that hangs says where, and does neither."""
        process = self.start(*command)
        try:
            said, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGABRT)
            said, _ = process.communicate()
        assert process.returncode > 0 if fails else process.returncode == 0, said
        return said

    def snakemake(self, *arguments: str, cores: int = 2, scale: str = "tiny", fails: bool = False) -> str:
        """What Snakemake says to these targets and options."""
        return self.run("snakemake", "--cores", str(cores), *arguments, "--config", f"scale={scale}", fails=fails)
