"""Two clients with smooth images that are no noise, one round of some algorithm, and who listens."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attacks.inversion import Inversion
from common.spec import OptimiserSettings, ServerSettings
from diptych.assembly import algorithm_class
from evaluation.privacy import psnr
from federation import ClientData, Simulation, copied
from federation.hooks import Preparing
from networks import ENCODERS
from objectives import OBJECTIVES, Objective
from tests.digits import training

LABELS = torch.tensor([7, 2, 5, 2])


def images(n: int) -> Tensor:
    """(n, 1, 8, 8) in [0, 1]."""
    rows = torch.linspace(0, 3, 8).sin()
    return torch.stack([(rows[:, None] * rows.roll(k)[None]).abs() for k in range(n)])[:, None]


def others(x: Tensor) -> Tensor:
    """The second client's images."""
    return x.flip(3).roll(2, 2)


def objective(name: str = "classification", network: str = "smooth-lenet", classes: int = 10) -> Objective:
    sizes: dict[str, Any] = {"channels": 1, "image_size": 8}
    return OBJECTIVES[name](encoder=lambda: ENCODERS[network](**sizes), classes=classes, **sizes)


class Overheard:
    """A round of an algorithm with a listener of this kind.

    Attributes:
        begun: the model that each client has begun with.
    """

    def __init__(
        self,
        kind: type[Inversion],
        name: str,
        of: Objective,
        x: Tensor,
        y: Tensor,
        *,
        steps: int = 1,
        searched: int = 300,
        **settings: Any,
    ) -> None:
        self.x, n = x, len(x)
        self.algorithm = algorithm_class(name)(objective=of, **settings)
        self.training = training(
            rounds=1,
            batch_size=8,
            local_steps=steps,
            optimiser=OptimiserSettings(lr=0.1),
            optimiser_state="persistent",
            server=ServerSettings(weighting="uniform"),
        )
        self.listener = kind(self.algorithm, self.training, searched, 0)
        clients = torch.arange(n), torch.arange(n, 2 * n)
        data = ClientData(torch.cat([x, others(x)]), torch.cat([y, y]), clients, server=torch.arange(2))
        self.simulation = Simulation(self.algorithm, data, self.training, 1, listeners=[self.listener])
        self.begun = [copied(self.simulation.template) for _ in clients]
        if isinstance(self.algorithm, Preparing):
            self.algorithm.prepare(self.begun, 1)
        self.simulation.run()

    def found(self) -> tuple[np.ndarray, Tensor | None]:
        """How near each of the first client's images is found, in dB, and the labels."""
        found, labels = self.listener.invert(0, self.begun[0], tuple(self.x.shape))
        assert 0 <= found.min() <= found.max() <= 1
        return psnr(_bytes(found), _bytes(self.x)), labels

    def misled(self) -> np.ndarray:
        """How near the first client's images are to what the second's message leads to."""
        self.listener.back[0] = self.listener.back[1]
        return self.found()[0]


def _bytes(x: Tensor) -> np.ndarray:
    return (x * 255).round().byte().numpy()
