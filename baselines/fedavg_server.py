"""FedAvg whose server has images of its own: what PS-FedGAN's baselines are when given what it is given."""

from typing import Any

import torch
from torch import Tensor, nn

from common.keys import random_key
from common.optimisers import State
from common.settings import Count
from federation import Algorithm, ServerWorkSettings, require, settings, train_on


@settings
class FedAvgServer(Algorithm):
    """After each round the server trains the mean on its own images, and sends what comes out.

    Attributes:
        server_epochs: passes over them.
    """

    server_epochs: Count = 1

    def server_work(self, members: list[Any], images: Tensor, labels: Tensor, work: ServerWorkSettings) -> "Finisher":
        """Refuses a server that would never train: batches of one image are left out."""
        require(len(images) > 1, f"data.server_share: the server needs two images to train on, got {len(images)}")
        return Finisher(self, images, labels, work)


class Finisher:
    """Trains the shared tensors once more."""

    def __init__(self, algorithm: FedAvgServer, images: Tensor, labels: Tensor, work: ServerWorkSettings) -> None:
        self.algorithm, self.images, self.labels, self.work = algorithm, images, labels, work
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(random_key(work.seed, "finisher"))
            self.model: nn.Module = algorithm.model().to(work.device)
        self.batches = 0

    def receive(self, round: int, client: int, message: dict[str, Tensor]) -> None:
        """Clients publish nothing."""

    def finish(self, round: int, shared: dict[str, Tensor]) -> None:
        """With a fresh optimiser, as a client."""
        self.model.load_state_dict(shared, strict=False)  # what stays with clients is not there
        draw, states = torch.Generator().manual_seed(random_key(self.work.seed, "server", round)), list[State]()
        own = self.images, self.labels, self.work, states, draw, self.algorithm.server_epochs, self.work.styles
        self.batches = train_on(self.algorithm.objective, self.model, *own, self.batches, round)
        shared.update({name: t.detach().clone() for name, t in self.model.state_dict().items() if name in shared})

    def scores(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """It has no model but the one that clients have."""
        return {}

    def state(self) -> dict[str, Any]:
        """How many batches it has worked on, and the model, of which clients may have parts for themselves."""
        return {"batches": self.batches, "model": self.model.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.batches = state["batches"]
        self.model.load_state_dict(state["model"])
