"""What the engine tells those whom an algorithm brings along, and what of it a checkpoint keeps; by hand."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from baselines.fedavg import FedAvg
from baselines.fedper import FedPer
from baselines.fedprox import FedProx
from baselines.local import Local
from common.errors import InputError
from common.spec import OptimiserSettings, TrainingSettings
from federation import Algorithm, ClientData, Phase, Simulation, names
from federation.channel import Message
from federation.checkpoint import resume
from federation.hooks import Exchange
from federation.simulation import initial_model, schedule
from tests import quadratic
from tests.digits import same, with_a_stop
from tests.quadratic import Quadratic


def _data(**changes: Any) -> ClientData:
    """Three clients of 2, 5 and 3 images; the server has the last four again. Labels are the images' numbers."""
    more = {"labels": torch.arange(10), "styles": torch.arange(10) % 3, "server": torch.arange(6, 10), **changes}
    return replace(quadratic.data(), **more)


def _prepared(algorithm: Algorithm, data: ClientData | None = None, told: Any = None, **changes: Any) -> Simulation:
    asked = {"rounds": 2, "batch_size": 2, "optimiser": OptimiserSettings(lr=0.1), **changes}
    return Simulation(algorithm, data or _data(), TrainingSettings(**asked), 5, **(told or {}))


class _Memory:
    """Keeps what it was told; a listener, or the server's own work."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def __call__(self, message: Message) -> None:
        self.told.append((message.round, message.direction, message.clients, sorted(message.tensors)))

    def receive(self, round: int, client: int, message: dict[str, torch.Tensor]) -> None:
        self.told.append((round, client, {name: tensor.tolist() for name, tensor in message.items()}))

    def finish(self, round: int, shared: dict[str, torch.Tensor]) -> None:
        self.told.append((round, "finish"))
        shared["head.c"].fill_(round)

    def state(self) -> dict[str, Any]:
        return {"told": list(self.told)}

    def load(self, state: dict[str, Any]) -> None:
        self.told[:] = state["told"]


# ---- the server's work, and who listens


class _Served(FedAvg):
    """Clients publish the number of a batch's first image after every second batch, and their bias after each round."""

    def updates(self):
        (both,) = super().updates()
        return [replace(both, every=2, publish=lambda model, batch: {"first": batch["x"][0, :1]})]

    def phases(self):
        return [Phase(self.updates(), publish=lambda model: {"bias": model.head.c}), Phase(self.updates())]

    def server_work(self, members, images, labels, work):
        memory = _Memory()
        memory.asked = (list(members), images, labels, work)
        return memory

    def eavesdroppers(self, members, work):
        memory = _Memory()
        memory.asked = (len(members), work)
        return [memory]


@pytest.mark.parametrize("styles", [None, torch.arange(10) % 3])
def test_the_server_and_who_listens_are_told_of_its_own_images_and_how_clients_train(styles):
    """Bytes are numbers in [0, 1] to the server."""
    images = torch.randint(0, 256, (10, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    sgd = OptimiserSettings(lr=0.3, momentum=0.5)
    simulation = _prepared(_Served(objective=Quadratic()), _data(images=images, styles=styles), optimiser=sgd)
    members, own, labels, work = simulation.server_work.asked
    assert [member.head.c.item() for member in members] == [-0.6] * 3
    assert torch.equal(own, images[6:].float() / 255)
    assert labels.tolist() == [6, 7, 8, 9]
    assert (work.seed, work.optimiser, work.batch_size, work.device) == (5, sgd, 2, torch.device("cpu"))
    assert work.styles is None if styles is None else torch.equal(work.styles, styles[6:])
    (eavesdropper,) = simulation.eavesdroppers
    assert eavesdropper.asked[0] == 3
    assert eavesdropper.asked[1] is work
    assert simulation.channel.listeners == (eavesdropper,)
    assert _prepared(FedAvg(objective=Quadratic())).server_work is None
    assert _prepared(FedAvg(objective=Quadratic())).eavesdroppers == []


def test_what_is_published_crosses_when_it_is_said_and_the_server_has_the_last_word():
    """One client with six images: three batches in each phase, so that what comes after every second comes once, then
    twice. What the server makes of the shared tensors at a round's end is what it sends next."""
    data = _data(clients=(torch.arange(6),))
    heard: list[Message] = []
    simulation = _prepared(_Served(objective=Quadratic()), data, {"listeners": [heard.append]})
    simulation.run()
    published = [[*("first" for _ in range(n)), "bias", *("first" for _ in range(n))] for n in (1, 2)]
    firsts = set(data.images[:6, 0].tolist())
    for round, expected in enumerate(published, 1):
        *said, last = [told for told in simulation.server_work.told if told[0] == round]
        assert last == (round, "finish")
        assert [(client, *message) for _, client, message in said] == [(0, name) for name in expected]
        assert {value for _, _, message in said for value in message.get("first", ())} <= firsts
        crossed = [m for m in heard if m.round == round and m.direction == "up"]
        names_ = [f"published.{name}" for name in expected]
        assert [sorted(m.tensors) for m in crossed] == [*([name] for name in names_), sorted(simulation.server.tensors)]
        for name, times in Counter(names_).items():
            assert simulation.channel.traffic[round, 0, "up", name] == 8 * times, "a double each time"
    sent = [m for m in heard if m.direction == "down"]
    assert [m.tensors["head.c"].item() for m in sent] == [pytest.approx(-0.6), 1]
    assert simulation.server.tensors["head.c"].item() == 2


def test_nobody_hears_of_a_round_in_which_nothing_crosses():
    heard: list[Message] = []
    simulation = _prepared(Local(objective=Quadratic()), told={"listeners": [heard.append]})
    simulation.run()
    assert simulation.round == 2
    assert not heard


# ---- rounds that are exchanges


class _Talking(FedAvg):
    """A round is a number that goes up from everybody, of 64 bits, and its mean that comes down."""

    def phases(self):
        return []

    def constants(self, model, x, y):
        return {"first": x[:, 0]}

    def exchange(self, exchange):
        said = torch.stack([constants["first"].mean() for constants in exchange.constants])
        mean = exchange.down(mean=exchange.up(first=said).mean())
        return [{"client": client, "mean": mean.item()} for client in exchange.clients]


def _watched(exchanges: list[Exchange]) -> Algorithm:
    """The same, which notes what it is given."""

    class Watched(_Talking):
        def exchange(self, exchange):
            exchanges.append(exchange)
            return super().exchange(exchange)

    return Watched(objective=Quadratic())


def test_an_exchange_has_who_takes_part_and_what_is_fixed_of_their_images():
    exchanges: list[Exchange] = []
    progress: list[tuple[int, int, int]] = []
    simulation = _prepared(
        _watched(exchanges), told={"progress": lambda *said: progress.append(said)}, participation=0.67
    )
    simulation.run()
    data, first, second = _data(), *simulation.schedule
    assert (len(first), len(second)) == (2, 2)
    for round, (chosen, exchange) in enumerate(zip(simulation.schedule, exchanges, strict=True), 1):
        own = [data.clients[client] for client in chosen]
        assert (exchange.round, exchange.seed, exchange.clients) == (round, 5, chosen)
        assert [labels.tolist() for labels in exchange.labels] == [rows.tolist() for rows in own]
        assert [sorted(constants) for constants in exchange.constants] == [["first"]] * 2
        assert all(
            torch.equal(fixed["first"], data.images[rows, 0])
            for fixed, rows in zip(exchange.constants, own, strict=True)
        )
        assert len(exchange.members) == 2
        mean = torch.stack([data.images[rows, 0].mean() for rows in own]).float().mean().item()
        notes = [note for note in simulation.notes if note["round"] == round]
        assert notes == [{"round": round, "client": client, "mean": pytest.approx(mean)} for client in chosen]
        assert all(simulation.channel.traffic[round, client, "up", "first"] == 4 for client in chosen)
        assert all(simulation.channel.traffic[round, client, "down", "mean"] == 4 for client in chosen)
    assert progress == [(1, 2, 4), (2, 4, 4)]


def test_an_exchange_is_of_the_images_of_the_rounds_turn():
    """The order of a client's turns need not be that of its images."""
    turns = [[[1], [0]], [[2, 4], [6, 3, 5]], [[9, 7], [8]]]
    exchanges: list[Exchange] = []
    data = _data(turns=tuple(tuple(map(torch.tensor, of_client)) for of_client in turns))
    _prepared(_watched(exchanges), data).run()
    for round, exchange in enumerate(exchanges):
        own = [of_client[round] for of_client in turns]
        assert [labels.tolist() for labels in exchange.labels] == own
        assert [fixed["first"].tolist() for fixed in exchange.constants] == [data.images[n, 0].tolist() for n in own]
    assert len(exchanges) == 2


# ---- what is ahead, and how far it has come


class _Long(FedAvg):
    def prologue(self):
        return [Phase(self.updates())]

    def epilogue(self):
        return [Phase(self.updates())]


def test_steps_are_counted_before_they_are_taken_by_each_rounds_turn():
    """A client's turns have 4, 6 and 8 images in batches of two: the first of them before the first round, too, and in
    the end the one that would come next."""
    numbers = torch.arange(18)
    turned = _data(images=torch.randn(18, 8, dtype=torch.float64), labels=numbers, styles=None, server=numbers[:0])
    turned = replace(turned, clients=(numbers,), turns=(numbers.split([4, 6, 8]),))
    progress: list[tuple[int, int, int]] = []
    simulation = _prepared(_Long(objective=Quadratic()), turned, {"progress": lambda *said: progress.append(said)})
    simulation.run()
    rounds = [0] * 2 + [1] * 2 + [2] * 3 + [3] * 4
    assert progress == [(round, done, 11) for done, round in enumerate(rounds, 1)]


@pytest.mark.parametrize(("every", "refused"), [(4, False), (5, True)])
def test_an_update_that_comes_after_the_last_batch_of_whoever_has_most_is_refused(every, refused):
    """In two rounds the second client has four batches, the others two; what has no batch at all is left alone."""

    class Rare(FedAvg):
        def prologue(self):
            return [Phase([replace(self.objective.updates()[0], every=99)], epochs=0)]

        def updates(self):
            (both,) = self.objective.updates()
            return [replace(both, which=names("encoder")), replace(both, which=names("head"), every=every)]

    made = Rare(objective=Quadratic())
    if not refused:
        _prepared(made)
        return
    said = "'head.c' would never be trained, since its update comes after each 5 batches and no client has more than 4 "
    with pytest.raises(InputError, match=said):
        _prepared(made)


def test_everybody_hears_after_the_last_round_what_has_come_of_it_and_nobody_answers():
    """One of three clients takes part in each round; what follows is the round after the last, in all that is noted."""
    began: list[float] = []

    class Watched(_Long):
        def epilogue(self):
            return [Phase(self.updates(), begin=lambda model: began.append(model.head.c.item()))]

    simulation = _prepared(Watched(objective=Quadratic()), participation=0.34)
    simulation.run()
    crossed = {(round, client, way) for round, client, way, _ in simulation.channel.traffic}
    chosen = [(round, client) for round, (client,) in enumerate(simulation.schedule, 1)]
    assert crossed == {(*of, way) for of in chosen for way in ("up", "down")} | {(3, k, "down") for k in range(3)}
    assert began == [simulation.server.tensors["head.c"].item()] * 3
    worked = {(row["stage"], row["round"], row["client"]) for row in simulation.history}
    before_and_after = {(stage, round, k) for stage, round in (("prologue", 0), ("epilogue", 3)) for k in range(3)}
    assert worked == {("round", *of) for of in chosen} | before_and_after


# ---- going on


class _Resumed(_Served):
    """All that a checkpoint has to keep, and what clients tell each other once."""

    prologue = _Long.prologue
    epilogue = _Long.epilogue

    def announced(self, model, x, y, draw):
        return {"drawn": torch.rand(1, generator=draw)}


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


@pytest.mark.parametrize("stop", [0, 1, 2])
def test_what_a_stopped_run_comes_to_is_all_that_the_whole_one_does(stop, tmp_path):
    """Counts of batches, momenta, scores, the server's work and whoever listens; steps come after every second batch
    of three."""
    data = _data(clients=(torch.arange(6), torch.arange(3, 10)))
    progress: dict[int, list[Any]] = {}

    def make() -> Simulation:
        told = progress.setdefault(len(progress), [])
        return _prepared(
            _Resumed(objective=Quadratic()),
            data,
            {"listeners": [_Memory(), lambda message: None], "progress": lambda *said: told.append(said)},
            rounds=3,
            optimiser=OptimiserSettings(lr=0.1, momentum=0.9),
            optimiser_state="persistent",
            participation=0.5,
        )

    def scored(simulation: Simulation) -> None:
        simulation.scores.append({"round": simulation.round, "c": simulation.server.tensors["head.c"].item()})
        simulation.notes.append({"round": simulation.round, "done": simulation.done})

    whole, resumed = with_a_stop(make, tmp_path, stop, scored)
    assert _alike(whole.state(), resumed.state())
    assert [row["round"] for row in resumed.scores] == [row["round"] for row in resumed.notes] == [0, 1, 2, 3]
    assert resumed.done == resumed.total
    whole_run, after, before = progress.values()
    assert before + after == whole_run
    assert len(whole.state()["listeners"]) == 2, "one that was asked for and one that the algorithm brings"


def test_nothing_is_run_that_a_checkpoint_says(tmp_path):
    """It may come from elsewhere: what is unpickled is tensors, numbers, words and containers of them."""

    class Trap:
        def __reduce__(self):
            return Path.mkdir, (tmp_path / "sprung",)

    torch.save({"key": "key", "state": Trap()}, tmp_path / "checkpoint.pt")
    with pytest.raises(InputError, match="is no checkpoint of this run"):
        resume(tmp_path / "checkpoint.pt", _prepared(FedAvg(objective=Quadratic())), "key")
    assert not (tmp_path / "sprung").exists()


# ---- what clients begin with, refer to and tell each other


def test_what_clients_are_prepared_with_is_their_own():
    """A secret that follows from the run's seed, and stays where nothing trains it; what is shared, the server has."""

    class Prepared(FedPer):
        def prepare(self, members, seed):
            for client, member in enumerate(members):
                for parameter in member.parameters():
                    parameter.data.fill_(10 * seed + client)

        def updates(self):
            return [replace(super().updates()[0], which=names("encoder"))]

    simulation = _prepared(Prepared(objective=Quadratic()))
    assert [member.head.c.item() for member in simulation.population.members] == [50, 51, 52]
    simulation.run()
    assert simulation.population.storage["head.c"].flatten().tolist() == [50, 51, 52]
    assert max(tensor.abs().max() for tensor in simulation.server.tensors.values()) < 5


def test_what_was_received_is_referred_to_and_is_no_part_of_a_client():
    """No gradient reaches it, and a client's copy refers to the same."""
    seen: list[nn.Module] = []

    class Watched(FedProx):
        def proximal_term(self, m, batch):
            seen.append(m.received)
            assert not any(p.requires_grad for p in m.received.parameters())
            assert isinstance(m.received.head.c, nn.Parameter)
            return super().proximal_term(m, batch)

    simulation = _prepared(Watched(objective=Quadratic(), mu=1))
    simulation.keep_own()
    simulation.run()
    assert all(received is simulation.received for received in seen)
    assert simulation.own(1).received is simulation.received
    assert simulation.synchronised(1).received is simulation.received
    assert not any("received" in name for name, _ in simulation.own(1).named_parameters())


class _Announced(FedAvg):
    """Everybody tells the others a number that it draws, its labels' mean and a tensor that rounds will train; and has
    a number drawn for each image."""

    def announced(self, model, x, y, draw):
        trained = next(model.parameters()).detach().clone()
        return {"drawn": torch.rand(3, generator=draw), "mean": y.double().mean(), "trained": trained}

    def constants(self, model, x, y):
        return {"seen": x[:, 0], "label": y}


def _noisy(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return x + torch.rand(x.shape, generator=generator)


@pytest.mark.parametrize("clients", [1, 3])
def test_all_clients_know_what_each_has_said_once_and_draw_for_themselves(clients):
    rows = (torch.arange(10),) * clients
    data = _data(clients=rows, views=(_noisy,) * clients)
    said = []
    for seed in (5, 5, 6):
        heard: list[Message] = []
        settings = TrainingSettings(rounds=2, batch_size=10)
        simulation = Simulation(_Announced(objective=Quadratic()), data, settings, seed, listeners=[heard.append])
        simulation.run()
        told = [m for m in heard if m.round == 0]
        assert [(m.direction, m.clients, sorted(m.tensors)) for m in told] == [
            (way, tuple(range(clients)), [f"announced.{name}" for name in ("drawn", "mean", "trained")])
            for way in ("up", "down")
        ]
        for member in simulation.population.members:
            assert member.announced["mean"].tolist() == [4.5] * clients
            assert torch.equal(member.announced["drawn"], told[1].tensors["announced.drawn"])
        assert all(torch.equal(of["label"], data.labels) for of in simulation.local.constants)
        noise = [of["seen"] - data.images[:, 0] for of in simulation.local.constants]
        said.append([*member.announced["drawn"].flatten().tolist(), *torch.cat(noise).tolist()])
    assert said[0] == said[1]
    assert len({*said[0], *said[2]}) == 2 * 13 * clients


@pytest.mark.parametrize("keep_own", [False, True])
@pytest.mark.parametrize("clients", [1, 3])
def test_a_run_that_goes_on_has_heard_what_was_said(clients, keep_own, tmp_path):
    """And so nobody says it again, whose bytes would count twice, of models that have been trained since."""
    data = _data(clients=(torch.arange(10),) * clients, views=(_noisy,) * clients)
    settings = TrainingSettings(rounds=2, batch_size=10)

    def make() -> Simulation:
        simulation = Simulation(_Announced(objective=Quadratic()), data, settings, 5)
        if keep_own:
            simulation.keep_own()
        return simulation

    whole, resumed = with_a_stop(make, tmp_path)
    told = resumed.population.members[0].announced["drawn"]
    assert resumed.synchronised(0).announced["drawn"] is told, "no part of a model, and in no copy"
    assert resumed.channel.traffic == whole.channel.traffic
    assert resumed.channel.traffic[0, 0, "up", "announced.mean"] == 8
    ours, theirs = (simulation.population.members[0].announced for simulation in (resumed, whole))
    assert same(ours, theirs)


# ---- where it is


class _Kernel(Quadratic):
    """With a kernel, a batch norm and a matrix beside the three tensors."""

    def model(self) -> nn.Module:
        model = super().model()
        model.kernel, model.norm, model.matrix = nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4), nn.Linear(3, 2)
        return model


def test_initial_tensors_depend_on_the_seed_alone():
    """Whatever torch has drawn before; and what it draws next is what it would have drawn."""
    made = FedAvg(objective=_Kernel())
    torch.manual_seed(1)
    first, after = initial_model(made, 5).kernel.weight, torch.rand(3)
    assert torch.equal(initial_model(made, 5).kernel.weight, first)
    assert not torch.equal(initial_model(made, 6).kernel.weight, first)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), after)


def test_who_takes_part_follows_from_the_runs_seed():
    simulation = _prepared(FedAvg(objective=Quadratic()), rounds=20, participation=0.34)
    assert simulation.schedule == schedule(5, 20, 3, 0.34)
    assert simulation.schedule != schedule(6, 20, 3, 0.34)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("made", [FedAvg, FedPer, Local])
def test_kernels_are_laid_out_as_asked_and_are_the_same_numbers(made, channels_last):
    """Where each client has a row of its own, and in the working copies of what is common."""
    algorithm = made(objective=_Kernel())
    images = torch.zeros(10, 3, 2, 2)
    simulation = _prepared(algorithm, _data(images=images), {"workers": 2}, channels_last=channels_last)
    start = initial_model(algorithm, 5).state_dict()
    for model in (*simulation.population.members, *map(simulation.synchronised, range(3))):
        assert same(dict(model.state_dict()), dict(start))
    own = simulation.population.storage
    for copy in simulation.local.copies:
        common = [p for name, p in copy.named_parameters() if name not in own]
        assert all(p.untyped_storage().nbytes() == p.nbytes for p in common), "no room for any other"
    lent = [simulation.population.lend(copy, 1) for copy in simulation.local.copies]
    for model in (*simulation.population.members, *lent):
        assert model.kernel.weight.is_contiguous(memory_format=torch.channels_last) == channels_last
    assert all(rows.shape == (3, *start[name].shape) for name, rows in simulation.population.storage.items())


def test_images_models_and_the_servers_work_are_on_the_device_that_is_asked_for():
    """On torch's device without memory, where nothing can be trained, but all that a run begins with can be made."""
    simulation = _prepared(_Served(objective=Quadratic()), told={"device": "meta"})
    of = simulation.data
    made = [of.images, of.labels, of.styles, *simulation.template.parameters(), *simulation.server.tensors.values()]
    assert {tensor.device.type for tensor in made} == {"meta"}
    assert len(simulation.local.copies) == 1, "there is one worker, unless more are asked for"
    noisy = Phase([], draw=lambda x, y, draw: {"x": x, "noise": torch.rand(len(x), generator=draw)})
    (batch,) = simulation.local.drawn(1, 0, 0, noisy, "round")
    assert batch.keys() == {"x", "noise", "style"}
    assert {tensor.device.type for tensor in batch.values()} == {"meta"}
    _, images, labels, work = simulation.server_work.asked
    assert {images.device.type, labels.device.type, work.styles.device.type, work.device.type} == {"meta"}
