"""Membership and inversion in numbers, against scikit-learn, scikit-image, resampling, and by hand."""

import numpy as np
import pytest
from skimage.metrics import peak_signal_noise_ratio
from sklearn.metrics import roc_auc_score

from common.run_folder import RunFolder
from evaluation.privacy import auc, inversion, membership, psnr
from tests.evaluation.test_frechet import SPEC


def _run(folder, arrays: dict[str, np.ndarray]) -> RunFolder:
    (folder / "spec.yaml").write_text(SPEC)
    run = RunFolder(folder)
    run.write_provenance({"status": "ok"})
    run.write_arrays("samples.npz", arrays)
    return run


@pytest.mark.parametrize("ties", [False, True])
def test_auc_is_scikit_learns(ties):
    rng = np.random.default_rng(0)
    members, others = rng.normal(0.4, 1, 120), rng.normal(0, 1, 90)
    if ties:
        members, others = members.round(), others.round()
    truth = np.repeat([1, 0], [120, 90])
    assert auc(members, others)[0] == pytest.approx(roc_auc_score(truth, np.concatenate([members, others])))


def test_its_error_is_that_of_resampling():
    rng = np.random.default_rng(1)
    members, others = rng.normal(0.5, 1, 150), rng.normal(0, 1, 100)
    again = [auc(rng.choice(members, 150), rng.choice(others, 100))[0] for _ in range(600)]
    assert auc(members, others)[1] == pytest.approx(np.std(again), rel=0.15)


def test_membership_by_user_and_in_the_mean(tmp_path):
    rng = np.random.default_rng(2)
    same = rng.normal(size=200)
    arrays = {
        "membership/0/members": np.array([2.0, 3.0]),  # told apart without a fault
        "membership/0/others": np.array([0.0, 1.0]),
        "membership/1/members": same,
        "membership/1/others": same.copy(),
    }
    rows = list(membership(_run(tmp_path, arrays)))
    assert {row["role"] for row in rows} == {"attacker-membership"}
    found = {(r["metric"], r.get("client", "")): r["value"] for r in rows}
    assert found["membership_auc", "user-1"] == 1
    assert found["membership_auc", "user-2"] == 0.5
    assert found["membership_auc", ""] == 0.75
    assert found["membership_auc_low", "user-2"] < 0.45 < 0.55 < found["membership_auc_high", "user-2"]
    assert ("membership_auc_low", "") not in found, "users may share the others"


def test_an_interval_stays_within_what_an_area_can_be(tmp_path):
    arrays = {"membership/0/members": np.array([3.0, 1.0]), "membership/0/others": np.array([0.0, 2.0])}
    found = {r["metric"]: r["value"] for r in membership(_run(tmp_path, arrays)) if r.get("client")}
    assert found == {
        "membership_auc": 0.75,
        "membership_auc_low": found["membership_auc_low"],
        "membership_auc_high": 1,
    }
    assert 0 <= found["membership_auc_low"] < 0.75


def test_of_a_single_pair_there_is_no_interval(tmp_path, recwarn):
    """Nor of the mean over users one of whom has no more."""
    arrays = {"membership/0/members": np.array([2.0, 3.0]), "membership/0/others": np.array([2.5, 1.0])}
    for user, (members, others) in enumerate((([1.0, 0.0], [0.5]), ([2.0], [1.0, 0.0])), start=1):
        arrays |= {f"membership/{user}/members": np.array(members), f"membership/{user}/others": np.array(others)}
    found = {(r["metric"], r.get("client", "")): r["value"] for r in membership(_run(tmp_path, arrays))}
    assert found.keys() == {
        *(("membership_auc", of) for of in ("", "user-1", "user-2", "user-3")),
        ("membership_auc_low", "user-1"),
        ("membership_auc_high", "user-1"),
    }
    assert found["membership_auc", ""] == np.mean([0.75, 0.5, 1])
    assert not recwarn.list, "numpy warns of what is no number"


def test_psnr_is_scikit_images_of_the_best_match():
    rng = np.random.default_rng(3)
    true = rng.integers(0, 256, (3, 1, 8, 8), dtype=np.uint8)
    found = np.clip(true[[2, 0, 1]] + rng.integers(-9, 9, true.shape), 0, 255).astype(np.uint8)
    ours = psnr(found, true)
    theirs = [peak_signal_noise_ratio(true[k], found[n]) for n, k in enumerate([2, 0, 1])]
    assert ours == pytest.approx(theirs, rel=1e-4)


def test_inversion_beside_what_chance_gives(tmp_path):
    rng = np.random.default_rng(4)
    true = rng.integers(0, 256, (2, 2, 1, 8, 8), dtype=np.uint8)
    arrays = {f"inverted/{k}/true": true[k] for k in (0, 1)}
    arrays |= {"inverted/0/found": true[0][::-1], "inverted/1/found": np.zeros_like(true[1])}
    arrays |= {f"inverted/{k}/labels": np.array([3, 1]) for k in (0, 1)}
    arrays |= {"inverted/0/taken-for": np.array([1, 3]), "inverted/1/taken-for": np.array([3, 4])}
    rows = list(inversion(_run(tmp_path, arrays)))
    assert {(r["metric"], r["unit"], r["role"]) for r in rows} == {
        (metric, unit, "attacker-inversion")
        for metric, unit in (("psnr", "decibel"), ("recovered", "fraction"), ("labels", "fraction"))
    }
    found = {(r["metric"], r["setting"]): r["value"] for r in rows}
    assert found["recovered", ""] == 0.5, "all of the first user's, in whatever order, none of the second's"
    assert found["labels", ""] == 0.75, "both of the first user's, one of the second's"
    assert found["psnr", "another-user"] < 12 < found["psnr", ""]
    assert found["labels", "another-user"] == 0.75, "their labels are the same"


def test_chance_is_what_comes_near_the_images_of_the_next_user(tmp_path):
    """Of three, of whom each finds the very images of the next."""
    true = np.random.default_rng(5).integers(0, 256, (3, 2, 1, 8, 8), dtype=np.uint8)
    arrays = {f"inverted/{k}/true": true[k] for k in range(3)}
    arrays |= {f"inverted/{k}/found": true[(k + 1) % 3] for k in range(3)}
    arrays |= {f"inverted/{k}/labels": np.array([k, k]) for k in range(3)}
    arrays |= {f"inverted/{k}/taken-for": np.array([(k + 1) % 3, 9]) for k in range(3)}
    found = {(r["metric"], r["setting"]): r["value"] for r in inversion(_run(tmp_path, arrays))}
    assert found["psnr", "another-user"] > 100
    assert (found["labels", "another-user"], found["labels", ""]) == (0.5, 0)
    assert found["psnr", ""] < 12


def test_a_single_user_has_nobody_beside_it(tmp_path):
    true = np.random.default_rng(5).integers(0, 256, (2, 1, 8, 8), dtype=np.uint8)
    found = {r["setting"] for r in inversion(_run(tmp_path, {"inverted/0/true": true, "inverted/0/found": true}))}
    assert found == {""}


def test_thirty_decibels_are_enough_to_be_recovered(tmp_path):
    """A fifth in one of forty pixels is a mean square of 0.001; a little more is less than 30 dB."""
    true = np.zeros((2, 1, 20, 20), np.uint8)
    true[1] = 200
    for brighter, recovered in ((51, 1.0), (52, 0.5)):
        found = true.copy()
        found[0, 0, 0, :10] = brighter
        rows = list(inversion(_run(tmp_path, {"inverted/0/true": true, "inverted/0/found": found})))
        values = {r["metric"]: r["value"] for r in rows if not r["setting"]}
        assert values["recovered"] == recovered
        assert set(values) == {"psnr", "recovered"}, "no labels were needed"


def test_an_image_that_is_the_same_is_at_120_decibels():
    same = np.random.default_rng(6).integers(0, 256, (2, 1, 8, 8), dtype=np.uint8)
    assert psnr(same, same) == pytest.approx(120)


@pytest.mark.parametrize("empty", ["members", "others"])
def test_a_user_without_images_of_either_kind_has_no_part_in_membership(empty, tmp_path, recwarn):
    arrays = {"membership/1/members": np.array([2.0, 3.0]), "membership/1/others": np.array([0.0, 1.0])}
    whole = list(membership(_run(tmp_path, arrays)))
    arrays |= {f"membership/0/{who}": np.zeros(0 if who == empty else 3) for who in ("members", "others")}
    assert list(membership(_run(tmp_path, arrays))) == whole
    assert list(membership(_run(tmp_path, {key: x for key, x in arrays.items() if "/0/" in key}))) == []
    assert not recwarn.list


def test_a_user_without_images_has_no_part_in_inversion(tmp_path):
    true = np.random.default_rng(5).integers(0, 256, (2, 1, 8, 8), dtype=np.uint8)
    arrays = {"inverted/1/true": true, "inverted/1/found": true}
    whole = list(inversion(_run(tmp_path, arrays)))
    arrays |= {"inverted/0/true": true[:0], "inverted/0/found": true[:0]}
    assert list(inversion(_run(tmp_path, arrays))) == whole


def test_runs_without_either_are_not_measured(tmp_path):
    run = _run(tmp_path, {"made/0/labels": np.zeros(1, int)})
    assert [*membership(run), *inversion(run)] == []
