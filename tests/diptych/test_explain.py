"""From a cell to its settings: what is said of a setting's file and line is true, and the commands make the cell."""

import itertools
import re
import shlex

import pandas as pd
import pytest
import yaml

from common.errors import InputError
from diptych import configuration
from diptych import explain as explaining
from diptych.cli import main
from diptych.configuration import merged
from diptych.explain import explain, settings
from diptych.study import load_study
from tests.checkout import read_again


def _cells(scale: str, every: int = 1):
    study = load_study(scale)
    cells = [cell for cell in study.cells if cell.spec.seed == study.scale.seeds[0]]
    return study, cells[::every]


@pytest.mark.parametrize(("scale", "every"), [("tiny", 5), ("reference-psfedgan", 3), ("paper", 20)])
def test_each_setting_has_the_runs_value_and_stands_on_a_line_that_names_it(scale, every):
    study, cells = _cells(scale, every)
    for cell in cells:
        run = cell.spec.model_dump(mode="json")
        for setting in settings(study, cell):
            *sections, last = setting.key.split(".")
            value = run
            for step in setting.key.split("."):
                value = value.get(step, {}) if isinstance(value, dict) else value
            assert setting.value == value or setting.value is None
            file, _, number = setting.where.rpartition(":")
            if file.endswith(".yaml"):
                text = (configuration.CONFIG.parent / file).read_text().splitlines()[int(number) - 1]
                assert last in text or any(section in text for section in sections), (setting, text)


def test_settings_that_differ_from_the_papers_are_those_that_its_specification_has_otherwise():
    study, cells = _cells("digits", 7)
    for cell in cells:
        ours, theirs = cell.spec.training, cell.published.training
        said = {s.key: s.published for s in settings(study, cell)}
        assert bool(said.get("training.rounds")) == (ours.rounds != theirs.rounds)
        assert bool(said.get("training.batch_size")) == (ours.batch_size != theirs.batch_size)
        assert not {"null", "None"} & {*said.values()}, "what is not said there has its default"
    assert any("its default" in (s.published for s in settings(study, cell)) for cell in cells)


def test_by_hand_everything_is_trained_before_what_goes_on_from_it():
    """FedDIRT goes on from INB, and INB from auto-encoders."""
    said = explain(load_study("paper"), "fedinb-table3", "feddirt l10-k10", "75 1")
    trained = re.findall(r"diptych train (\S+)", said)
    assert [run.split("/")[2] for run in trained] == ["local", "fedinb", "feddirt"]


@pytest.mark.parametrize(
    ("cell", "key", "old", "new"),
    [
        (("fedstyle-table1", "fedavg simclr generalization", "digit mnist"), "data.image_size", "16", "24"),
        (("fedstyle-table1", "fedprox simclr personalization", "digit mnist"), "training.batch_size", "64", "32"),
        (("psfedgan-table1", "scaffold", "split-1 mnist"), "training.optimiser.name", "sgd", "adam"),
        (("psfedgan-table1", "fedavg", "split-1 mnist"), "training.batch_size", "16", "12"),
        (("padpaf-table1", "padpaf", "client-3"), "objective.lam", "0.1", "0.7"),
    ],
)
def test_who_changes_the_line_that_is_named_changes_the_run(cell, key, old, new, config):
    said = explain(load_study("digits"), *cell)
    row = next(line.split() for line in said.splitlines() if line.split()[:1] == [key])
    file, _, number = row[2].rpartition(":")
    lines = (config.parent / file).read_text().splitlines(keepends=True)
    assert old in lines[int(number) - 1]
    lines[int(number) - 1] = lines[int(number) - 1].replace(old, new)
    (config.parent / file).write_text("".join(lines))
    read_again()
    changed = explain(load_study("digits"), *cell)
    row = next(line.split() for line in changed.splitlines() if line.split()[:1] == [key])
    assert row[1] == new


def test_lines_of_keys_that_an_anchor_brings_are_the_anchors(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("one: &one\n  x: 1\n  y: {z: 2}\ntwo:\n  <<: *one\n  x: 3\nlist:\n  - a: 1\n  - b: 2\n")
    content = yaml.safe_load(file.read_text())
    assert merged(content["two"], {}) == {"x": 3, "y": {"z": 2}}
    assert explaining.line(file, ("two", "x")) == 6
    assert explaining.line(file, ("two", "y", "z")) == 3
    assert explaining.line(file, ("list", 1, "b")) == 9
    assert [explaining.line(file, place) for place in (("two", "z"), ("list", 2), ("one", "x", "q"))] == [None] * 3


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("fedstyle-table1", "fedavg", "digit mnist"), "4 cells are meant; add words"),
        (
            ("fedstyle-table1", "fedevg simclr", "digit mnist"),
            "no cell of fedstyle-table1 has the words 'fedevg simclr'",
        ),
        (("fedstyle-table1", "fedavg simclr", "digit banana"), "no cell of fedstyle-table1 has the words"),
        (("fedinb-table1", "fedavg", "0 banana"), "no cell of fedinb-table1 has the words"),
        (("fedstyle-tabel1", "fedavg", "digit"), "table: unknown name 'fedstyle-tabel1'"),
        (("fedstyle-table1", "fedavg simclr generalization", "office-home art"), "nothing is run for"),
    ],
)
def test_what_is_no_one_cell_is_refused_in_a_sentence(asked, words):
    with pytest.raises(InputError, match=words):
        explain(load_study("digits"), *asked)


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        (
            ("fedstyle-table1", "fedavg simclr generalization", "digit mnist"),
            ("FedAvg SimCLR generalisation", "digits, MNIST"),
        ),
        (("fedinb-table3", "feddirt l10-k10", "75 100"), ("FedDIRT, L10-K10", "75°, every 100 batches")),
    ],
)
def test_a_cell_may_be_asked_for_as_records_and_as_tables_call_it(asked, read):
    assert explain(load_study("paper"), *asked) == explain(load_study("paper"), asked[0], *read)


@pytest.mark.parametrize(
    ("asked", "runs"),
    [
        (("common-natural", "equal ditto", "accuracy own"), ["common/natural_equal/ditto/default"]),
        (("common-natural", "equal FedStyle, SimCLR", "codes, told apart"), ["common/natural_equal/fedstyle/simclr"]),
        (("common-answers", "skewed rotations fedavg", "own"), ["common/rotations_skewed/fedavg/default"]),
        (
            ("common-ranks", "full GAN", "generated FD"),
            [f"common/{d}_{s}/full-gan/default" for d in ("natural", "rotations", "pacs") for s in ("equal", "skewed")],
        ),
    ],
)
def test_a_cell_that_no_paper_prints_is_of_the_runs_of_its_row(asked, runs):
    said = explain(load_study("reference-common"), *asked).splitlines()
    assert [line.removeprefix("Run ").partition(",")[0] for line in said if line.startswith("Run ")] == runs


@pytest.mark.parametrize(
    ("scale", "asked", "run"),
    [
        (
            "psfedgan",
            ("psfedgan-table1-last", "server-only", "split-1 mnist"),
            "psfedgan/mnist_split-1/server-only/default",
        ),
        (
            "fedstyle",
            ("fedstyle-table1", "fedavg momentum SimCLR generalisation", "digits MNIST"),
            "fedstyle/digit_1_iid_simclr/fedavg/momentum",
        ),
        ("padpaf", ("padpaf-table1", "padpaf released", "client-3"), "padpaf/mnist_eight-clients/padpaf/released"),
    ],
)
def test_a_row_that_the_paper_has_not_is_of_its_runs_in_tables_of_the_papers_own_as_well(scale, asked, run):
    assert f"Run {run}, seeds" in explain(load_study(f"reference-{scale}"), *asked)


def test_the_seeds_are_those_that_the_cell_is_measured_with():
    study = load_study("reference-fedinb")
    assert "fedavg/default, seeds 2011\n" in explain(study, "fedinb-table4", "fedavg", "75 1")
    eight = "2011, 2012, 2013, 2014, 2015, 2016, 2017, 2018"
    assert f"indae, seeds {eight}\n" in explain(study, "fedinb-table5", "0", "fedinb-indae")


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (("psfedgan-table1", "fedavg", "split-1 mnist"), {"method": "fedavg", "dataset": "mnist", "split": "split-1"}),
        (("common-natural", "local", "accuracy own"), {"method": "local", "measure": "own"}),
    ],
)
def test_the_commands_make_the_cell(asked, wanted, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["explain", *asked, "--scale", "tiny"]) == 0
    said = capsys.readouterr().out.splitlines()
    commands = itertools.takewhile(lambda line: line.startswith("  "), said[said.index("By hand") + 1 :])
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    table = pd.read_csv(f"{asked[0]}.csv", dtype=str, keep_default_na=False)
    same_run = (table["method"] == wanted["method"]) & (table["variant"] == "")
    cell = table[same_run & (table[list(wanted)] == wanted).all(axis=1)]
    assert cell["ours"].item() != ""
    assert (table[~same_run & (table["method"] != "")]["ours"] == "").all()
