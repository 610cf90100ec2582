"""The engine: runs an algorithm over its clients, round by round."""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from common.keys import random_key
from common.optimisers import decay
from common.spec import TrainingSettings
from federation.ahead import ahead, refuse_idle_updates, steps_ahead
from federation.algorithm import Algorithm
from federation.channel import Channel, Message
from federation.data import ClientData
from federation.hooks import (
    Announcing,
    Exchange,
    Exchanging,
    FineTuning,
    Listener,
    Overheard,
    Precomputing,
    Preparing,
    Referring,
    ServerWork,
    ServerWorkSettings,
    WorkingServer,
    check,
)
from federation.local import LocalWork, Row, generator
from federation.models import copied
from federation.names import Entry, entries, everything, selected
from federation.once import announce, constants
from federation.population import Population
from federation.server import Server
from federation.start import Start, begin, begin_each


def schedule(seed: int, rounds: int, clients: int, participation: float) -> list[list[int]]:
    """The clients sampled in each round, without replacement; a function of its arguments, so all methods share it."""
    count = max(1, math.floor(participation * clients + 1e-9))
    generators = (generator(seed, "sampling", number) for number in range(1, rounds + 1))
    return [sorted(torch.randperm(clients, generator=g)[:count].tolist()) for g in generators]


def initial_model(algorithm: Algorithm, seed: int) -> nn.Module:
    """The algorithm's model with initial tensors that depend on `seed` alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(random_key(seed, "initial model"))
        return algorithm.model()


class Simulation:
    """One federated training.

    Args:
        workers: client threads, each with one torch thread; any number gives the same weights. With 1, clients train
            one after the other.
        start: what another run has left.
        listeners: called with every message that crosses the channel.
        progress: called after each client step with (round, steps done, steps in all).

    Attributes:
        round: the last finished round; 0 once the prologue is over, -1 before.
        local: what clients do by themselves, and the history of it.
        scores: rows of whoever scores the clients between rounds, kept here so that a checkpoint holds them.
        notes: rows of an algorithm whose rounds are exchanges of its own.
    """

    local_work: ClassVar[type[LocalWork]] = LocalWork

    def __init__(
        self,
        algorithm: Algorithm,
        data: ClientData,
        settings: TrainingSettings,
        seed: int,
        *,
        workers: int = 1,
        device: str = "cpu",
        start: Start | None = None,
        listeners: Iterable[Callable[[Message], None]] = (),
        progress: Callable[[int, int, int], None] = lambda round, done, total: None,
    ) -> None:
        self.algorithm, self.settings, self.seed = algorithm, settings, seed
        self.data = _on(device, data)
        self.schedule = schedule(seed, settings.rounds, len(data.clients), settings.participation)
        check(algorithm, settings, (self._labels(round, chosen) for round, chosen in enumerate(self.schedule, 1)))
        self.template = initial_model(algorithm, seed).to(device)
        work = ahead(algorithm, data, settings, self.schedule)
        refuse_idle_updates(self.template, work)
        self.progress, self.done, self.total = progress, 0, steps_ahead(algorithm, self.schedule, work)
        self.channel = Channel(listeners)
        self._make_clients(start or {}, workers)
        self._make_server()
        self.round = -1
        self.scores: list[dict[str, Any]] = []
        self.notes: list[dict[str, Any]] = []

    def _make_clients(self, start: Start, workers: int) -> None:
        begun = copied(self.template)
        begin(self.algorithm, begun, start)
        self.shared = self._travelling(begun)
        which = self.algorithm.installed if isinstance(self.algorithm, Referring) else everything
        self.installed = {entry.name for entry in selected(self.template, which)}
        clients, channels_last = len(self.data.clients), self.settings.channels_last
        self.population = Population(begun, clients, self._own(), channels_last=channels_last)
        begin_each(self.algorithm, self.population, self.shared, start)
        self.received = self._empty_reference()
        self.received_entries = {entry.name: entry for entry in selected(self.received, self.algorithm.shared)}
        self.population.beside["received"] = self.received
        if isinstance(self.algorithm, Preparing):
            self.algorithm.prepare(self.population.members, self.seed)
        self.local = self.local_work(
            self.algorithm,
            self.data,
            self.settings,
            self.seed,
            workers,
            self.population,
            self.template,
            self.schedule,
            self._publish,
            self._tick,
        )

    def _make_server(self) -> None:
        """Shared tensors, what the server does beside averaging, and who listens on the way to it."""
        tensors = {entry.name: entry.tensor.detach().clone() for entry in self.shared}
        parameters = {entry.name for entry in self.shared if entry.is_parameter}
        self.server = Server(tensors, parameters, self.settings.server)
        members, own = self.population.members, self.data.server
        styles = None if self.data.styles is None else self.data.styles[own]
        images, labels = self.data.seen_by_server(own), self.data.labels[own]
        s = self.settings
        work = ServerWorkSettings(self.seed, s.optimiser, s.batch_size, styles, images.device, s.lr_decay)
        algorithm = self.algorithm
        self.server_work: ServerWork | None = None
        if isinstance(algorithm, WorkingServer):
            self.server_work = algorithm.server_work(members, images, labels, work)
        self.eavesdroppers = algorithm.eavesdroppers(members, work) if isinstance(algorithm, Overheard) else []
        self.channel.listeners += tuple(self.eavesdroppers)

    # ---- the rounds

    def run(self, after_round: Callable[["Simulation"], None] = lambda simulation: None) -> None:
        """Train from wherever this simulation stands to the end.

        Args:
            after_round: called after the prologue and after every round, for instance to write a checkpoint.

        Raises:
            Diverged: a client's loss is not finite.
        """
        everyone = list(range(len(self.data.clients)))
        if self.round < 0:
            self.local.train(0, everyone, self.algorithm.prologue(), "prologue")
            self.round = 0
            after_round(self)
        if isinstance(self.algorithm, Announcing):
            announce(self.algorithm, self.local, self.channel)
        if isinstance(self.algorithm, Precomputing):
            self.local.constants = [constants(self.algorithm, self.local, client) for client in everyone]
        while self.round < self.settings.rounds:
            self._communication_round(self.round + 1, self.schedule[self.round])
            self.round += 1
            after_round(self)
        if isinstance(self.algorithm, FineTuning):
            self._broadcast(self.settings.rounds + 1, everyone)
            self.local.train(self.settings.rounds + 1, everyone, self.algorithm.epilogue(), "epilogue")

    def _communication_round(self, round: int, chosen: list[int]) -> None:
        self._broadcast(round, chosen)
        if isinstance(self.algorithm, Exchanging):
            self._exchange(self.algorithm, round, chosen)
        else:
            trained = self.local.trained(round, chosen, self.algorithm.phases(), "round")
            uploads = self.channel.up_in_turn(round, chosen, map(self._shared_of, trained))
            sizes = [len(self.data.share(client, round)) for client in chosen]
            self.server.aggregate(uploads, sizes, decay(self.settings.lr_decay, round))
        if self.server_work is not None:
            self.server_work.finish(round, self.server.tensors)

    def _broadcast(self, round: int, clients: list[int]) -> None:
        payload = self.channel.down(round, clients, self.server.tensors) if self.shared else {}
        self.population.install(clients, {name: t for name, t in payload.items() if name in self.installed})
        for name, tensor in payload.items():
            entry = self.received_entries[name]
            # statistics in a copy: a pass in training mode would move those that the next client is given
            value = nn.Parameter(tensor, requires_grad=False) if entry.is_parameter else tensor.clone()
            setattr(entry.owner, entry.leaf, value)

    def _exchange(self, algorithm: Exchanging, round: int, chosen: list[int]) -> None:
        exchange = Exchange(
            round,
            self.seed,
            chosen,
            [self.population.members[client] for client in chosen],
            [self.local.fixed(client, self.data.share(client, round)) for client in chosen],
            self._labels(round, chosen),
            self.channel,
        )
        self.notes += [{"round": round} | row for row in algorithm.exchange(exchange)]
        self._tick(round, len(chosen))

    def _publish(self, round: int, client: int, message: dict[str, Tensor]) -> None:
        if not message:
            return
        sent = {f"published.{name}": tensor.unsqueeze(0) for name, tensor in message.items()}
        arrived = self.channel.up(round, [client], sent)
        if self.server_work is not None:
            message = {name.removeprefix("published."): rows[0] for name, rows in arrived.items()}
            self.server_work.receive(round, client, message)

    def _labels(self, round: int, chosen: list[int]) -> list[Tensor]:
        return [self.data.labels[self.data.share(client, round)] for client in chosen]

    def _tick(self, round: int, steps: int = 1) -> None:
        self.done += steps
        self.progress(round, self.done, self.total)

    # ---- what travels

    def _travelling(self, model: nn.Module) -> list[Entry]:
        """Shared parameters, and shared buffers if the policy lets them travel. Counters (integers) never do."""
        return [
            entry
            for entry in selected(model, self.algorithm.shared)
            if entry.tensor.is_floating_point() and (entry.is_parameter or self.settings.buffers == "shared")
        ]

    def _shared_of(self, model: nn.Module) -> dict[str, Tensor]:
        """What a client sends of its model."""
        names = self.server.tensors
        return {entry.name: entry.tensor.detach() for entry in entries(model) if entry.name in names}

    def _own(self) -> set[str]:
        """What a client has for itself: all but what it takes from the server in each round and hands back.

        Of that, what a prologue trains, since the first round may be far; and everything if there is an epilogue, for
        what comes of that is handed to nobody.
        """
        names = {entry.name for entry in entries(self.template)}
        if isinstance(self.algorithm, FineTuning):
            return names
        begun = [update.which & phase.only for phase in self.algorithm.prologue() for update in phase.updates]
        kept = {e.name for e in self.shared if any(which.contains(e.name, e.owner) for which in begun)}
        return names - ({entry.name for entry in self.shared} & self.installed - kept)

    def _empty_reference(self) -> nn.Module:
        """A model whose tensors are only what the server sends; what never travels is not there to be referred to."""
        reference = copied(self.template)
        travelling = {entry.name for entry in self.shared}
        for entry in list(entries(reference)):
            if entry.is_parameter and entry.name not in travelling:
                entry.owner.register_parameter(entry.leaf, None)
            elif entry.name not in travelling:
                entry.owner.register_buffer(entry.leaf, None)
        return reference

    # ---- what has come of it

    @property
    def history(self) -> list[Row]:
        """One row per round, client, phase and update that took a step."""
        return self.local.history

    def keep_own(self) -> None:
        """Store every client's whole model as its local training leaves it: for whoever will ask for `own`."""
        self.population.keep(set(self.population.common))

    def own(self, client: int) -> nn.Module:
        """A copy of a client's model as its last local training left it.

        Raises:
            RuntimeError: it was not kept.
        """
        if self.population.common:
            raise RuntimeError("clients' models are not kept as their training leaves them, unless `keep_own` says so")
        return self._copy(client)

    def _copy(self, client: int) -> nn.Module:
        beside = [self.received, *self.population.beside.get("announced", {}).values()]
        return copied(self.population.members[client], {id(part): part for part in beside})

    def shared_model(self, client: int | None = None) -> nn.Module:
        """What the server shares, in a copy of a client's model; or in that of one that has just joined, of initial
        tensors."""
        return self._with_shared(copied(self.template) if client is None else self._copy(client), self.shared)

    def synchronised(self, client: int) -> nn.Module:
        """A copy of a client's model as it would be at the start of the next round."""
        return self._with_shared(self._copy(client), [e for e in self.shared if e.name in self.installed])

    def _with_shared(self, model: nn.Module, which: list[Entry]) -> nn.Module:
        with torch.no_grad():
            for entry in which:
                target = model.get_parameter(entry.name) if entry.is_parameter else model.get_buffer(entry.name)
                target.copy_(self.server.tensors[entry.name])
        return model

    # ---- checkpoints

    def state(self) -> dict[str, Any]:
        """All that a simulation made with the same arguments needs to go on from here."""
        return {
            "round": self.round,
            "server": self.server.state(),
            "storage": self.population.storage,
            "announced": self.population.beside.get("announced"),
            "listeners": [listener.state() for listener in self._remembering],
            "server_work": None if self.server_work is None else self.server_work.state(),
            "optimiser_states": self.local.optimiser_states,
            "batches": dict(self.local.batches),
            "history": self.local.history,
            "scores": self.scores,
            "notes": self.notes,
            "traffic": dict(self.channel.traffic),
            "done": self.done,
        }

    @property
    def _remembering(self) -> list[Listener]:
        """Who listens and has something to keep."""
        return [listener for listener in self.channel.listeners if isinstance(listener, Listener)]

    def load(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.round, self.done = state["round"], state["done"]
        self.scores, self.notes = state["scores"], state["notes"]
        self.server.load(state["server"])
        self.population.load(state["storage"])
        if state["announced"] is not None:
            self.population.beside["announced"] = state["announced"]
        self.local.history = state["history"]
        self.local.optimiser_states, self.local.batches = state["optimiser_states"], Counter(state["batches"])
        if self.server_work is not None:
            self.server_work.load(state["server_work"])
        for listener, kept in zip(self._remembering, state["listeners"], strict=True):
            listener.load(kept)
        self.channel.traffic.update(state["traffic"])


def _on(device: str, data: ClientData) -> ClientData:
    styles = None if data.styles is None else data.styles.to(device)
    return dataclasses.replace(data, images=data.images.to(device), labels=data.labels.to(device), styles=styles)
