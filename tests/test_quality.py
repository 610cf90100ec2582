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
    "abilities": {"attacks", "common", "federation", "networks", "objectives", "partitions"},
    "evaluation": {"common", "networks"},
    "reporting": {"common"},
    "diptych": {
        "abilities",
        "attacks",
        "common",
        "federation",
        "networks",
        "objectives",
        "partitions",
        "evaluation",
        "reporting",
    },
    "benchmarks": {
        "common",
        "federation",
        "networks",
        "objectives",
        "partitions",
        "evaluation",
        "baselines",
        "methods",
        "diptych",
    },
}
"""What each package may import besides itself: never an algorithm's file, except from another algorithm."""
RUN = "fedstyle/digit_1_iid_simclr/fedavg/default/2011"
HEAVY = {
    "kornia",
    "matplotlib",
    "networkx",
    "numpy",
    "ot",
    "pandas",
    "scikit_posthocs",
    "scipy",
    "seaborn",
    "sklearn",
    "torch",
    "torchvision",
}
"""What takes from a tenth of a second to two seconds to import, and so is imported only where it is needed."""
TABLES = {"numpy", "pandas", "scipy"}
LIGHT = {
    "import diptych.workflow": set(),
    "from diptych.cli import main; main(['list'])": set(),
    "from diptych.cli import main; main(['runs', '--scale', 'tiny'])": set(),
    f"from diptych.cli import main; main(['spec', '{RUN}', '--scale', 'tiny'])": set(),
    "import diptych.gathering, reporting.claims, reporting.tables": TABLES,
    "import reporting.figures": TABLES | {"matplotlib", "seaborn"},
    "import evaluation.extracts": {"numpy"},
    "import diptych.measurement": {"numpy", "torch"},
}
"""What runs, and which of the heavy packages it may import."""


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
    for file in sorted((ROOT / package).rglob("*.py")):
        nodes = ast.walk(ast.parse(file.read_text()))
        imported = {(n.module or "").split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom)}
        assert not (imported & set(PACKAGES)) - allowed, file.name


@pytest.mark.parametrize("program", LIGHT)
def test_only_what_is_needed_is_imported(program):
    program_and_imports = f"{program}; import sys; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", program_and_imports], cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert HEAVY & set(said.stdout.splitlines()[-1].split()) <= LIGHT[program]


def test_the_lock_file_has_the_versions_of_the_constraints():
    def pinned(file):
        lines = (line for line in (ROOT / file).read_text().splitlines() if "==" in line and not line.startswith("#"))
        return {line.removesuffix("\\").strip() for line in lines}

    assert pinned("requirements.lock") == pinned("constraints.txt") != set()
