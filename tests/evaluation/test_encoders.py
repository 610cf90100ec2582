"""Clusters of codes, and whose doing they are: sums of squares by hand and by regression, codes of a known kind."""

import itertools

import numpy as np
import pytest

from common.errors import InputError
from evaluation.clusters import clusters
from evaluation.encoders import ENCODERS, code_variance, variance_shares
from tests.evaluation.test_dual import CLIENTS, N, _codes, _run
from tests.mutation import mutated

PARTS = ("encoder", "client", "image", "rest")


def check_by_hand(shares) -> None:
    """Three images, of clients 0, 0 and 1, by two encoders: 0 2, 4 2, 8 14. Their mean is 5.

    Encoders: 4 and 6, 3 (1 + 1) = 6. Images: 1, 3 and 11; clients: 2 and 11, 2 (9 + 9 + 36) = 108; images of a client:
    2 (1 + 1) = 4. All: 25 + 9 + 1 + 9 + 9 + 81 = 134, of which 16 are left.
    """
    codes = np.array([[0, 2], [4, 2], [8, 14]])[:, :, None]
    found = shares(codes, np.array([0, 0, 1]))
    assert {of: 134 * share for of, share in found.items()} == pytest.approx(
        {"encoder": 6, "client": 108, "image": 4, "rest": 16}
    )


def check_by_regression(shares) -> None:
    """What each factor explains beyond those before it, by least squares on its indicators."""
    rng = np.random.default_rng(0)
    owner = np.array([3] * 5 + [7] * 2 + [1] * 4)
    codes = rng.normal(size=(11, 3, 2)) + rng.normal(size=(1, 3, 2)) + 2 * rng.normal(size=(11, 1, 2))
    rows = list(itertools.product(range(11), range(3)))
    y = np.array([codes[row] for row in rows])
    factors = {
        "encoder": [encoder for _, encoder in rows],
        "client": [owner[image] for image, _ in rows],
        "image": [image for image, _ in rows],
    }
    design, left = np.ones((len(rows), 1)), [np.square(y - y.mean(axis=0)).sum()]
    for values in factors.values():
        design = np.hstack([design, np.equal.outer(values, sorted(set(values))).astype(float)])
        left.append(np.square(y - design @ np.linalg.lstsq(design, y, rcond=None)[0]).sum())
    expected = dict(zip(PARTS, [*-np.diff(left), left[-1]], strict=True))
    assert shares(codes, owner) == pytest.approx({of: part / left[0] for of, part in expected.items()})


@pytest.mark.parametrize("check", [check_by_hand, check_by_regression])
def test_shares(check):
    check(variance_shares)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("codes.mean(axis=0), codes.mean(axis=1)", "codes.mean(axis=0), codes.mean(axis=1) * 0"),
        ("images * np", "encoders * np"),
        ("of_images[client == k]", "of_images[: k + 1]"),
        ("codes - of_encoders - of_images", "codes - of_images"),
    ],
)
def test_wrong_shares_are_caught(right, wrong):
    with mutated("evaluation.encoders", "variance_shares", right, wrong) as mutant:
        for check in (check_by_hand, check_by_regression):
            with pytest.raises(AssertionError):
                check(mutant)


@pytest.mark.parametrize("whose", PARTS)
def test_codes_of_one_kind_are_all_of_that_kind(whose):
    rng = np.random.default_rng(1)
    owner, parts = np.repeat([0, 1, 2], 40), dict.fromkeys(PARTS, 0.01)
    parts[whose] = 1.0
    by_image = rng.normal(size=(120, 3, 4))
    codes = (
        parts["encoder"] * rng.normal(size=(1, 3, 4))
        + parts["client"] * rng.normal(size=(3, 1, 4))[owner]
        + parts["image"] * rng.normal(size=(120, 1, 4))
        + parts["rest"] * (by_image - by_image.mean(axis=1, keepdims=True))
    )
    found = variance_shares(codes.astype(np.float32), owner)
    assert found[whose] > 0.9
    assert sum(found.values()) == pytest.approx(1)


def test_codes_far_from_the_origin_have_the_same_shares():
    """In single precision, whose mean over thousands of images would be a little off."""
    codes = np.random.default_rng(3).integers(-3, 4, (5000, 2, 2))
    owner = np.arange(5000) % 3
    far = variance_shares((codes + 1_000_000).astype(np.float32), owner)
    assert far == pytest.approx(variance_shares(codes, owner), rel=1e-6)


def test_codes_that_are_all_the_same_have_no_variance_to_share():
    assert variance_shares(np.ones((4, 2, 3)), np.array([0, 0, 1, 1])) == {}


def _by_both() -> dict[str, np.ndarray]:
    """Codes that say nothing, by shared encoders; and c that says whose encoder it is by, and nothing of the image."""
    arrays, own = _codes("nothing", "nothing"), _codes("nothing", "client")
    arrays |= {f"own/{key}": own[key] for key in own if key.endswith(("/z", "/c", "log-variance"))}
    for part in ("train", "test"):  # the same images are of the same clients
        arrays |= {f"codes/{part}/{key}": own[f"codes/{part}/{key}"] for key in ("label", "client", "pixels")}
    rng, towards = np.random.default_rng(2), 3 * np.eye(6)[:CLIENTS]
    arrays |= {f"{place}crossed/z": rng.normal(size=(N, CLIENTS, 6)) for place in ENCODERS.values()}
    arrays["crossed/c"] = rng.normal(size=(N, CLIENTS, 6))
    arrays["own/crossed/c"] = towards + 0.1 * rng.normal(size=(N, CLIENTS, 6))
    return arrays


def test_clusters_and_variance_are_of_the_encoders_that_are_named(tmp_path):
    run = _run(tmp_path, _by_both())
    score = {(r["role"], r["setting"], r["control"]): r["value"] for r in clusters(run, samples=200)}
    assert len(score) == 8
    for (role, setting, control), value in score.items():
        clustered = (role, setting, control) == ("own-encoder", "features=c;label=client", "")
        assert value > 0.8 if clustered else abs(value) < 0.1
    share = {(r["role"], r["setting"]): r["value"] for r in code_variance(run)}
    assert share["own-encoder", "features=c;of=encoder"] > 0.95
    assert max(share["own-encoder", f"features=c;of={of}"] for of in ("client", "image")) < 0.01
    assert share["shared-encoder", "features=c;of=encoder"] < 0.05
    assert share["shared-encoder", "features=z;of=image"] > 0.25, "of noise by three encoders, a third"
    assert share["shared-encoder", "features=z;of=client"] < 0.05


def test_two_clients_are_clusters(tmp_path):
    arrays = _codes("nothing", "nothing")
    arrays["codes/test/client"] = np.arange(N) % 2
    arrays["codes/test/c"] = arrays["codes/test/c"] + 20 * (np.arange(N, dtype=np.float32) % 2)[:, None]
    found = {(r["setting"], r["control"]): r["value"] for r in clusters(_run(tmp_path, arrays), samples=100)}
    assert found["features=c;label=client", ""] > 0.8


def test_one_client_is_no_clusters(tmp_path):
    arrays = _codes("nothing", "nothing")
    arrays |= {f"codes/{part}/client": np.zeros(N, int) for part in ("train", "test")}
    assert not list(clusters(_run(tmp_path, arrays)))


@pytest.mark.parametrize(
    ("key", "wrong", "said"),
    [
        ("own/codes/test/c", lambda x: x[1:], f"must have {N} along 'shown codes/test'"),
        ("own/crossed/c", lambda x: x[:, 1:], f"must have {CLIENTS} along 'clients'"),
        ("crossed/z", lambda x: x[:, 0], "must have 3 axes"),
    ],
)
def test_codes_that_do_not_fit_are_refused(key, wrong, said, tmp_path):
    arrays = _by_both()
    with pytest.raises(InputError, match=f"{key}: {said}"):
        list(code_variance(_run(tmp_path, arrays | {key: wrong(arrays[key])})))


def test_a_run_without_crossed_codes_is_not_split(tmp_path):
    assert not list(code_variance(_run(tmp_path, _codes("label", "client"))))
