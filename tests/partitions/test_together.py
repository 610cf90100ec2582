"""One source dealt over the clients of several styles; clients that keep some classes; workers that take turns."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import torch

from baselines.fedavg import FedAvg
from common.errors import InputError
from common.spec import DataSettings
from federation import ClientData
from federation.server import Server
from partitions import partition
from partitions.celeba import ATTRIBUTES
from partitions.simpson import simpson
from tests.digits import objective, simulate

VIEWS = ("plain", "rotation", "zoom-in", "color-inversion")


def _settings(**changes) -> DataSettings:
    given = {
        "dataset": "mnist",
        "pool": "together",
        "styles": dict.fromkeys(VIEWS, "digits-plain"),
        "views": {name: {"name": name} for name in VIEWS},
        "image_size": 8,
    }
    return DataSettings(**{**given, **changes})


def test_no_image_has_two_owners_and_the_test_images_are_everybodys():
    dealt = partition(_settings(clients_per_style=2), "", 0)
    owned = torch.cat(dealt.clients)
    assert len(dealt.clients) == 8
    assert len(owned) == len(owned.unique())
    assert len({len(c) for c in dealt.clients}) == 1
    assert all(torch.equal(test, dealt.test[0]) for test in dealt.test)
    assert not set(owned.tolist()) & set(dealt.test[0].tolist())
    assert dealt.client_styles == (0, 0, 1, 1, 2, 2, 3, 3)
    for style in range(4):
        of_style = torch.cat([c for c, s in zip(dealt.clients, dealt.client_styles, strict=True) if s == style])
        assert set(of_style.tolist()) == set(dealt.train[style].tolist())


def test_images_are_stored_once_and_as_they_are():
    """Views crop and pad, so they get the source's own pixels; networks get the size that was asked for."""
    dealt = partition(_settings(), "", 0)
    assert dealt.images.shape == (1797, 3, 16, 16)
    assert dealt.views[2](dealt.images[:2].float() / 255, torch.Generator()).shape == (2, 3, 8, 8)


def test_an_image_that_any_client_may_have_shows_no_style():
    assert partition(_settings(), "", 0).image_styles is None
    styles = dict.fromkeys(VIEWS, "digits-plain")
    own = partition(DataSettings(dataset="mnist", styles=styles, image_size=8), "", 0)
    for number in range(len(VIEWS)):
        assert (own.image_styles[torch.cat([own.train[number], own.test[number]])] == number).all()


def test_a_client_keeps_its_share_of_the_classes_and_all_their_images():
    whole, half = (partition(_settings(classes_per_client=share), "", 3) for share in (1.0, 0.5))
    kept = []
    for every, some in zip(whole.clients, half.clients, strict=True):
        classes = set(half.labels[some].tolist())
        assert len(classes) == 5
        assert set(some.tolist()) == {n for n in every.tolist() if int(whole.labels[n]) in classes}
        kept.append(classes)
    assert len({tuple(sorted(classes)) for classes in kept}) > 1, "each client draws its own"


def test_a_wrong_pool_is_refused():
    with pytest.raises(InputError, match="all styles show one source"):
        partition(_settings(styles={"a": "digits-plain", "b": "digits-bold"}, views={}), "", 0)
    with pytest.raises(InputError, match=r"data\.views: unknown name 'c'"):
        partition(_settings(styles={"a": "digits-plain"}, views={"c": {"name": "plain"}}), "", 0)


def _faces(folder, n: int = 60) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        folder / "celeba.npz",
        images=rng.integers(0, 256, (n, 12, 8, 3), dtype=np.uint8),
        identities=np.arange(n) % 7,
        attributes=rng.random((n, 40)) < 0.4,
    )


def _workers(**changes) -> DataSettings:
    lists = {"worker-1": ["Bald", "Male"], "worker-2": ["Young", "Smiling"]}
    given = {"styles": dict.fromkeys(lists, "celeba"), "attributes": lists, "views": {}, "dataset": "celeba"}
    return _settings(**{**given, **changes})


def test_a_worker_holds_the_images_with_its_attributes_in_turn(tmp_path):
    _faces(tmp_path)
    dealt = partition(_workers(), str(tmp_path), 0)
    attributes = dealt.sources[0].extra["attributes"]
    training = set(dealt.train[0].tolist()) | set(dealt.train[1].tolist())
    for worker, names in enumerate((("Bald", "Male"), ("Young", "Smiling"))):
        for turn, name in zip(dealt.turns[worker], names, strict=True):
            assert attributes[turn.numpy(), ATTRIBUTES.index(name)].all()
            assert not set(turn.tolist()) & set(dealt.test[0].tolist())
        assert set(dealt.clients[worker].tolist()) == set(torch.cat(dealt.turns[worker]).tolist())
    assert set(dealt.clients[0].tolist()) & set(dealt.clients[1].tolist()), "attributes are no partition"
    assert training


def test_faces_are_tested_on_those_with_the_same_attribute(tmp_path):
    """FedDVA's hairstyles: a client for each, at most so many training images."""
    _faces(tmp_path)
    lists = {"bald": ["Bald"], "hat": ["Wearing_Hat"]}
    settings = {"styles": dict.fromkeys(lists, "celeba"), "attributes": lists, "test_images": "dealt"}
    dealt, few = (partition(_workers(**settings, at_most=count), str(tmp_path), 0) for count in (None, 3))
    source = dealt.sources[0]
    tests = set(range(len(source.labels))) - set(torch.cat(dealt.train).tolist())
    for (name,), train, test in zip(lists.values(), dealt.clients, dealt.tests, strict=True):
        with_it = set(np.flatnonzero(source.extra["attributes"][:, ATTRIBUTES.index(name)]).tolist())
        assert set(test.tolist()) <= with_it & tests
        assert set(train.tolist()) | set(test.tolist()) == with_it
    assert [len(c) for c in few.clients] == [len(parts[0]) for parts in few.turns] == [3, 3]
    assert all(set(c.tolist()) < set(d.tolist()) for c, d in zip(few.clients, dealt.clients, strict=True))
    with pytest.raises(InputError, match=r"data.at_most: clients that work on their images in turns"):
        partition(_workers(at_most=3), str(tmp_path), 0)


def test_attributes_that_cannot_be_had_are_refused(tmp_path):
    _faces(tmp_path)
    lists = {"worker-1": ["Bold", "Male"], "worker-2": ["Young"]}
    with pytest.raises(InputError, match="unknown name 'Bold'; did you mean 'Bald'"):
        partition(_workers(attributes=lists), str(tmp_path), 0)
    with pytest.raises(InputError, match="has no array 'attributes'"):
        partition(_workers(styles=dict.fromkeys(("worker-1", "worker-2"), "digits-plain")), str(tmp_path), 0)
    with pytest.raises(InputError, match="the list of 'worker-2' is empty"):
        partition(_workers(attributes={"worker-1": ["Bald"], "worker-2": []}), str(tmp_path), 0)
    with pytest.raises(InputError, match=r"data.classes_per_client: clients that hold images by attribute keep all"):
        partition(_workers(classes_per_client=0.5), str(tmp_path), 0)


@pytest.mark.parametrize("wrong", [lambda a: 2 * a.astype(int) - 1, lambda a: a[:, :5], lambda a: a[:, 0]])
def test_attributes_are_true_or_false_and_forty(wrong, tmp_path):
    """CelebA's own are 1 and -1, which would be taken for places."""
    _faces(tmp_path)
    arrays = dict(np.load(tmp_path / "celeba.npz"))
    np.savez(tmp_path / "celeba.npz", **arrays | {"attributes": wrong(arrays["attributes"])})
    with pytest.raises(InputError, match="has no array 'attributes' of true and false, 40 for each image"):
        partition(_workers(), str(tmp_path), 0)


def test_the_engine_takes_one_turn_in_each_round(monkeypatch):
    """Round by round a client trains on, and is weighed by, the part whose turn it is."""
    weighed = []
    aggregate = Server.aggregate
    monkeypatch.setattr(Server, "aggregate", lambda s, up, n, *a: (weighed.append(n), aggregate(s, up, n, *a)))
    images, labels = torch.rand(40, 3, 8, 8), torch.arange(40) % 10
    turns = ((torch.arange(0, 16), torch.arange(16, 20)), (torch.arange(20, 24), torch.arange(24, 40)))
    data = ClientData(images, labels, tuple(torch.cat(t) for t in turns), turns=turns)
    simulation = simulate(FedAvg(objective=objective("classification")), data, rounds=3, batch_size=4)
    steps = [row["steps"] for row in simulation.history if row["client"] == 0]
    assert steps == [4, 1, 4]
    assert weighed == [[16, 4], [4, 16], [16, 4]]
    assert simulation.done == simulation.total


class Remembering(FedAvg):
    """Has for each image its mean as a constant, and compares."""

    apart: ClassVar[list[float]] = []

    def constants(self, model, x, y):
        return {"mean": x.mean(dim=(1, 2, 3))}

    def updates(self):
        def compared(m, batch):
            self.apart.append(float((batch["x"].mean(dim=(1, 2, 3)) - batch["mean"]).abs().max()))
            return self.objective.updates()[0].loss(m, batch)

        return [dataclasses.replace(self.objective.updates()[0], loss=compared)]


def test_an_images_constants_are_its_own_whosever_turn_it_is():
    images, labels = torch.rand(40, 3, 8, 8), torch.arange(40) % 10
    turns = ((torch.arange(12, 20), torch.arange(0, 12)), (torch.arange(36, 40), torch.arange(20, 36)))
    data = ClientData(images, labels, tuple(torch.cat(t) for t in turns), turns=turns)
    simulate(Remembering(objective=objective("classification")), data, rounds=2, batch_size=4)
    assert len(Remembering.apart) == 2 + 3 + 1 + 4
    assert max(Remembering.apart) < 1e-6


# ---- Simpson's paradox


@pytest.mark.parametrize("reading", ["code", "paper"])
def test_the_trend_turns_round(reading):
    points = simpson(3, reading)
    assert points.shape == (8, 50, 2)
    assert points.mean(axis=(0, 1)) == pytest.approx([0, 0], abs=1e-9)
    assert points.std(axis=(0, 1)) == pytest.approx([1, 1])
    slopes = [np.polyfit(own[:, 0], own[:, 1], 1)[0] for own in points]
    assert np.polyfit(*points.reshape(-1, 2).T, 1)[0] < 0
    assert min(slopes) > 0


def test_the_authors_points_by_hand():
    """Client i has x from N(2 (M - i), 1), and y = x + L (i - 1) but for noise: in units of the spread of x within a
    client, means of x fall by two from client to client, means of y rise by L - 2, and y - x has the noise's spread."""
    points = simpson(3, "code", clients=5, points=20_000, spacing=3.0, clutter=0.5)
    within = points.std(axis=1)
    np.testing.assert_allclose(np.diff(points[..., 0].mean(axis=1)) / within[1:, 0], -2, atol=0.05)
    slope = np.polyfit(points[0, :, 0], points[0, :, 1], 1)[0]  # w = 1, after x and y were divided by their own spreads
    x, y = (points / within[:, None, :1] / (1, slope)).transpose(2, 0, 1)
    np.testing.assert_allclose(np.diff(y.mean(axis=1)), 3 - 2, atol=0.05)
    np.testing.assert_allclose((y - x).std(axis=1), 0.5, atol=0.02)


def test_the_papers_points_by_hand():
    """App. C.1: x uniform on [M - i, M - i + 1], one bias for each client, from [L (i - 1), L i], and w = 1."""
    biases = []
    for seed in range(40):
        x, y = simpson(seed, "paper", points=400).transpose(2, 0, 1)
        side = (x.max() - x.min()) / 8
        for i, own in enumerate(x, start=1):
            shares = np.histogram(own, bins=8, range=(x.min(), x.max()))[0] / 400
            assert shares[8 - i] > 0.95, "an interval for each client, from the right"
            assert own.std() == pytest.approx(side / 12**0.5, rel=0.15), "all of it alike"
        slopes, mean = np.polyfit(x[0], y[0], 1)[0], y.mean(axis=1)
        np.testing.assert_allclose(y - mean[:, None], slopes * (x - x.mean(axis=1, keepdims=True)), atol=1e-9)
        biases.append((y[:, 0] / slopes - x[:, 0]) / side)  # but for the same constant
    steps = np.diff(biases, axis=1)
    assert steps.mean() == pytest.approx(4, abs=0.1)
    assert steps.std() == pytest.approx(4 / 6**0.5, rel=0.1), "of the difference of two that are uniform"
    assert steps.min() > -0.1
    assert steps.max() < 8.1


def test_points_are_as_many_as_the_papers_and_the_codes_unless_others_are_asked_for():
    """M = 8, L = 4 and n_i = 50 (App. C.1), and the notebook's noise of 0.2."""
    given = {"clients": 8, "points": 50, "spacing": 4.0}
    assert np.array_equal(simpson(3), simpson(3, "code", clutter=0.2, **given))
    assert np.array_equal(simpson(3, "paper"), simpson(3, "paper", **given))
