"""FedAvg as one writes it in plain PyTorch for one experiment: what the engine is measured against."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.keys import random_key
from common.spec import TrainingSettings
from federation import ClientData
from federation.data import batches, steps_of
from networks import McMahanCNN
from objectives.objective import Model


def mnist_like(clients: int, images: int) -> ClientData:
    """Random grey images of 28 pixels in 10 classes, `images` for each client."""
    g = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (clients * images, 1, 28, 28), dtype=torch.uint8, generator=g)
    labels = torch.randint(0, 10, (clients * images,), generator=g)
    return ClientData(pixels, labels, torch.arange(clients * images).split(images))


def small_cnn() -> Any:
    """The CNN of McMahan et al. 2017 with its classifier."""
    return Model(encoder=McMahanCNN(channels=1, image_size=28), head=nn.Linear(512, 10))


class BareFedAvg:
    """One model that plays all clients in turn, torch's SGD, and a weighted mean of state dicts.

    Args:
        initial: the state dict that all start from.
    """

    def __init__(self, initial: dict[str, Tensor], data: ClientData, settings: TrainingSettings, seed: int) -> None:
        self.model, self.data, self.settings, self.seed = small_cnn(), data, settings, seed
        self.server = {name: tensor.clone() for name, tensor in initial.items()}

    def run(self) -> None:
        """All rounds, with every client in each."""
        for round in range(1, self.settings.rounds + 1):
            uploads = [self._train(round, client) for client in range(len(self.data.clients))]
            sizes = [len(indices) for indices in self.data.clients]
            for name in self.server:
                weighted = (u[name] * (n / sum(sizes)) for u, n in zip(uploads, sizes, strict=True))
                self.server[name] = torch.stack(list(weighted)).sum(dim=0)

    def _train(self, round: int, client: int) -> dict[str, Tensor]:
        indices, s = self.data.clients[client], self.settings
        self.model.load_state_dict(self.server)
        optimiser = torch.optim.SGD(self.model.parameters(), lr=s.optimiser.lr)
        # the engine's own order of images, so that both take the same steps
        order = torch.Generator().manual_seed(random_key(self.seed, "batches", "round", round, client, 0))
        steps = steps_of(len(indices), s.batch_size, s.local_epochs)
        for batch in batches(len(indices), s.batch_size, steps, order):
            chosen = indices[batch]
            x, y = self.data.images[chosen].float().div_(255), self.data.labels[chosen]
            optimiser.zero_grad()
            F.cross_entropy(self.model.head(self.model.encoder(x)), y).backward()
            optimiser.step()
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
