"""Lint, types, and imports that point one way."""

import ast
import subprocess
import sys

import pytest

from common.codehash import ROOT

PACKAGES = {
    "common": set(),
    "federation": {"common"},
    "networks": {"common"},
    "objectives": {"common", "federation", "networks"},
    "partitions": {"common"},
    "baselines": {"common", "federation", "networks", "objectives", "baselines"},
    "attacks": {"common", "federation", "networks", "objectives"},
    "methods": {"attacks", "common", "federation", "networks", "objectives"},
    "evaluation": {"common", "networks"},
    "reporting": {"common"},
    "diptych": {"attacks", "common", "federation", "networks", "objectives", "partitions", "evaluation", "reporting"},
    "benchmarks": {"common", "federation", "networks", "objectives", "partitions", "baselines", "methods", "diptych"},
}
"""What each package may import besides itself: never an algorithm's file, except from another algorithm."""
TORCHLESS = ["diptych.cli", "diptych.study", "diptych.workflow", "reporting.figures", "reporting.tables"]


def _says(*command: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [("check", "."), ("format", "--check", ".")])
def test_ruff(arguments):
    status, said = _says("ruff", *arguments)
    assert status == 0, said


@pytest.mark.slow
def test_types():
    status, said = _says("mypy", *(f"--package={package}" for package in PACKAGES))
    assert status == 0, said


def test_the_snakefile_passes_its_lint():
    _, said = _says("snakemake", "--lint")
    complaints = {line.strip() for line in said.splitlines() if line.startswith("    * ")}
    # programs come with `pip install`, so rules need no environment of their own
    assert complaints <= {"* Specify a conda environment or container for each rule.:"}
    assert "Lints for" in said


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package):
    allowed = PACKAGES[package] | {package}
    for file in sorted((ROOT / package).glob("*.py")):
        nodes = ast.walk(ast.parse(file.read_text()))
        imported = {(n.module or "").split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom)}
        assert not (imported & set(PACKAGES)) - allowed, file.name


def test_what_needs_no_torch_loads_none():
    program = "import importlib, sys\nfor module in sys.argv[1:]:\n    importlib.import_module(module)\n"
    program += "    assert 'torch' not in sys.modules, module"
    subprocess.run([sys.executable, "-c", program, *TORCHLESS], cwd=ROOT, check=True)
