"""Folders of runs, which any program may have left: what is wrong with one is a sentence, and no record is written."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from diptych.cli import main
from tests.digits import STYLES
from tests.wrong import GOOD, changed, complains


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
    complains(capsys, ["evaluate", str(tmp_path / "run"), "--out", str(tmp_path / "records.csv")], words)
    assert not (tmp_path / "records.csv").exists()


def test_a_diverged_run_is_a_row_that_says_so(tmp_path, capfd):
    training = GOOD["training"] | {"local_epochs": 2, "optimiser": {"lr": 1e30}}
    wrong = changed("objective", {"name": "classification"}) | {"training": training}
    assert main(training(tmp_path, wrong)) == 0
    assert "diverged: the loss of client" in capfd.readouterr().err
    assert main(["evaluate", str(tmp_path / "run"), "--out", str(tmp_path / "records.csv")]) == 0
    lines = (tmp_path / "records.csv").read_text().splitlines()
    accuracies = [line for line in lines if ",accuracy," in line]
    assert len(accuracies) == 2 * len(STYLES)
    assert all(",diverged," in line for line in accuracies)
