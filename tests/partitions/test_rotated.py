"""Rotated domains: PIL's pixels, the same digits in all of them, as many of each class, and styles that nobody has."""

import numpy as np
import pytest
import torch
from PIL import Image

from common.settings import checked
from common.spec import DataSettings, Spec
from diptych.configuration import JudgeSettings
from diptych.judging import train_judge
from diptych.measurement import _diverged
from evaluation.registry import EVALUATIONS
from partitions import Partition, partition
from partitions.rotations import rotated
from tests.digits import left_by, spec
from tests.mutation import mutated
from tests.wrong import refused

ANGLES = {"0": 0, "30": 30, "90": 90}


def _settings(**changes) -> DataSettings:
    given = {
        "dataset": "rotated-digits",
        "styles": dict.fromkeys(ANGLES, "digits-plain"),
        "rotations": {style: angle for style, angle in ANGLES.items() if angle},
        "unseen": ["90"],
        "per_class": 20,
        "image_size": 16,
        "channels": 1,
    }
    return checked(DataSettings, "data", {**given, **changes})


def _dealt(seed: int = 0, root: str = "", **changes) -> Partition:
    return partition(_settings(**changes), root, seed)


def _digits(dealt: Partition, of_styles) -> list[np.ndarray]:
    """Indices into the tensor of all images, one array for each style in turn, as images of the styles' source."""
    return [indices.numpy() - style * len(dealt.sources[0].labels) for style, indices in enumerate(of_styles)]


# ---- pixels


def check_pixels(turn) -> None:
    draw = torch.Generator().manual_seed(0)
    for size in (8, 9, 28):
        images = torch.randint(1, 256, (3, 3, size, size), dtype=torch.uint8, generator=draw)
        for angle in (0, 15, 30, 45, 60, 75, 90, 180, 270, 360, -20, 33.3, 700):
            turned = turn(images, angle)
            assert (turned.shape, turned.dtype) == (images.shape, torch.uint8)
            for image, ours in zip(images.flatten(0, 1), turned.flatten(0, 1), strict=True):
                theirs = Image.fromarray(image.numpy()).rotate(angle, resample=Image.Resampling.NEAREST, fillcolor=0)
                assert np.array_equal(ours.numpy(), np.asarray(theirs))


def test_every_image_is_what_pil_makes_of_it():
    check_pixels(rotated)


def test_a_quarter_turn_is_counter_clockwise_and_none_changes_nothing():
    images = torch.arange(2 * 9, dtype=torch.uint8).reshape(2, 1, 3, 3)
    assert torch.equal(rotated(images, 90), images.rot90(1, (2, 3)))
    assert torch.equal(rotated(images, 0), images)


def test_corners_come_from_outside_and_are_black():
    turned = rotated(torch.full((1, 1, 28, 28), 255, dtype=torch.uint8), 45)[0, 0]
    assert [int(turned[r, c]) for r in (0, -1) for c in (0, -1)] == [0, 0, 0, 0]
    assert int(turned[14, 14]) == 255


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("rotate(degrees)", "rotate(-degrees)"), ("* (origins > 0)", ""), ("origins - 1", "origins")],
)
def test_wrong_pixels_are_caught(right, wrong):
    with mutated("partitions.rotations", "rotated", right, wrong) as mutant, pytest.raises(AssertionError):
        check_pixels(mutant)


def test_training_and_test_images_are_stored_turned_once():
    dealt = _dealt()
    plain, *others = dealt.images.chunk(3)
    assert np.array_equal(plain[:, 0].numpy(), dealt.sources[0].images)
    for images, angle in zip(others, (30, 90), strict=True):
        for image, turned in zip(plain[::100], images[::100], strict=True):
            theirs = np.asarray(Image.fromarray(image[0].numpy()).rotate(angle))
            assert np.array_equal(turned[0].numpy(), theirs)


def test_marks_are_drawn_on_what_has_been_turned():
    for marks in ({}, {"30": "ellipse"}):
        plain, turned, _ = _dealt(marks=marks).images.chunk(3)
        ours, theirs = turned.int(), rotated(plain, 30).int()
        assert (ours[ours != theirs] == 255).all()
        assert bool((ours != theirs).any()) == bool(marks)


# ---- the same digits in every domain


def check_domains_are_paired(make) -> None:
    """All domains have the same training digits in the same order, and the same others are tested on."""
    for changes in ({}, {"per_class": None}, {"drawn_in": 4}, {"clients_per_style": 3}, {"server_share": 0.2}):
        dealt = make(**changes)
        train, test = (_digits(dealt, part) for part in (dealt.train, dealt.test))
        assert all(np.array_equal(digits, train[0]) for digits in train)
        assert all(np.array_equal(digits, test[0]) for digits in test)
        assert not set(train[0].tolist()) & set(test[0].tolist())
        per_style = len(dealt.clients) // 2
        ours, theirs = dealt.clients[:per_style], dealt.clients[per_style:]
        assert all(torch.equal(a + len(dealt.sources[0].labels), b) for a, b in zip(ours, theirs, strict=True))
        assert not set(dealt.server.tolist()) & set(torch.cat(dealt.train).tolist())


def test_domains_are_paired():
    check_domains_are_paired(_dealt)


def test_domains_that_draw_each_their_own_are_caught():
    right, wrong = "settings.styles.values() if settings.paired else settings.styles", "settings.styles"
    with mutated("partitions.pools", "_generators", right, wrong), pytest.raises(AssertionError):
        check_domains_are_paired(_dealt)


def test_domains_of_different_sources_draw_each_their_own():
    sources = {"0": "digits-plain[::2]", "30": "digits-plain[::2]", "90": "digits-plain[1::2]"}
    dealt = _dealt(styles=sources)
    plain, turned, others = _digits(dealt, dealt.train)
    assert np.array_equal(plain, turned)
    assert not np.array_equal(plain, others)
    assert dealt.sources[0] is dealt.sources[1]
    assert dealt.own_sources


def test_the_seed_decides():
    first, again, other = _dealt(1), _dealt(1), _dealt(2)
    assert all(torch.equal(a, b) for a, b in zip(first.clients, again.clients, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first.clients, other.clients, strict=True))


def test_every_stored_image_knows_its_style():
    dealt = _dealt()
    for style, indices in enumerate(dealt.train):
        assert (dealt.image_styles[indices] == style).all()
        assert (dealt.image_styles[dealt.test[style]] == style).all()
    assert len(dealt.image_styles) == len(dealt.images)
    together = {"pool": "together", "rotations": {}, "unseen": [], "per_class": None}
    assert _dealt(**together).image_styles is None


# ---- as many of each class


@pytest.mark.parametrize("drawn_in", [1, 5])
def test_a_client_has_as_many_of_each_class_class_by_class(drawn_in):
    dealt = _dealt(drawn_in=drawn_in)
    assert (dealt.class_counts() == 20).all()
    for indices in (*dealt.clients, *dealt.train):
        assert torch.equal(dealt.labels[indices], torch.arange(10).repeat_interleave(20))


def check_overlaps(settings) -> None:
    """Every part is without repetition, and parts of m leave n (1 - (1 - m / n)^parts) of n images."""
    dealt, whole = _dealt(**settings), _dealt(**{**settings, "per_class": None, "drawn_in": 1})
    parts, available = settings["drawn_in"], np.bincount(whole.labels[whole.train[0]])
    part = settings["per_class"] // parts
    drawn = dealt.train[0].reshape(10, parts, part)
    assert all(len(p.unique()) == part for of_class in drawn for p in of_class)
    left = sum(n * (1 - (1 - part / n) ** parts) for n in available)
    assert len(drawn.unique()) == pytest.approx(left, rel=0.03)  # one standard deviation is 0.7 %


@pytest.mark.parametrize("settings", [{"per_class": 400, "drawn_in": 10}, {"per_class": 120, "drawn_in": 2}])
def test_parts_overlap_as_often_as_chance_has_it(settings):
    check_overlaps(settings)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("replace=False", "replace=True"), ("+= [", "+= parts * ["), ("_ in range(parts)", "_ in [rng.choice(pool)]")],
)
def test_wrong_parts_are_caught(right, wrong):
    with (
        mutated("partitions.drawn", "drawn", right, wrong, where="partitions.pools"),
        pytest.raises((AssertionError, RuntimeError)),
    ):
        check_overlaps({"per_class": 400, "drawn_in": 10})


def test_drawn_in_one_part_no_image_comes_twice():
    dealt = _dealt(per_class=100)
    assert all(len(indices.unique()) == len(indices) == 1000 for indices in dealt.clients)


# ---- styles that nobody has


def test_an_unseen_style_has_no_client_and_the_server_has_none_of_it():
    dealt = _dealt(server_share=0.1, unseen=["0"])
    assert dealt.client_styles == dealt.seen == (1, 2)
    everyones = torch.cat([*dealt.clients, dealt.server, dealt.all_train, dealt.all_test])
    assert set(dealt.image_styles[everyones].tolist()) == {1, 2}
    assert set(dealt.image_styles[dealt.server].tolist()) == {1, 2}
    assert [len(indices) for indices in dealt.train] == [200, 200, 200]
    assert all(torch.equal(test, dealt.test[style]) for test, style in zip(dealt.tests, (1, 2), strict=True))


def test_test_images_are_shared_out_among_those_who_are_there():
    dealt = _dealt(test_images="dealt", clients_per_style=2)
    for style in (0, 1):
        tests = torch.cat([t for t, s in zip(dealt.tests, dealt.client_styles, strict=True) if s == style])
        assert sorted(tests.tolist()) == dealt.test[style].tolist()


def test_the_mean_size_is_that_of_styles_that_clients_have():
    styles = {"0": "digits-plain[::2]", "30": "digits-plain[1::2]", "90": "digits-plain[::9]"}
    dealt = _dealt(styles=styles, per_class=None)
    assert {len(indices) for indices in dealt.clients} == {round((len(dealt.train[0]) + len(dealt.train[1])) / 2)}


def _spec(algorithm: str, angle: float = 90, unseen: str = "90") -> Spec:
    data = _settings(rotations={"30": 30, unseen: angle}, unseen=[unseen], per_class=12, image_size=8, server_share=0.1)
    return spec(algorithm, data=data.model_dump(), training={"rounds": 2, "batch_size": 16}, score_every=1)


@pytest.mark.parametrize("algorithm", ["fedavg", "centralized", "server-only", "fedavg-server"])
def test_what_is_unseen_changes_nothing_but_its_own_evaluation(algorithm, tmp_path):
    runs = one, other = [left_by(_spec(algorithm, angle), tmp_path / str(angle)) for angle in (90, 45)]
    assert (one.path / "model.safetensors").read_bytes() == (other.path / "model.safetensors").read_bytes()
    of_clients = [[row for row in run.table("scores.csv") if not row["style"]] for run in runs]
    assert of_clients[0]
    assert of_clients[0] == of_clients[1]
    differ = {key for key, rows in one.features.items() if not np.array_equal(rows, other.features[key])}
    assert differ == {f"{model}/90/{part}/features" for model in ("initial", "shared") for part in ("train", "test")}


def test_an_unseen_style_is_evaluated_as_far_as_it_can_be(tmp_path):
    run = left_by(_spec("fedavg"), tmp_path)
    probed = {(r["protocol"], r["style"]) for r in EVALUATIONS["linear-probe"](run, epochs=2)}
    everywhere = {("generalization", style) for style in ANGLES}
    assert probed == everywhere | {("personalization", "0"), ("personalization", "30")}
    assert {(r["protocol"], r["style"]) for r in _diverged(run)} == probed
    costs = {r["metric"]: r["value"] for r in EVALUATIONS["budget"](run)}
    assert costs["total_clients"] == 2
    assert {row["style"] for row in run.table("partition.csv")} == {"0", "30"}
    assert {r["style"] for r in EVALUATIONS["sources"](run)} == {*ANGLES, "all"}


@pytest.mark.parametrize("unseen", ["0", "90"])
def test_a_judge_sees_no_unseen_image(unseen, tmp_path):
    judges = []
    for angle in (90, 45):
        file = tmp_path / f"{angle}.safetensors"
        settings = JudgeSettings(width=4, features=8, epochs=1)
        accuracy = train_judge(_spec("fedavg", angle, unseen), settings, "", file)
        judges.append((accuracy, file.read_bytes()))
    assert judges[0] == judges[1]


# ---- bad input


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rotations": {"31": 30}}, "data.rotations: unknown name '31'"),
        ({"rotations": {"30": float("nan")}}, "data.rotations.30: should be a finite number"),
        ({"rotations": {"30": float("inf")}}, "data.rotations.30: should be a finite number"),
        ({"unseen": ["75"]}, "data.unseen: unknown name '75'"),
        ({"unseen": list(ANGLES)}, "data.unseen: must leave a style for clients, got all 3"),
        ({"per_class": 0}, "data.per_class: should be greater than 0"),
        ({"per_class": 500}, "data.per_class: at most the"),
        (
            {"styles": {"0": "gap"}, "rotations": {}, "unseen": []},
            "must number the classes from 0 without gaps, got 4 and no 1",
        ),
        ({"drawn_in": 0}, "data.drawn_in: should be greater than 0"),
        ({"drawn_in": 3}, "data.drawn_in: must divide data.per_class, which is 20, got 3"),
        ({"drawn_in": 2, "per_class": None}, "data.drawn_in: must divide data.per_class, which is null, got 2"),
        ({"pool": "together"}, "data.rotations: with pool 'together'"),
        ({"pool": "together", "rotations": {}, "unseen": []}, "data.per_class: with pool 'together'"),
        ({"pool": "together", "rotations": {}, "per_class": None}, "data.unseen: with pool 'together'"),
    ],
)
def test_domains_that_cannot_be_had(changes, says, tmp_path):
    np.savez(tmp_path / "gap.npz", images=np.zeros((90, 8, 8), np.uint8), labels=2 * (np.arange(90) % 3))
    with refused(says):
        _dealt(root=str(tmp_path), **changes)
