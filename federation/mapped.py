"""All clients' steps at once, for models so small that calling operators, and not computing, is what a step costs."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.func import grad_and_value, vmap

from common.optimisers import State, decay, step
from federation.algorithm import Batch, Phase, Update
from federation.functional import call_with
from federation.hooks import require
from federation.local import Diverged, LocalWork, updates_of
from federation.names import selected
from federation.simulation import Simulation


class MappedWork(LocalWork):
    """The local work of clients that take each step together, on a storage that has all of their models."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.population.keep(set(self.population.common))

    def trained(self, round: int, clients: list[int], phases: list[Phase], stage: str) -> Iterator[nn.Module]:
        """All of the clients, for they are steps on the storage.

        Raises:
            InputError: there is more to do than plain steps.
        """
        self._refuse_more_than_steps(phases)
        everybody = len(clients) == self.population.clients
        require(everybody, "training.participation: must be 1 where clients take each step together")
        member = self.population.lend(self.copies[0], clients[0])  # for its structure: it is given all their tensors
        for number, phase in enumerate(phases):
            updates = updates_of(phase, self.template)
            states = [State() for _ in updates]
            places = [f"{stage}/{client}/{number}" for client in clients]
            drawn = (self.drawn(round, client, number, phase, stage) for client in clients)
            for together in zip(*drawn, strict=True):
                batch = stacked(together)
                self.batches.update(places)
                for update, state in zip(updates, states, strict=True):
                    if self.batches[places[0]] % update.every == 0:
                        self._mapped_step(round, update, phase, member, batch, state)
        yield from (self.population.members[client] for client in clients)

    def _refuse_more_than_steps(self, phases: list[Phase]) -> None:
        more = (phase.begin or phase.end or phase.publish or any(u.publish for u in phase.updates) for phase in phases)
        plain = self.settings.optimiser_state == "round" and self.settings.precision == "fp32"
        require(plain and not any(more), "clients that take each step together take plain steps, and nothing else")

    def _mapped_step(
        self, round: int, update: Update, phase: Phase, member: nn.Module, batch: Batch, state: State
    ) -> None:
        """A step of every client, which is a step on the storage."""
        storage = self.population.storage
        moving = {e.name for e in selected(member, update.which & phase.only) if e.is_parameter}
        moved = {name: rows for name, rows in storage.items() if name in moving}
        still = {name: rows for name, rows in storage.items() if name not in moving}

        def loss(moved: dict[str, Tensor], still: dict[str, Tensor], batch: Batch) -> Tensor:
            return call_with(moved | still, update.loss, member, batch)

        gradients, losses = vmap(grad_and_value(loss))(moved, still, batch)
        if not losses.isfinite().all():
            client = int(losses.isfinite().long().argmin())
            raise Diverged(round, client, losses[client].item())
        rate = update.lr_factor * decay(self.settings.lr_decay, round)
        step(self.optimiser(update), list(moved.values()), list(gradients.values()), state, rate)


class MappedSimulation(Simulation):
    """A simulation whose clients take each step together, under `torch.func.vmap`: the loop's numbers up to rounding.

    For plain steps: all clients take part, with equally many samples, and no phase begins, ends or publishes anything.
    Optimisers start anew in each round, and there is no history.
    """

    local_work = MappedWork


def stacked(together: Sequence[Batch]) -> Batch:
    """Batches of all clients as one, with a leading client axis."""
    return {
        key: tuple(map(torch.stack, zip(*(batch[key] for batch in together), strict=True)))
        if isinstance(value, tuple)
        else torch.stack([batch[key] for batch in together])
        for key, value in together[0].items()
    }
