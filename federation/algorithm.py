"""How a federated algorithm is written down: what is shared, and what a client does between two aggregations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from common.settings import settings
from common.spec import OptimiserSettings
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

    def plus(self, penalty: Callable[[Any, Batch], Tensor]) -> Update:
        """The same step with a penalty on the whole model, and on what it makes of the batch, added to its loss."""
        return replace(self, loss=lambda m, batch: self.loss(m, batch) + penalty(m, batch))


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


@settings
class Algorithm:
    """Base of all algorithms; on its own it is FedAvg (McMahan et al. 2017, Algorithm 1).

    A subclass states its differences. It is frozen: all state is in the clients' models and the server's tensors. What
    few algorithms need, such as steps that only the server takes, is a hook of its own: `federation.hooks`.
    """

    objective: Any

    shared: ClassVar[Names] = everything
    """What a client sends, and the server averages and sends back."""

    def model(self) -> Any:
        """What one client holds. All clients start from the same initial tensors."""
        return self.objective.model()

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Batch:
        """A batch from images and labels."""
        return self.objective.draw(x, y, generator)

    def updates(self) -> list[Update]:
        """The steps taken on each batch of a round."""
        return self.objective.updates()

    def phases(self) -> list[Phase]:
        """The local work of one round."""
        return [Phase(self.updates())]

    def prologue(self) -> list[Phase]:
        """Local work of every client before the first round."""
        return []

    def global_model(self, model: Any) -> Any:
        """The part of what a client holds that is the objective's model as the server would know it."""
        return model

    def personal_model(self, model: Any) -> Any:
        """The part of what a client holds that is its own, complete model of the objective."""
        return model

    def scores(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """What a client's own model is scored by on test images x in [0, 1]: name -> a number for each, (batch,)."""
        return self.objective.scores(self.personal_model(model), x, y)

    def global_features(self, model: Any, x: Tensor) -> dict[str, Tensor]:
        """Features of images under the shared model: `features` (batch, dimensions)."""
        return {"features": self.global_model(model).encoder(x)}

    def personal_features(self, model: Any, x: Tensor) -> dict[str, Tensor]:
        """Features of images under a client's own model."""
        return {"features": self.personal_model(model).encoder(x)}


def sq_distance(model: nn.Module, reference: nn.Module) -> Tensor:
    """‖model − reference‖², summed over all parameters; no gradient reaches `reference`.

    Raises:
        ValueError: the two do not hold the same parameters, so that a part of the distance would silently be missing.
    """
    ours, theirs = dict(model.named_parameters()), dict(reference.named_parameters())
    if not ours or ours.keys() != theirs.keys():
        raise ValueError(f"these parameters have no partner: {sorted(ours.keys() ^ theirs.keys()) or 'all'}")
    return torch.stack([(p - theirs[name].detach()).square().sum() for name, p in ours.items()]).sum()
