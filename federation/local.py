"""The local work of clients: phases of steps on batches of their own images."""

import itertools
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from common.errors import InputError
from common.keys import random_key
from common.optimisers import State, decay, step
from common.spec import OptimiserSettings, TrainingSettings
from federation.algorithm import Algorithm, Batch, Phase, Update, Work
from federation.data import ClientData, as_float, batches, on_device, split_batch, steps_of
from federation.functional import gradients
from federation.names import everything, selected
from federation.population import Population

DRAWN_NUMBERS = 2**20
"""Batches are drawn together up to about this many pixel values, which still fit a cache."""
COPIES_OF_A_WORKER = 2
"""Working copies: on one it trains, the other may have to wait until those before its client are done."""
Step = Callable[[Batch], Tensor]
"""A step on a batch of a client's, and its loss, () without gradient."""
Row = dict[str, Any]
"""Of history.csv: how many steps an update of a phase has taken at a client in a round, and their mean loss."""


class Diverged(RuntimeError):
    """A client's loss is no longer a finite number."""

    def __init__(self, round: int, client: int, loss: float) -> None:
        super().__init__(f"diverged: the loss of client {client} is {loss} in round {round}; try a lower learning rate")


class Publish(Protocol):
    """Takes what a client sends to the server in the middle of its work."""

    def __call__(self, round: int, client: int, message: dict[str, Tensor]) -> None:
        """One message."""


def generator(*key: int | str) -> torch.Generator:
    """A random stream of its own for each key."""
    return torch.Generator().manual_seed(random_key(*key))


def moving(model: nn.Module, update: Update, phase: Phase) -> list[Tensor]:
    """The parameters of a client's model that an update of a phase trains."""
    return [entry.tensor for entry in selected(model, update.which & phase.only) if entry.is_parameter]


def updates_of(phase: Phase, template: nn.Module) -> list[Update]:
    """Those of a phase that have something to move.

    Raises:
        InputError: one of them has nothing, though the phase forbids nothing.
    """
    updates = [u for u in phase.updates if phase.only is everything or moving(template, u, phase)]
    if not updates or not all(moving(template, update, phase) for update in updates):
        raise InputError("training: an update has no parameter to train; is all that it is for frozen?")
    return updates


def steps_in(phase: Phase, settings: TrainingSettings, images: int) -> int:
    """How many batches a client with so many images works on in a phase."""
    epochs = settings.local_epochs if phase.epochs is None else phase.epochs
    if phase.epochs is None and settings.local_steps is not None:
        epochs = settings.local_steps / steps_of(images, settings.batch_size, 1)
    return steps_of(images, settings.batch_size, epochs * phase.share)


@dataclass
class LocalWork:
    """What clients do between two exchanges with the server, and what of it lasts from round to round.

    Attributes:
        population: the clients' models.
        template: a model like theirs.
        schedule: the clients of each round.
        publish: takes what a client sends in the middle of it.
        tick: called after each step of a client.
        copies: the models on which they work in turn.
        constants: of each client, per-sample tensors in the order of its images, which its batches have, too.
        optimiser_states: by place: client, phase and update.
        batches: how many each place has had, for updates that are not taken on each.
        history: rows of what was done.
    """

    algorithm: Algorithm
    data: ClientData
    settings: TrainingSettings
    seed: int
    workers: int
    population: Population
    template: nn.Module
    schedule: list[list[int]]
    publish: Publish
    tick: Callable[[int], None]
    copies: list[nn.Module] = field(init=False)
    constants: list[dict[str, Tensor]] = field(init=False)
    optimiser_states: dict[str, State] = field(default_factory=dict)
    batches: Counter[str] = field(default_factory=Counter)
    history: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        copies = min(COPIES_OF_A_WORKER * self.workers, self.population.clients) if self.workers > 1 else 1
        self.copies = [self.population.working_copy() for _ in range(copies)]
        self.constants = [{} for _ in range(self.population.clients)]

    def train(self, round: int, clients: list[int], phases: list[Phase], stage: str) -> None:
        """Each client works through the phases, and nobody hears of it; see `trained`."""
        for _ in self.trained(round, clients, phases, stage) if phases else ():
            pass

    def trained(self, round: int, clients: list[int], phases: list[Phase], stage: str) -> Iterator[nn.Module]:
        """Each client works through the phases, `workers` of them at a time.

        Yields:
            Their models, in the order of `clients`; the next one may be on the same working copy.

        Raises:
            Diverged: a client's loss is not finite.
        """

        planned = [(phase, updates_of(phase, self.template)) for phase in phases]

        def work(client: int, model: nn.Module) -> list[Row]:
            try:
                self.population.lend(model, client)
                numbered = enumerate(planned)
                return [r for n, plan in numbered for r in self._phase(round, client, model, n, *plan, stage)]
            except Exception as error:
                error.add_note(f"while training client {client} in round {round}")
                raise

        rows: list[Row] = []
        for model, of_client in self._in_turn(work, clients):
            rows += of_client
            yield model
        self.history += rows

    def _in_turn(
        self, work: Callable[[int, nn.Module], list[Row]], clients: list[int]
    ) -> Iterator[tuple[nn.Module, list[Row]]]:
        """What comes of the clients' work, in their order, which is the same for any number of workers."""
        if len(self.copies) == 1 or len(clients) == 1:
            yield from ((self.copies[0], work(client, self.copies[0])) for client in clients)
            return
        with ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            under_way: deque[tuple[nn.Module, Future[list[Row]]]] = deque()
            for client, model in zip(clients, itertools.cycle(self.copies), strict=False):
                if len(under_way) == len(self.copies):  # the first of them is the one that has this copy
                    yield _result(*under_way.popleft())
                under_way.append((model, pool.submit(work, client, model)))
            yield from itertools.starmap(_result, under_way)

    def _phase(
        self, round: int, client: int, model: nn.Module, number: int, phase: Phase, updates: list[Update], stage: str
    ) -> list[Row]:
        place = f"{stage}/{client}/{number}"
        leaves = [moving(model, update, phase) for update in updates]
        states = [self._optimiser_state(f"{place}/{u}") for u in range(len(updates))]
        of = zip(updates, leaves, states, strict=True)
        steps = [self.step_of(round, update, model, own, state) for update, own, state in of]
        losses: list[list[Tensor]] = [[] for _ in updates]
        if phase.begin is not None:
            with torch.no_grad():
                phase.begin(model)
        for batch in self.drawn(round, client, number, phase, stage):
            self.batches[place] += 1
            for u, update in enumerate(updates):
                if self.batches[place] % update.every == 0:
                    if update.publish is not None:
                        self.publish(round, client, update.publish(model, batch))
                    losses[u].append(steps[u](batch))
            self.tick(round)
        if phase.end is not None:
            with torch.no_grad():
                phase.end(model, self._done(round, model, phase, updates, [len(taken) for taken in losses]))
        if phase.publish is not None:
            self.publish(round, client, phase.publish(model))
        where = {"round": round, "client": client, "stage": stage, "phase": number}
        return [where | row for row in _rows_of(losses, round, client)]

    def drawn(self, round: int, client: int, number: int, phase: Phase, stage: str) -> Iterator[Batch]:
        """The batches of a phase, in order."""
        indices = self.data.share(client, round)
        draws, order = (generator(self.seed, use, stage, round, client, number) for use in ("draw", "batches"))
        steps = steps_in(phase, self.settings, len(indices))
        positions = batches(len(indices), self.settings.batch_size, steps, order)
        return self.batches_of(phase, client, indices, positions, draws)

    def batches_of(
        self, phase: Phase, client: int, indices: Tensor, positions: Iterator[Tensor], draws: torch.Generator
    ) -> Iterator[Batch]:
        """Batches of a client's samples. They are drawn several at a time, which costs small images far less."""
        draw = phase.draw or self.algorithm.draw
        per_draw = max(1, DRAWN_NUMBERS // (self.settings.batch_size * self.data.images[0].numel()))
        constants = self.fixed(client, indices)
        while chunk := list(itertools.islice(positions, per_draw)):
            joined = torch.cat(chunk)
            images = indices[joined]
            drawn = draw(self.seen(client, images, draws), self.data.labels[images], draws)
            drawn = on_device(drawn, self.data.images.device)
            drawn |= {name: rows[joined] for name, rows in constants.items()}
            if self.data.styles is not None:
                drawn["style"] = self.data.styles[images]
            yield from split_batch(drawn, [len(part) for part in chunk])

    def seen(self, client: int, indices: Tensor, draws: torch.Generator) -> Tensor:
        """Images as a client sees them."""
        images = as_float(self.data.images[indices])
        if self.data.views is not None:
            images = self.data.views[client](images, draws)
        return images.contiguous(memory_format=torch.channels_last) if self.settings.channels_last else images

    def fixed(self, client: int, indices: Tensor) -> dict[str, Tensor]:
        """The constants of a share of a client's images."""
        if self.data.turns is None:  # all of them
            return self.constants[client]
        own = self.data.clients[client]
        order = own.argsort()
        places = order[torch.searchsorted(own, indices, sorter=order)]
        return {name: rows[places] for name, rows in self.constants[client].items()}

    def step_of(self, round: int, update: Update, model: nn.Module, leaves: list[Tensor], state: State) -> Step:
        """The steps of an update that a client takes in a phase, on a model in which `leaves` move."""
        bf16, rate = self.settings.precision == "bf16", update.lr_factor * decay(self.settings.lr_decay, round)

        def take(batch: Batch) -> Tensor:
            with torch.autocast(self.data.images.device.type, torch.bfloat16, enabled=bf16):
                loss = update.loss(model, batch)
            step(self.optimiser(update), leaves, gradients(loss, leaves), state, rate)
            return loss.detach()

        return take

    def _done(self, round: int, model: nn.Module, phase: Phase, updates: list[Update], steps: list[int]) -> Work:
        rates: dict[str, float] = {}
        for update, taken in zip(updates, steps, strict=True):
            for entry in selected(model, update.which & phase.only):
                rate = taken * update.lr_factor * self.optimiser(update).lr * decay(self.settings.lr_decay, round)
                rates[entry.name] = rates.get(entry.name, 0.0) + rate
        everyone = len(self.data.clients)
        chosen = len(self.schedule[round - 1]) if 0 < round <= self.settings.rounds else everyone
        return Work(rates, chosen / everyone)

    def optimiser(self, update: Update) -> OptimiserSettings:
        """The update's own, or the run's."""
        return update.optimiser or self.settings.optimiser

    def _optimiser_state(self, place: str) -> State:
        return {} if self.settings.optimiser_state == "round" else self.optimiser_states.setdefault(place, {})


def _result(model: nn.Module, work: Future[list[Row]]) -> tuple[nn.Module, list[Row]]:
    return model, work.result()


def _rows_of(losses: list[list[Tensor]], round: int, client: int) -> list[Row]:
    """Steps and mean loss of each update that took any.

    Raises:
        Diverged: a mean is not finite.
    """
    means = {u: torch.stack(taken).mean().item() for u, taken in enumerate(losses) if taken}
    for mean in means.values():
        if not math.isfinite(mean):
            raise Diverged(round, client, mean)
    return [{"update": u, "steps": len(losses[u]), "loss": mean} for u, mean in means.items()]
