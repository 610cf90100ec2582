"""Folders of runs, which any program may have left: what is wrong with one is a sentence, and no record is written."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.numpy import save_file

from common.algorithms import training_code
from common.spec import Spec
from diptych.cli import main
from diptych.training import _given
from partitions import partition
from tests.digits import STYLES
from tests.wrong import GOOD, changed, complains, nothing_left, training, written

Damage = Callable[[Path], Any]
RUN = changed("training.rounds", 2) | {"objective": {"name": "classification"}, "score_every": 1}
SOURCE = {"name": "x", "sha256": "0", "images": 9, "classes": 10}
SPEC = Spec(**RUN)
GIVEN = _given(SPEC, partition(SPEC.data, "", SPEC.seed), Path())
KEY = f"{SPEC.digest} {training_code('fedavg')} {GIVEN} cpu"


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    folder.mkdir()
    (folder / "spec.yaml").write_text(yaml.safe_dump(RUN))
    assert main(["train", str(folder / "spec.yaml")]) == 0
    return folder


def _arrays(**changes: Callable[[np.ndarray], np.ndarray]) -> Damage:
    """Changes of arrays of features.npz; `__` in a keyword stands for a slash."""

    def damage(folder: Path) -> None:
        with np.load(folder / "features.npz") as held:
            arrays = {key: held[key] for key in held.files}
        for name, change in changes.items():
            key = name.replace("__", "/")
            arrays[key] = change(arrays.get(key))
        np.savez(folder / "features.npz", **arrays)

    return damage


def _text(file: str, change: Callable[[str], str]) -> Damage:
    return lambda folder: (folder / file).write_text(change((folder / file).read_text()))


def _provenance(**changes: Any) -> Damage:
    return _text("provenance.json", lambda text: json.dumps(json.loads(text) | changes))


def _bytes(file: str, change: Callable[[bytes], bytes]) -> Damage:
    return lambda folder: (folder / file).write_bytes(change((folder / file).read_bytes()))


def _lines(file: str, keep: Callable[[list[str]], list[str]]) -> Damage:
    return _text(file, lambda text: "".join(keep(text.splitlines(keepends=True))))


def _set(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        changed = array.copy()
        changed.flat[3] = value
        return changed

    return change


def _gone(file: str) -> Damage:
    return lambda folder: (folder / file).unlink()


def _npz(file: str, x: Any) -> Damage:
    return lambda folder: np.savez(folder / file, x=x)


def _last(value: str) -> Callable[[str], str]:
    return lambda text: text.rsplit(",", 1)[0] + f",{value}\n"


FEATURES, LABELS, OWN = "shared__usps__test__features", "labels__usps__test", "client__1__positions"
DAMAGES: list[tuple[str, Damage, list[str]]] = [
    ("features cut off", _bytes("features.npz", lambda x: x[:1000]), ["features.npz", "cannot be read", "again"]),
    ("a byte of features", _bytes("features.npz", lambda x: x[:5000] + b"??" + x[5002:]), ["features.npz", "CRC"]),
    ("no features file", _gone("features.npz"), ["features.npz", "cannot be read", "train"]),
    ("nothing to probe", _npz("features.npz", 1), ["features.npz", "no features to probe"]),
    ("objects", _npz("features.npz", np.array([{}])), ["features.npz", "pickle"]),
    ("NaN features", _arrays(**{FEATURES: _set(np.nan)}), ["shared/usps/test/features", "1 of", "not finite"]),
    ("infinite features", _arrays(**{FEATURES: _set(np.inf)}), ["shared/usps/test/features", "not finite"]),
    ("NaN in what nobody knows", _arrays(x=lambda _: np.array([np.nan])), ["features.npz: x", "not finite"]),
    ("text features", _arrays(**{FEATURES: lambda x: x.astype(str)}), ["shared/usps/test/features", "numbers"]),
    ("a row short", _arrays(**{FEATURES: lambda x: x[1:]}), ["shared/usps/test/features", "along 'usps/test'"]),
    ("flat features", _arrays(**{FEATURES: lambda x: x[:, 0]}), ["shared/usps/test/features", "2 axes"]),
    ("a column short", _arrays(**{FEATURES: lambda x: x[:, 1:]}), ["shared/usps/test/features", "'shared features'"]),
    ("fractional labels", _arrays(**{LABELS: lambda x: x + 0.5}), ["labels/usps/test", "classes", "float64"]),
    ("a label too many", _arrays(**{LABELS: _set(10)}), ["labels/usps/test", "0..9", "10"]),
    ("a label below 0", _arrays(**{LABELS: _set(-1)}), ["labels/usps/test", "0..9", "-1"]),
    ("no label", _arrays(**{LABELS: lambda x: x[:0]}), ["labels/usps/test", "no image"]),
    ("another style", _arrays(labels__art__test=lambda _: np.zeros(3, int)), ["'art'", "mnist, svhn, usps"]),
    ("a fourth client", _arrays(client__3__positions=lambda _: np.zeros(3, int)), ["there are 3 clients", "got 3"]),
    ("a client of no style", _arrays(client__1__style=lambda _: np.array("art")), ["client/1/style", "'art'"]),
    ("images that there are not", _arrays(**{OWN: _set(10**6)}), ["client/1/positions", "1000000"]),
    ("a place before the first", _arrays(**{OWN: _set(-1)}), ["client/1/positions: must be in 0..", "got -1.."]),
    ("no provenance", _gone("provenance.json"), ["provenance.json", "cannot be read", "train"]),
    ("half a provenance", _text("provenance.json", lambda _: "{"), ["provenance.json", "cannot be read"]),
    ("an empty provenance", _text("provenance.json", lambda _: "{}"), ["provenance.json.status", "needed"]),
    ("a list", _text("provenance.json", lambda _: "[]"), ["provenance.json", "keys and values", "list"]),
    ("another status", _provenance(status="fine"), ["provenance.json.status", "'fine'", "diverged, ok"]),
    ("a negative time", _provenance(wall_s=-1), ["provenance.json.wall_s", "-1"]),
    ("a source without a digest", _provenance(sources={"usps": {"name": "x"}}), ["sources.usps.sha256", "needed"]),
    ("a source of no style", _provenance(sources={"art": SOURCE}), ["sources", "'art'", "styles of spec.yaml"]),
    ("another specification", _text("spec.yaml", lambda x: x.replace("seed: 1", "seed: 2")), ["has changed since"]),
    ("another scale", _text("spec.yaml", lambda text: text.replace("digits\n", "digit\n")), ["'digit'"]),
    ("half a history", _lines("history.csv", lambda rows: rows[:4]), ["history.csv", "rounds", "1..2"]),
    ("a client's row missing", _lines("history.csv", lambda rows: rows[:-1]), ["history.csv", "2 and 3 clients"]),
    ("a line cut off", _text("history.csv", lambda text: text.rsplit(",", 1)[0]), ["history.csv: line 7", "values"]),
    ("a loss of NaN", _text("history.csv", _last("nan")), ["history.csv: line 7", "loss", "finite", "nan"]),
    ("a round of another run", _text("history.csv", lambda x: x + "9,0,round,0,0,1,0.5\n"), ["history.csv", "9"]),
    ("steps in words", _text("history.csv", lambda x: x + "2,0,round,0,0,many,0.5\n"), ["line 8", "steps", "'many'"]),
    ("another stage", _text("history.csv", lambda x: x + "2,0,end,0,0,1,0.5\n"), ["line 8", "stage", "'end'"]),
    ("an empty file", _text("history.csv", lambda _: ""), ["history.csv", "columns"]),
    ("an empty partition", _lines("partition.csv", lambda rows: rows[:1]), ["partition.csv", "3 clients", "got 0"]),
    ("a client less", _lines("partition.csv", lambda rows: rows[:21]), ["partition.csv", "3 clients", "got 2"]),
    ("a class less", _lines("partition.csv", lambda rows: rows[:-1]), ["partition.csv", "client 2", "10 classes"]),
    ("a style that is none", _text("partition.csv", lambda x: x.replace("usps", "art")), ["partition.csv", "'art'"]),
    ("a column less", _text("traffic.csv", lambda x: x.replace("bytes", "size", 1)), ["traffic.csv", "columns bytes"]),
    ("bytes that crossed unseen", _lines("traffic.csv", lambda rows: rows[:-1]), ["traffic.csv", "bytes went", "says"]),
    ("negative bytes", _text("traffic.csv", lambda x: x + "1,0,up,w,-4\n"), ["traffic.csv: line", "bytes", "-4"]),
    ("a table that is none", _bytes("traffic.csv", lambda _: b"\xff\xfe"), ["traffic.csv", "cannot be read"]),
    ("half the scores", _lines("scores.csv", lambda rows: rows[:4]), ["scores.csv", "rounds"]),
    ("a score of NaN", _text("scores.csv", lambda x: x.replace("accuracy,0", "accuracy,n0", 1)), ["scores.csv: line"]),
    ("a snapshot unasked", _npz("after-1.npz", 1), ["after-1.npz", "none of the snapshots"]),
    ("a snapshot without a round", _npz("after-x.npz", 1), ["after-x.npz", "after-10.npz"]),
]


@pytest.mark.parametrize(("damage", "words"), [each[1:] for each in DAMAGES], ids=[each[0] for each in DAMAGES])
def test_a_damaged_run(damage, words, finished, tmp_path, capsys):
    shutil.copytree(finished, tmp_path / "run")
    damage(tmp_path / "run")
    complains(capsys, ["evaluate", str(tmp_path / "run"), "--out", str(tmp_path / "records.csv")], words)
    assert not (tmp_path / "records.csv").exists()


def test_judges_of_a_run_whose_name_has_no_condition(finished, tmp_path, capsys):
    shutil.copytree(finished, tmp_path / "run")
    _text("spec.yaml", lambda text: text.replace(RUN["run"], "mine"))(tmp_path / "run")
    arguments = ["evaluate", str(tmp_path / "run"), "--judges", str(tmp_path), "--out", str(tmp_path / "records.csv")]
    complains(capsys, arguments, ["spec.yaml: run", "a paper, a condition and a seed", "got 'mine'"])
    assert not (tmp_path / "records.csv").exists()


OPTIONAL = {
    "history.csv": {"epochs_per_client"},
    "traffic.csv": {"bytes_up", "bytes_up_per_visit", "bytes_down", "bytes_down_per_visit"},
    "partition.csv": {"epochs_per_client", "class_entropy"},
}
"""File -> the metrics that are measured on it."""


@pytest.mark.parametrize("file", OPTIONAL)
def test_a_file_that_is_not_required_only_leaves_out_what_is_measured_on_it(file, finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    whole, less = tmp_path / "whole.csv", tmp_path / "less.csv"
    assert main(["evaluate", str(tmp_path / "run"), "--out", str(whole)]) == 0
    (tmp_path / "run" / file).unlink()
    assert main(["evaluate", str(tmp_path / "run"), "--out", str(less)]) == 0
    before, after = (list(csv.DictReader(path.read_text().splitlines())) for path in (whole, less))
    assert {row["metric"] for row in before} >= OPTIONAL[file]
    assert after == [row for row in before if row["metric"] not in OPTIONAL[file]]


def test_extracts_read_the_same_folder(finished, tmp_path, capsys):
    shutil.copytree(finished, tmp_path / "run")
    _lines("partition.csv", lambda rows: rows[:1])(tmp_path / "run")
    arguments = ["extract", "class-counts", str(tmp_path / "run"), "--out", str(tmp_path / "counts.csv")]
    complains(capsys, arguments, ["partition.csv", "3 clients"])
    assert not (tmp_path / "counts.csv").exists()


WEIGHTS: list[tuple[str, Damage, list[str]]] = [
    ("cut off", _bytes("model.safetensors", lambda x: x[:-8]), ["model.safetensors", "cannot be read"]),
    ("empty", _bytes("model.safetensors", lambda _: b""), ["model.safetensors", "cannot be read"]),
    ("NaN", lambda folder: _weights(folder, np.nan), ["shared/encoder.layers.0.weight", "not finite"]),
    ("others", lambda folder: save_file({"x": np.zeros(3)}, folder / "model.safetensors"), ["no tensors shared/..."]),
]


def _weights(folder: Path, value: float) -> None:
    with safe_open(folder / "model.safetensors", framework="np") as model:
        tensors = {name: model.get_tensor(name).copy() for name in model.keys()}  # noqa: SIM118
    tensors["shared/encoder.layers.0.weight"].flat[0] = value
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize(("damage", "words"), [each[1:] for each in WEIGHTS], ids=[each[0] for each in WEIGHTS])
def test_a_run_does_not_start_from_damaged_weights(damage, words, finished, tmp_path, capsys):
    shutil.copytree(finished, tmp_path / GOOD["run"])
    damage(tmp_path / GOOD["run"])
    again = tmp_path / "fedstyle/try/fedavg/again/1"
    wrong = RUN | {"run": "fedstyle/try/fedavg/again/1", "start": GOOD["run"]}
    complains(capsys, ["train", written(tmp_path, wrong), "--out", str(again)], words)
    assert nothing_left(again)


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        {"key": KEY},
        {"key": KEY, "state": {}},
        {"key": KEY, "state": {"round": 1, "done": 0, "history": [], "scores": [], "notes": [], "server": {}}},
    ],
)
def test_a_checkpoint_of_something_else(content, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    torch.save(content, tmp_path / "run" / "checkpoint.pt")
    complains(capsys, training(tmp_path, RUN), ["checkpoint.pt", "no checkpoint of this run", "delete it"])


def test_a_diverged_run_is_a_row_that_says_so(tmp_path, capfd):
    asked = GOOD["training"] | {"local_epochs": 2, "optimiser": {"lr": 1e30}}
    wrong = changed("objective", {"name": "classification"}) | {"training": asked}
    assert main(training(tmp_path, wrong)) == 0
    assert "diverged: the loss of client" in capfd.readouterr().err
    assert main(["evaluate", str(tmp_path / "run"), "--out", str(tmp_path / "records.csv")]) == 0
    lines = (tmp_path / "records.csv").read_text().splitlines()
    accuracies = [line for line in lines if ",accuracy," in line]
    assert len(accuracies) == 2 * len(STYLES)
    assert all(",diverged," in line for line in accuracies)


def test_a_run_that_starts_from_one_that_diverged_has_diverged_as_well(tmp_path, capfd):
    """So that others of its method are evaluated; and so has what starts from it in turn."""
    asked = changed("objective", {"name": "classification"}) | {"score_every": 1}
    wild = asked | {"training": GOOD["training"] | {"local_epochs": 2, "optimiser": {"lr": 1e30}}}
    names = [f"fedstyle/try/fedavg/{variant}/1" for variant in ("first", "second", "third")]
    for spec, name, start in zip((wild, asked, asked), names, ("", *names), strict=False):
        (tmp_path / name).mkdir(parents=True)
        assert main(["train", written(tmp_path / name, spec | {"run": name, "start": start})]) == 0
        assert not start or f"diverged: run '{start}', which it starts from, did" in capfd.readouterr().err
        assert main(["evaluate", str(tmp_path / name), "--out", str(tmp_path / "records.csv")]) == 0
        with open(tmp_path / "records.csv", newline="") as lines:
            accuracies = [row["status"] for row in csv.DictReader(lines) if row["metric"] == "accuracy"]
        assert set(accuracies) == {"diverged"}
