"""What the judge says of images that were asked for, on images that say themselves what they show."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from skimage.metrics import structural_similarity

from common.errors import InputError
from common.run_folder import RunFolder
from diptych.measurement import prepared
from evaluation import images
from evaluation.frechet import frechet_distance, gaussian
from evaluation.images import agreement, compared
from tests.evaluation.pictures import Reader, left, picture, protocol
from tests.mutation import mutated

pytestmark = pytest.mark.usefixtures("reader")
of_labels = protocol("padpaf", "asked-labels")
of_all = protocol("common", "asked")
SEEN, UNSEEN = (f"samples={kind}-labels;judge=mnist-classifier" for kind in ("seen", "unseen"))


def _both(key: str, shown: list[int], asked: list[int]) -> dict[str, np.ndarray]:
    return {key: picture(shown), f"{key}/labels": np.array(asked)}


def _padpafs() -> dict[str, np.ndarray]:
    """Of labels seen, one client shows 3 of 4 and the other 2; of others 1 of 4 and none."""
    shown = {
        "generated": ([0, 1, 0, 9], [0, 1, 1, 0], [0, 1, 0, 1]),
        "unseen": ([5, 6, 6, 6], [4, 4, 4, 4], [5, 5, 5, 5]),
        "held-out": ([0, 1, 1, 1], [0, 1, 0, 1], [0, 1, 0, 1]),
        "held-out-unseen": ([5, 6, 5, 6], [5, 6, 9, 9], [5, 6, 5, 6]),
    }
    arrays: dict[str, np.ndarray] = {}
    for key, (first, second, asked) in shown.items():
        arrays |= _both(f"client/0/{key}", first, asked) | _both(f"client/1/{key}", second, asked)
    return arrays


def _found(records) -> dict[tuple[str, str, str], float]:
    return {(r["setting"], r.get("client", ""), r["control"]): r["value"] for r in records}


def test_labels_seen_and_not_seen_stand_apart_each_below_its_own_ceiling(tmp_path):
    records = list(of_labels(left(tmp_path, _padpafs())))
    found, clients = _found(records), ("client-1", "client-2", "")
    assert [found[SEEN, k, ""] for k in clients] == [0.75, 0.5, 0.625]
    assert [found[UNSEEN, k, ""] for k in clients] == [0.25, 0.0, 0.125]
    assert [found[SEEN, k, "ceiling"] for k in clients] == [0.75, 1.0, 0.875]
    assert [found[UNSEEN, k, "ceiling"] for k in clients] == [1.0, 0.5, 0.75]
    assert found[UNSEEN, "client-1", "shuffled-labels"] == 0.25, "all are asked for the same"
    assert {(r.get("client", ""), r["style"]) for r in records} == {
        ("client-1", "ink"),
        ("client-2", "pen"),
        ("", "all"),
    }


def test_labels_in_another_order_are_shown_as_often_as_by_chance(tmp_path):
    labels = [0, 1, 2, 3, 4] * 80
    arrays = {f"client/{k}/{key}": picture(labels) for k in (0, 1) for key in ("generated", "unseen")}
    arrays |= {f"client/{k}/{key}": picture(labels) for k in (0, 1) for key in ("held-out", "held-out-unseen")}
    found = _found(of_labels(left(tmp_path, arrays | {f"{key}/labels": np.array(labels) for key in arrays})))
    assert found[SEEN, "", ""] == found[SEEN, "", "ceiling"] == 1
    assert found[SEEN, "", "shuffled-labels"] == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("lacking", [("client/1/unseen",), ("client/1/unseen", "client/1/unseen/labels")])
def test_a_client_that_lacks_no_label_is_not_asked(lacking, tmp_path):
    arrays = {key: x for key, x in _padpafs().items() if key not in lacking}
    assert _found(of_labels(left(tmp_path, arrays)))[SEEN, "", ""] == 0.75


def test_samples_without_the_images_of_a_ceiling_are_refused(tmp_path):
    old = {key: x for key, x in _padpafs().items() if "held-out-unseen" not in key}
    with pytest.raises(InputError, match=r"there is no array 'client/0/held-out-unseen', which is needed"):
        list(of_labels(left(tmp_path, old)))


@pytest.mark.parametrize("empty", ["held-out", "held-out-unseen"])
def test_a_ceiling_of_no_images_of_one_client_is_left_out_for_all(empty, tmp_path):
    """As where none of the labels that it lacks is tested."""
    whole = list(of_labels(left(tmp_path, _padpafs())))
    key = f"client/1/{empty}"
    nothing = {key: picture([]), f"{key}/labels": np.zeros(0, int)}
    setting = SEEN if empty == "held-out" else UNSEEN
    assert list(of_labels(left(tmp_path, _padpafs() | nothing))) == [
        row for row in whole if (row["setting"], row["control"]) != (setting, "ceiling")
    ]


def test_new_clients_are_measured_after_each_snapshot_and_by_style(tmp_path):
    run = left(tmp_path, _padpafs(), "start: padpaf/c/padpaf/old/1\nsnapshots: [1]\n")
    early = _both("client/0/unseen", [4, 4, 6, 6], [4, 4, 4, 4]) | _both("client/1/unseen", [5, 6, 6, 6], [5, 5, 5, 5])
    run.write_arrays("after-1.npz", _padpafs() | early)
    records = list(of_labels(run))
    found = {(r["setting"], r["style"], r.get("control", "")): r["value"] for r in records if not r.get("client")}
    for kind, now, then in (("seen", [0.75, 0.5], 0.625), ("unseen", [0.25, 0.0], (0.5 + 0.25) / 2)):
        by_style = [found[f"samples={kind}-labels;style={style}", style, ""] for style in ("ink", "pen")]
        assert by_style == now
        assert found[f"samples={kind}-labels;phase=new-clients;rounds=1", "all", ""] == then
        assert found[f"samples={kind}-labels;judge=mnist-classifier", "all", ""] == np.mean(now)
    assert found["samples=unseen-labels;phase=new-clients;rounds=1", "all", "ceiling"] == 0.75
    assert not [r for r in records if "phase" in r["setting"] and r.get("client")], "the mean alone"
    by_style = {(r["setting"].partition(";style=")[2], r["control"]) for r in records if ";style=" in r["setting"]}
    assert by_style == {("ink", ""), ("pen", "")}, "of neither controls nor means"


# ---- all methods alike


def _everybodys(labels: list[int]) -> dict[str, np.ndarray]:
    """Both clients make images of 1 in the first one's style; all real ones show 0, and some are said to show 1."""
    n = len(labels)
    arrays: dict[str, np.ndarray] = {}
    for k in (0, 1):
        arrays |= {f"asked/{k}/made": picture([1] * n, 0, seed=1), f"asked/{k}/labels": np.array(labels)}
        arrays |= {f"asked/{k}/real": picture([0] * n, k, seed=2), f"asked/{k}/real-labels": np.zeros(n, int)}
        arrays |= {f"asked/{k}/other": picture([0] * n, k, seed=2), f"asked/{k}/other-labels": np.ones(n, int)}
        arrays |= {f"asked/{k}/own": picture([0] * n, k, seed=3), f"asked/{k}/own-labels": np.zeros(n, int)}
    return arrays


def check_between_floor_and_ceiling(folder, measure=of_all) -> None:
    """And distances against SciPy: of as many points on each side, transport is an assignment."""
    run = left(folder, _everybodys([1] * 12))
    records = list(measure(run))
    found = {(r["metric"], r["control"]): r["value"] for r in records}
    assert {(r["setting"], r.get("client", "")) for r in records} == {("images=asked", "")}
    assert (found["label_agreement", ""], found["style_agreement", ""]) == (1, 0.5), "all are in the first's style"
    assert (found["label_agreement", "ceiling"], found["style_agreement", "ceiling"]) == (1, 1)
    assert found["label_agreement", "floor"] == 0
    assert found["wd_exact", "floor"] == pytest.approx(0)
    assert ("wd_exact", "ceiling") not in found, "they are what others are held against"
    assert ("fid", "ceiling") not in found
    costs, distances = zip(*(_apart(run, k) for k in (0, 1)), strict=True)
    assert found["wd_exact", ""] == pytest.approx(np.mean(costs))
    assert found["fid", ""] == pytest.approx(np.mean(distances))
    assert found["label_agreement", "noise"] < 0.5
    assert found["wd_exact", "noise"] > 1


def _apart(run: RunFolder, client: int) -> tuple[float, float]:
    made, real = (run.samples[f"asked/{client}/{which}"] for which in ("made", "real"))
    costs = cdist(*(x.reshape(len(x), -1) / 255 for x in (made, real)), "sqeuclidean")
    return costs[linear_sum_assignment(costs)].mean(), frechet_distance(
        *(gaussian(Reader()(x)[0], "a set") for x in (made, real))
    )


def test_images_stand_between_floor_and_ceiling(tmp_path):
    check_between_floor_and_ceiling(tmp_path)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('and control != "ceiling"', ""),
        ("own == style", "own != style"),
        ("self.read(against)", "said"),
        ("self.arrays[against], ", "images, "),
        ('control == "noise"', "False"),
        ("self.arrays[name] for name in names", "self.arrays[name] for name in (names[0], 'asked/0/labels')"),
    ],
)
def test_other_numbers_are_caught(right, wrong, tmp_path):
    with mutated("evaluation.images", "Judged", right, wrong, where="evaluation.asked"), pytest.raises(AssertionError):
        check_between_floor_and_ceiling(tmp_path)


def test_where_no_label_can_be_asked_for_there_is_no_agreement_with_it(tmp_path):
    found = {(r["metric"], r["control"]) for r in of_all(left(tmp_path, _everybodys([-1] * 12)))}
    assert ("label_agreement", "") not in found
    assert {("style_agreement", ""), ("label_agreement", "ceiling")} <= found


def test_any_client_of_the_style_will_do_and_no_other():
    said = np.zeros((5, 1)), np.array([3, 1, 3, 3, 0]), np.array([0, 1, 2, 1, 2])
    asked = {"style_agreement": [0, 2], "label_agreement": np.array([3, 1, 0, 0, 0]), "attribute_change": 1}
    assert list(agreement(said, asked)) == [
        ("style_agreement", "fraction", 3 / 5),
        ("label_agreement", "fraction", 3 / 5),
        ("attribute_change", "fraction", 3 / 5),
    ]


def test_what_is_known_of_an_image_is_held_against_it_in_the_unit_interval():
    """A fifth of white in a quarter of the pixels; scikit-image's similarity fills borders in another way."""
    rng = np.random.default_rng(0)
    known = rng.integers(0, 200, (3, 1, 28, 28), dtype=np.uint8)
    made = known.copy()
    made[:, :, :7] += 51
    found = {metric: (value, unit) for metric, unit, value in compared(made, known)}
    assert found["pixel_error"] == (pytest.approx(0.2 / 4), "score")
    options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "data_range": 1.0}
    theirs = [structural_similarity(a[0] / 255, b[0] / 255, **options) for a, b in zip(made, known, strict=True)]
    assert found["ssim"] == (pytest.approx(np.mean(theirs), abs=0.01), "score")


@pytest.mark.parametrize("which", ["made", "real"])
def test_a_distance_of_too_few_images_of_one_client_is_left_out_for_all_and_named(which, tmp_path, capfd):
    """A mean over the other clients would be another number; everything else is measured."""
    arrays = _everybodys([1] * 12)
    few = f"asked/1/{which}"
    labels = "asked/1/labels" if which == "made" else "asked/1/real-labels"
    arrays |= {few: arrays[few][:4], labels: arrays[labels][:4]}
    found = {(r["metric"], r["control"]) for r in of_all(left(tmp_path, arrays))}
    assert ("fid", "") not in found
    assert (("fid", "floor") in found) is (which == "made")
    assert {("label_agreement", ""), ("style_agreement", ""), ("wd_exact", "")} <= found
    said = capfd.readouterr().err
    assert f"left out: fid: {few} has 4 images, but needs more than the 4 features" in said


def test_of_clients_of_which_one_has_no_test_image_there_is_no_distance_and_all_else(tmp_path):
    """As of a user of whose one class none is tested."""
    whole, arrays = list(of_all(left(tmp_path, _everybodys([1] * 12)))), _everybodys([1] * 12)
    arrays |= {"asked/1/real": picture([]), "asked/1/real-labels": np.zeros(0, int)}
    found = [(r["metric"], r["control"], r["value"]) for r in of_all(left(tmp_path, arrays))]
    assert found == [
        (r["metric"], r["control"], r["value"])
        for r in whole
        if r["control"] not in ("ceiling", "noise") and r["metric"] not in ("fid", "wd_exact")
    ]


def test_noise_is_the_same_again_and_another_one_in_another_run(tmp_path):
    found = []
    for name, seed in (("first", 1), ("again", 1), ("other", 2)):
        folder = tmp_path / name
        folder.mkdir()
        left(folder, _everybodys([1] * 12))
        (folder / "spec.yaml").write_text((folder / "spec.yaml").read_text().replace("seed: 1", f"seed: {seed}"))
        found.append({r["metric"]: r["value"] for r in of_all(RunFolder(folder)) if r["control"] == "noise"})
    assert found[0] == found[1]
    assert found[0]["wd_exact"] != found[2]["wd_exact"]


def test_noise_is_of_all_levels_and_has_the_shape_of_what_it_stands_for(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(images, "distances", lambda made, *_: seen.append(made) or [])
    list(of_all(left(tmp_path, _everybodys([1] * 200))))
    noise = [made for made in seen if len(np.unique(made)) == 256 and made[:, 0, 0, 0].std() > 1]
    assert [made.shape for made in noise] == [(200, 1, 8, 8)] * 2, "of each client"
    assert not np.array_equal(*noise)


def test_a_run_that_was_asked_for_nothing_is_not_judged(tmp_path):
    run = left(tmp_path, {"real/ink": picture([1, 2])})
    assert list(of_labels(run)) == list(of_all(run)) == []


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ({"a": {"floor": ["real", "label"]}}, r"evaluation\.asked\.images\.a: must have the control ''"),
        ({"a": {"": ["made"]}}, r"evaluation\.asked\.images\.a\..*at least 2 items.*'made'"),
        ({"a": {"": "made"}}, r"evaluation\.asked\.images\.a\..*valid list, got 'made'"),
    ],
)
def test_wrong_settings_are_one_sentence(images, words, tmp_path):
    with pytest.raises(InputError, match=words):
        list(prepared("asked", {"images": images, "reads": ["accuracy"]}, left(tmp_path, {})))
