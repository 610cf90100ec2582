"""Deals and partitions: nothing lost, nothing shared that should not be, sizes and proportions as asked."""

import dataclasses
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from PIL import Image

from common.errors import InputError
from diptych.given import client_data
from partitions import Partition, partition
from partitions.deal import by_class, dirichlet, iid, largest_remainder, shards
from partitions.drawn import resampled, stratified
from partitions.images import fitted
from partitions.sources import load
from tests.digits import UNEVEN, uneven
from tests.mutation import mutated
from tests.wrong import refused

quick = bounded(max_examples=30)


def _labels(seed: int, n: int, classes: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, classes, n)


# ---- deals


@quick
@given(st.integers(0, 99), st.integers(20, 200), st.integers(1, 7), st.integers(1, 10))
def test_iid_deals_everything_but_a_rest_evenly(seed, n, classes, clients):
    labels = _labels(seed, n, classes)
    shares = iid(labels, clients, np.random.default_rng(seed))
    dealt = np.concatenate(shares)
    assert [len(share) for share in shares] == [n // clients] * clients
    assert len(np.unique(dealt)) == len(dealt)
    for c in range(classes):
        counts = [(labels[share] == c).sum() for share in shares]
        assert max(counts) - min(counts) <= 2  # one by dealing in turn, one by the images that are left


def test_what_iid_leaves_out_is_of_any_class():
    labels = np.repeat(np.arange(10), 10)
    left = np.setdiff1d(np.arange(100), np.concatenate(iid(labels, 30, np.random.default_rng(0))))
    assert len(left) == 10
    assert len(set(labels[left])) >= 4, "and not all that there is of the last"


@quick
@given(st.integers(0, 99), st.sampled_from([0.05, 0.2, 0.8, 100.0]))
def test_dirichlet_gives_equal_sizes_and_the_proportions_that_were_drawn(seed, beta):
    labels = _labels(seed, 600, 5)
    shares = dirichlet(labels, 6, np.random.default_rng(seed), beta=beta)
    assert [len(share) for share in shares] == [100] * 6
    proportions = _drawn_proportions(labels, 6, seed, beta)
    for share, drawn in zip(shares, proportions, strict=True):
        assert np.abs(np.bincount(labels[share], minlength=5) - 100 * drawn).max() < 1


def _drawn_proportions(labels: np.ndarray, clients: int, seed: int, beta: float) -> list[np.ndarray]:
    """The same draws, watched from outside: what the generator gives to `dirichlet`."""
    drawn = []

    class Watched(np.random.Generator):
        def dirichlet(self, alpha, size=None):
            assert np.array_equal(alpha, np.full(5, beta))
            drawn.append(super().dirichlet(alpha, size))
            return drawn[-1]

    dirichlet(labels, clients, Watched(np.random.PCG64(seed)), beta=beta)
    return drawn


def test_dirichlet_repeats_an_image_only_when_all_of_its_class_are_dealt():
    labels = _labels(0, 400, 4)
    dealt = np.concatenate(dirichlet(labels, 8, np.random.default_rng(1), beta=0.1))
    times = np.bincount(dealt, minlength=len(labels))
    assert times.max() > 1, "with so small a beta some class is asked for more often than it is there"
    for c in range(4):
        assert times[labels == c].max() - times[labels == c].min() <= 1


def test_a_small_beta_concentrates_and_a_large_one_evens_out():
    labels = _labels(0, 2000, 10)

    def entropy(beta: float) -> float:
        shares = dirichlet(labels, 20, np.random.default_rng(0), beta=beta)
        p = np.stack([np.bincount(labels[share], minlength=10) / len(share) for share in shares])
        return float(-(p * np.log(np.where(p > 0, p, 1))).sum(axis=1).mean())

    assert entropy(0.05) < entropy(0.5) < entropy(5) < entropy(500)
    assert entropy(500) > 0.99 * np.log(10)


@quick
@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=6), st.integers(0, 50))
def test_largest_remainder_is_the_closest_whole_split(weights, total):
    shares = np.array(weights) / sum(weights)
    counts = largest_remainder(shares, total)
    assert counts.sum() == total
    assert np.abs(counts - shares * total).max() < 1
    left, up = counts < shares * total - 1e-9, counts > shares * total + 1e-9
    if left.any() and up.any():  # whoever was rounded up had the larger remainder
        remainders = shares * total - np.floor(shares * total + 1e-12)
        assert remainders[up].min() >= remainders[left].max() - 1e-6


# ---- partitions


def check_nothing_is_lost_and_nothing_leaks(split: Partition) -> None:
    starts = np.cumsum([0] + [len(source.labels) for source in split.sources])
    for number, (train, test) in enumerate(zip(split.train, split.test, strict=True)):
        whole = np.arange(starts[number], starts[number + 1])
        assert np.array_equal(np.sort(torch.cat([train, test]).numpy()), whole)
    tests = set(torch.cat(split.test).tolist())
    for style, indices in zip(split.client_styles, split.clients, strict=True):
        assert not tests & set(indices.tolist())
        assert set(indices.tolist()) <= set(split.train[style].tolist())


def check_every_style_has_the_mean_size(split: Partition) -> None:
    mean = round(np.mean([len(train) for train in split.train]))
    per_style = len(split.clients) // len(split.styles)
    assert [len(indices) for indices in split.clients] == [mean // per_style] * len(split.clients)


def check_no_image_has_two_owners(split: Partition) -> None:
    """For styles that have enough images not to be repeated."""
    for style, train in enumerate(split.train):
        dealt = torch.cat([c for c, s in zip(split.clients, split.client_styles, strict=True) if s == style])
        if len(dealt) <= len(train):
            assert len(dealt.unique()) == len(dealt)


def check_the_seed_decides(make) -> None:
    same, again, other = make(1), make(1), make(2)
    assert all(torch.equal(a, b) for a, b in zip(same.clients, again.clients, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(same.clients, other.clients, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(same.test, other.test, strict=True))


@pytest.mark.parametrize("clients", [1, 5, 10])
@pytest.mark.parametrize("deal", [{"name": "iid"}, {"name": "dirichlet", "beta": 0.2}])
def test_partitions(clients, deal):
    split = partition(uneven(clients_per_style=clients, deal=deal), "", seed=4)
    check_nothing_is_lost_and_nothing_leaks(split)
    check_every_style_has_the_mean_size(split)
    if deal["name"] == "iid":
        check_no_image_has_two_owners(split)
    assert split.client_styles == tuple(np.repeat(range(3), clients).tolist())
    counted = [[int((split.labels[c] == k).sum()) for k in range(10)] for c in split.clients]
    assert split.class_counts().tolist() == counted


def test_the_seed_decides_the_split():
    check_the_seed_decides(lambda seed: partition(uneven(), "", seed))


def test_a_style_of_fewer_images_repeats_each_as_often_as_the_others():
    split = partition(uneven(clients_per_style=1), "", seed=0)
    for train, indices in zip(split.train, split.clients, strict=True):
        times = torch.bincount(indices, minlength=int(train.max()) + 1)[train]
        assert times.max() - times.min() <= 1


def test_without_resampling_a_style_keeps_its_size():
    split = partition(uneven(clients_per_style=1, resample="none"), "", seed=0)
    assert [len(c) for c in split.clients] == [len(t) for t in split.train]


def test_a_style_is_dealt_the_same_whoever_else_is_there():
    alone = partition(uneven(styles={"svhn": UNEVEN["svhn"]}, resample="none"), "", seed=3)
    together = partition(uneven(resample="none"), "", seed=3)
    offset = len(together.sources[0].labels)
    mine = [c for c, s in zip(together.clients, together.client_styles, strict=True) if s == 1]
    assert all(torch.equal(a + offset, b) for a, b in zip(alone.clients, mine, strict=True))


def test_an_official_split_is_kept_and_another_is_stratified(tmp_path):
    labels = np.arange(100) % 10
    images = np.zeros((100, 8, 8), np.uint8)
    np.savez(
        tmp_path / "mine.npz",
        train_images=images,
        train_labels=labels,
        test_images=images[:20],
        test_labels=labels[:20],
    )
    split = partition(uneven(styles={"mine": "mine"}), str(tmp_path), seed=0)
    assert split.train[0].tolist() == list(range(100))
    assert split.test[0].tolist() == list(range(100, 120))
    split = partition(uneven(train_fraction=0.7), "", seed=0)
    for source, train in zip(split.sources, split.train, strict=True):
        share = np.bincount(split.labels[train]) / np.bincount(source.labels)
        assert np.abs(share - 0.7).max() < 0.02


@quick
@given(st.integers(0, 99), st.floats(0.05, 0.95))
def test_stratified_takes_the_fraction_of_each_class(seed, fraction):
    labels = _labels(seed, 150, 4)
    mask = stratified(labels, fraction, np.random.default_rng(seed))
    for c in range(4):
        assert abs(mask[labels == c].sum() - fraction * (labels == c).sum()) <= 0.5


@quick
@given(st.integers(1, 40), st.integers(1, 130))
def test_resampled_takes_each_equally_often(n, size):
    times = np.bincount(resampled(np.arange(n), size, np.random.default_rng(0)), minlength=n)
    assert times.sum() == size
    assert times.max() - times.min() <= 1


# ---- pixels


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", [(5, 16, 16), (5, 16, 16, 3)])
def test_images_of_the_right_size_stay_what_they_are(shape, channels):
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    x = fitted(images, 16, channels).numpy()
    assert x.shape == (5, channels, 16, 16)
    if len(shape) == 3:
        assert all(np.array_equal(x[:, c], images) for c in range(channels))
    elif channels == 3:
        assert np.array_equal(x, images.transpose(0, 3, 1, 2))
    else:
        assert np.abs(x[:, 0] - images.mean(axis=3)).max() <= 0.5


@pytest.mark.parametrize("size", [8, 16, 48])
def test_other_sizes_are_what_pillow_makes_of_them(size):
    image = np.array(Image.effect_noise((24, 24), 80))
    ours = fitted(image[None], size, 1)[0, 0].numpy().astype(int)
    theirs = np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(ours - theirs).max() <= 1


# ---- what is wrong


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clients_per_style": 400}, "clients_per_style: 400 clients cannot share"),
        ({"styles": {"a": "digits-plain", "b": "few"}}, "data.styles.b.*3 classes.*'digits-plain' has 10"),
        ({"deal": {"name": "dirichlet", "beta": -1}}, r"data\.deal\.beta"),
        ({"deal": {"name": "shard"}}, "data.deal.name: unknown name 'shard'; did you mean 'shards'"),
        ({"deal": {"beta": 1}}, "data.deal.name"),
    ],
)
def test_what_cannot_be_dealt(changes, words, tmp_path):
    np.savez(tmp_path / "few.npz", images=np.zeros((9, 8, 8), np.uint8), labels=np.arange(9) % 3)
    with pytest.raises(InputError, match=words):
        partition(uneven(**changes), str(tmp_path), seed=0)


# ---- broken on purpose

BUGS = {
    "test images in training": (
        "_pool",
        "np.flatnonzero(mask)",
        "np.arange(len(mask))",
        check_nothing_is_lost_and_nothing_leaks,
    ),
    "styles of their own size": ("own", 'settings.resample == "mean"', "False", check_every_style_has_the_mean_size),
    "the same images for all": (
        "own",
        "_deal(settings, sources[number].labels[pool], rng)",
        "[_deal(settings, sources[number].labels[pool], rng)[0]] * settings.clients_per_style",
        check_no_image_has_two_owners,
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_partition_is_caught(bug):
    name, right, wrong, check = BUGS[bug]
    check(partition(uneven(), "", seed=0))
    where = "partitions.partitioning" if name == "own" else None
    with mutated("partitions.pools", name, right, wrong, where=where), pytest.raises(AssertionError):
        check(partition(uneven(), "", seed=0))


def test_a_seed_that_is_ignored_is_caught():
    with (
        mutated("partitions.pools", "_generators", "random_key(seed,", "random_key(0,"),
        pytest.raises(AssertionError),
    ):
        check_the_seed_decides(lambda seed: partition(uneven(), "", seed))


# ---- shards, classes, and what the server has


def check_shards(deal) -> None:
    """Disjoint and complete; every client has as many classes as shards; shards of a class are of one size."""
    labels = np.random.default_rng(0).integers(0, 10, 2000)
    for each in (1, 2, 3):
        for seed in range(20):
            shares = deal(labels, 10, np.random.default_rng(seed), each=each)
            assert sorted(np.concatenate(shares).tolist()) == list(range(2000))
            assert [len(np.unique(labels[share])) for share in shares] == [each] * 10
            counts = np.stack([np.bincount(labels[share], minlength=10) for share in shares])
            for c in range(10):
                sizes = counts[:, c][counts[:, c] > 0]
                assert len(sizes) == each
                assert np.ptp(sizes) <= 1


def test_shards():
    check_shards(shards)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("shards", "per_class)", "per_class + 1)"),
        ("_owners", "-left", "rng.random(clients)"),
        ("_owners", "left[order] -= 1", "pass"),
    ],
)
def test_wrong_shards_are_caught(name, right, wrong):
    with mutated("partitions.deal", name, right, wrong) as mutant, pytest.raises((AssertionError, ValueError)):
        check_shards(mutant if name == "shards" else shards)


def test_shards_of_one_class_may_meet_if_allowed():
    labels = np.repeat(np.arange(10), 30)
    classes = [
        len(np.unique(labels[share]))
        for seed in range(20)
        for share in shards(labels, 10, np.random.default_rng(seed), each=3, repeat=True)
    ]
    assert min(classes) < 3 == max(classes)


def test_by_class():
    labels = np.random.default_rng(0).integers(0, 10, 500)
    dealt = by_class(labels, 3, np.random.default_rng(0), of=[[0, 1], [2, 3, 4], [5, 6, 7, 8, 9]])
    assert [sorted(np.unique(labels[part]).tolist()) for part in dealt] == [[0, 1], [2, 3, 4], [5, 6, 7, 8, 9]]
    assert sorted(np.concatenate(dealt).tolist()) == list(range(500))


@pytest.mark.parametrize("pool", ["own", "together"])
def test_the_server_has_a_share_of_each_class_that_no_client_has(pool):
    styles = {"a": "digits-plain", "b": "digits-plain"} if pool == "together" else UNEVEN
    without, held = (partition(uneven(styles=styles, pool=pool, server_share=s), "", 2) for s in (0.0, 0.1))
    assert not len(without.server)
    everyone = torch.cat([*held.clients, *held.train, *held.test])
    assert not set(held.server.tolist()) & set(everyone.tolist())
    assert all(torch.equal(a, b) for a, b in zip(without.test, held.test, strict=True))
    training = torch.cat(without.train).unique() if pool == "own" else torch.cat([*held.train, held.server]).unique()
    whole, mine = (torch.bincount(held.labels[i], minlength=10) for i in (training, held.server))
    assert float((mine / whole - 0.1).abs().max()) < 0.02
    if pool == "own":
        assert set(held.server.tolist()) <= set(training.tolist())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"deal": {"name": "shards", "each": 0}}, "data.deal.each: "),
        ({"deal": {"name": "shards", "each": 3}, "clients_per_style": 7}, "is no multiple of 10 classes"),
        ({"deal": {"name": "shards", "each": 20}, "clients_per_style": 2}, "cannot be had"),
        ({"deal": {"name": "shards", "each": 40}, "clients_per_style": 200}, "data.deal.each: "),
        ({"deal": {"name": "by-class", "of": [[0], [0]]}, "clients_per_style": 2}, "must name different classes"),
        ({"deal": {"name": "by-class", "of": [[0]]}, "clients_per_style": 2}, "for each of 2 clients"),
        ({"deal": {"name": "by-class", "of": [[0], [11]]}, "clients_per_style": 2}, "there is no image of [11]"),
        ({"server_share": 0.0001}, "data.server_share: 0.0001"),
    ],
)
def test_deals_that_cannot_be_had(changes, says):
    with refused(says):
        partition(uneven(**changes), "", 0)


def test_no_style_is_tested_on_what_another_of_its_source_trains_on():
    """That of a source without an official split, whether styles are paired or deal it out each in its own way."""
    styles = {"a": "digits-plain", "b": "digits-plain", "c": "digits-bold"}
    for seen in ({"marks": {"b": "ellipse"}}, {"rotations": {"b": 30.0}}):
        dealt = partition(uneven(styles=styles, server_share=0.1, **seen), "", 0)
        images = len(dealt.sources[0].labels)
        first, second = ({*(dealt.test[style] - style * images).tolist()} for style in (0, 1))
        assert first == second
        trained = [{*(dealt.train[style] - style * images).tolist()} for style in (0, 1)]
        assert not first & (trained[0] | trained[1])
        held = {*(dealt.server[dealt.server < 2 * images] % images).tolist()}
        assert held
        assert not held & (first | trained[0] | trained[1])


def test_sources_of_unlike_sizes_with_views_are_stored_as_the_largest():
    digits = load("digits-plain[0::9]", 8, "")
    sized = {side: dataclasses.replace(digits, images=digits.images[:, :side, :side]) for side in (12, 16)}
    with patch("partitions.pools.load", lambda expression, *_: sized[int(expression)]):
        dealt = partition(uneven(styles={"a": "12", "b": "16"}, views={"b": {"name": "color-inversion"}}), "", 0)
    assert dealt.images.shape[1:] == (3, 16, 16)
    assert torch.equal(dealt.images[len(digits.labels) :, 0], torch.from_numpy(digits.images))


@pytest.mark.parametrize("pool", ["own", "together"])
def test_the_server_sees_its_images_as_they_are_at_the_size_of_the_network(pool):
    """They are no client's, so that no client's view is theirs."""
    styles, inverted = dict.fromkeys("ab", "digits-plain"), {"name": "color-inversion"}
    kept, viewed = (
        partition(uneven(styles=styles, pool=pool, server_share=0.1, views=views), "", 0)
        for views in ({}, {"a": inverted, "b": inverted})
    )
    assert torch.equal(kept.server, viewed.server)
    assert viewed.images.shape[-1] == 16
    images, seen = (client_data(dealt, "").seen_by_server(dealt.server) for dealt in (kept, viewed))
    assert images.shape[-1] == seen.shape[-1] == 8
    assert float((images - seen).abs().max()) < 1 / 255  # the former are kept as bytes


@pytest.mark.parametrize("share", [-0.1, 1.0, 2])
def test_a_share_is_below_one(share):
    with pytest.raises(ValueError, match="server_share"):
        uneven(server_share=share)
