"""What the judge says of generated images, on images that say themselves what they show."""

import numpy as np
import pytest

from common.errors import InputError
from common.run_folder import RunFolder
from evaluation import judged

SPEC = """
run: padpaf/c/padpaf/conditional/1
scale: tiny
seed: 1
data: {dataset: mnist, styles: {a: digits-plain, b: digits-plain}}
network: {name: sn-resnet}
objective: {name: gan}
algorithm: {name: padpaf}
training: {rounds: 1}
"""


QUALITY = (
    {"metric": "accuracy", "setting": "judge;target=label", "value": 0.9},
    {"metric": "accuracy", "setting": "judge;target=client", "value": 0.8},
    {"metric": "label_agreement", "setting": "judge;views=two", "value": 0.7},
)


class Reader:
    """A judge that reads the label off the first pixel, and the client off the second."""

    quality = QUALITY
    ceiling = judged.Judge.ceiling

    def __call__(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return images.reshape(len(images), -1), images[:, 0, 0, 0], images[:, 0, 0, 1]


def _images(labels: list[int], client: int | np.ndarray = 0) -> np.ndarray:
    x = np.zeros((len(labels), 3, 8, 8), dtype=np.uint8)
    x[:, 0, 0, 0], x[:, 0, 0, 1] = labels, client
    return x


def _both(key: str, shown: list[int], asked: list[int]) -> dict[str, np.ndarray]:
    return {key: _images(shown), f"{key}/labels": np.array(asked)}


@pytest.fixture
def run(tmp_path, monkeypatch) -> RunFolder:
    """Two clients: of labels seen, one shows 3 of 4 and the other all; of others 1 of 4 and none."""
    monkeypatch.setattr(judged, "load", lambda file: Reader())
    (tmp_path / "spec.yaml").write_text(SPEC)
    folder = RunFolder(tmp_path)
    folder.write_provenance({"status": "ok"})
    shown = {
        "generated": ([0, 1, 0, 9], [0, 1, 1, 0], [0, 1, 0, 1]),
        "unseen": ([5, 6, 6, 6], [4, 4, 4, 4], [5, 5, 5, 5]),
        "held-out": ([0, 1, 1, 1], [0, 1, 0, 1], [0, 1, 0, 1]),
        "held-out-unseen": ([5, 6, 5, 6], [5, 6, 9, 9], [5, 6, 5, 6]),
    }
    arrays = {f"client/{k}/style": np.array("ab"[k]) for k in (0, 1)}
    for key, (first, second, asked) in shown.items():
        arrays |= _both(f"client/0/{key}", first, asked) | _both(f"client/1/{key}", second, asked)
    folder.write_arrays("samples.npz", arrays)
    return folder


def _found(records: list[dict]) -> dict[tuple[str, str, str], float]:
    return {(r["setting"].split(";")[0], r.get("client", ""), r.get("control", "")): r["value"] for r in records}


def test_labels_seen_and_not_seen_stand_apart_each_below_its_own_ceiling(run):
    found = _found(list(judged.asked_labels(run)))
    seen, unseen = "samples=seen-labels", "samples=unseen-labels"
    assert [found[seen, k, ""] for k in ("client-1", "client-2", "")] == [0.75, 0.5, 0.625]
    assert [found[unseen, k, ""] for k in ("client-1", "client-2", "")] == [0.25, 0.0, 0.125]
    assert [found[seen, k, "ceiling"] for k in ("client-1", "client-2", "")] == [0.75, 1.0, 0.875]
    assert [found[unseen, k, "ceiling"] for k in ("client-1", "client-2", "")] == [1.0, 0.5, 0.75]
    assert found[unseen, "client-1", "shuffled-labels"] == 0.25, "all are asked for the same"


def test_samples_without_the_images_of_a_ceiling_are_refused(run):
    old = {key: x for key, x in run.samples.items() if "held-out-unseen" not in key}
    run.write_arrays("samples.npz", old)
    with pytest.raises(InputError, match=r"there is no array 'client/0/held-out-unseen', which is needed"):
        list(judged.asked_labels(RunFolder(run.path)))


def test_test_images_in_every_style_have_a_mean_a_floor_and_ceilings(run):
    clients = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    pairs = {key: np.stack([_images([1, 2])] * 4) for key in ("source", "reconstructed", "restyled")}
    restyled = np.stack([_images([0, 1, 2, 9], 0), _images([9, 9, 9, 3], 0)])
    arrays = {f"restyle/{key}": x for key, x in pairs.items()} | {"restyle/clients": clients}
    arrays |= {"restyle/labels": np.zeros((4, 2), int), "restyle/test": _images([0, 1, 2, 3])}
    arrays |= {"restyle/test-labels": np.array([0, 1, 2, 3]), "restyle/test-restyled": restyled}
    run.write_arrays("samples.npz", arrays)
    records = [r for r in judged.restyling(RunFolder(run.path)) if r.get("setting") == "images=test"]
    found = {(r["metric"], r.get("client", ""), r.get("control", "")): r["value"] for r in records}
    assert [found["label_agreement", k, ""] for k in ("client-1", "client-2", "")] == [0.75, 0.25, 0.5]
    assert [found["client_accuracy", k, ""] for k in ("client-1", "client-2", "")] == [1.0, 0.0, 0.5]
    assert (found["label_agreement", "", "ceiling"], found["client_accuracy", "", "ceiling"]) == (0.9, 0.8)
    assert found["label_agreement", "", "shuffled-labels"] < 0.5


def test_restyled_images_keep_their_label_take_the_targets_style_and_come_back(run):
    """Pairs (0, 0), (0, 1), (1, 1), (1, 0): where source and target differ, style was moved; elsewhere it came back."""
    labels = [[1, 1, 1, 1], [1, 2, 3, 4], [2, 2, 2, 2], [5, 6, 7, 8]]
    source = np.stack([_images(row) for row in labels])
    again = source.copy()
    again[0] += 51  # a fifth of white in one of the two pairs that came back, and more in those that were moved
    again[[1, 3]] += 200
    restyled = np.stack([_images([0] * 4)] * 4)
    restyled[1] = _images([1, 2, 9, 9], np.array([1, 1, 1, 0]))
    restyled[3] = _images([5, 6, 7, 0], np.array([0, 0, 1, 0]))
    arrays = {"source": source, "reconstructed": again, "restyled": restyled}
    arrays |= {"clients": np.array([[0, 0], [0, 1], [1, 1], [1, 0]]), "labels": np.array(labels)}
    arrays |= {"test": _images([0]), "test-labels": np.array([0]), "test-restyled": np.stack([_images([0])] * 2)}
    run.write_arrays("samples.npz", {f"restyle/{key}": array for key, array in arrays.items()})
    records = [r for r in judged.restyling(RunFolder(run.path)) if not r.get("setting")]
    found = {(r["metric"], r.get("control", "")): r["value"] for r in records}
    assert found["label_agreement", ""] == (2 + 3) / 8
    assert found["client_accuracy", ""] == (3 + 3) / 8
    assert found["pixel_error", ""] == pytest.approx(0.1)
    assert found["label_agreement", "shuffled-labels"] < 0.5, "of another image"
    assert (found["label_agreement", "ceiling"], found["client_accuracy", "ceiling"]) == (0.7, 0.8)


def test_controls_compare_with_another_image_and_another_target(run):
    """What came back is the image itself, and what was moved is all of the target's: floors are of two even draws."""
    rng = np.random.default_rng(0)
    source = np.repeat(rng.integers(0, 256, (1, 200, 3, 8, 8), dtype=np.uint8), 4, axis=0)
    restyled = np.stack([_images([0] * 200, client) for client in (0, 1, 1, 0)])
    arrays = {"source": source, "reconstructed": source, "restyled": restyled, "labels": np.zeros((4, 200), int)}
    arrays |= {"clients": np.array([[0, 0], [0, 1], [0, 1], [1, 0]])}
    labels = [1, 2, 3] * 100
    arrays |= {"test": _images(labels), "test-labels": np.array(labels)}
    arrays |= {"test-restyled": np.stack([_images(labels)] * 2)}
    run.write_arrays("samples.npz", {f"restyle/{key}": array for key, array in arrays.items()})
    records = list(judged.restyling(RunFolder(run.path)))
    assert {(r["metric"], r.get("setting", "")) for r in records} == {
        (metric, setting)
        for metric in ("label_agreement", "client_accuracy", "pixel_error")
        for setting in ("", "images=test")
        if (metric, setting) != ("pixel_error", "images=test")
    }
    found = {(r["metric"], r.get("control", "")): r["value"] for r in records if not r.get("setting")}
    assert (found["pixel_error", ""], found["client_accuracy", ""]) == (0, 1)
    assert found["pixel_error", "shuffled-labels"] == pytest.approx(1 / 3, abs=0.02), "of two even draws from [0, 1]"
    assert found["client_accuracy", "shuffled-labels"] == pytest.approx(5 / 9, abs=0.04), (
        "two of three are of one client"
    )
    tested = {
        r.get("control", ""): r["value"] for r in records if r.get("setting") and r["metric"] == "label_agreement"
    }
    assert tested[""] == 1
    assert tested["shuffled-labels"] == pytest.approx(1 / 3, abs=0.1), "of three labels"


def test_new_clients_are_measured_after_each_snapshot_and_by_style(run):
    (run.path / "spec.yaml").write_text(SPEC + "start: padpaf/c/padpaf/old/1\nsnapshots: [1]\n")
    early = dict(run.samples)
    early |= _both("client/0/unseen", [4, 4, 6, 6], [4, 4, 4, 4]) | _both("client/1/unseen", [5, 6, 6, 6], [5, 5, 5, 5])
    run.write_arrays("after-1.npz", early)
    records = list(judged.asked_labels(RunFolder(run.path)))
    found = {(r["setting"], r["style"], r.get("control", "")): r["value"] for r in records if not r.get("client")}
    for kind, now, then in (("seen", [0.75, 0.5], 0.625), ("unseen", [0.25, 0.0], (0.5 + 0.25) / 2)):
        assert [found[f"samples={kind}-labels;style={style}", style, ""] for style in "ab"] == now
        assert found[f"samples={kind}-labels;phase=new-clients;rounds=1", "all", ""] == then
        name = f"samples={kind}-labels;judge=mnist-classifier"
        assert found[name, "all", ""] == np.mean(now)
    assert found["samples=unseen-labels;phase=new-clients;rounds=1", "all", "ceiling"] == 0.75
