"""Hooks that few algorithms need. Each is a protocol, which an algorithm takes on by having what the protocol names.

The engine asks for each by `isinstance`. Whoever reads FedAvg or FedProx never meets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Generator, Tensor

from common.errors import InputError
from common.spec import OptimiserSettings, TrainingSettings
from federation.algorithm import Algorithm, Phase
from federation.channel import Channel, Message
from federation.names import Names

# ---- before anything is trained


@runtime_checkable
class Particular(Protocol):
    """Some settings or data would break it without a word: `SCAFFOLD` takes plain SGD alone."""

    def check(self, training: TrainingSettings, rounds: Iterable[list[Tensor]]) -> None:
        """Asked before anything is trained.

        Args:
            rounds: for each, the labels of the images of those who take part.

        Raises:
            InputError: the algorithm cannot do that.
        """


@runtime_checkable
class Pooled(Protocol):
    """One client is trained, on the data of all clients or on the server's: `Centralized`."""

    pooled: ClassVar[Literal["clients", "server"]]


@runtime_checkable
class Transfers(Protocol):
    """What another run has left goes elsewhere than into the global and the personal model: `FedDIRT`."""

    def started(self, model: Any) -> list[Any]:
        """The parts of what a client holds that begin as another run has ended, each with that run's names."""


@runtime_checkable
class Preparing(Protocol):
    """Clients begin with something of their own each: the secrets that users of `PSFedGAN` share with the server."""

    def prepare(self, members: Sequence[Any], seed: int) -> None:
        """Put it into the clients' models, in the order of the clients; `seed` is the run's.

        It is what they have of their own: what is shared, they take from the server.
        """


# ---- what clients have beside their own


@runtime_checkable
class Referring(Protocol):
    """A client puts only a part of what it receives into its own model: FedStyle's reading of `FedProx`."""

    @property
    def installed(self) -> Names:
        """That part; to the rest it refers as `model.received`."""


@runtime_checkable
class Announcing(Protocol):
    """Clients tell each other something once, before the first round: the mean images of `NaiveMix`."""

    def announced(self, model: Any, x: Tensor, y: Tensor, draw: Generator) -> dict[str, Tensor]:
        """What each client tells all others, after the prologue, of its model, its images x and labels y.

        Everybody finds it in `model.announced`, name -> (clients, *shape), in the order of the clients.
        """


@runtime_checkable
class Precomputing(Protocol):
    """Something about each image is computed once: the generated images of `FedStyle`."""

    def constants(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Per-sample tensors, of a client's images x and their labels y, that stay fixed once the prologue is over and
        everybody has been told; batches and exchanges have them.

        A run that goes on from a checkpoint asks again: they hang on nothing that rounds train.
        """


# ---- rounds that are more than local work and a mean


@dataclass(frozen=True)
class Exchange:
    """A round of a protocol of an algorithm's own: who is there, and the channel between them.

    Attributes:
        round: from 1.
        seed: of the run.
        clients: the numbers of those who take part.
        members: their models.
        constants: for each, what `Precomputing.constants` says of its training images.
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


@runtime_checkable
class Exchanging(Protocol):
    """A round is a protocol of its own, in the place of local work and averaging: a layer of `FedINB`."""

    def exchange(self, exchange: Exchange) -> list[dict[str, float]]:
        """One round.

        Returns:
            What is to be noted: rows of notes.csv, all with the same keys.
        """


@dataclass(frozen=True)
class ServerWorkSettings:
    """How a server's own work is done.

    Attributes:
        seed: of the run; what the server and its clients agree on in secret follows from it.
        optimiser, batch_size: the clients', for a server that takes their steps with them, or such as they do.
        styles: of the server's own images, (images,); None if images show none.
        device: where its models are.
        lr_decay: what its learning rates are multiplied by after each round, as the clients' are.
    """

    seed: int
    optimiser: OptimiserSettings
    batch_size: int
    styles: Tensor | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    lr_decay: float = 1.0


class ServerWork(Protocol):
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


@runtime_checkable
class WorkingServer(Protocol):
    """The server does more than averaging: the classifier of `PSFedGAN`."""

    def server_work(
        self, members: Sequence[Any], images: Tensor, labels: Tensor, work: ServerWorkSettings
    ) -> ServerWork:
        """The server's own work. Called once, before anything is trained.

        Args:
            members: all clients' models as they begin, with secrets that they and the server have agreed on.
            images, labels: the server's own training images, in [0, 1], and their labels.
        """


@runtime_checkable
class Listener(Protocol):
    """Somebody on the channel, who hears every message."""

    def __call__(self, message: Message) -> None:
        """A message that crossed, a copy."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""


@runtime_checkable
class Overheard(Protocol):
    """Somebody listens on the channel: the attackers of `PSFedGAN`."""

    def eavesdroppers(self, members: Sequence[Any], work: ServerWorkSettings) -> list[Listener]:
        """Who does. `members` as at the start: what is known of them beforehand may be used."""


# ---- once training is over


@runtime_checkable
class FineTuning(Protocol):
    """A client goes on from what it receives last, and uses its model as its own training left it: `FedAvgFT`."""

    def epilogue(self) -> list[Phase]:
        """Local work of every client on the final shared tensors, after the last round."""


@runtime_checkable
class Restyling(Protocol):
    """A procedure of its own shows an image in other clients' styles: Algorithm 2 of `PaDPaF`."""

    def restyled(self, members: list[Any], draw: Generator, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """What comes of it, as arrays for evaluations.

        Args:
            members: all clients' models, with the shared tensors as the server last put them together.
            x, y: test images (images, channels, height, width) in [0, 1] that no client sees as they are, and labels.
        """


# ---- those that are asked from several places, and what holds without them


def check(algorithm: Algorithm, training: TrainingSettings, rounds: Iterable[list[Tensor]]) -> None:
    """Ask the algorithm whether it can work with these settings and data, see `Particular`; most can with all.

    Raises:
        InputError: it cannot; or the server trains, too, which it does in fp32 alone.
    """
    alike = training.precision == "fp32" or not isinstance(algorithm, WorkingServer)
    require(alike, "training.precision: must be 'fp32', as that of what the server trains")
    if isinstance(algorithm, Particular):
        algorithm.check(training, rounds)


def pooled(algorithm: Algorithm) -> Literal["", "clients", "server"]:
    """On whose data one client is trained; '' if there are several."""
    return algorithm.pooled if isinstance(algorithm, Pooled) else ""


def require(holds: bool, otherwise: str) -> None:
    """What an algorithm's `check` says of a setting that would break it without a word.

    Raises:
        InputError: it does not hold; with this sentence.
    """
    if not holds:
        raise InputError(otherwise)
