"""Wrong input: exit status 2, one clear sentence on stderr that names key, value and what is allowed, nothing left."""

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import diptych.study
from diptych.cli import main
from diptych.study import load_study
from tests.digits import STYLES

GOOD: dict[str, Any] = {
    "run": "fedstyle/try/fedavg/default/1",
    "scale": "digits",
    "seed": 1,
    "labels": {"paper": "fedstyle", "method": "fedavg"},
    "data": {"dataset": "digit", "styles": STYLES, "image_size": 8},
    "network": {"name": "conv3", "width": 4},
    "objective": {"name": "simclr", "hidden": 8, "out": 4, "augmentation": {"crop": 0.5}},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 1, "local_epochs": 0.1, "batch_size": 8},
}

# what is put where in a good specification -> what the sentence must say
WRONG_SPECS: list[tuple[str, Any, list[str]]] = [
    ("sed", 1, ["sed: unknown key", "did you mean 'seed'", "training"]),
    ("seed", None, ["seed: this key is needed"]),
    ("seed", -3, ["seed", "greater than or equal to 0", "-3"]),
    ("seed", "one", ["seed", "integer", "'one'"]),
    ("training.rounds", "many", ["training.rounds", "integer", "'many'"]),
    ("training.rounds", 0, ["training.rounds", "greater than 0", "0"]),
    ("training.round", 3, ["training.round: unknown key", "did you mean 'rounds'"]),
    ("training.batch_size", 1, ["training.batch_size", "greater than or equal to 2"]),
    ("training.local_epochs", -1, ["training.local_epochs", "greater than 0", "-1"]),
    ("training.local_steps", 0, ["training.local_steps", "greater than 0", "0"]),
    ("training.participation", 1.5, ["training.participation", "less than or equal to 1", "1.5"]),
    ("training.buffers", "lokal", ["training.buffers", "'lokal'", "did you mean 'local'", "local, shared"]),
    ("training.precision", "fp16", ["training.precision", "'fp16'", "bf16, fp32"]),
    ("training.optimiser.name", "sdg", ["training.optimiser.name", "'sdg'", "did you mean 'sgd'", "adam, sgd"]),
    ("training.optimiser.lr", 0, ["training.optimiser.lr", "greater than 0"]),
    ("training.optimiser.momentum", 1, ["training.optimiser.momentum", "less than 1"]),
    ("training.server.weighting", "sise", ["training.server.weighting", "did you mean 'size'", "size, uniform"]),
    ("algorithm.name", "fedavgg", ["algorithm.name", "'fedavgg'", "did you mean 'fedavg'", "fedstyle"]),
    ("algorithm.mu", 0.1, ["algorithm.mu: unknown key", "allowed: nothing"]),
    ("algorithm", {"name": "fedprox", "mu": -1}, ["algorithm.mu", "greater than or equal to 0", "-1"]),
    ("algorithm", {"name": "fedprox", "nu": 1}, ["algorithm.nu: unknown key", "did you mean 'mu'"]),
    ("algorithm", {"name": "apfl", "alpha": 2}, ["algorithm.alpha", "less than or equal to 1", "2"]),
    ("algorithm", {"name": "fedstyle", "lambda": "x"}, ["algorithm.lambda", "number", "'x'"]),
    ("algorithm", {"name": "ditto", "reading": "canonic"}, ["algorithm.reading", "did you mean 'canonical'"]),
    ("algorithm", {"mu": 1}, ["algorithm.name: this key is needed"]),
    ("objective.name", "simcrl", ["objective.name", "'simcrl'", "did you mean 'simclr'", "classification"]),
    ("objective.temperature", 0, ["objective.temperature", "greater than 0"]),
    ("objective.augmentation.hew", 0.1, ["objective.augmentation.hew", "did you mean 'hue'"]),
    ("objective.classes", 3, ["objective.classes", "follows from the rest"]),
    ("network.name", "conv4", ["network.name", "'conv4'", "did you mean 'conv3'", "resnet18"]),
    ("network.width", "wide", ["network.width", "integer", "'wide'"]),
    ("network.depth", 3, ["network.depth: unknown key", "allowed: width"]),
    ("data.image_size", 4, ["data.image_size", "greater than or equal to 8", "4"]),
    ("data.channels", 2, ["data.channels", "'2'", "1, 3"]),
    ("data.styles", {}, ["data.styles", "at least 1"]),
    ("data.styles.usps", "digits-blod", ["'digits-blod'", "did you mean 'digits-bold'", "mnist"]),
    ("data.styles.usps", "digits-bold[a:b]", ["'digits-bold[a:b]'", "name/style", "[start:stop:step]"]),
    ("data.styles.usps", "digits-bold/Art", ["'digits-bold/Art'", "no styles"]),
    ("data.styles.usps", "celeba", ["'celeba'", "not found below", "list_attr_celeba.txt", "DIPTYCH_DATA"]),
    ("data.styles.usps", "office-home/Art", ["'office-home/Art'", "office-home/<style>/<class>", "DIPTYCH_DATA"]),
    ("data.deal", {"name": "dirichlett", "beta": 1}, ["data.deal.name", "did you mean 'dirichlet'", "iid"]),
    ("data.deal", {"name": "dirichlet"}, ["data.deal.beta: this key is needed"]),
    ("data.deal", {"name": "dirichlet", "beta": 0}, ["data.deal.beta", "greater than 0"]),
    ("data.deal", {"name": "iid", "beta": 1}, ["data.deal.beta: unknown key"]),
    ("data.clients_per_style", 5000, ["clients_per_style", "5000"]),
    ("data.train_fraction", 1.0, ["data.train_fraction", "less than 1"]),
    ("data.marks", {"usps": "elipse"}, ["data.marks.usps", "'elipse'", "did you mean 'ellipse'"]),
    ("data.at_most", 1, ["data.at_most", "batch norm needs two images"]),
    ("data.at_most", 0, ["data.at_most", "greater than 0"]),
    ("data.test_images", "some", ["data.test_images", "all, dealt"]),
    ("algorithm", {"name": "feddva", "xi": -1}, ["algorithm.xi", "greater than or equal to 0", "-1"]),
    ("algorithm", {"name": "feddva"}, ["FedDVA cannot be used with objective 'simclr'"]),
    ("network", {"name": "dual-encoder", "latent": 0}, ["network.latent", "greater than 0", "0"]),
    ("network", {"name": "dual-encoder", "width": 0}, ["network.width", "greater than 0"]),
    ("score_every", -1, ["score_every", "greater than or equal to 0"]),
    ("objective", {"name": "autoencoder"}, ["network.name", "needs a network with a decoder", "inb-mnist"]),
    ("algorithm", {"name": "fedinb"}, ["FedINB cannot be used with objective 'simclr'"]),
    ("algorithm", {"name": "feddirt", "layers": 0}, ["algorithm.layers", "greater than 0", "0"]),
    ("network", {"name": "inb-mnist", "width": 4}, ["network.width: unknown key"]),
    ("network", {"name": "inb-fmnist"}, ["data.image_size", "network 'inb-fmnist' needs 28", "8"]),
]
TRANSLATING = {
    "network": {"name": "inb-mnist"},
    "objective": {"name": "autoencoder"},
    "algorithm": {"name": "fedinb", "layers": 1, "directions": 2, "iterations": 2, "autoencoder_epochs": 1},
    "data": GOOD["data"] | {"per_class": 8},
}
WRONG_TRANSLATIONS: list[tuple[str, Any, list[str]]] = [
    ("algorithm.directions", 33, ["algorithm.directions", "there are 32 dimensions", "33"]),
    ("algorithm.bins", 0, ["algorithm.bins", "greater than or equal to 1", "0"]),
    ("data.styles", {"mnist": STYLES["mnist"]}, ["translation needs two domains", "got 1"]),
    ("data.per_class", None, ["data.per_class", "as many images of each class at each client"]),
    ("data.per_class", 1, ["data.per_class", "two or more", "got between 1 and 1"]),
    ("data.classes_per_client", 0.5, ["data.per_class", "got between 0 and 8"]),
    ("data.image_size", 10, ["data.image_size", "network 'inb-mnist' needs a multiple of 4", "10"]),
    ("training.rounds", 2, ["training.rounds", "there are 1 layers (algorithm.layers)"]),
]


def _complains(capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]) -> None:
    """The command ends with status 2 and one sentence that has these words in it."""
    assert main(arguments) == 2
    said = capsys.readouterr()
    lines = said.err.strip().splitlines()
    assert len(lines) == 1, said.err
    assert lines[0].startswith("diptych: ")
    for word in words:
        assert word in lines[0]


def _with(key: str, value: Any, good: dict[str, Any] = GOOD) -> dict[str, Any]:
    spec = copy.deepcopy(good)
    place = spec
    *path, last = key.split(".")
    for part in path:
        place = place.setdefault(part, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return spec


@pytest.fixture
def spec(tmp_path) -> Callable[[dict[str, Any]], str]:
    def write(content: dict[str, Any]) -> str:
        file = tmp_path / "spec.yaml"
        file.write_text(yaml.safe_dump(content))
        return str(file)

    return write


def _nothing_left(folder: Path) -> bool:
    return not folder.exists() or not list(folder.iterdir())


# ---- specifications


def test_the_good_one_is_good(spec, tmp_path):
    assert main(["train", spec(GOOD), "--out", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize(("key", "value", "words"), WRONG_SPECS, ids=[f"{k}={v}" for k, v, _ in WRONG_SPECS])
def test_a_wrong_specification(key, value, words, spec, tmp_path, capsys):
    command = ["train", spec(_with(key, value)), "--out", str(tmp_path / "run"), "--data", str(tmp_path / "data")]
    _complains(capsys, command, words)
    assert _nothing_left(tmp_path / "run")
    assert _nothing_left(tmp_path / "data")


@pytest.mark.parametrize(
    ("key", "value", "words"), WRONG_TRANSLATIONS, ids=[f"{k}={v}" for k, v, _ in WRONG_TRANSLATIONS]
)
def test_a_wrong_translation(key, value, words, spec, tmp_path, capsys):
    wrong = _with(key, value, GOOD | TRANSLATING)
    _complains(capsys, ["train", spec(wrong), "--out", str(tmp_path / "run")], words)
    assert _nothing_left(tmp_path / "run")


def test_a_method_on_an_objective_that_it_cannot_use(spec, tmp_path, capsys):
    wrong = _with("algorithm", {"name": "fedstyle"}) | {"objective": {"name": "classification"}}
    _complains(
        capsys, ["train", spec(wrong), "--out", str(tmp_path / "run")], ["FedStyle", "objective 'classification'"]
    )
    assert _nothing_left(tmp_path / "run")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["spec.yaml", "No such file"]),
        (b"a: [1", ["spec.yaml", "is not YAML"]),
        (b"- 1\n- 2\n", ["spec.yaml", "must hold keys and values", "list"]),
        (b"\xff\xfe\x00", ["spec.yaml", "cannot be read"]),
    ],
)
def test_a_file_that_is_no_specification(content, words, tmp_path, capsys):
    if content is not None:
        (tmp_path / "spec.yaml").write_bytes(content)
    _complains(capsys, ["train", str(tmp_path / "spec.yaml"), "--out", str(tmp_path / "run")], words)
    assert _nothing_left(tmp_path / "run")


# ---- options and files


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--threads", "0"], ["--threads", "at least 1", "0"]),
        (["--device", "cudda"], ["--device", "'cudda'", "auto, cpu, cuda"]),
    ],
)
def test_a_wrong_option(options, words, spec, tmp_path, capsys):
    _complains(capsys, ["train", spec(GOOD), "--out", str(tmp_path / "run"), *options], words)
    assert _nothing_left(tmp_path / "run")


def test_a_folder_that_cannot_be_written_is_noticed_before_training(spec, tmp_path, capsys):
    (tmp_path / "file").touch()
    _complains(
        capsys, ["train", spec(GOOD), "--out", str(tmp_path / "file" / "run")], ["file/run", "cannot be written"]
    )


def test_a_damaged_checkpoint(spec, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint.pt").write_bytes(b"PK\x03\x04 cut off")
    _complains(capsys, ["train", spec(GOOD), "--out", str(tmp_path / "run")], ["checkpoint.pt", "delete it"])


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
    _complains(capsys, arguments, words)
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
    _complains(capsys, arguments, ["records.csv", "columns", "value"])
    assert not (tmp_path / "o.md").exists()


def test_a_figure_in_a_format_that_there_is_not(tmp_path, capsys):
    (tmp_path / "counts.csv").write_text("ssl,split,client,style,class,images\n")
    arguments = ["figure", "fedstyle-figure5", "--data", str(tmp_path / "counts.csv"), "--out", str(tmp_path / "o.jpg")]
    _complains(capsys, arguments, ["o.jpg", "'jpg'", "png, pdf, svg"])


# ---- runs


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    folder.mkdir()
    (folder / "spec.yaml").write_text(yaml.safe_dump(GOOD))
    assert main(["train", str(folder / "spec.yaml")]) == 0
    return folder


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        ("features.npz", lambda path: path.write_bytes(path.read_bytes()[:1000]), ["features.npz", "cannot be read"]),
        ("features.npz", lambda path: path.unlink(), ["features.npz", "cannot be read", "train"]),
        ("features.npz", lambda path: np.savez(path, x=1), ["features.npz", "no features to probe"]),
        ("provenance.json", lambda path: path.write_text("{"), ["provenance.json", "cannot be read"]),
        ("provenance.json", lambda path: path.unlink(), ["provenance.json", "cannot be read", "train"]),
        ("spec.yaml", lambda path: path.write_text(path.read_text().replace("digits\n", "digit\n")), ["'digit'"]),
    ],
)
def test_a_damaged_run(file, damage, words, finished, tmp_path, capsys):
    shutil.copytree(finished, tmp_path / "run")
    damage(tmp_path / "run" / file)
    _complains(capsys, ["evaluate", str(tmp_path / "run"), "--out", str(tmp_path / "records.csv")], words)
    assert not (tmp_path / "records.csv").exists()


def test_a_diverged_run_is_a_row_that_says_so(spec, tmp_path, capfd):
    training = GOOD["training"] | {"local_epochs": 2, "optimiser": {"lr": 1e30}}
    wrong = _with("objective", {"name": "classification"}) | {"training": training}
    assert main(["train", spec(wrong), "--out", str(tmp_path / "run")]) == 0
    assert "diverged: the loss of client" in capfd.readouterr().err
    assert main(["evaluate", str(tmp_path / "run"), "--out", str(tmp_path / "records.csv")]) == 0
    lines = (tmp_path / "records.csv").read_text().splitlines()
    accuracies = [line for line in lines if ",accuracy," in line]
    assert len(accuracies) == 2 * len(STYLES)
    assert all(",diverged," in line for line in accuracies)


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
    _complains(capsys, ["runs", "--scale", "digits"], words)


def test_a_wrong_evaluation_is_noticed_before_anything_is_trained(config, capsys):
    file = config / "papers" / "fedstyle.yaml"
    file.write_text(file.read_text().replace("class-entropy: {}", "class-entropie: {}"))
    _complains(capsys, ["check"], ["class-entropie", "did you mean 'class-entropy'", "budget"])
    file.write_text(file.read_text().replace("class-entropie: {}", "class-entropy: {samples: 3}"))
    load_study.cache_clear()
    diptych.study._paper_yaml.cache_clear()
    _complains(capsys, ["check"], ["class-entropy.samples", "unknown key"])


def test_a_wrong_setting_of_an_evaluation(config, finished, tmp_path, capsys):
    file = config / "papers" / "fedstyle.yaml"
    file.write_text(file.read_text().replace("style-clusters: {samples: 2000}", "style-clusters: {samples: none}"))
    arguments = ["evaluate", str(finished), "--out", str(tmp_path / "records.csv")]
    _complains(capsys, arguments, ["evaluation.style-clusters.samples", "integer", "'none'"])
    assert not (tmp_path / "records.csv").exists()
