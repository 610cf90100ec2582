"""The engine: runs an algorithm over its clients, round by round."""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

from common.errors import InputError
from common.keys import random_key
from common.optimisers import State, step
from common.spec import OptimiserSettings, TrainingSettings
from federation.algorithm import Algorithm, Batch, CloudSettings, Meeting, Phase, Update, Work
from federation.channel import Channel, Message
from federation.data import ClientData, as_float, batches, on_device, split_batch, steps_of
from federation.functional import gradients
from federation.models import copied
from federation.names import entries, everything, selected
from federation.population import Population
from federation.server import Server

DRAWN_NUMBERS = 2**20
"""Batches are drawn together up to about this many pixel values, which still fit a cache."""


class Diverged(RuntimeError):
    """A client's loss is no longer a finite number."""

    def __init__(self, round: int, client: int, loss: float) -> None:
        super().__init__(f"diverged: the loss of client {client} is {loss} in round {round}; try a lower learning rate")


def schedule(seed: int, rounds: int, clients: int, participation: float) -> list[list[int]]:
    """The clients sampled in each round, without replacement; a function of its arguments, so all methods share it."""
    count = max(1, math.floor(participation * clients + 1e-9))
    generators = (_generator(seed, "sampling", number) for number in range(1, rounds + 1))
    return [sorted(torch.randperm(clients, generator=g)[:count].tolist()) for g in generators]


def _generator(*key: int | str) -> torch.Generator:
    return torch.Generator().manual_seed(random_key(*key))


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
        start: what another run has left, with a leading axis of one for all clients, or of all of them; see `_begin`.
        listeners: called with every message that crosses the channel.
        progress: called after each client step with (round, steps done, steps in all).

    Attributes:
        round: the last finished round; 0 once the prologue is over, -1 before.
        history: one row per round, client, phase and update that took a step: how many, and their mean loss.
        scores: rows of whoever scores the clients between rounds, kept here so that a checkpoint holds them.
        notes: rows of an algorithm whose rounds are conversations of its own.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        data: ClientData,
        settings: TrainingSettings,
        seed: int,
        *,
        workers: int = 1,
        device: str = "cpu",
        start: dict[str, Tensor] | None = None,
        listeners: Iterable[Callable[[Message], None]] = (),
        progress: Callable[[int, int, int], None] = lambda round, done, total: None,
    ) -> None:
        self.algorithm, self.settings, self.seed, self.workers = algorithm, settings, seed, workers
        self.device_type = torch.device(device).type
        styles = None if data.styles is None else data.styles.to(device)
        images, labels = data.images.to(device), data.labels.to(device)
        self.data = dataclasses.replace(data, images=images, labels=labels, styles=styles)
        self.template = initial_model(algorithm, seed).to(device)
        begun, start = copied(self.template), start or {}
        self._begin(begun, {name: rows[0] for name, rows in start.items()})
        self.population = Population(begun, len(data.clients), channels_last=settings.channels_last)
        self.channel = Channel(listeners)
        self.shared = self._travelling(begun)
        self._begin_each(start)
        shared = {entry.name: entry.tensor.detach().clone() for entry in self.shared}
        parameters = {entry.name for entry in self.shared if entry.is_parameter}
        self.server = Server(shared, parameters, settings.server)
        self.installed = {e.name for e in selected(self.template, algorithm.installed)}
        self.received = self._empty_reference()
        self.received_entries = {entry.name: entry for entry in selected(self.received, algorithm.shared)}
        self.constants: list[dict[str, Tensor]] = [{} for _ in data.clients]
        self.optimiser_states: dict[str, State] = {}
        self.batches: Counter[str] = Counter()
        self.history: list[dict[str, Any]] = []
        self.scores: list[dict[str, Any]] = []
        self.notes: list[dict[str, Any]] = []
        self.converses = type(algorithm).converse is not Algorithm.converse
        self.schedule = schedule(seed, settings.rounds, len(data.clients), settings.participation)
        algorithm.check(settings, (self._labels(round, chosen) for round, chosen in enumerate(self.schedule, 1)))
        self.round = -1
        self._refuse_idle_updates()
        own = as_float(self.data.images[self.data.server]), self.data.labels[self.data.server]
        own_styles = None if styles is None else styles[self.data.server]
        work = CloudSettings(seed, settings.optimiser, settings.batch_size, own_styles)
        self.cloud = algorithm.cloud(self.population.members, *own, work)
        self.eavesdroppers = algorithm.eavesdroppers(self.population.members, work)
        self.channel.listeners += tuple(self.eavesdroppers)
        self.progress, self.done, self.total = progress, 0, self._count_steps()

    # ---- what travels

    def _travelling(self, model: nn.Module) -> list[Any]:
        """Shared parameters, and shared buffers if the policy lets them travel. Counters (integers) never do."""
        return [
            entry
            for entry in selected(model, self.algorithm.shared)
            if entry.tensor.is_floating_point() and (entry.is_parameter or self.settings.buffers == "shared")
        ]

    def _empty_reference(self) -> nn.Module:
        """A model whose tensors are only what the server sends; what never travels is not there to be referred to."""
        reference = copied(self.template)
        travelling = {entry.name for entry in self.shared}
        for entry in list(entries(reference)):
            if entry.is_parameter and entry.name not in travelling:
                entry.owner.register_parameter(entry.leaf, None)
            elif entry.name not in travelling:
                entry.owner.register_buffer(entry.leaf, None)
        for member in self.population.members:
            member.__dict__["received"] = reference  # past nn.Module's registry: it is no part of the client's model
        return reference

    def _broadcast(self, round: int, clients: list[int]) -> None:
        payload = self.channel.down(round, clients, self.server.tensors)
        self.population.install(clients, {name: t for name, t in payload.items() if name in self.installed})
        for name, tensor in payload.items():
            entry = self.received_entries[name]
            value = nn.Parameter(tensor, requires_grad=False) if entry.is_parameter else tensor
            setattr(entry.owner, entry.leaf, value)

    def _begin(self, model: nn.Module, tensors: dict[str, Tensor]) -> None:
        """Put tensors of another run where the algorithm says they belong.

        Raises:
            InputError: there is no such tensor, or it has another shape.
        """
        for part in self.algorithm.started(model) if tensors else []:
            own = dict(part.named_parameters()) | dict(part.named_buffers())
            odd = [name for name, t in tensors.items() if name not in own or own[name].shape != t.shape]
            if odd:
                raise InputError(
                    f"start: that run has tensors that this one has not in this shape: {', '.join(odd[:4])}"
                )
            with torch.no_grad():
                for name, tensor in tensors.items():
                    own[name].copy_(tensor)

    def _begin_each(self, start: dict[str, Tensor]) -> None:
        """Every client begins as the client of the same number has ended, if that run has left each one's own tensors.

        Raises:
            InputError: it had another number of clients, or what they had each for themselves is shared here.
        """
        members = self.population.members
        for rows in start.values():
            if len(rows) not in (1, len(members)):
                raise InputError(f"start: that run has left the models of {len(rows)} clients, here are {len(members)}")
        own = {name: rows for name, rows in start.items() if len(rows) > 1}
        for client, member in enumerate(members):
            self._begin(member, {name: rows[client] for name, rows in own.items()})
        for entry in self.shared if own else []:
            rows = self.population.storage[entry.name]
            if (rows != rows[:1]).any():
                raise InputError(f"start: '{entry.name}' is shared here, but in that run every client had its own")

    def own(self, client: int) -> nn.Module:
        """A copy of a client's model as its last local training left it."""
        return copied(self.population.members[client], {id(self.received): self.received})

    def shared_model(self) -> nn.Module:
        """The model of a client that has just joined: initial tensors, then what the server shares."""
        return self._with_shared(copied(self.template))

    def synchronised(self, client: int) -> nn.Module:
        """A copy of a client's model as it would be at the start of the next round."""
        return self._with_shared(self.own(client))

    def _with_shared(self, model: nn.Module) -> nn.Module:
        with torch.no_grad():
            for entry in self.shared:
                target = model.get_parameter(entry.name) if entry.is_parameter else model.get_buffer(entry.name)
                target.copy_(self.server.tensors[entry.name])
        return model

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
            self._train(0, everyone, self.algorithm.prologue(), "prologue")
            self.round = 0
            after_round(self)
        self._tell()
        self.constants = [self._constants(client) for client in everyone]
        while self.round < self.settings.rounds:
            self._communication_round(self.round + 1, self.schedule[self.round])
            self.round += 1
            after_round(self)
        if epilogue := self.algorithm.epilogue():
            last = self.settings.rounds + 1
            self._broadcast(last, everyone)
            self._train(last, everyone, epilogue, "epilogue")

    def _tell(self) -> None:
        """Clients hear what each of the others has to say once and for all; it crosses the channel before round 1."""
        if type(self.algorithm).told is Algorithm.told:
            return
        clients = list(range(len(self.data.clients)))
        said = [self._told(client) for client in clients]
        told = {f"told.{name}": torch.stack([one[name] for one in said]) for name in said[0]}
        if not told:
            return
        if (0, 0, "up", next(iter(told))) not in self.channel.traffic:  # a run that goes on has heard it
            self.channel.down(0, clients, self.channel.up(0, clients, told))
        for member in self.population.members:
            member.__dict__["told"] = {name.removeprefix("told."): rows for name, rows in told.items()}

    def _told(self, client: int) -> dict[str, Tensor]:
        indices, draw = self.data.clients[client], _generator(self.seed, "told", client)
        seen = self._seen(client, self.data.images[indices], draw)
        with torch.no_grad():
            return self.algorithm.told(self.population.members[client], seen, self.data.labels[indices], draw)

    def _communication_round(self, round: int, chosen: list[int]) -> None:
        names = [entry.name for entry in self.shared]
        if names:
            self._broadcast(round, chosen)
        self._train(round, chosen, self.algorithm.phases(), "round")
        if self.converses:
            self._converse(round, chosen)
        if names:
            uploads = self.channel.up(round, chosen, self.population.rows(chosen, names))
            sizes = [len(self.data.share(client, round)) for client in chosen]
            self.server.aggregate(uploads, sizes, self._decay(round))
        if self.cloud is not None:
            self.cloud.finish(round, self.server.tensors)

    def _converse(self, round: int, chosen: list[int]) -> None:
        meeting = Meeting(
            round,
            self.seed,
            chosen,
            [self.population.members[client] for client in chosen],
            [self._fixed(client, self.data.share(client, round)) for client in chosen],
            self._labels(round, chosen),
            self.channel,
        )
        self.notes += [{"round": round} | row for row in self.algorithm.converse(meeting)]
        self.done += len(chosen)
        self.progress(round, self.done, self.total)

    def _labels(self, round: int, chosen: list[int]) -> list[Tensor]:
        return [self.data.labels[self.data.share(client, round)] for client in chosen]

    def _constants(self, client: int) -> dict[str, Tensor]:
        model, draws = self.population.members[client], _generator(self.seed, "constants", client)
        with torch.no_grad():
            parts = [
                self.algorithm.constants(model, self._seen(client, self.data.images[i], draws), self.data.labels[i])
                for i in self.data.clients[client].split(256)
            ]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def _fixed(self, client: int, indices: Tensor) -> dict[str, Tensor]:
        """The constants of a share of a client's images."""
        if self.data.turns is None:  # all of them
            return self.constants[client]
        own = self.data.clients[client]
        order = own.argsort()
        places = order[torch.searchsorted(own, indices, sorter=order)]
        return {name: rows[places] for name, rows in self.constants[client].items()}

    # ---- local work

    def _train(self, round: int, clients: list[int], phases: list[Phase], stage: str) -> None:
        """Each client works through the phases; the order of clients does not matter."""

        def work(client: int) -> list[dict[str, Any]]:
            try:
                return [
                    row
                    for number, phase in enumerate(phases)
                    for row in self._phase(round, client, number, phase, stage)
                ]
            except Exception as error:
                error.add_note(f"while training client {client} in round {round}")
                raise

        if not phases:
            return
        if self.workers > 1 and len(clients) > 1:
            with ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                rows = list(pool.map(work, clients))
        else:
            rows = [work(client) for client in clients]
        self.history += [row for client_rows in rows for row in client_rows]

    def _phase(self, round: int, client: int, number: int, phase: Phase, stage: str) -> list[dict[str, Any]]:
        model, indices = self.population.members[client], self.data.share(client, round)
        updates = self._updates(phase)
        leaves = [self._leaves(model, update, phase) for update in updates]
        place = f"{stage}/{client}/{number}"
        states = [self._optimiser_state(f"{place}/{u}") for u in range(len(updates))]
        losses: list[list[Tensor]] = [[] for _ in updates]
        if phase.begin is not None:
            with torch.no_grad():
                phase.begin(model)
        draws = _generator(self.seed, "draw", stage, round, client, number)
        order = _generator(self.seed, "batches", stage, round, client, number)
        steps = self._steps(round, client, phase)
        positions = batches(len(indices), self.settings.batch_size, steps, order)
        for batch in self._batches(phase, client, indices, positions, draws):
            self.batches[place] += 1
            for u, update in enumerate(updates):
                if self.batches[place] % update.every == 0:
                    if update.publish is not None:
                        self._publish(round, client, update.publish(model, batch))
                    losses[u].append(self._step(round, update, model, batch, leaves[u], states[u]))
            self.done += 1
            self.progress(round, self.done, self.total)
        if phase.end is not None:
            with torch.no_grad():
                phase.end(model, self._work(round, model, phase, updates, [len(taken) for taken in losses]))
        if phase.publish is not None:
            self._publish(round, client, phase.publish(model))
        means = {u: torch.stack(taken).mean().item() for u, taken in enumerate(losses) if taken}
        for mean in means.values():
            if not math.isfinite(mean):
                raise Diverged(round, client, mean)
        return [
            {
                "round": round,
                "client": client,
                "stage": stage,
                "phase": number,
                "update": u,
                "steps": len(losses[u]),
                "loss": mean,
            }
            for u, mean in means.items()
        ]

    def _work(self, round: int, model: nn.Module, phase: Phase, updates: list[Update], steps: list[int]) -> Work:
        rates: dict[str, float] = {}
        for update, taken in zip(updates, steps, strict=True):
            for entry in selected(model, update.which & phase.only):
                rate = taken * update.lr_factor * self._optimiser(update).lr * self._decay(round)
                rates[entry.name] = rates.get(entry.name, 0.0) + rate
        everyone = len(self.data.clients)
        chosen = len(self.schedule[round - 1]) if 0 < round <= self.settings.rounds else everyone
        return Work(rates, chosen / everyone)

    def _batches(
        self, phase: Phase, client: int, indices: Tensor, positions: Iterator[Tensor], draws: torch.Generator
    ) -> Iterator[Batch]:
        """Batches of a client's samples. They are drawn several at a time, which costs small images far less."""
        draw = phase.draw or self.algorithm.draw
        per_draw = max(1, DRAWN_NUMBERS // (self.settings.batch_size * self.data.images[0].numel()))
        constants = self._fixed(client, indices)
        while chunk := list(itertools.islice(positions, per_draw)):
            joined = torch.cat(chunk)
            images = indices[joined]
            drawn = draw(self._seen(client, self.data.images[images], draws), self.data.labels[images], draws)
            drawn = on_device(drawn, self.data.images.device)
            drawn |= {name: rows[joined] for name, rows in constants.items()}
            if self.data.styles is not None:
                drawn["style"] = self.data.styles[images]
            yield from split_batch(drawn, [len(part) for part in chunk])

    def _seen(self, client: int, images: Tensor, draws: torch.Generator) -> Tensor:
        images = as_float(images)
        if self.data.views is not None:
            images = self.data.views[client](images, draws)
        return images.contiguous(memory_format=torch.channels_last) if self.settings.channels_last else images

    def _step(
        self, round: int, update: Update, model: nn.Module, batch: Batch, leaves: list[Tensor], state: State
    ) -> Tensor:
        with torch.autocast(self.device_type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            loss = update.loss(model, batch)
        rate = update.lr_factor * self._decay(round)
        step(self._optimiser(update), leaves, gradients(loss, leaves), state, rate)
        return loss.detach()

    def _publish(self, round: int, client: int, message: dict[str, Tensor]) -> None:
        if not message:
            return
        sent = {f"published.{name}": tensor.unsqueeze(0) for name, tensor in message.items()}
        arrived = self.channel.up(round, [client], sent)
        if self.cloud is not None:
            message = {name.removeprefix("published."): rows[0] for name, rows in arrived.items()}
            self.cloud.receive(round, client, message)

    def _decay(self, round: int) -> float:
        """What learning rates are multiplied by in a round; the first has the full ones."""
        return self.settings.lr_decay ** max(0, round - 1)

    def _updates(self, phase: Phase) -> list[Update]:
        """Those of a phase that have something to move.

        Raises:
            ValueError: one of them has nothing, though the phase forbids nothing.
        """
        updates = [u for u in phase.updates if phase.only is everything or self._leaves(self.template, u, phase)]
        if not updates or not all(self._leaves(self.template, update, phase) for update in updates):
            raise ValueError("an update names no parameter of the model, so it would train nothing")
        return updates

    @staticmethod
    def _leaves(model: nn.Module, update: Update, phase: Phase) -> list[Tensor]:
        return [entry.tensor for entry in selected(model, update.which & phase.only) if entry.is_parameter]

    def _optimiser(self, update: Update) -> OptimiserSettings:
        return update.optimiser or self.settings.optimiser

    def _optimiser_state(self, place: str) -> State:
        return {} if self.settings.optimiser_state == "round" else self.optimiser_states.setdefault(place, {})

    def _steps(self, round: int, client: int, phase: Phase) -> int:
        size, batch_size = len(self.data.share(client, round)), self.settings.batch_size
        epochs = self.settings.local_epochs if phase.epochs is None else phase.epochs
        if phase.epochs is None and self.settings.local_steps is not None:
            epochs = self.settings.local_steps / steps_of(size, batch_size, 1)
        return steps_of(size, batch_size, epochs * phase.share)

    def _work_ahead(self) -> Iterator[tuple[Phase, Counter[int]]]:
        """All phases of the run, and how many batches each client will work on in them, all rounds together."""
        everyone = list(range(len(self.data.clients)))
        for phases, rounds in (
            (self.algorithm.prologue(), [(0, everyone)]),
            (self.algorithm.phases(), list(enumerate(self.schedule, start=1))),
            (self.algorithm.epilogue(), [(self.settings.rounds + 1, everyone)]),
        ):
            for phase in phases:
                count = Counter[int]()
                for round, clients in rounds:
                    count.update({client: self._steps(round, client, phase) for client in clients})
                yield phase, count

    def _refuse_idle_updates(self) -> None:
        """An update that nobody would ever take leaves its parameters as they began, and the run says nothing of it.

        Raises:
            InputError: a phase has batches, and an update that is taken after each n-th has fewer than n at any client.
        """
        for phase, count in self._work_ahead():
            most = max(count.values())
            for update in self._updates(phase) if most else []:
                if update.every > most:
                    first = next(e.name for e in selected(self.template, update.which & phase.only) if e.is_parameter)
                    raise InputError(
                        f"training: '{first}' would never be trained, since its update comes after each "
                        f"{update.every} batches and no client has more than {most} in the whole run; "
                        "give it more rounds or epochs, or smaller batches"
                    )

    def _count_steps(self) -> int:
        talks = sum(map(len, self.schedule)) if self.converses else 0
        return talks + sum(count.total() for _, count in self._work_ahead())

    # ---- checkpoints

    def state(self) -> dict[str, Any]:
        """All that a simulation made with the same arguments needs to go on from here."""
        return {
            "round": self.round,
            "server": self.server.state(),
            "storage": self.population.storage,
            "eavesdroppers": [listener.state() for listener in self.eavesdroppers],
            "cloud": None if self.cloud is None else self.cloud.state(),
            "optimiser_states": self.optimiser_states,
            "batches": dict(self.batches),
            "history": self.history,
            "scores": self.scores,
            "notes": self.notes,
            "traffic": dict(self.channel.traffic),
            "done": self.done,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.round, self.done = state["round"], state["done"]
        self.history, self.scores, self.notes = state["history"], state["scores"], state["notes"]
        self.server.load(state["server"])
        self.population.load(state["storage"])
        self.optimiser_states, self.batches = state["optimiser_states"], Counter(state["batches"])
        if self.cloud is not None:
            self.cloud.load(state["cloud"])
        for listener, kept in zip(self.eavesdroppers, state["eavesdroppers"], strict=True):
            listener.load(kept)
        self.channel.traffic.update(state["traffic"])
