"""Validation images: held out of training and in the place of test images, whatever the deal."""

import importlib

import numpy as np
import pytest
import torch

from partitions import Partition, partition
from partitions.celeba import ATTRIBUTES
from partitions.source import Source
from tests.digits import uneven
from tests.mutation import mutated
from tests.wrong import refused

ONE = dict.fromkeys(("a", "b", "c"), "digits-plain[::3]")
SHARE = 0.2


DEALS = {
    "iid": {},
    "repeated images": {"deal": {"name": "dirichlet", "beta": 0.1}},
    "one class each": {
        "styles": {"all": "digits-plain"},
        "clients_per_style": 10,
        "deal": {"name": "shards", "each": 1},
    },
    "the server's": {"server_share": 0.1},
    "together": {"styles": ONE, "pool": "together"},
    "the same pictures in several styles": {"styles": ONE, "clients_per_style": 1},
    "the same pictures, otherwise dealt": {"styles": ONE, "clients_per_style": 2},
    "rotated": {"styles": ONE, "clients_per_style": 1, "rotations": {"b": 30.0}, "per_class": 20},
    "rotated, and one unseen": {
        "styles": ONE,
        "clients_per_style": 1,
        "rotations": {"b": 30.0, "c": 75.0},
        "marks": {"c": "ellipse"},
        "unseen": ["c"],
    },
    "the same pictures, and a style unseen": {"styles": ONE, "clients_per_style": 2, "unseen": ["c"]},
    "some classes": {"classes_per_client": 0.3},
    "at most": {"at_most": 30, "clients_per_style": 2},
    "dealt tests": {"test_images": "dealt"},
    "dealt tests together": {"styles": ONE, "pool": "together", "test_images": "dealt"},
}


def _both(changes: dict) -> tuple[Partition, Partition]:
    return tuple(partition(uneven(**changes, validation_share=share), "", 3) for share in (0.0, SHARE))


def _picture(dealt: Partition, image: int) -> tuple[str, int]:
    """The source of a stored image, and which of its images it is."""
    if not dealt.own_sources:
        return dealt.sources[0].name, image
    starts = np.cumsum([0] + [len(source.labels) for source in dealt.sources])
    style = int(np.searchsorted(starts, image, side="right")) - 1
    return dealt.sources[style].name, image - int(starts[style])


def _pictures(dealt: Partition, *indices: torch.Tensor) -> set[tuple[str, int]]:
    return {_picture(dealt, image) for image in torch.cat(indices).tolist()}


def check_held_out(changes: dict) -> None:
    """Per client: training and validation images are disjoint, together what they were, and none was a test image."""
    without, held = _both(changes)
    trained_on = _pictures(held, *held.clients, *held.train, held.server)
    assert not trained_on & _pictures(held, *held.test, *held.tests)
    for before, left, scored in zip(without.clients, held.clients, held.tests, strict=True):
        out = set(before.tolist()) - set(left.tolist())
        assert out
        assert out <= set(scored.tolist())
        assert torch.equal(left, before[torch.isin(before, left)]), "in the same order and as often as before"
    assert not set(held.all_test.tolist()) & set(without.all_test.tolist())
    assert set(held.all_test.tolist()) <= set(torch.cat(without.clients).tolist())
    assert torch.equal(held.server, without.server)


@pytest.mark.parametrize("deal", DEALS)
def test_what_is_held_out_trains_nobody_and_was_no_test_image(deal):
    check_held_out(DEALS[deal])


def check_shares(changes: dict) -> None:
    """Of what a client had, its own share and nearly no more is held out, and of each class in proportion."""
    without, held = _both(changes | {"resample": "none"})  # so that no two clients have the same image
    for before, left in zip(without.clients, held.clients, strict=True):
        mine, kept = before.unique(), left.unique()
        assert len(mine) - len(kept) == round(SHARE * len(mine))
        had, has = (torch.bincount(held.labels[i], minlength=10) for i in (mine, kept))
        assert ((had - has) - SHARE * had).abs().max() < 1.0 + 1e-6
        assert set(held.labels[mine].tolist()) == set(held.labels[kept].tolist())


@pytest.mark.parametrize("deal", ["iid", "one class each", "the server's", "together", "dealt tests", "rotated"])
def test_each_client_holds_out_its_share_of_each_class(deal):
    check_shares(DEALS[deal])


def test_a_client_of_one_class_is_scored_on_all_classes_or_on_its_own():
    """As with test images: all of its style's, or those that are dealt to it."""
    settings = DEALS["one class each"]
    for changes, classes in ((settings, 10), (settings | {"test_images": "dealt"}, 1)):
        held = partition(uneven(**changes, validation_share=SHARE), "", 3)
        for mine, scored in zip(held.clients, held.tests, strict=True):
            assert len(held.labels[scored].unique()) == classes
            assert set(held.labels[mine].tolist()) <= set(held.labels[scored].tolist())


def test_rotated_domains_are_tested_on_the_same_pictures_in_the_same_order():
    held = partition(uneven(**DEALS["rotated"], validation_share=SHARE), "", 3)
    first, *others = [[_picture(held, image) for image in indices.tolist()] for indices in held.test]
    assert all(other == first for other in others)


def test_whoever_works_in_turns_holds_out_of_every_turn(monkeypatch):
    rng = np.random.default_rng(0)
    faces = Source(
        name="faces",
        images=rng.integers(0, 255, (300, 8, 8), dtype=np.uint8),
        labels=rng.integers(0, 2, 300),
        test=None,
        classes=2,
        extra={"attributes": rng.random((300, len(ATTRIBUTES))) < 0.4},
    )
    monkeypatch.setattr(importlib.import_module("partitions.pools"), "load", lambda *_: faces)
    names = {"a": list(ATTRIBUTES[:2]), "b": list(ATTRIBUTES[2:4])}
    workers = {"styles": dict.fromkeys(names, "faces"), "attributes": names, "pool": "together", "clients_per_style": 1}
    held = partition(uneven(**workers, test_images="dealt", validation_share=SHARE), "", 0)
    out = set(torch.cat(held.tests).tolist())
    for mine, turns in zip(held.clients, held.turns, strict=True):
        assert set(torch.cat(turns).tolist()) == set(mine.tolist())
        assert not out & set(mine.tolist())


def test_the_draw_is_the_seeds_alone():
    """The same for each method; another with another seed; and nothing else changes with the share."""
    settings = uneven(validation_share=SHARE)
    one, again, other = (partition(settings, "", seed) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.tests, again.tests, strict=True))
    assert any(len(a) != len(b) or not torch.equal(a, b) for a, b in zip(one.tests, other.tests, strict=True))
    smaller = partition(uneven(validation_share=0.1), "", 0)
    assert set(smaller.all_test.tolist()) < set(one.all_test.tolist())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"validation_share": 0.001}, "data.validation_share: a share of 0.001 of the 69 images of client 0 is none"),
        ({"validation_share": 0.2, "at_most": 2}, "data.validation_share: a share of 0.2 of the 2 images of client 0"),
        ({"validation_share": 0.99, "at_most": 2}, "data.validation_share: client 0 has no image left to train on"),
    ],
)
def test_what_cannot_be_held_out_is_one_sentence(changes, says):
    with refused(says):
        partition(uneven(**changes), "", 0)


def test_a_style_that_no_client_has_is_not_looked_at():
    with_it = partition(uneven(validation_share=0.2, unseen=["usps"]), "", 0)
    assert with_it.styles == ("mnist", "svhn")
    assert len(with_it.clients) == len(with_it.tests) == 10


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_is_below_one(share):
    with pytest.raises(ValueError, match="validation_share"):
        uneven(validation_share=share)


# ---- broken on purpose

BUGS = {
    "clients train on them": ("with_validation", "clients=tuple(left(indices)", "clients=tuple((indices)", "iid"),
    "encoders train on them": ("with_validation", "train=tuple(left(indices)", "train=tuple((indices)", "iid"),
    "scored on test images": ("with_validation", "test=tuple(tests)", "test=dealt.test", "iid"),
    "test images are dealt": ("with_validation", "dealt_tests=held", "dealt_tests=dealt.tests", "dealt tests"),
    "another client trains on them": (
        "with_validation",
        "return indices[~mask[indices]]",
        "return indices[~torch.isin(indices, held[0])]",
        "together",
    ),
    "another style trains on them": (
        "_pictures",
        "first[source.name] + np.arange(len(source.labels)) for source in sources",
        "start + np.arange(len(source.labels)) for source, start in zip(sources, starts, strict=False)",
        "the same pictures, otherwise dealt",
    ),
}


def test_an_intact_partition_passes():
    for *_, deal in BUGS.values():
        check_held_out(DEALS[deal])


@pytest.mark.parametrize("bug", BUGS)
def test_a_leak_is_caught(bug):
    name, right, wrong, deal = BUGS[bug]
    where = "partitions.partitioning" if name == "with_validation" else None
    with mutated("partitions.validation", name, right, wrong, where=where), pytest.raises(AssertionError):
        check_held_out(DEALS[deal])
