"""What every side solves: McMahan's CNN on images of MNIST's size, plain SGD, one pass over each client's images.

Needs torch alone, as it is read in every peer's environment.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]
AfterRound = Callable[[Weights], None]
"""Called with the server's weights when all is ready, and after each round."""


@dataclass(frozen=True)
class Problem:
    """Clients with as many images each.

    Attributes:
        images: (clients x size, 1, 28, 28) bytes, client after client.
        labels: (clients x size,) of 10 classes.
        order: (clients, size) in what order a client goes through its images: the engine's own in its first round.
        sampled: how many clients take part in a round; all of them, or drawn by each side in its own way.
        initial: the weights that all start from.
        batch, rate: of plain SGD.
    """

    images: Tensor
    labels: Tensor
    order: Tensor
    sampled: int
    initial: Weights
    batch: int
    rate: float

    @property
    def clients(self) -> int:
        """How many there are."""
        return len(self.order)

    def of(self, client: int) -> tuple[Tensor, Tensor]:
        """A client's images in [0, 1] and its labels, in its order; whole batches only, unless it has less than one."""
        size = self.order.shape[1]
        chosen = client * size + self.order[client, : size // self.batch * self.batch or size]
        return self.images[chosen].float().div_(255), self.labels[chosen]

    def batches(self, client: int) -> Iterator[tuple[Tensor, Tensor]]:
        """One pass over a client's images."""
        x, y = self.of(client)
        return zip(x.split(self.batch), y.split(self.batch), strict=True)

    def save(self, file: Path) -> None:
        """For another process."""
        torch.save(asdict(self), file)

    @classmethod
    def load(cls, file: str | Path) -> "Problem":
        """From another process."""
        return cls(**torch.load(file, weights_only=True))


def network() -> nn.Module:
    """The CNN of McMahan et al. 2017 with its head; `networks.mcmahan`, of the same names, needs more than torch."""
    layers = nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 512),
        nn.ReLU(),
    )
    encoder = nn.Sequential(OrderedDict(layers=layers))
    return nn.Sequential(OrderedDict(encoder=encoder, head=nn.Linear(512, 10)))
