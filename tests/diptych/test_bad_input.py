"""Wrong input: exit status 2, one clear sentence on stderr that names key, value and what is allowed, nothing left."""

import shutil
from pathlib import Path

import pytest

import diptych.study
from diptych.study import load_study
from tests.wrong import GOOD, complains, nothing_left, training, written

# ---- options and files


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--threads", "0"], ["--threads", "at least 1", "0"]),
        (["--device", "cudda"], ["--device", "'cudda'", "auto, cpu, cuda"]),
    ],
)
def test_a_wrong_option(options, words, tmp_path, capsys):
    complains(capsys, [*training(tmp_path, GOOD), *options], words)
    assert nothing_left(tmp_path / "run")


def test_a_folder_that_cannot_be_written_is_noticed_before_training(tmp_path, capsys):
    (tmp_path / "file").touch()
    complains(
        capsys,
        ["train", written(tmp_path, GOOD), "--out", str(tmp_path / "file" / "run")],
        ["file/run", "cannot be written"],
    )


def test_a_damaged_checkpoint(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint.pt").write_bytes(b"PK\x03\x04 cut off")
    complains(capsys, training(tmp_path, GOOD), ["checkpoint.pt", "delete it"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["runs", "--scale", "digit"], ["scale", "'digit'", "did you mean 'digits'", "paper"]),
        (["spec", "fedstyle/digit_1_iid_simclr/fedavg/default/1"], ["run", "did you mean", "2011"]),
        (["list", "algorithm"], ["kind", "did you mean 'algorithms'"]),
        (["table", "fedstyle-tabel1", "--records", "r", "--out", "o.md"], ["table", "did you mean 'fedstyle-table1'"]),
        (["figure", "fedstyle-figur4", "--data", "r", "--out", "o.png"], ["figure", "did you mean 'fedstyle-figure4'"]),
        (["claims", "fedstile", "--records", "r", "--out", "o.md"], ["paper", "did you mean 'fedstyle'"]),
        (["table", "fedstyle-table1", "--records", "none.csv", "--out", "o.md"], ["none.csv", "cannot be read"]),
        (["figure", "fedstyle-figure5", "--data", "none.csv", "--out", "o.png"], ["none.csv", "cannot be read"]),
        (["source", "mnits"], ["'mnits'", "did you mean 'mnist'"]),
        (["evaluate", "nowhere", "--out", "records.csv"], ["nowhere/spec.yaml", "No such file"]),
    ],
)
def test_a_wrong_name(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    complains(capsys, arguments, words)
    assert not list(tmp_path.rglob("*"))


def test_records_with_other_columns(tmp_path, capsys):
    (tmp_path / "records.csv").write_text("method,accuracy\nfedavg,0.9\n")
    arguments = [
        "table",
        "fedstyle-table1",
        "--records",
        str(tmp_path / "records.csv"),
        "--out",
        str(tmp_path / "o.md"),
    ]
    complains(capsys, arguments, ["records.csv", "columns", "value"])
    assert not (tmp_path / "o.md").exists()


def test_a_figure_in_a_format_that_there_is_not(tmp_path, capsys):
    (tmp_path / "counts.csv").write_text("ssl,split,client,style,class,images\n")
    arguments = ["figure", "fedstyle-figure5", "--data", str(tmp_path / "counts.csv"), "--out", str(tmp_path / "o.jpg")]
    complains(capsys, arguments, ["o.jpg", "'jpg'", "png, pdf, svg"])


# ---- configuration


@pytest.fixture
def config(tmp_path, monkeypatch) -> Path:
    """A copy of `config` that a test may spoil."""
    shutil.copytree(diptych.study.CONFIG, tmp_path / "config")
    monkeypatch.setattr(diptych.study, "CONFIG", tmp_path / "config")
    caches = (load_study, diptych.study._paper_yaml)
    for cached in caches:
        cached.cache_clear()
    yield tmp_path / "config"
    for cached in caches:
        cached.cache_clear()


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("scales/digits.yaml", "seeds:", "seed:", ["digits.yaml.seed", "did you mean 'seeds'"]),
        ("scales/digits.yaml", "seeds: [2011]", "seeds: 2011", ["digits.yaml.seeds", "list", "2011"]),
        ("scales/digits.yaml", "seeds: [2011]", "seeds: []", ["digits.yaml.seeds", "at least 1"]),
        ("scales/digits.yaml", "  fedstyle:\n", "  fedstile:\n", ["'fedstile'", "did you mean 'fedstyle'"]),
        ("scales/digits.yaml", "{rounds: 6,", "{rouns: 6,", ["training.rouns", "did you mean 'rounds'"]),
        ("papers/fedstyle.yaml", "experiments:\n", "experiment:\n", ["experiment", "did you mean 'experiments'"]),
        ("papers/fedstyle.yaml", "method: [centralized, fedavg,", "method: [fedavgg,", ["'fedavgg'", "'fedavg'"]),
        ("papers/fedstyle.yaml", "dataset: [digit, office", "dataset: [digits, office", ["'digits'", "'digit'"]),
    ],
)
def test_a_wrong_configuration(file, old, new, words, config, capsys):
    text = (config / file).read_text()
    assert old in text
    (config / file).write_text(text.replace(old, new, 1))
    complains(capsys, ["runs", "--scale", "digits"], words)


def test_a_wrong_evaluation_is_noticed_before_anything_is_trained(config, capsys):
    file = config / "papers" / "fedstyle.yaml"
    file.write_text(file.read_text().replace("class-entropy: {}", "class-entropie: {}"))
    complains(capsys, ["check"], ["class-entropie", "did you mean 'class-entropy'", "budget"])
    file.write_text(file.read_text().replace("class-entropie: {}", "class-entropy: {samples: 3}"))
    load_study.cache_clear()
    diptych.study._paper_yaml.cache_clear()
    complains(capsys, ["check"], ["class-entropy.samples", "unknown key"])


def test_a_wrong_setting_of_an_evaluation(config, finished, tmp_path, capsys):
    file = config / "papers" / "fedstyle.yaml"
    file.write_text(file.read_text().replace("style-clusters: {samples: 2000}", "style-clusters: {samples: none}"))
    arguments = ["evaluate", str(finished), "--out", str(tmp_path / "records.csv")]
    complains(capsys, arguments, ["evaluation.style-clusters.samples", "integer", "'none'"])
    assert not (tmp_path / "records.csv").exists()
