"""Where a number comes from: code, versions, machine, time and memory."""

import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
from functools import cache
from typing import Any

from common.codehash import ROOT

PACKAGES = ("diptych", "torch", "torchvision", "kornia", "numpy", "scikit-learn", "pandas", "snakemake")


CODE = ("*.py", "*.smk", "config")
"""What decides what comes out, as patterns of git."""


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


@cache
def code_version() -> dict[str, Any]:
    """The commit of the checkout, '' outside one, and whether it is `dirty`: whether tracked files differ from it, or
    code or configuration is there that it has not."""
    changed = _git("status", "--porcelain", "--untracked-files=no")
    new = _git("ls-files", "--others", "--exclude-standard", "--", *CODE)
    return {"commit": _git("rev-parse", "HEAD"), "dirty": bool(changed or new)}


@cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def peak_memory_mb() -> float:
    """The largest resident memory of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def versions(packages: dict[str, str | None]) -> str:
    """Package versions as a record has them."""
    return " ".join(f"{name}={version}" for name, version in packages.items() if version)


def provenance(device: str = "cpu") -> dict[str, Any]:
    """Code version, package versions and hardware of this process; `device` names the accelerator if one is used."""
    return {
        **code_version(),
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in PACKAGES},
        "platform": platform.platform(terse=True),
        "hardware": device if device != "cpu" else _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }
