"""Attacks in numbers: images whose answers are known, and metrics against their definitions."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import linregress
from skimage.metrics import structural_similarity

from common.run_folder import RunFolder
from evaluation import eavesdropped
from evaluation.eavesdropped import attacks, generator_losses, nmse
from evaluation.judge import Judge
from tests.evaluation.pictures import QUALITY
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

    judge = Judge(SimpleNamespace(), "0" * 64, list(QUALITY))
    monkeypatch.setattr(Judge, "logits", lambda self, images: logits(images))
    monkeypatch.setattr(eavesdropped, "load", lambda file: judge)


def _run(folder, made: dict[str, np.ndarray]) -> RunFolder:
    run = RunFolder(folder)
    (folder / "spec.yaml").write_text(SPEC)
    run.write_provenance({"status": "ok"})
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
        "made/0/cloud/identical": np.array(True),
        "made/0/a1;r=1": cloud,
        "made/0/a1;r=1/ulps": np.array(0),
        "made/0/a1;r=0.9": noise,
        "made/0/fresh": collapsed,
        "made/0/independent;masks=own": elsewhere,
    }
    made["made/0/a2;r=0.9"] = noise
    rows = [r for r in attacks(_run(tmp_path, made)) if r.get("client") == "user-1"]
    found = {(r["metric"], r["role"], r["setting"]): r["value"] for r in rows}
    assert len(found) == len(rows), "once, though two attackers of one r are beside it"
    assert found["accuracy", "cloud", ""] == found["accuracy", "user", ""] == 1
    assert found["accuracy", "attacker-a1", "r=1"] == 1
    assert found["ulps", "attacker-a1", "r=1"] == 0
    for metric in ("nmse", "generator_max_abs_diff"):
        assert found[metric, "attacker-a1", "r=1"] == found[metric, "user", ""] == 0
    assert found["ssim", "attacker-a1", "r=1"] == pytest.approx(1, abs=1e-4)
    assert found["accuracy", "attacker-fresh", ""] == 0.5, "one class whatever the label: 1 / classes"
    assert found["accuracy", "attacker-independent", "masks=own"] == 0
    assert found["accuracy_among_own", "attacker-independent", "masks=own"] == 0.5
    assert found["one_label", "attacker-fresh", ""] == 1
    assert found["one_label", "cloud", ""] == 0.5
    assert (found["bit_equal", "attacker-a1", "r=1"], found["identical", "cloud", ""]) == (1, 1)
    assert found["generator_max_abs_diff", "cloud", ""] == 0
    assert found["accuracy", "cloud", "r=0.9"] == found["accuracy", "cloud", "attack=fresh"] == 1, (
        "beside each attacker"
    )
    assert found["nmse_0_1", "attacker-a1", "r=0.9"] > found["nmse", "attacker-a1", "r=0.9"] > 0.5
    assert found["ssim", "attacker-a1", "r=0.9"] < 0.1
    assert ("nmse", "cloud", "") not in found


def test_among_a_users_own_classes_the_judge_chooses_the_likeliest(judge, tmp_path):
    """All show a 9, which is none of them; three of four look more like the class that was asked for."""
    shown, labels = np.stack([_image(9)] * 4), np.array([3, 3, 3, 4])
    for image, second in zip(shown, (3, 3, 4, 4), strict=True):
        image[0, second] = 10
    made = {"made/0/labels": labels, "made/0/user": shown, "made/0/cloud": shown}
    found = {r["metric"]: r["value"] for r in attacks(_run(tmp_path, made)) if r["role"] == "user"}
    assert (found["accuracy"], found["accuracy_among_own"], found["one_label"]) == (0, 0.75, 1)


def test_the_mean_is_over_users(judge, tmp_path):
    labels = np.array([1, 2])
    right, wrong = (np.stack([_image(k) for k in of]) for of in ([1, 2], [5, 5]))
    made = {f"made/{k}/labels": labels for k in (0, 1)} | {"made/0/cloud": right, "made/1/cloud": wrong}
    made |= {f"made/{k}/user": right for k in (0, 1)}
    records = [r for r in attacks(_run(tmp_path, made)) if r["metric"] == "accuracy" and not r.get("client")]
    found = {(r["role"], r.get("setting", ""), r.get("control", "")): (r["value"], r["unit"]) for r in records}
    assert found == {
        ("user", "", ""): (1.0, "fraction"),
        ("cloud", "", ""): (0.5, "fraction"),
        ("cloud", "", "ceiling"): (0.9, "fraction"),
    }


def test_nmse_by_hand():
    reference = torch.tensor([[[[1.0, -1.0]]], [[[2.0, 0.0]]], [[[0.0, 0.0]]]])
    images = torch.tensor([[[[0.0, -1.0]]], [[[2.0, 3.0]]], [[[5.0, 0.0]]]])
    assert nmse(images, reference) == pytest.approx((1 / 2 + 9 / 4) / 2)
    assert nmse(images / 10, reference / 10) == pytest.approx(nmse(images, reference)), "it is relative, however dark"
    assert nmse(reference, reference) == 0
    black = torch.zeros_like(images)
    assert nmse(black, black) == 0
    assert math.isnan(nmse(images, black)), "no image is a perfect match of black ones but a black one"


def test_beside_a_cloud_that_makes_black_images_there_is_no_error_relative_to_them(judge, tmp_path):
    labels, black = np.array([3, 4]), np.zeros((2, 1, 16, 16), np.uint8)
    made = {"made/0/labels": labels, "made/0/user": black, "made/0/cloud": black}
    made["made/0/fresh"] = np.stack([_image(label) for label in labels])
    rows = [r for r in attacks(_run(tmp_path, made)) if r["metric"].startswith("nmse")]
    found = {(r["metric"], r["role"]) for r in rows}
    assert found == {("nmse", "user"), ("nmse_0_1", "user"), ("nmse", "attacker-fresh")}


def test_distances_from_the_cloud_by_hand(judge, tmp_path):
    """Pixels of 0.2 where the cloud's are 0.4, in [-1, 1] of -0.6 and -0.2; one of them is black. The second image of
    each is not looked at."""
    cloud, theirs = (np.full((2, 1, 16, 16), level, np.uint8) for level in (102, 51))
    theirs[0, 0, 3, 4], theirs[1] = 0, 255
    made = {"made/0/labels": np.zeros(2, int), "made/0/cloud": cloud, "made/0/user": theirs, "made/0/fresh": theirs}
    rows = attacks(_run(tmp_path, made | {"made/0/fresh/ulps": np.array(-1)}), pairs=1)
    found = {(r["role"], r["metric"]): r["value"] for r in rows if r.get("client")}
    assert found["cloud", "generator_max_abs_diff"] == pytest.approx(0.8), "from the user's"
    found = {metric: value for (role, metric), value in found.items() if role == "attacker-fresh"}
    assert found["nmse_0_1"] == pytest.approx((255 * 0.2**2 + 0.4**2) / (256 * 0.4**2))
    assert found["nmse"] == pytest.approx((255 * 0.4**2 + 0.8**2) / (256 * 0.2**2))
    assert found["generator_max_abs_diff"] == pytest.approx(0.8)
    assert (found["ulps"], found["bit_equal"]) == (-1, 0), "another network is not the same start"


def test_distances_are_over_a_thousand_images_where_nothing_else_is_asked_for(judge, monkeypatch, tmp_path):
    seen = []

    def distances(images, others):
        seen.append((len(images), len(others)))
        return {"generator_max_abs_diff": 0.0}

    monkeypatch.setattr(eavesdropped, "_distances", distances)
    made = {f"made/0/{who}": np.zeros((1001, 1, 10, 10), np.uint8) for who in ("user", "cloud")}
    list(attacks(_run(tmp_path, made | {"made/0/labels": np.zeros(1001, int)})))
    assert seen == [(1000, 1000)] * 2


def test_a_run_without_eavesdroppers_is_not_measured(tmp_path):
    assert list(attacks(_run(tmp_path, {}))) == []


def test_ssim_is_scikit_images(judge, tmp_path):
    rng = np.random.default_rng(5)
    cloud = rng.integers(0, 256, (6, 1, 28, 28), dtype=np.uint8)
    theirs = np.clip(cloud + rng.normal(0, 40, cloud.shape), 0, 255).astype(np.uint8)
    made = {"made/0/labels": np.zeros(6, int), "made/0/cloud": cloud, "made/0/user": cloud, "made/0/fresh": theirs}
    found = [r for r in attacks(_run(tmp_path, made)) if (r["metric"], r["role"]) == ("ssim", "attacker-fresh")]
    options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "data_range": 1.0}
    theirs_by_skimage = [
        structural_similarity(a[0] / 255, b[0] / 255, **options) for a, b in zip(theirs, cloud, strict=True)
    ]
    assert found[0]["value"] == pytest.approx(np.mean(theirs_by_skimage), abs=0.01)  # borders are filled in another way


def _losses(
    folder, curve: list[float], missed: list[float], rounds: tuple[int, ...] = ()
) -> dict[tuple[str, str, str], float]:
    """Of a user that took part in these rounds, or in all."""
    rounds = rounds or tuple(range(1, len(curve) + 1))
    run = _run(
        folder,
        {
            "made/0/labels": np.zeros(1, int),
            "made/0/missed-round": np.zeros((1, 1, 8, 8), np.uint8),
            "made/0/missed-round/loss": np.array(missed),
            "made/0/cloud": np.zeros((1, 1, 8, 8), np.uint8),
            "made/0/fresh": np.zeros((1, 1, 8, 8), np.uint8),  # which has no losses
        },
    )
    spec = SPEC.replace("algorithm: {name: padpaf}", "algorithm: {name: ps-fedgan}").replace(
        "rounds: 1", f"rounds: {rounds[-1]}"
    )
    (folder / "spec.yaml").write_text(spec)
    columns = ["round", "client", "stage", "phase", "update", "steps", "loss"]
    rows = [
        [r, 0, "round", 0, u, 1, loss + 100 * (1 - u)] for r, loss in zip(rounds, curve, strict=True) for u in (0, 1)
    ]
    run.write_table("history.csv", [dict(zip(columns, row, strict=True)) for row in rows], columns)
    rows = list(generator_losses(RunFolder(folder)))
    assert {(r["client"], r["unit"], r["kind"], r["style"]) for r in rows} == {("user-1", "nats", "result", "all")}
    return {(r["metric"], r["role"], r["setting"]): r["value"] for r in rows}


def test_losses_by_round_and_their_slope(tmp_path):
    curve = [9.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.5, 1.5]
    found = _losses(tmp_path, curve, curve[1:])
    assert [found["generator_loss", "user", f"round={r}"] for r in range(1, 9)] == curve
    assert found["generator_loss_slope", "user", "last_quarter"] == pytest.approx(1.0), "two rounds"
    assert ("generator_loss", "attacker-missed-round", "round=1") not in found
    assert found["generator_loss", "attacker-missed-round", "round=2"] == 5


def test_losses_are_of_the_rounds_that_a_user_took_part_in(tmp_path):
    """Of 1, 4, 6, 7, 9 and 12, of which an eavesdropper has missed the first."""
    rounds, curve = (1, 4, 6, 7, 9, 12), [9.0, 5.0, 4.0, 3.0, 2.0, 0.5]
    found = _losses(tmp_path, curve, curve[1:], rounds)
    for role, first in (("user", 0), ("attacker-missed-round", 1)):
        of_role = {
            setting: loss for (metric, who, setting), loss in found.items() if who == role and "slope" not in metric
        }
        assert of_role == {f"round={r}": loss for r, loss in zip(rounds[first:], curve[first:], strict=True)}
        assert found["generator_loss_slope", role, "last_quarter"] == pytest.approx(-0.5), "1.5 in three rounds"


@pytest.mark.parametrize(("rounds", "quarter"), [(1, 0), (2, 2), (3, 2), (11, 2), (12, 3), (20, 5)])
def test_the_slope_is_that_of_the_last_quarter_of_two_rounds_at_least_and_of_one_there_is_none(
    rounds, quarter, tmp_path
):
    """Against SciPy's least squares, on losses without a pattern."""
    curve = np.random.default_rng(0).normal(size=rounds).tolist()
    found = _losses(tmp_path, curve, curve)
    for role in ("user", "attacker-missed-round"):
        assert [found["generator_loss", role, f"round={r}"] for r in range(1, rounds + 1)] == curve
        slope = found.get(("generator_loss_slope", role, "last_quarter"))
        assert slope == (pytest.approx(linregress(range(quarter), curve[-quarter:]).slope) if quarter else None)


def test_losses_are_those_of_gans_alone(tmp_path):
    _losses(tmp_path, [1.0, 2.0], [1.0])
    spec = (tmp_path / "spec.yaml").read_text()
    (tmp_path / "spec.yaml").write_text(spec.replace("ps-fedgan", "fedavg"))
    assert list(generator_losses(RunFolder(tmp_path))) == []


def test_the_best_of_rounds_is_recorded_beside_the_last(judge, tmp_path):
    """Of each number by itself, over snapshots and the last round; of whom snapshots leave out there is none."""
    labels = np.array([3, 4])
    right, half, wrong = (np.stack([_image(k) for k in of]) for of in ([3, 4], [3, 3], [9, 9]))
    cloud, a1 = {1: half, 2: right, 3: wrong}, {1: wrong, 2: half, 3: wrong}
    made = {n: {"made/0/labels": labels, "made/0/cloud": cloud[n], "made/0/a1;r=0.9": a1[n]} for n in cloud}
    run = _run(tmp_path, made[3] | {"made/0/user": wrong, "made/0/fresh": right})
    for round in (1, 2):
        run.write_arrays(f"after-{round}.npz", made[round])
    rows = [r for r in attacks(run) if r["metric"] == "accuracy" and r.get("client")]
    found = {(r.get("protocol", ""), r["role"], r["setting"]): r["value"] for r in rows}
    assert (found["", "cloud", ""], found["", "attacker-a1", "r=0.9"], found["", "attacker-fresh", ""]) == (0, 0, 1)
    best = {key[1:]: value for key, value in found.items() if key[0] == "rounds=best"}
    assert best == {("cloud", ""): 1, ("attacker-a1", "r=0.9"): 0.5, ("cloud", "r=0.9"): 1}
    assert found["", "cloud", "r=0.9"] == 0


def test_the_last_round_may_be_the_best_and_without_snapshots_there_is_none(judge, tmp_path):
    labels = np.array([3, 4])
    right, wrong = (np.stack([_image(k) for k in of]) for of in ([3, 4], [9, 9]))
    run = _run(tmp_path, {"made/0/labels": labels, "made/0/cloud": right, "made/0/user": right})
    assert {r.get("protocol", "") for r in attacks(run)} == {""}
    run.write_arrays("after-1.npz", {"made/0/labels": labels, "made/0/cloud": wrong})
    best = [r["value"] for r in attacks(run) if r["metric"] == "accuracy" and r.get("protocol") == "rounds=best"]
    assert best == [1, 1], "of the user, and in the mean"
