"""The documentation's steps, executed word for word, and its promises held against the code."""

import re
import shlex
from contextlib import suppress
from pathlib import Path

import pytest

from common.codehash import ROOT
from diptych.cli import _parser
from diptych.workflow import SETTINGS
from tests.checkout import Checkout

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]
_BLOCK = re.compile(r"^```(\w+)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(page: str) -> list[tuple[str, str, str]]:
    """(language, title, content) of each code block of a page."""
    return _BLOCK.findall((ROOT / "docs" / page).read_text())


def _follow(page: str, checkout: Checkout) -> None:
    """Write every block that has a title to the file of that name, and run the others."""
    for language, title, content in _blocks(page):
        if title:
            file = checkout.path / title
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)
        elif language == "sh":
            checkout.run("bash", "-euo", "pipefail", "-c", content)


@pytest.fixture
def checkout(finished, tmp_path) -> Checkout:
    """A checkout of one's own, in which the tables are there already."""
    return Checkout(tmp_path / "diptych", finished.path)


def _row(checkout: Checkout, method: str) -> str:
    table = (checkout.path / "results" / "tiny" / "tables" / "fedstyle-table1.md").read_text()
    return next(line for line in table.splitlines() if line.startswith(f"| {method} "))


@pytest.mark.slow
def test_adding_a_baseline(checkout):
    from safetensors import safe_open

    (program,), (rule,) = (
        [c for _, title, c in _blocks("add-a-baseline.md") if title.endswith(s)] for s in (".py", ".smk")
    )
    assert len(program.splitlines()) < 60
    assert len(rule.splitlines()) <= 5
    _follow("add-a-baseline.md", checkout)
    assert re.search(r"0\.\d{3}", _row(checkout, "fedbn"))
    runs = list((checkout.path / "results" / "tiny" / "runs").glob("fedstyle/*_1_*/fedbn/default/*/model.safetensors"))
    assert runs
    with safe_open(runs[0], framework="pt") as model:
        shared = {key for key in model.keys() if key.startswith("shared/")}  # noqa: SIM118
        private = {key.replace("clients/", "shared/") for key in model.keys()} - shared  # noqa: SIM118
        assert "shared/encoder.layers.0.weight" in shared
        assert {"shared/encoder.layers.1.weight", "shared/encoder.layers.1.running_mean"} <= private
        rows = model.get_tensor("clients/encoder.layers.1.weight")
        assert (rows != rows[:1]).any()


@pytest.mark.slow
def test_adding_a_program_that_is_not_ours(checkout):
    _follow("outside-program.md", checkout)
    assert re.search(r"0\.\d{3}", _row(checkout, "pca"))
    assert (checkout.path / "results" / "tiny" / "records" / "fedstyle" / "pca.csv").is_file()
    assert "can be trained" in checkout.run("diptych", "check", "--scale", "tiny")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def _commands(page: Path) -> list[list[str]]:
    """Every `diptych` and `snakemake` command on a page, in code blocks and between backticks."""
    text = page.read_text()
    lines = [line for _, _, content in _BLOCK.findall(text) for line in content.splitlines()]
    lines += re.findall(r"`((?:diptych|snakemake) [^`\n]+)`", text)
    parts = [part.strip() for line in lines for part in re.split(r"&&|\||;| > ", line)]
    return [shlex.split(part, comments=True) for part in parts if part.startswith(("diptych ", "snakemake "))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page):
    for program, *arguments in _commands(page):
        if program == "diptych" and not any("{" in word or "..." in word for word in arguments):
            with suppress(SystemExit if "--help" in arguments else ()):
                _parser().parse_args(arguments)
        elif program == "snakemake" and "--config" in arguments:
            for setting in arguments[arguments.index("--config") + 1 :]:
                assert setting.partition("=")[0] in SETTINGS, arguments
