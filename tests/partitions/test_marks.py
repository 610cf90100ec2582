"""FedDVA's partitions: marks by the pixel, label skew, test images that are dealt as well, label shift."""

import numpy as np
import pytest
import torch

from common.spec import DataSettings
from partitions import MARKS, partition
from partitions.deal import in_proportion, label_skew
from partitions.marks import ANGLES, marked
from tests.mutation import mutated
from tests.wrong import refused

QUARTERS = {name: f"digits-plain[{n}::4]" for n, name in enumerate(MARKS)}


def _settings(**changes) -> DataSettings:
    given = {"dataset": "mnist", "styles": QUARTERS, "image_size": 16, "channels": 1, "resample": "none"}
    return DataSettings(**{**given, **changes})


def _drawn(name: str, size: int = 28, images: int = 50) -> np.ndarray:
    """Marks on black images, (images, size, size), 1 where something was drawn."""
    black = torch.zeros(images, 1, size, size, dtype=torch.uint8)
    picture = marked("mark", name, black, np.random.default_rng(4))
    assert set(picture.unique().tolist()) <= {0, 255}
    return picture[:, 0].numpy() // 255


# ---- marks


def test_nothing_is_drawn_into_plain_images():
    assert not _drawn("plain").any()


def check_horizontal_sinusoids(draw) -> None:
    """One period over columns 1..26, amplitude 12.5 around row 13.5, 32 points, a phase for each image."""
    for picture in draw("horizontal-sinusoid"):
        rows, columns = np.nonzero(picture)
        assert (columns.min(), columns.max()) == (1, 26)
        assert rows.min() <= 2
        assert rows.max() >= 25
        assert not picture[0].any()
        assert not picture[27].any()
        assert 20 <= len(rows) <= 32
        # the phase from two quadratures, then every drawn point lies on that sine
        angle = (columns - 1) / 25 * 2 * np.pi
        height = (rows - 13.5) / 12.5
        fits = [np.abs(np.sin(angle + phase) - height).mean() for phase in np.linspace(0, 2 * np.pi, 721)]
        assert min(fits) < 0.09


def test_horizontal_sinusoids():
    check_horizontal_sinusoids(_drawn)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("np.sin(ANGLES + phase)", "np.sin(2 * ANGLES + phase)"), ("np.sin(ANGLES", "0.8 * np.sin(ANGLES")],
)
def test_another_period_or_height_is_caught(right, wrong, monkeypatch):
    with mutated("partitions.marks", "horizontal_sinusoid", right, wrong) as mutant:
        monkeypatch.setitem(MARKS, "horizontal-sinusoid", mutant)
        with pytest.raises(AssertionError):
            check_horizontal_sinusoids(_drawn)


def test_vertical_sinusoids_are_horizontal_ones_on_their_side():
    flat, upright = _drawn("horizontal-sinusoid"), _drawn("vertical-sinusoid")
    assert np.array_equal(upright, flat.transpose(0, 2, 1))


def test_ellipses_have_the_axes_of_the_code():
    """Half axes 12.5 and 12.5 * sqrt(1 - 0.9^2) = 5.45 around (13.5, 13.5), turned."""
    turns = []
    for picture in _drawn("ellipse"):
        rows, columns = np.nonzero(picture)
        points = np.stack([rows, columns], axis=1) - 13.5
        _, vectors = np.linalg.eigh(np.cov((points - points.mean(axis=0)).T))
        across, along = (points @ vectors).T
        assert np.abs((along / 12.5) ** 2 + (across / 5.45) ** 2 - 1).mean() < 0.13
        turns.append(np.arctan2(*vectors[:, 1]) % np.pi)
    assert np.ptp(turns) > 2.5, "every image has its own angle, from half a turn"


@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_marks_fit_every_size(size):
    for name in ("horizontal-sinusoid", "vertical-sinusoid", "ellipse"):
        pictures = _drawn(name, size)
        assert pictures[:, 1:-1, 1:-1].sum() == pictures.sum(), "one pixel is left at the border"
        assert len(np.unique(pictures, axis=0)) > 20, "one realisation for each image"
        assert (pictures.sum(axis=(1, 2)) <= len(ANGLES)).all()


def test_a_mark_is_on_top_of_the_digit_and_in_every_channel():
    images = torch.full((3, 3, 16, 16), 200, dtype=torch.uint8)
    picture = marked("mark", "ellipse", images, np.random.default_rng(0))
    assert set(picture.unique().tolist()) == {200, 255}
    assert (picture == picture[:, :1]).all()
    assert (images == 200).all(), "what was given is not drawn into"


def test_clients_have_their_marks_in_training_and_test_images_once_and_for_all():
    marks = {name: name for name in MARKS}
    plain, drawn = partition(_settings(), "", 1), partition(_settings(marks=marks), "", 1)
    for style, name in enumerate(MARKS):
        for indices in (drawn.train[style], drawn.test[style]):
            changed = (drawn.images[indices] != plain.images[indices]).flatten(1).any(dim=1)
            assert changed.all() if name != "plain" else not changed.any()
    again, other = partition(_settings(marks=marks), "", 1), partition(_settings(marks=marks), "", 2)
    assert torch.equal(drawn.images, again.images)
    assert not torch.equal(drawn.images, other.images)


# ---- label skew


def test_label_skew_with_no_skew_gives_every_client_the_classes_shares_of_all_images():
    """The prior of a large alpha. With an even one the first client would have four times as many of the rare class."""
    labels = np.repeat([0, 1], [18_000, 2_000])
    for client in label_skew(labels, 10, np.random.default_rng(3), alpha=1e6):
        assert (labels[client] == 1).mean() == pytest.approx(0.1, abs=0.03)  # 2,000 drawn: deviation 0.007


def test_label_skew_is_disjoint_of_equal_sizes_and_skewed():
    labels = np.random.default_rng(0).integers(0, 10, 3000)
    entropies = []
    for alpha in (1.0, 5.0, 1000.0):
        shares = label_skew(labels, 20, np.random.default_rng(3), alpha=alpha)
        everyone = np.concatenate(shares)
        assert [len(share) for share in shares] == [150] * 20
        assert len(np.unique(everyone)) == len(everyone)
        p = np.stack([np.bincount(labels[share], minlength=10) / 150 for share in shares])
        entropies.append(float(-(p * np.log(np.where(p > 0, p, 1))).sum(axis=1).mean()))
    assert entropies == sorted(entropies)
    assert entropies[0] < 1.2
    assert entropies[-1] > 2.2


def test_a_class_that_is_used_up_leaves_the_proportions():
    labels = np.array([0] * 6 + [1] * 94)
    shares = label_skew(labels, 10, np.random.default_rng(0), alpha=2.0)
    assert sorted(np.concatenate(shares).tolist()) == list(range(100))


def test_test_images_are_dealt_like_training_images():
    labels = np.repeat([0, 1, 2], [30, 10, 7])
    shares = np.array([[10, 0, 1], [5, 1, 0], [0, 1, 0]])
    parts = in_proportion(labels, shares, np.random.default_rng(0))
    counts = np.stack([np.bincount(labels[part], minlength=3) for part in parts])
    assert counts.tolist() == [[20, 0, 7], [10, 5, 0], [0, 5, 0]]
    assert sorted(np.concatenate(parts).tolist()) == list(range(47))


@pytest.mark.parametrize("pool", ["own", "together"])
def test_clients_under_label_skew_are_tested_on_what_they_train_on(pool):
    styles = {"a": "digits-plain"} if pool == "own" else {"a": "digits-plain", "b": "digits-plain"}
    settings = _settings(
        styles=styles,
        pool=pool,
        clients_per_style=8 // len(styles),
        test_images="dealt",
        deal={"name": "label-skew", "alpha": 5.0},
    )
    dealt = partition(settings, "", 0)
    tests = torch.cat(dealt.tests)
    assert sorted(tests.tolist()) == sorted(torch.cat(dealt.test).unique().tolist())
    for train, test in zip(dealt.clients, dealt.tests, strict=True):
        ours, theirs = (torch.bincount(dealt.labels[i], minlength=10) / len(i) for i in (train, test))
        assert float((ours - theirs).abs().max()) < 0.1
        assert not set(train.tolist()) & set(test.tolist())


def test_without_a_word_a_client_has_all_test_images_of_its_style():
    dealt = partition(_settings(clients_per_style=2), "", 0)
    for style, test in zip(dealt.client_styles, dealt.tests, strict=True):
        assert torch.equal(test, dealt.test[style])


def test_labels_are_shifted_in_training_and_test_images_alike():
    plain, shifted = (partition(_settings(label_shift=shift), "", 0) for shift in ({}, {"ellipse": 3}))
    ellipse = list(MARKS).index("ellipse")
    mine = torch.cat([shifted.train[ellipse], shifted.test[ellipse]])
    assert torch.equal(shifted.labels[mine], (plain.labels[mine] + 3) % 10)
    rest = torch.cat([*shifted.train[:ellipse], *shifted.test[:ellipse]])
    assert torch.equal(shifted.labels[rest], plain.labels[rest])


# ---- bad input


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"marks": {"plain": "elipse"}}, "data.marks.plain: unknown name 'elipse'; did you mean 'ellipse'"),
        ({"marks": {"plane": "ellipse"}}, "data.marks: unknown name 'plane'"),
        ({"label_shift": {"elipse": 1}}, "data.label_shift: unknown name 'elipse'"),
        ({"pool": "together", "styles": {"a": "digits-plain"}, "marks": {"a": "ellipse"}}, "data.marks: with pool"),
        ({"deal": {"name": "label-skew", "alpha": 0}}, "data.deal.alpha: "),
        ({"deal": {"name": "label-skew"}}, "data.deal.alpha: this key is needed"),
        (
            {"styles": {"a": "digits-plain[::60]"}, "clients_per_style": 12, "test_images": "dealt"},
            "data.test_images: no",
        ),
    ],
)
def test_wrong_settings_are_one_sentence(changes, says):
    with refused(says):
        partition(_settings(**changes), "", 0)
