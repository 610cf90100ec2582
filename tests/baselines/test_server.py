"""What a server does with images of its own: alone, after FedAvg, and not at all."""

import copy
import dataclasses
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from baselines.centralized import Centralized
from baselines.fedavg import FedAvg
from baselines.fedavg_server import FedAvgServer, Finisher
from baselines.server_only import ServerOnly
from common.errors import InputError
from common.keys import random_key
from common.spec import OptimiserSettings
from common.work import images_of
from diptych.assembly import build_algorithm
from diptych.given import client_data
from diptych.study import load_study
from federation import ClientData, ServerWorkSettings, Simulation, train_on
from methods import ps_fedgan
from networks import SNResNet
from tests.digits import data, dealt, objective, prepared, same, simulate, training, with_a_stop
from tests.mutation import mutated

SGD = OptimiserSettings(lr=0.1)


def _objective():
    return objective("classification")


def test_server_only_trains_on_the_servers_images_and_nothing_else():
    split = dealt(2, server_share=0.1)
    data = client_data(split, "server")
    assert len(data.clients) == 1
    assert torch.equal(data.clients[0], split.server)
    by_hand = ClientData(split.images, split.labels, (split.server,))
    ours, theirs = (
        simulate(kind(objective=_objective()), d) for kind, d in ((ServerOnly, data), (Centralized, by_hand))
    )
    assert same(ours.population.storage, theirs.population.storage)


def test_a_server_without_images_is_refused():
    with pytest.raises(InputError, match=r"data\.server_share: the server has no image"):
        client_data(dealt(2), "server")
    with pytest.raises(InputError, match=r"data\.server_share: the server needs two images to train on, got 0"):
        simulate(FedAvgServer(objective=_objective()))
    alone = dataclasses.replace(data(), server=torch.tensor([3]))
    with pytest.raises(InputError, match=r"the server needs two images to train on, got 1"):
        prepared(FedAvgServer(objective=_objective()), alone)


def check_steps(train=train_on) -> None:
    """Two passes over five images in batches of two, by hand with torch's optimiser; the last is left out."""
    made = _objective()
    torch.manual_seed(0)
    model = made.model()
    reference = copy.deepcopy(model)
    x, y = torch.rand(5, 3, 8, 8), torch.tensor([0, 1, 2, 3, 4])
    train(made, model, x, y, ServerWorkSettings(0, SGD, 2), [], torch.Generator().manual_seed(4), 2)
    order = torch.Generator().manual_seed(4)
    optimiser = torch.optim.SGD(reference.parameters(), lr=0.1)
    for rows in [r for _ in range(2) for r in torch.randperm(5, generator=order).split(2) if len(r) == 2]:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(reference.head(reference.encoder(x[rows])), y[rows]).backward()
        optimiser.step()
    for a, b in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_training_on_the_server_by_hand():
    check_steps()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("range(epochs)", "range(1)"), ("len(rows) > 1", "True"), ("labels[rows], draw", "labels[rows] * 0, draw")],
)
def test_wrong_training_is_caught(right, wrong):
    with (
        mutated("federation.server_work", "train_on", right, wrong) as mutant,
        pytest.raises((AssertionError, ValueError)),
    ):
        check_steps(mutant)


def test_the_servers_batches_are_counted_over_rounds():
    """Two in each round, and the generator's step after the third of them."""
    made = FedAvgServer(objective=objective("gan"))
    images, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 2, 3])
    server = made.server_work([], images, labels, ServerWorkSettings(0, SGD, 2))
    moved = []
    for round in (1, 2, 3):
        before = {name: t.clone() for name, t in server.model.state_dict().items()}
        if round == 3:  # another one goes on from here
            kept, server = server.state(), made.server_work([], images, labels, ServerWorkSettings(0, SGD, 2))
            server.load(kept)
        shared = {name: t.clone() for name, t in before.items()}
        server.finish(round, shared)
        moved.append(not torch.equal(shared["generator.start.weight"], before["generator.start.weight"]))
    assert moved == [False, True, True]


def _data() -> ClientData:
    return client_data(dealt(2, server_share=0.1), "")


def check_finish(kind=Finisher) -> None:
    """After one round: FedAvg's mean, trained on the server's images; clients go on from there."""
    made, data = FedAvgServer(objective=_objective(), server_epochs=2), _data()
    plain, ours = simulate(FedAvg(objective=_objective()), data, rounds=1), simulate(made, data, rounds=1)
    images = data.images[data.server].float() / 255
    work = ours.server_work.work
    finisher, shared = kind(made, images, data.labels[data.server], work), dict(plain.server.tensors)
    finisher.finish(1, shared)
    assert same(shared, ours.server.tensors)
    assert not same(plain.server.tensors, ours.server.tensors)
    by_hand = made.model()
    by_hand.load_state_dict(plain.server.tensors, strict=False)
    draw = torch.Generator().manual_seed(random_key(work.seed, "server", 1))
    train_on(made.objective, by_hand, images, data.labels[data.server], work, [], draw, 2)
    assert same(shared, {name: t for name, t in by_hand.state_dict().items() if name in shared})


def test_the_mean_is_trained_once_more():
    check_finish()


def test_the_servers_rate_decays_round_by_round():
    made, data = FedAvgServer(objective=_objective()), _data()
    decaying, smaller = (
        prepared(made, data, rounds=1, optimiser=OptimiserSettings(lr=lr), lr_decay=decay)
        for lr, decay in ((0.1, 0.5), (0.025, 1.0))
    )
    ends = []
    for round, simulation in ((3, decaying), (3, smaller)):
        shared = {name: tensor.clone() for name, tensor in simulation.server.tensors.items()}
        simulation.server_work.finish(round, shared)
        ends.append(shared)
    assert same(*ends)
    assert not same(ends[0], decaying.server.tensors)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("self.model.load_state_dict(shared, strict=False)", "pass"),
        ("shared.update({", "dict({"),
        ('"server", round', '"server", 0'),
    ],
)
def test_a_server_that_finishes_wrongly_is_caught(right, wrong):
    with mutated("baselines.fedavg_server", "Finisher", right, wrong) as mutant, pytest.raises(AssertionError):
        check_finish(mutant)


def test_the_servers_images_have_their_styles():
    """A game between domains, which the server plays with its own images."""
    made, data = FedAvgServer(objective=objective("stargan")), _data()
    ours = simulate(made, data, rounds=1)
    assert torch.equal(ours.server_work.work.styles, data.styles[data.server])
    asked = []
    object.__setattr__(made.objective, "one_hot", lambda domains: asked.append(domains) or torch.eye(3)[domains])
    images, draw = data.images[data.server].float() / 255, torch.Generator().manual_seed(0)
    work = ServerWorkSettings(0, SGD, len(images), data.styles[data.server])
    train_on(made.objective, made.model(), images, data.labels[data.server], work, [], draw, 1, work.styles)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    assert torch.equal(asked[0], work.styles[order])


def test_what_the_server_sends_next_is_what_it_has_trained():
    made, data = FedAvgServer(objective=_objective()), _data()
    sent: list[dict[str, torch.Tensor]] = []
    simulation = Simulation(
        made,
        data,
        training(rounds=2),
        7,
        listeners=[lambda m: sent.append(m.tensors) if m.direction == "down" else None],
    )
    after: list[dict[str, torch.Tensor]] = []
    simulation.run(lambda s: after.append({name: t.clone() for name, t in s.server.tensors.items()}))
    assert same(sent[1], after[1]), "after the prologue, round 1, round 2"


def _normalised(**training) -> Simulation:
    """Discriminators, which divide their kernels by a singular value: u, which leads to it, is a buffer."""
    made = FedAvgServer(objective=objective("classification", partial(SNResNet, width=4)))
    torch.seed()
    return prepared(made, _data(), **training)


def test_what_the_server_has_of_its_own_follows_from_the_seed_and_outlasts_a_stop(tmp_path):
    whole, resumed = with_a_stop(partial(_normalised, buffers="local"), tmp_path)
    assert any(name.endswith(".u") for name in whole.server_work.model.state_dict().keys() - whole.server.tensors)
    assert same(resumed.server.tensors, whole.server.tensors)
    assert same(resumed.server_work.model.state_dict(), whole.server_work.model.state_dict())


def test_where_all_is_shared_it_does_not_matter_what_the_server_began_with():
    whole, other = _normalised(), _normalised()
    with torch.no_grad():
        for tensor in other.server_work.model.state_dict().values():
            tensor.zero_()
    for simulation in (whole, other):
        simulation.run()
    assert same(whole.server.tensors, other.server.tensors)


SCALES = ["tiny", "digits", "reduced", "reference-psfedgan", "paper"]


def _classifier_steps(spec, monkeypatch) -> int:
    """The steps on PS-FedGAN's classifier in a run: its cloud goes through its passes, with images and losses left
    out."""
    taken = []

    def counted(objective, *rest, round):
        taken.append(train_on(SimpleNamespace(updates=list, draw=lambda *_: {}), *rest, round=round))

    monkeypatch.setattr(ps_fedgan, "train_on", counted)
    monkeypatch.setattr(ps_fedgan, "images_of", lambda generator, z, labels: torch.zeros(len(labels), 1, 1, 1))
    own = round(spec.data.server_share / (1 - spec.data.server_share) * images_of(spec.data))
    small = {**spec.algorithm, "latent": 1, "width": 1}
    algorithm = build_algorithm(spec.model_copy(update={"algorithm": small}), 10)
    members = [algorithm.model() for _ in range(spec.data.clients)]
    work = ServerWorkSettings(0, spec.training.optimiser, spec.training.batch_size)
    cloud = algorithm.server_work(members, torch.zeros(own, 1, 1, 1), torch.zeros(own, dtype=torch.long), work)
    for twin in cloud.twins:
        twin.labels.add(0)
    cloud.finish(1, {})
    at_the_start, in_a_round = taken
    return at_the_start + spec.training.rounds * in_a_round


@pytest.mark.parametrize("scale", SCALES)
def test_the_server_alone_takes_as_many_steps_as_ps_fedgans_classifier(scale, monkeypatch):
    specs = {run: spec for run, spec in load_study(scale).specs.items() if run.startswith("psfedgan/")}
    alone = [spec for spec in specs.values() if spec.algorithm["name"] == "server-only"]
    beside = [(spec, specs.get(spec.run.replace("server-only", "ps-fedgan"))) for spec in alone if spec.seed == 2011]
    conditions = {(spec.data.dataset, spec.data.server_share): (spec, other) for spec, other in beside if other}
    assert conditions
    for spec, other in conditions.values():
        ours = spec.training.rounds * spec.training.local_steps
        assert ours == pytest.approx(_classifier_steps(other, monkeypatch), rel=0.01), spec.run
        assert spec.training.batch_size == other.training.batch_size
        assert spec.training.optimiser == ps_fedgan.CLASSIFIER
        assert spec.training.optimiser_state == "persistent", "as that of the classifier is"
