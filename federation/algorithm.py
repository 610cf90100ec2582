"""How a federated algorithm is written down: what is shared, and what a client does between two aggregations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from common.errors import InputError
from common.settings import settings
from common.spec import OptimiserSettings, TrainingSettings
from federation.channel import Channel, Message
from federation.names import Names, everything

Batch = dict[str, Any]  # tensors, or tuples of tensors, whose first axis is the sample
Draw = Callable[[Tensor, Tensor, torch.Generator], Batch]


class Objective(Protocol):
    """What one client minimises on one batch; see the package `objectives`."""

    def model(self) -> Any:
        """A freshly initialised model with a part called `encoder`."""

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Batch:
        """A batch from images and labels; all that is random about it comes from `generator`."""

    def scores(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """What a trained model is scored by: name -> a number for each image."""

    def updates(self) -> list[Update]:
        """The steps that lower it, on a model of its own.

        Their losses are pure functions of tensors, so that `torch.func.vmap` can map them over clients.
        """


@dataclass(frozen=True)
class Update:
    """One gradient step on the tensors in `which`.

    Attributes:
        which: the parameters that move; all others are constants to this step.
        loss: (client's model, batch) -> scalar. `model.received` holds what the server sent this round.
        every: the step is taken after each `every`-th batch of a client; the count runs on from round to round.
        lr_factor: multiplies the learning rate.
        optimiser: in the place of the run's.
        publish: (client's model, batch) -> what the client sends to the server right before it takes the step, if
            anything.
    """

    which: Names
    loss: Callable[[Any, Batch], Tensor]
    every: int = 1
    lr_factor: float = 1.0
    optimiser: OptimiserSettings | None = None
    publish: Callable[[Any, Batch], dict[str, Tensor]] | None = None

    def on(self, part: str) -> Update:
        """The same step on the model's part of this name."""
        return replace(self, which=self.which.below(part), loss=lambda m, batch: self.loss(getattr(m, part), batch))

    def plus(self, penalty: Callable[[Any], Tensor]) -> Update:
        """The same step with a penalty on the whole model added to its loss."""
        return replace(self, loss=lambda m, batch: self.loss(m, batch) + penalty(m))


@dataclass(frozen=True)
class CloudSettings:
    """How a server's own work is done.

    Attributes:
        seed: of the run; what the server and its clients agree on in secret follows from it.
        optimiser, batch_size: the clients', for a server that takes their steps with them, or such as they do.
        styles: of the server's own images, (images,); None if images show none.
    """

    seed: int
    optimiser: OptimiserSettings
    batch_size: int
    styles: Tensor | None = None


@dataclass(frozen=True)
class Work:
    """What a client has done in a phase.

    Attributes:
        rates: trained tensor -> the sum of the learning rates of the steps that were taken on it.
        participation: the share of all clients that take part in the round.
    """

    rates: dict[str, float]
    participation: float


@dataclass(frozen=True)
class Phase:
    """Updates taken in order on each batch, for a number of passes over the client's data.

    Attributes:
        epochs: passes, may be fractional; None means the run's `local_epochs`, or its `local_steps`.
        share: the share of these passes that is taken.
        draw: how a batch is made, if not as the algorithm's `draw`.
        only: the parameters that may move in this phase; an update that names no other is left out.
        begin: called with the client's model before the first step.
        end: called with the client's model, and what was done, after the last step.
        publish: client's model -> what it sends to the server after the last step.
    """

    updates: list[Update]
    epochs: float | None = None
    share: float = 1.0
    draw: Draw | None = None
    only: Names = everything
    begin: Callable[[Any], None] | None = None
    end: Callable[[Any, Work], None] | None = None
    publish: Callable[[Any], dict[str, Tensor]] | None = None


@dataclass(frozen=True)
class Meeting:
    """A round of a protocol of an algorithm's own: who is there, and the channel between them.

    Attributes:
        round: from 1.
        seed: of the run.
        clients: the numbers of those who take part.
        members: their models.
        constants: for each, what `Algorithm.constants` says of its training images.
        labels: for each, (images,).
    """

    round: int
    seed: int
    clients: list[int]
    members: list[Any]
    constants: list[dict[str, Tensor]]
    labels: list[Tensor]
    channel: Channel

    def up(self, **said: Tensor) -> Tensor:
        """Every client sends its row of the tensor (clients, *shape); what arrives. Numbers travel with 32 bits."""
        return next(iter(self.channel.up(self.round, self.clients, _travelling(said)).values()))

    def down(self, **said: Tensor) -> Tensor:
        """The server sends everybody the tensor; what arrives."""
        return next(iter(self.channel.down(self.round, self.clients, _travelling(said)).values()))


def _travelling(said: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in said.items()}


class Listener(Protocol):
    """Somebody on the channel, who hears every message."""

    def __call__(self, message: Message) -> None:
        """A message that crossed, a copy."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""


class Cloud(Protocol):
    """What a server does beside averaging: it takes what clients publish, step by step, and works on its own."""

    def receive(self, round: int, client: int, message: dict[str, Tensor]) -> None:
        """One message of a client; those of different clients may come at the same time."""

    def finish(self, round: int, shared: dict[str, Tensor]) -> None:
        """The server's own work at the end of a round; it may train `shared`, what it will send next, in place."""

    def scores(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """What a model that only the server has is scored by on test images: name -> a number for each image."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: tensors, numbers, and containers of them."""

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""


@settings
class Algorithm:
    """Base of all algorithms; on its own it is FedAvg (McMahan et al. 2017, Algorithm 1).

    A subclass states its differences. It is frozen: all state is in the clients' models and the server's tensors.
    """

    objective: Any

    shared: ClassVar[Names] = everything
    """What a client sends, and the server averages and sends back."""
    pooled: ClassVar[Literal["", "clients", "server"]] = ""
    """Train one client, on the data of all clients or on the server's."""
    keeps_own: ClassVar[bool] = False
    """A client goes on using its model as its own training left it, not with the shared part that comes back."""

    @property
    def installed(self) -> Names:
        """What it receives a client puts into its own model; the rest it only refers to as `model.received`."""
        return everything

    def model(self) -> Any:
        """What one client holds. All clients start from the same initial tensors."""
        return self.objective.model()

    def started(self, model: Any) -> list[Any]:
        """The parts of what a client holds that begin as another run has ended, each with that run's names."""
        return [self.general(model), self.personal(model)]

    def check(self, training: TrainingSettings, rounds: Iterable[list[Tensor]]) -> None:
        """Asked before anything is trained.

        Args:
            rounds: for each, the labels of the images of those who take part.

        Raises:
            InputError: the algorithm cannot do that.
        """

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Batch:
        """A batch from images and labels."""
        return self.objective.draw(x, y, generator)

    def updates(self) -> list[Update]:
        """The steps taken on each batch of a round."""
        return self.objective.updates()

    def phases(self) -> list[Phase]:
        """The local work of one round."""
        return [Phase(self.updates())]

    def converse(self, meeting: Meeting) -> list[dict[str, float]]:
        """A round that is a protocol of its own, in the place of local work and averaging; such a one has no phases.

        Returns:
            What is to be noted: rows of notes.csv, all with the same keys.
        """
        return []

    def prologue(self) -> list[Phase]:
        """Local work of every client before the first round."""
        return []

    def epilogue(self) -> list[Phase]:
        """Local work of every client on the final shared tensors, after the last round."""
        return []

    def cloud(self, members: list[Any], images: Tensor, labels: Tensor, work: CloudSettings) -> Cloud | None:
        """What the server does beside averaging, if anything. Called once, before anything is trained.

        Args:
            members: all clients' models, to which a secret that they and the server agree on beforehand may be given.
            images, labels: the server's own training images, in [0, 1], and their labels.
        """
        return None

    def eavesdroppers(self, members: list[Any], work: CloudSettings) -> list[Listener]:
        """Who listens on the channel. `members` as at the start: what is known of them beforehand may be used."""
        return []

    def told(self, model: Any, x: Tensor, y: Tensor, draw: torch.Generator) -> dict[str, Tensor]:
        """What each client tells all others once, after the prologue, of its model, its images x and labels y.

        Everybody finds it in `model.told`, name -> (clients, *shape), in the order of the clients.
        """
        return {}

    def constants(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Per-sample tensors, of a client's images x and their labels y, that stay fixed once the prologue is over and
        everybody has been told; batches and meetings have them."""
        return {}

    def applications(self, members: list[Any], draw: torch.Generator, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """What else a method shows of its trained models, as arrays for evaluations.

        Args:
            members: all clients' models, with the shared tensors as the server last put them together.
            x, y: test images (images, channels, height, width) in [0, 1] that no client sees as they are, and labels.
        """
        return {}

    def general(self, model: Any) -> Any:
        """The part of what a client holds that is the objective's model as the server would know it."""
        return model

    def personal(self, model: Any) -> Any:
        """The part of what a client holds that is its own, complete model of the objective."""
        return model

    def scores(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """What a client's own model is scored by on test images x in [0, 1]: name -> a number for each, (batch,)."""
        return self.objective.scores(self.personal(model), x, y)

    def generalised(self, model: Any, x: Tensor) -> dict[str, Tensor]:
        """Features of images under the shared model: `features` (batch, dimensions)."""
        return {"features": self.general(model).encoder(x)}

    def personalised(self, model: Any, x: Tensor) -> dict[str, Tensor]:
        """Features of images under a client's own model."""
        return {"features": self.personal(model).encoder(x)}


def require(holds: bool, otherwise: str) -> None:
    """What an algorithm's `check` says of a setting that would break it without a word.

    Raises:
        InputError: it does not hold; with this sentence.
    """
    if not holds:
        raise InputError(otherwise)


def sq_distance(model: nn.Module, reference: nn.Module) -> Tensor:
    """‖model − reference‖², summed over all parameters; no gradient reaches `reference`.

    Raises:
        ValueError: the two do not hold the same parameters, so that a part of the distance would silently be missing.
    """
    ours, theirs = dict(model.named_parameters()), dict(reference.named_parameters())
    if not ours or ours.keys() != theirs.keys():
        raise ValueError(f"these parameters have no partner: {sorted(ours.keys() ^ theirs.keys()) or 'all'}")
    return torch.stack([(p - theirs[name].detach()).square().sum() for name, p in ours.items()]).sum()
