"""Wrong input: exit status 2, one clear sentence on stderr that names key, value and what is allowed, nothing left."""

import gzip
import resource
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import common.files
import diptych.check
import diptych.training
from common.codehash import ROOT
from common.errors import InputError
from common.records import COLUMNS
from common.run_folder import FILES
from diptych.cli import main
from diptych.study import load_study
from diptych.workflow import Workflow
from tests.checkout import read_again
from tests.wrong import GOOD, complains, nothing_left, training

# ---- options and files


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--threads", "0"], ["--threads", "at least 1", "0"]),
        (["--threads", "1000000"], ["--threads", "at most 1024", "1000000"]),
        (["--checkpoint-every", "-1"], ["--checkpoint-every", "seconds", "-1"]),
        (["--checkpoint-every", "nan"], ["--checkpoint-every", "seconds", "nan"]),
        (["--data", "/nope"], ["--data", "there is no folder '/nope'", "./data"]),
        (["--device", "cudda"], ["--device", "'cudda'", "auto, cpu, cuda"]),
        (["--device", "meta"], ["--device", "'meta'", "auto, cpu, cuda"]),
    ],
)
def test_a_wrong_option(options, words, tmp_path, capsys):
    complains(capsys, [*training(tmp_path, GOOD), *options], words)
    assert nothing_left(tmp_path / "run")


# ---- places that cannot be written


@pytest.fixture
def _no_training(monkeypatch):
    monkeypatch.setattr(diptych.training, "Simulation", lambda *_, **__: pytest.fail("it was trained before"))


@pytest.fixture
def full() -> Iterator[None]:
    """No file may be longer than 200 KiB, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200 * 2**10, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("_no_training")
def test_a_folder_that_cannot_be_written_is_noticed_before_training(tmp_path, capsys):
    (tmp_path / "run").touch()
    complains(capsys, training(tmp_path, GOOD), ["run/spec.yaml", "cannot be written"])


@pytest.mark.usefixtures("_no_training")
@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_the_place_of_a_file_is_noticed_before_training(name, tmp_path, capsys):
    (tmp_path / "run" / name).mkdir(parents=True)
    complains(capsys, training(tmp_path, GOOD), [f"run/{name}", "cannot be written", "folder"])


@pytest.mark.usefixtures("_no_training", "full")
def test_a_full_disk_is_noticed_before_training(tmp_path, capsys):
    complains(capsys, training(tmp_path, GOOD), ["run/", "cannot be written", "the disk is full"])
    assert nothing_left(tmp_path / "run")


WRITERS: dict[str, Callable[[Path], None]] = {
    "model.safetensors": lambda file: save_file({"a": np.zeros(10**6)}, file),
    "checkpoint.pt": lambda file: torch.save({"a": torch.zeros(10**6)}, file),
    "features.npz": lambda file: file.open("wb").write(bytes(10**6)) and None,
    "history.csv": lambda file: file.write_text("0.5," * 10**6) and None,
}


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("name", WRITERS)
def test_a_disk_that_fills_up_is_said_to_be_full(name, tmp_path):
    with pytest.raises(InputError, match=rf"{name}: cannot be written \(the disk is full"):  # noqa: SIM117
        with common.files.written(tmp_path / name) as part:
            WRITERS[name](part)
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_with_a_writer_is_no_full_disk(tmp_path):
    with pytest.raises(ZeroDivisionError), common.files.written(tmp_path / "file"):
        1 / 0  # noqa: B018


def test_results_that_cannot_be_written_are_noticed_before_the_work(tmp_path, capsys):
    (tmp_path / "o.md").mkdir()
    complains(capsys, ["records", "none.csv", "--out", str(tmp_path / "o.md")], ["o.md", "it is a folder"])
    complains(capsys, ["claims", "fedstyle", "--records", "r", "--out", "o.csv"], ["--out", "must end in .md"])
    complains(capsys, ["judge", "r", "--out", "j.txt"], ["--out", "must end in .safetensors"])


@pytest.mark.parametrize("command", [["table", "fedstyle-table1"], ["claims", "fedstyle"]])
def test_records_are_not_written_over_by_what_is_made_of_them(command, tmp_path, capsys):
    records = tmp_path / "r.csv"
    records.write_text("kept")
    complains(capsys, [*command, "--records", str(records), "--out", str(tmp_path / "r.md")], ["--out", "--records"])
    assert records.read_text() == "kept"


# ---- names


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
        (["claims", "common", "--records", "r", "--out", "o.md"], ["paper with claims", "'common'"]),
        (["claims", "fedstile", "--records", "r", "--out", "o.md"], ["paper", "did you mean 'fedstyle'"]),
        (["table", "fedstyle-table1", "--records", "none.csv", "--out", "o.md"], ["none.csv", "cannot be read"]),
        (["figure", "fedstyle-figure5", "--data", "none.csv", "--out", "o.png"], ["none.csv", "cannot be read"]),
        (["compare", "q('wd') > 1", "--records", "r", "--where", "method"], ["--where", "COLUMN=VALUE", "method"]),
        (["compare", "q('wd') > 1", "--records", "none.csv"], ["none.csv", "cannot be read"]),
        (["source", "mnits"], ["'mnits'", "did you mean 'mnist'"]),
        (["evaluate", "nowhere", "--out", "records.csv"], ["nowhere/spec.yaml", "No such file"]),
    ],
)
def test_a_wrong_name(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    complains(capsys, arguments, words)
    assert not list(tmp_path.rglob("*"))


def test_of_many_names_the_nearest_are_listed_and_how_to_see_all(capsys):
    complains(capsys, ["spec", "fedstyle/digit_1_iid_simclr/fedavg/default/1"], ["`diptych runs --scale digits`"])
    assert main(["spec", "x"]) == 2
    assert len(capsys.readouterr().err) < 400


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


def test_a_value_of_records_that_is_no_number(tmp_path, capsys):
    file = tmp_path / "records.csv"
    file.write_text(f"{','.join(COLUMNS)}\n{','.join('high' if c == 'value' else 'x' for c in COLUMNS)}\n")
    command = ["table", "fedstyle-table1", "--records", str(file), "--out", str(tmp_path / "o.md")]
    complains(capsys, command, ["records.csv: line 2", "number", "'high'"])


def test_a_figure_of_another_table(tmp_path, capsys):
    (tmp_path / "counts.csv").write_text("a,b\n1,2\n")
    command = ["figure", "fedstyle-figure5", "--data", str(tmp_path / "counts.csv"), "--out", str(tmp_path / "o.png")]
    complains(capsys, command, ["counts.csv: fedstyle-figure5 is drawn from what `diptych extract class-counts` wrote"])


def test_a_figure_of_a_paper_that_has_no_record(tmp_path, capsys):
    """Is refused, and no empty frame."""
    with gzip.open(ROOT / "results" / "reference" / "untrained" / "records.csv.gz", "rt") as rows:
        first, *counted = rows.readlines()
    (tmp_path / "r.csv").write_text("".join([first, *(row for row in counted if row.startswith("fedstyle,"))]))
    drawn = ["figure", "padpaf-figure4", "--data", str(tmp_path / "r.csv"), "--out", str(tmp_path / "o.png")]
    complains(capsys, drawn, ["r.csv: has no record of padpaf"])


def test_records_of_something_else_are_not_laid_out(tmp_path, capsys):
    """As if they were of the embedded digits, which are the default elsewhere; nor is a paper drawn that has none."""
    records, out = str(ROOT / "results" / "reference" / "fedstyle-long" / "records.csv.gz"), tmp_path / "o.md"
    for command in (["table", "fedstyle-table1"], ["claims", "fedstyle"]):
        said = [*command, "--records", records, "--out", str(out)]
        assert main(said) == 0
        assert "fedstyle-long" in out.read_text()
        assert "digits-plain" not in out.read_text()
        complains(capsys, [*said, "--scale", "digits"], ["--scale: ", "is of scale 'reference-fedstyle-long'"])
    drawn = ["figure", "padpaf-figure4", "--data", records, "--out", str(tmp_path / "p.png")]
    complains(capsys, drawn, ["paper of reference-fedstyle-long", "'padpaf'"])
    table = ["table", "fedstyle-table1", "--records", records, "--out", str(tmp_path / "p.md")]
    complains(capsys, [*table, "--without", "x"], ["--without", "unknown name 'x'", "digit"])
    gathered = ["records", records, "--out", str(tmp_path / "p.csv")]
    complains(capsys, [*gathered, "--paper", "padpaf-2"], ["--paper: unknown name 'padpaf-2'"])
    assert not [*tmp_path.glob("p.*")]
    assert main([*gathered, "--scale", "digits"]) == 0
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 1, "none of these runs is of this scale"


# ---- what Snakemake is asked for


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"gpus": -1}, ["--config gpus", "-1"]),
        ({"gpus": True}, ["--config gpus", "true"]),
        ({"gpus": "two"}, ["--config gpus", "'two'"]),
        ({"data": "/nope"}, ["--config data", "no folder '/nope'"]),
        ({"scale": "tinny"}, ["'tinny'", "did you mean 'tiny'"]),
        ({"sale": "tiny"}, ["'sale'", "did you mean 'scale'"]),
    ],
)
def test_a_wrong_setting_of_the_workflow(config, words):
    with pytest.raises(SystemExit) as ended:
        Workflow({"scale": "tiny"} | config)
    assert all(word in str(ended.value) for word in words)


def test_a_start_that_differs_in_the_method_alone(monkeypatch):
    """Wildcards do not say the method, so that what it starts from would wait for itself."""
    study = load_study("tiny")
    run, start = (f"fedstyle/digit_1_iid_simclr/{method}/default/2011" for method in ("ditto", "fedavg"))
    ditto = study.trained[run].model_copy(update={"start": start})
    monkeypatch.setitem(vars(study), "trained", study.trained | {run: ditto})
    with pytest.raises(SystemExit, match=f"diptych: run {run}: start: '{start}' differs in the method alone"):
        Workflow({"scale": "tiny"})


@pytest.mark.parametrize(
    ("function", "wildcards", "words"),
    [
        ("layout", {"paper": "fedstyle", "table": "tabel1"}, ["table of fedstyle", "did you mean 'table1'"]),
        ("layout", {"paper": "fedstile", "table": "table1"}, ["paper", "did you mean 'fedstyle'"]),
        ("folders", {"paper": "fedstyle", "method": "fedavgg"}, ["method of fedstyle", "did you mean 'fedavg'"]),
        ("sources", {"paper": "padpaf", "condition": "mnist"}, ["condition", "did you mean 'padpaf/mnist_"]),
        ("judged", {"paper": "padpaf", "condition": "mnist_eight-clients", "seed": "9"}, ["judge", "/2011'"]),
        ("figure_data", {"figure": "fedstyle-figure55"}, ["figure", "did you mean 'fedstyle-figure5'"]),
    ],
)
def test_a_file_that_no_rule_makes(function, wildcards, words):
    flow = Workflow({"scale": "tiny"})
    with pytest.raises(SystemExit) as ended:
        getattr(flow, function)(SimpleNamespace(**wildcards))
    assert all(word in str(ended.value) for word in words)
    assert "\n" not in str(ended.value)


def test_the_package_run_as_a_module_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["diptych", "runs", "--scale", "tinny"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("diptych", run_name="__main__")
    assert ended.value.code == 2
    assert "did you mean 'tiny'" in capsys.readouterr().err


# ---- configuration

SETTING = "fedstyle: axes.setting: must be key=value"
RULE = 'method: fedstyle, clients_per_style: "5"'


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("scales/digits.yaml", "seeds:", "seed:", ["digits.yaml.seed", "did you mean 'seeds'"]),
        ("scales/digits.yaml", "seeds: [2011]", "seeds: 2011", ["digits.yaml.seeds", "list", "2011"]),
        ("scales/digits.yaml", "seeds: [2011]", "seeds: []", ["digits.yaml.seeds", "at least 1"]),
        (
            "scales/digits.yaml",
            "seeds: [2011]",
            "seeds: [3, 4, 3]",
            ["digits.yaml.seeds: must all be different, got [3"],
        ),
        ("scales/digits.yaml", "  fedstyle:\n", "  fedstile:\n", ["'fedstile'", "did you mean 'fedstyle'"]),
        ("scales/digits.yaml", "{rounds: 6,", "{rouns: 6,", ["training.rouns", "did you mean 'rounds'"]),
        (
            "scales/digits.yaml",
            "  fedstyle:\n",
            "  fed-style:\n",
            ["digits.yaml.papers", "fed-style", "[a-z][a-z0-9]*"],
        ),
        (
            "scales/digits.yaml",
            "{rounds: 6,",
            "{rounds: 6}\n      labels: x\n      sampled: {images: 1,",
            ["fedstyle: digit", ".labels: should be a mapping, got 'x'"],
        ),
        ("papers/fedstyle.yaml", "experiments:\n", "experiment:\n", ["experiment", "did you mean 'experiments'"]),
        ("papers/fedstyle.yaml", "method: [centralized, fedavg,", "method: [fedavgg,", ["'fedavgg'", "'fedavg'"]),
        (
            "scales/digits.yaml",
            "method: [feddva:no-threshold]",
            "method: [feddva:no-treshold]",
            ["variant of feddva", "'feddva:no-treshold'", "did you mean 'feddva:no-threshold'"],
        ),
        ("papers/fedstyle.yaml", "dataset: [digit, office", "dataset: [digits, office", ["'digits'", "'digit'"]),
        (
            "papers/fedinb.yaml",
            'start: "fedinb/{condition}/local/autoencoder/{seed}"',
            'start: "fedinb/{cond}/local/autoencoder/{seed}"',
            ["fedinb: rotated-mnist_translation", ".start", "{condition}", "got 'fedinb/{cond}/local/"],
        ),
        (
            "papers/fedinb.yaml",
            'start: "fedinb/{condition}/local/autoencoder/{seed}"',
            'start: "fedinb/{condition/local/autoencoder/{seed}"',
            [".start", "{condition}", "got 'fedinb/{condition/local/"],
        ),
        ("scales/digits.yaml", "setting: [lambda=0.1,", "setting: [lambda,", [SETTING, "'lambda'"]),
        ("scales/digits.yaml", "setting: [lambda=0.1,", 'setting: ["lambda=2026-02-30",', [SETTING, "'lambda=2026"]),
        (
            "scales/digits.yaml",
            "setting: [lambda=0.1,",
            'setting: ["lambda=0.1; rm x",',
            ["fedstyle.yaml", "axes.setting.0", "pattern", "'lambda=0.1; rm x'"],
        ),
        (
            "papers/padpaf.yaml",
            "\n    eight-clients:",
            "\n    two words: {}\n    eight-clients:",
            ["padpaf.yaml", "axes.split.two words", "pattern"],
        ),
        ("scales/digits.yaml", "setting: [lambda=0.1,", 'setting: ["=1",', [SETTING, "'=1'"]),
        (
            "papers/fedstyle.yaml",
            "      method: [apfl:mixture]\n",
            "",
            ["experiments.table1-mixture.axes: must have the axis 'method'"],
        ),
        (
            "papers/feddva.yaml",
            "  method:    ",
            "  methods:    ",
            ["feddva.yaml.axes: must have the axis 'method'", "methods"],
        ),
        ("papers/fedstyle.yaml", RULE, RULE.replace("method", "metod"), ["rules.2.when", "'metod'", "mean 'method'"]),
        (
            "papers/fedstyle.yaml",
            RULE,
            RULE.replace("dsty", "dtsy"),
            ["rules.2.when.method", "'fedtsyle'", "mean 'fedstyle'"],
        ),
        ("papers/fedstyle.yaml", RULE, RULE.replace("5", "6"), ["rules.2.when.clients_per_style", "'6'", "1, 10, 5"]),
        ("papers/psfedgan.yaml", 'variant: ""}', "variant: dropout}", ["rules.3.when.variant", "'no-dropout'"]),
        ("papers/fedstyle.yaml", "  fedstyle-14:", "  fedstyle-99:", ["fedstyle.yaml.claims", "'fedstyle-99'"]),
        ("papers/padpaf.yaml", "padpaf-13: &early", "padpaf-99: &early", ["padpaf.yaml.undecided", "'padpaf-99'"]),
        (
            "papers/fedstyle.yaml",
            "rows: [method, variant]",
            "rows: [metod, variant]",
            ["tables.table1.rows.0", "'metod'", "did you mean 'method'"],
        ),
        (
            "papers/fedstyle.yaml",
            "where: {kind: [dataset]",
            "where: {knd: [dataset]",
            ["tables.table5.where.knd", "'knd'", "did you mean 'kind'"],
        ),
        (
            "papers/padpaf.yaml",
            "where: {dataset: [cifar10]",
            "where: {datset: [cifar10]",
            ["figures.figure17.where", "'datset'", "did you mean 'dataset'"],
        ),
        (
            "papers/padpaf.yaml",
            "where: {dataset: [cifar10]",
            "where: {dataset: [cifar-10]",
            ["figures.figure17.where.dataset", "'cifar-10'", "did you mean 'cifar10'"],
        ),
    ],
)
def test_a_wrong_configuration(file, old, new, words, config, capsys):
    text = (config / file).read_text()
    assert old in text
    (config / file).write_text(text.replace(old, new, 1))
    complains(capsys, ["runs", "--scale", "digits"], words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("feddva/pretraining/", "feddva/pretrainin/", ["start", "'feddva/mnist_client-marks/feddva/pretrainin/2011'"]),
        (
            "feddva:pretraining: {",
            'feddva:pretraining: {start: "feddva/{condition}/fedavg/tuned-feddva/{seed}", ',
            ["start", "circle", "feddva/pretraining/2011 from feddva/mnist_client-marks/fedavg/tuned-feddva/2011 from"],
        ),
    ],
)
def test_what_runs_start_from_is_found_before_anything_is_trained(old, new, words, config, capsys):
    file = config / "papers" / "feddva.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    (config / "scales" / "mine.yaml").write_text("about: mine\nseeds: [2011]\npapers: {feddva: {}}\n")
    complains(capsys, ["check", "--scale", "mine"], words)


def test_who_stops_a_command_is_told_in_a_sentence(monkeypatch, tmp_path, capsys):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("diptych.training.train", stop)
    assert main(training(tmp_path, GOOD)) == 130
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("diptych: stopped")


def test_a_paper_that_is_half_written_is_named(config, capsys):
    """Whether the scale runs it or not: newcomers are methods that no paper names."""
    (config / "papers" / "new.yaml").write_text("title: A new paper\n")
    complains(capsys, ["runs", "--scale", "digits"], ["config/papers/new.yaml.experiments", "is needed and not given"])


def test_a_scale_without_a_paper(config, capsys):
    (config / "scales" / "mine.yaml").write_text("about: mine\nseeds: [2011]\npapers: {}\n")
    complains(capsys, ["runs", "--scale", "mine"], ["config/scales/mine.yaml.papers", "at least 1"])


def test_a_figure_that_nothing_draws(config, capsys):
    file = config / "papers" / "fedstyle.yaml"
    text = file.read_text()
    assert "\n  figure5:\n" in text
    file.write_text(text.replace("\n  figure5:\n", "\n  figure55:\n"))
    complains(capsys, ["check"], ["fedstyle: figures", "'fedstyle-figure55'", "did you mean 'fedstyle-figure5'"])


def test_a_wrong_evaluation_is_noticed_before_anything_is_trained(config, tmp_path, capsys):
    file = config / "papers" / "fedstyle.yaml"
    run = "fedstyle/digit_1_iid_simclr/fedavg/default/2011"
    train = ["train", run, "--scale", "digits", "--out", str(tmp_path / "run")]
    file.write_text(file.read_text().replace("class-entropy: {}", "class-entropie: {}"))
    for command in (["check"], train):
        complains(capsys, command, ["class-entropie", "did you mean 'class-entropy'", "budget"])
    file.write_text(file.read_text().replace("class-entropie: {}", "class-entropy: {samples: 3}"))
    read_again()
    for command in (["check"], train):
        complains(capsys, command, ["class-entropy.samples", "unknown key"])
    assert nothing_left(tmp_path / "run")


def test_a_wrong_setting_of_an_evaluation(config, tmp_path, capsys):
    assert main(training(tmp_path, GOOD)) == 0
    file = config / "papers" / "fedstyle.yaml"
    file.write_text(file.read_text().replace("clusters: {samples: 2000}", "clusters: {samples: none}"))
    arguments = ["evaluate", str(tmp_path / "run"), "--out", str(tmp_path / "records.csv")]
    complains(capsys, arguments, ["evaluation.clusters.samples", "integer", "'none'"])
    assert not (tmp_path / "records.csv").exists()


def test_checking_a_scale_asks_algorithms_about_the_settings_of_training(monkeypatch):
    runs = load_study("tiny").specs.values()
    spec = next(run for run in runs if run.algorithm["name"] == "ps-fedgan")
    wrong = spec.model_copy(update={"training": spec.training.model_copy(update={"optimiser_state": "round"})})
    study = SimpleNamespace(papers={}, trained={"right": spec, "wrong": wrong})
    monkeypatch.setattr(diptych.check, "load_study", lambda scale: study)
    with pytest.raises(InputError, match=r"^training\.optimiser_state: must be 'persistent'"):
        diptych.check.check("tiny", "")
