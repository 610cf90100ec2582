"""A problem whose training can be worked out by hand.

Three tensors of different shapes, each with its own curvature h: a client whose images have mean c minimises
1/2 * sum_t h_t |p_t - c_t|^2. Clients have 2, 5 and 3 images, the batch is larger than any of them, so one local epoch
is one step p <- p - lr * h * (p - c), and displacements have mixed signs.
"""

import itertools
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from common.spec import OptimiserSettings, ServerSettings, TrainingSettings
from federation import Algorithm, ClientData, Simulation, Update, everything

LR = 0.1
SHAPES = {"encoder.a": (3,), "encoder.b": (2, 2), "head.c": (1,)}
CURVATURE = {"encoder.a": 1.0, "encoder.b": 0.5, "head.c": 2.0}
START = {
    "encoder.a": np.array([0.3, -0.7, 1.1]),
    "encoder.b": np.array([[-0.4, 0.9], [0.2, -1.3]]),
    "head.c": np.array([-0.6]),
}
SIZES = (2, 5, 3)
Tensors = dict[str, np.ndarray]


class _Part(nn.Module):
    def __init__(self, prefix: str) -> None:
        super().__init__()
        for name, value in START.items():
            if name.startswith(prefix):
                self.register_parameter(name.removeprefix(prefix), nn.Parameter(torch.tensor(value)))


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = _Part("encoder."), _Part("head.")


class Quadratic:
    """An objective; `outputs` are the tensors themselves, so that outputs can be mixed as well as weights."""

    def model(self) -> nn.Module:
        return _Model()

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> dict[str, Any]:
        return {"x": x}

    def outputs(self, model: Any, batch: dict[str, Any]) -> list[Tensor]:
        return [attrgetter(name)(model) for name in SHAPES]

    def criterion(self, model: Any, outputs: list[Tensor], batch: dict[str, Any]) -> Tensor:
        sizes = [int(np.prod(shape)) for shape in SHAPES.values()]
        targets = batch["x"].mean(dim=0).split(sizes)
        parts = [
            CURVATURE[name] / 2 * (p.flatten() - target).square().sum()
            for name, p, target in zip(SHAPES, outputs, targets, strict=True)
        ]
        return parts[0] + parts[1] + parts[2]

    def updates(self) -> list[Update]:
        return [Update(everything, self.loss)]

    def loss(self, model: Any, batch: dict[str, Any]) -> Tensor:
        return self.criterion(model, self.outputs(model, batch), batch)


def images() -> Tensor:
    """(10, 8) numbers of both signs: what the clients' images are here."""
    return torch.from_numpy(np.random.default_rng(5).normal(size=(sum(SIZES), 8)))


def data() -> ClientData:
    starts = np.cumsum([0, *SIZES])
    clients = tuple(torch.arange(a, b) for a, b in itertools.pairwise(starts))
    return ClientData(images(), torch.zeros(sum(SIZES), dtype=torch.long), clients)


def centres() -> list[Tensors]:
    """The mean c of each client's images, by tensor."""
    found = []
    for indices in data().clients:
        mean = images()[indices].numpy().mean(axis=0)
        a, b, c = np.split(mean, [3, 7])
        found.append({"encoder.a": a, "encoder.b": b.reshape(2, 2), "head.c": c})
    return found


def pooled() -> ClientData:
    """One client with everybody's images."""
    everybody = data()
    return ClientData(everybody.images, everybody.labels, (torch.cat(everybody.clients),))


def simulate(
    algorithm: Algorithm,
    rounds: int = 2,
    weighting: str = "size",
    momentum: float = 0.0,
    dealt: ClientData | None = None,
    **settings: Any,
) -> Simulation:
    """Two rounds of three local steps of plain SGD."""
    training = TrainingSettings(
        rounds=rounds,
        local_epochs=3,
        batch_size=100,
        optimiser=OptimiserSettings(lr=LR, momentum=momentum),
        server=ServerSettings(weighting=weighting),
        **settings,
    )
    simulation = Simulation(algorithm, dealt or data(), training, seed=0)
    simulation.keep_own()
    simulation.run()
    return simulation


# ---- by hand


def descend(p: np.ndarray, c: np.ndarray, h: float, steps: int, pull: float = 0.0, to: Any = 0.0) -> np.ndarray:
    """`steps` steps on h/2 |p - c|^2 + pull/2 |p - to|^2, in closed form: p* + (1 - lr (h + pull))^steps (p - p*)."""
    if h + pull == 0:
        return p
    best = (h * c + pull * to) / (h + pull)
    return best + (1 - LR * (h + pull)) ** steps * (p - best)


def average(parts: list[np.ndarray]) -> np.ndarray:
    """The mean over clients in proportion to their 2, 5 and 3 images."""
    return sum(n / 10 * part for n, part in zip(SIZES, parts, strict=True))


@dataclass
class Comparison:
    """Compares a simulation with expected tensors, and refuses to compare nothing."""

    simulation: Simulation

    def server(self, expected: Tensors) -> None:
        assert expected
        assert set(self.simulation.server.tensors) == set(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(self.simulation.server.tensors[name].numpy(), value, atol=1e-6, rtol=0)

    def clients(self, expected: list[Tensors]) -> None:
        assert len(expected) == 3
        for client, tensors in enumerate(expected):
            assert tensors
            for name, value in tensors.items():
                row = self.simulation.population.storage[name][client].numpy()
                np.testing.assert_allclose(row, value, atol=1e-6, rtol=0)
