"""The documentation's steps, executed word for word, and its promises held against the code."""

import csv
import importlib.util
import inspect
import re
import shlex
import subprocess
from contextlib import nullcontext
from pathlib import Path
from statistics import mean

import pytest
import yaml
from snakemake.cli import get_argument_parser

from benchmarks.peers.environment import NotInstalled, python_of
from common.algorithms import algorithm_modules
from common.codehash import ROOT
from common.sources import KNOWN
from common.spec import DataSettings, OptimiserSettings, SampleSettings, ServerSettings, Spec, TrainingSettings
from diptych import configuration
from diptych.assembly import algorithm_class
from diptych.cli import _parser
from diptych.configuration import Experiment, Figure, JudgeSettings, Layout, Paper, Rule, Scale
from diptych.study import load_study
from diptych.tuning import Grid, Tuning
from diptych.workflow import SETTINGS, Workflow
from evaluation.registry import EVALUATIONS
from networks import ENCODERS
from objectives import OBJECTIVES
from objectives.augmentation import AugmentationSettings
from partitions import PARTITIONS, SOURCES, VIEWS
from tests.checkout import Checkout

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*/README.md"))]
PAGES += sorted((ROOT / "results").glob("*/README.md"))
_BLOCK = re.compile(r"^```(\w+)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(page: str) -> list[tuple[str, str, str]]:
    """(language, title, content) of each code block of a page."""
    return _BLOCK.findall((ROOT / "docs" / page).read_text())


def _follow(page: str, checkout: Checkout, but: dict[str, str] | None = None) -> None:
    """Write every block that has a title to the file of that name, and run the others; `but` for what is replaced."""
    for language, title, content in _blocks(page):
        for said, instead in (but or {}).items():
            content = content.replace(said, instead)
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


JOINED = {"fedstyle-table1", "padpaf-table1", "feddva-accuracy", "psfedgan-table1", "fedinb-table3", "common-natural"}
"""Tables that get a row: of every paper, and of common ground."""


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
    tables = (checkout.path / "results" / "tiny" / "tables").glob("*.md")
    assert {table.stem for table in tables if re.search(r"^\| [^|]*\bfedbn\b", table.read_text(), re.M)} >= JOINED
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


@pytest.mark.slow
def test_a_program_for_flower_comes_to_our_fedavgs_accuracy(tmp_path):
    """Within four standard errors of the difference of means over four seeds, by the spread over the page's 25. They
    start from other weights and go through images in another order: runs of one seed are no nearer to each other than
    those of two."""
    try:
        python_of("flower")
    except NotInstalled as error:
        pytest.skip(str(error))
    checkout = Checkout(tmp_path / "diptych")
    _follow("flower.md", checkout, {", 2015, 2016, 2017, 2018, 2019, 2020]": "]"})
    with open(checkout.path / "results" / "mine" / "records.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {"fedavg", "flower"}  # the page's scale holds nothing else
    found: dict[str, list[float]] = {"fedavg": [], "flower": []}
    for row in rows:
        of = row["metric"], row["role"], row["setting"], row["domain"], row["client"]
        if of == ("accuracy", "shared", "", "", ""):
            found[row["method"]].append(float(row["value"]))
    ours, theirs = found["fedavg"], found["flower"]
    assert len(ours) == len(theirs) == 4
    assert abs(mean(ours) - mean(theirs)) < 4 * 0.03 * (2 / 4) ** 0.5, found


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made of their words."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if not target.startswith("http"):
            there = page.parent / target if target else page
            assert there.exists(), target
            assert not anchor or anchor in _anchors(there), f"{target}#{anchor}"


def _commands(page: Path) -> list[list[str]]:
    """Every `diptych` and `snakemake` command on a page, in code blocks and between backticks."""
    text = page.read_text()
    blocks = [content for language, _, content in _BLOCK.findall(text) if language != "mermaid"]
    lines = [line for content in blocks for line in content.splitlines()]
    lines += re.findall(r"`((?:diptych|snakemake) [^`\n]+)`", text)
    parts = [part.strip() for line in lines for part in re.split(r"&&|\||;| > ", line)]
    return [shlex.split(part, comments=True) for part in parts if part.startswith(("diptych ", "snakemake "))]


def _check_diptych(arguments: list[str]) -> None:
    if any("{" in word or "..." in word for word in arguments):  # part of a rule, or of a sentence
        return
    if len(arguments) == 1:  # `diptych train` in a sentence
        arguments = [*arguments, "--help"]
    with pytest.raises(SystemExit, match="0") if "--help" in arguments else nullcontext():
        _parser().parse_args(arguments)


def _check_snakemake(arguments: list[str]) -> None:
    """Options are Snakemake's, settings ours, and there are such scales, targets and profiles."""
    asked = get_argument_parser().parse_args(arguments)
    given = dict(setting.split("=", 1) for setting in asked.config or [])
    assert set(given) <= set(SETTINGS), arguments
    scale = given.get("scale", "digits")
    assert scale in [*configuration.names_in("scales"), "mine"], arguments
    assert asked.workflow_profile in (None, "none") or (ROOT / asked.workflow_profile).is_dir(), arguments
    flow = Workflow({"scale": scale} if scale != "mine" else {})
    short = {name.replace("-", "_") for name in flow.figure_names()}
    known = {
        "tables",
        "figures",
        "claims",
        "all",
        "report",
        *short,
        *flow.study.papers,
        *flow.tables(),
        *flow.figures(),
        *flow.claims(),
        "tune",
        *flow.searches(),
    }
    assert set(asked.targets) <= known, arguments


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_code_stands_in_blocks_that_end(page):
    """And is code, if it is said to be Python's."""
    text = page.read_text()
    assert "```" not in re.sub(r"^```.*?\n```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for language, _, content in _BLOCK.findall(text):
        if language == "python":
            compile(content, str(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_commands_exist(page, monkeypatch):
    monkeypatch.setenv("DIPTYCH_DATA", "")  # which a workflow sets
    for program, *arguments in _commands(page):
        if not {"...", "FOLDER"} & set(arguments):
            (_check_diptych if program == "diptych" else _check_snakemake)(arguments)


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_modules_and_tests_that_pages_name_exist(page):
    text = page.read_text()
    for module in re.findall(r"python -m ((?:benchmarks|diptych)[\w.]*)", text):
        assert importlib.util.find_spec(module), module
    folders = "tests|benchmarks|config|docs|profiles|results/paper"
    for path in re.findall(rf"\b((?:{folders})/[\w/.-]+\.(?:py|md|yaml|csv))\b", text):
        if not re.search("NAME|mine", path):  # the reader's own
            assert (page.parent / path).exists() or (ROOT / path).exists(), path


def _fields(kind: type) -> set[str]:
    return {field.alias or name for name, field in kind.__pydantic_fields__.items()}


def test_every_setting_is_documented():
    told = set(re.findall(r"`([\w-]+)`", (ROOT / "docs" / "settings.md").read_text()))
    algorithms = {name: algorithm_class(name) for name in algorithm_modules()}
    specification = (Spec, DataSettings, TrainingSettings, OptimiserSettings, ServerSettings, AugmentationSettings)
    configured = (Paper, Scale, Rule, Experiment, Layout, Figure, JudgeSettings, SampleSettings, Tuning, Grid)
    known = set().union(*map(_fields, (*specification, *configured, *OBJECTIVES.values(), *algorithms.values())))
    known |= {*algorithms, *OBJECTIVES, *ENCODERS, *PARTITIONS, *EVALUATIONS, *SETTINGS}
    for function in (*ENCODERS.values(), *PARTITIONS.values(), *EVALUATIONS.values(), *VIEWS.values()):
        known |= set(inspect.signature(function).parameters)
    given = {"encoder", "classes", "objective", "channels", "image_size", "labels", "clients", "rng", "run"}
    given |= {"x", "size", "generator"}  # of a view
    assert known - given <= told


def test_every_source_is_documented():
    page = (ROOT / "docs" / "data.md").read_text()
    assert all(f"`{name}`" in page for name in SOURCES)
    for known in KNOWN.values():
        assert all(file.split("/")[0] in page for file in known.files)


def test_the_slurm_profile_has_keys_that_snakemake_knows():
    profile = yaml.safe_load((ROOT / "profiles" / "slurm" / "config.yaml").read_text())
    known = subprocess.run(["snakemake", "--help"], capture_output=True, text=True, check=True).stdout
    plugin = importlib.util.find_spec("snakemake_executor_plugin_slurm")
    assert all(f"--{key}" in known for key in profile if plugin or not key.startswith("slurm-"))


def test_the_documented_yaml_is_a_scale(config):
    *_, content = (content for language, _, content in _blocks("data.md") if language == "yaml")
    (config / "scales" / "mine.yaml").write_text(content)
    specs = load_study("mine").specs.values()
    assert specs
    assert {spec.data.styles["svhn"] for spec in specs} == {"mine"}


def test_the_documented_domains_are_data_settings():
    content = next(content for language, _, content in _blocks("data.md") if language == "yaml")
    assert len(DataSettings(**yaml.safe_load(content)["data"]).seen) == 5
