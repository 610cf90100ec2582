"""PS-FedGAN: twins that stay identical, what is published, what breaks them."""

from functools import partial

import pytest
import torch

from common.spec import OptimiserSettings
from federation import ClientData, Simulation
from federation.channel import Message
from methods.psfedgan import PSFedGAN
from networks import Conv3
from networks.cgan import Discriminator, Generator
from objectives import OBJECTIVES
from tests.digits import data, training
from tests.mutation import mutated

ADAM = OptimiserSettings(name="adam", lr=2e-4, betas=(0.5, 0.999))
IMAGES = {"channels": 3, "image_size": 8}


def _algorithm(kind=PSFedGAN, **settings):
    network = partial(Conv3, **IMAGES, width=4)
    objective = OBJECTIVES["classification"](encoder=network, classes=10, **IMAGES)
    return kind(objective=objective, **{"latent": 6, "width": 8, "synthetic": 20, "classifier_epochs": 1, **settings})


def _data() -> ClientData:
    everyone = data()
    own = torch.cat([indices[:5] for indices in everyone.clients])
    return ClientData(everyone.images, everyone.labels, tuple(i[5:] for i in everyone.clients), server=own)


def _simulation(algorithm=None, rounds: int = 2, **settings) -> Simulation:
    given = {"optimiser": ADAM, "optimiser_state": "persistent", "local_epochs": 0.5}
    options = {key: settings.pop(key) for key in ("workers", "listeners") if key in settings}
    return Simulation(algorithm or _algorithm(), _data(), training(rounds=rounds, **given, **settings), 7, **options)


def check_twins(kind=PSFedGAN, **settings) -> None:
    """User and server generators are the same bits after every round, and have moved."""
    simulation = _simulation(_algorithm(kind, **settings))
    start = [[p.clone() for p in m.generator.parameters()] for m in simulation.population.members]

    def look(simulation: Simulation) -> None:
        for member, twin in zip(simulation.population.members, simulation.cloud.twins, strict=True):
            pairs = zip(member.generator.parameters(), twin.generator.parameters(), strict=True)
            assert all(torch.equal(a, b) for a, b in pairs)

    simulation.run(look)
    for member, before in zip(simulation.population.members, start, strict=True):
        assert any((p != b).any() for p, b in zip(member.generator.parameters(), before, strict=True))


@pytest.mark.parametrize("share", ["discriminator", "all", "once"])
def test_twins_are_identical(share):
    check_twins(share=share)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("PSFedGAN", '{"z": batch["z"][1]', '{"z": batch["z"][0]'),
        ("PSFedGAN", '"labels": batch["labels"][1]}', '"labels": batch["labels"][0]}'),
        ("PSFedGAN", "random_key(secret, number)", "torch.seed() % 2**32"),
        ("PSFedGAN", "m.taken += 1", "pass"),
        ("PSFedGAN", 'parts = tensors_of(m, "discriminator")', "parts = {}"),
    ],
)
def test_what_breaks_them_is_caught(name, right, wrong):
    with mutated("methods.psfedgan", name, right, wrong) as mutant, pytest.raises(AssertionError):
        check_twins(mutant)


def test_every_user_has_a_secret_and_a_generator_of_its_own():
    simulation = _simulation()
    members = simulation.population.members
    assert len({int(m.secret) for m in members}) == len(members)
    first = [next(m.generator.parameters()) for m in members]
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("share", ["discriminator", "all", "once"])
def test_what_crosses(share):
    heard: list[Message] = []
    simulation = _simulation(_algorithm(share=share), rounds=1, listeners=[heard.append])
    simulation.run()
    steps = len(heard) if share == "discriminator" else len(heard) - 3 if share == "all" else 0
    assert len(heard) == {"discriminator": steps, "all": steps + 3, "once": 3}[share]
    names = {name.split(".")[1] for message in heard for name in message.tensors}
    assert (
        names
        == {
            "discriminator": {"discriminator", "z", "labels"},
            "all": {"discriminator", "generator"},
            "once": {"generator"},
        }[share]
    )
    assert not any(name.split(".")[-1] in ("secret", "taken") for message in heard for name in message.tensors)
    assert all(message.direction == "up" for message in heard)


def test_published_labels_are_those_that_the_user_has():
    heard: list[Message] = []
    everyone = _data()
    few = tuple(i[everyone.labels[i] < 3] for i in everyone.clients)
    given = {"optimiser": ADAM, "optimiser_state": "persistent", "batch_size": 8}
    few_labels = ClientData(everyone.images, everyone.labels, few, server=everyone.server)
    simulation = Simulation(_algorithm(), few_labels, training(rounds=1, **given), 7, listeners=[heard.append])
    simulation.run()
    assert {int(x) for message in heard for x in message.tensors["published.labels"].flatten()} == {0, 1, 2}


def test_threads_and_a_stop_change_nothing():
    whole, threaded, stopped, resumed = (_simulation(workers=w) for w in (1, 3, 1, 1))

    def stop(simulation: Simulation) -> None:
        if simulation.round == 1:
            raise InterruptedError

    whole.run()
    threaded.run()
    with pytest.raises(InterruptedError):
        stopped.run(stop)
    resumed.load(stopped.state())
    resumed.run()
    for other in (threaded, resumed):
        for name, rows in whole.population.storage.items():
            assert torch.equal(rows, other.population.storage[name]), name
        ours, theirs = (s.cloud.classifier.state_dict() for s in (whole, other))
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        assert other.channel.traffic == whole.channel.traffic


def test_parameter_counts_fit_table_4():
    count = [sum(p.numel() for p in kind(1, 28, 10).parameters()) for kind in (Generator, Discriminator)]
    assert count == [1_489_012, 1_470_565]
    assert round(sum(count) / 1e6) == 3
    assert round(count[1] / 1e6, 1) == 1.5
