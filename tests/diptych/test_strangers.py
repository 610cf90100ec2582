"""The names that installing adds are ours, or importing says whose they are."""

import subprocess
import sys
import tomllib

import pytest

from common.codehash import ROOT
from diptych import PACKAGES


def test_they_are_those_that_are_installed():
    installed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert {name.partition(".")[0] for name in installed} == {*PACKAGES, "diptych"}


@pytest.mark.parametrize("stranger", ["common.py", "evaluation/__init__.py"])
def test_somebody_elses_package_is_refused_by_name_and_place(stranger, tmp_path):
    file = tmp_path / stranger
    file.parent.mkdir(exist_ok=True)
    file.write_text("")
    paths = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; import diptych.cli"
    done = subprocess.run([sys.executable, "-c", paths], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"ImportError: '{file.relative_to(tmp_path).parts[0].removesuffix('.py')}' is {file}")
    assert "environment of its own" in said
