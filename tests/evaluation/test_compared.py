"""What is measured of all methods alike, on answers and images of which the numbers are known."""

import numpy as np
import pytest

from common.run_folder import RunFolder
from evaluation import comparable
from evaluation.comparable import answers, asked_images, translated_images
from tests.evaluation.test_frechet import SPEC

CLASSES, CLIENTS = 2, 2


@pytest.fixture
def run(tmp_path) -> RunFolder:
    """Two clients of two classes, the first with nine images of the first class and one of the second."""
    (tmp_path / "spec.yaml").write_text(SPEC.replace("{a: digits-plain}", "{ink: digits-plain, pen: digits-bold}"))
    run = RunFolder(tmp_path)
    run.write_provenance({"status": "ok"})
    counts = [(0, "ink", 9, 1), (1, "pen", 5, 5)]
    rows = [
        {"client": k, "style": style, "class": c, "images": n} for k, style, *each in counts for c, n in enumerate(each)
    ]
    run.write_table("partition.csv", rows, ["client", "style", "class", "images"])
    return run


def test_a_label_counts_as_often_as_it_is_tested_or_as_its_client_has_it(run):
    right = np.array([True, True, False, False, True, False, True, False])
    by = {"answers/own": right, "answers/client": np.repeat([0, 1], 4), "answers/label": np.tile([0, 0, 1, 1], 2)}
    run.write_features(by)
    found = {(r["metric"], r.get("setting", "")): r["value"] for r in answers(run) if not r.get("client")}
    assert found["accuracy", ""] == found["accuracy_worst_client", ""] == 0.5
    assert found["accuracy", "labels=own"] == pytest.approx((0.9 * 1 + 0.1 * 0 + 0.5) / 2)


class _Judge:
    """Takes the first pixel for the label and the second for the client, and the first four for features."""

    def __call__(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x = images.reshape(len(images), -1)
        return x[:, :4].astype(float), x[:, 0] % CLASSES, x[:, 1] % CLIENTS


def _images(label: int, client: int) -> np.ndarray:
    noise = np.random.default_rng(label).integers(0, 100, (12, 1, 8, 8), dtype=np.uint8) * 2
    noise[:, 0, 0, 0] += label
    noise[:, 0, 0, 1] += client
    return noise


def _found(rows) -> dict[tuple[str, str], float]:
    return {(r["metric"], r["control"]): r["value"] for r in rows}


def test_asked_images_between_floor_and_ceiling(run, monkeypatch):
    monkeypatch.setattr(comparable, "load", lambda file: _Judge())
    ones = np.ones(12, dtype=int)
    arrays = {}
    for k in range(CLIENTS):
        arrays |= {f"asked/{k}/made": _images(1, 0), f"asked/{k}/labels": ones}
        arrays |= {f"asked/{k}/real": _images(0, k), f"asked/{k}/real-labels": 0 * ones}
        arrays |= {f"asked/{k}/other": _images(0, k), f"asked/{k}/other-labels": ones}
    run.write_arrays("samples.npz", arrays)
    found = _found(asked_images(run))
    assert (found["label_agreement", ""], found["style_agreement", ""]) == (1, 0.5), "all are in the first's style"
    assert (found["label_agreement", "ceiling"], found["style_agreement", "ceiling"]) == (1, 1)
    assert found["label_agreement", "floor"] == 0
    assert found["wd_exact", "floor"] == pytest.approx(0)
    assert ("wd_exact", "ceiling") not in found, "they are what others are held against"


def test_translated_images_are_judged_by_the_targets_style_and_the_sources_label(run, monkeypatch):
    monkeypatch.setattr(comparable, "load", lambda file: _Judge())
    arrays = {"translated/ink/pen": _images(0, 1), "translated/pen/ink": _images(1, 1)}
    for n, style in enumerate(("ink", "pen")):
        arrays |= {f"real/{style}": _images(n, n), f"label/{style}": np.full(12, n)}
        arrays |= {f"other/{style}": _images(n, n), f"other-label/{style}": np.full(12, n)}
    arrays |= {f"counterpart/{a}/{b}": arrays[f"translated/{a}/{b}"] for a, b in (("ink", "pen"), ("pen", "ink"))}
    run.write_arrays("samples.npz", arrays)
    found = _found(translated_images(run))
    assert (found["label_agreement", ""], found["style_agreement", ""]) == (1, 0.5)
    assert (found["label_agreement", "identity"], found["style_agreement", "identity"]) == (1, 0)
    assert (found["label_agreement", "ceiling"], found["style_agreement", "ceiling"]) == (1, 1)
    assert (found["pixel_error", ""], found["ssim", ""]) == (0, pytest.approx(1))
    assert found["pixel_error", "identity"] > 0
