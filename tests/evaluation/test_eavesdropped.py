"""Attacks in numbers: images whose answers are known, and metrics against their definitions."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from common.run_folder import RunFolder
from evaluation import eavesdropped
from evaluation.eavesdropped import attacks, nmse
from tests.evaluation.test_frechet import SPEC


def _image(label: int, side: int = 16) -> np.ndarray:
    """Says what it shows by where it is bright."""
    image = np.zeros((1, side, side), np.uint8)
    image[0, label] = 200
    return image


@pytest.fixture
def judge(monkeypatch):
    """Reads the label off the brightest row."""

    def logits(images: np.ndarray) -> np.ndarray:
        return images[:, 0, :10].sum(axis=2).astype(float)

    monkeypatch.setattr(eavesdropped, "load", lambda file: SimpleNamespace(logits=logits))


def _run(folder, made: dict[str, np.ndarray]) -> RunFolder:
    run = RunFolder(folder)
    (folder / "spec.yaml").write_text(SPEC)
    run.write_arrays("samples.npz", made)
    return run


def test_what_an_eavesdropper_gets(judge, tmp_path):
    labels = np.array([3, 4] * 10)
    cloud = np.stack([_image(label) for label in labels])
    noise = np.random.default_rng(0).integers(0, 256, cloud.shape, dtype=np.uint8)
    collapsed = np.stack([_image(3)] * 20)
    elsewhere = np.stack([_image(9)] * 20)
    elsewhere[:, 0, 4] = 10
    made = {
        "made/0/labels": labels,
        "made/0/user": cloud,
        "made/0/cloud": cloud,
        "made/0/a1;r=1": cloud,
        "made/0/a1;r=1/ulps": np.array(0),
        "made/0/a1;r=0.9": noise,
        "made/0/fresh": collapsed,
        "made/0/independent;masks=own": elsewhere,
    }
    found = {
        (r["metric"], r["role"], r["setting"]): r["value"]
        for r in attacks(_run(tmp_path, made))
        if r.get("client") == "user-1"
    }
    assert found["accuracy", "cloud", ""] == found["accuracy", "user", ""] == 1
    assert found["accuracy", "attacker-a1", "r=1"] == 1
    assert found["ulps", "attacker-a1", "r=1"] == 0
    for metric in ("nmse", "generator_max_abs_diff"):
        assert found[metric, "attacker-a1", "r=1"] == found[metric, "user", ""] == 0
    assert found["ssim", "attacker-a1", "r=1"] == pytest.approx(1, abs=1e-4)
    assert found["accuracy", "attacker-fresh", ""] == 0.5, "one class whatever the label: 1 / classes"
    assert found["accuracy", "attacker-independent", "masks=own"] == 0
    assert found["accuracy", "attacker-independent", "masks=own;among=own"] == 0.5
    assert found["nmse", "attacker-a1", "r=0.9;range=0..1"] > found["nmse", "attacker-a1", "r=0.9"] > 0.5
    assert found["ssim", "attacker-a1", "r=0.9"] < 0.1
    assert ("nmse", "cloud", "") not in found


def test_the_mean_is_over_users(judge, tmp_path):
    labels = np.array([1, 2])
    right, wrong = (np.stack([_image(k) for k in of]) for of in ([1, 2], [5, 5]))
    made = {f"made/{k}/labels": labels for k in (0, 1)} | {"made/0/cloud": right, "made/1/cloud": wrong}
    (mean,) = (
        r["value"]
        for r in attacks(_run(tmp_path, made))
        if r["metric"] == "accuracy" and not r.get("client") and not r["setting"]
    )
    assert mean == 0.5


def test_nmse_by_hand():
    reference = torch.tensor([[[[1.0, -1.0]]], [[[2.0, 0.0]]], [[[0.0, 0.0]]]])
    images = torch.tensor([[[[0.0, -1.0]]], [[[2.0, 3.0]]], [[[5.0, 0.0]]]])
    assert nmse(images, reference) == pytest.approx((1 / 2 + 9 / 4) / 2)
    assert nmse(reference, reference) == 0


def test_a_run_without_eavesdroppers_is_not_measured(tmp_path):
    assert list(attacks(_run(tmp_path, {}))) == []
