"""The engine beside other simulators of federated learning, on the same problem, in turn.

    python -m benchmarks.peers                                    10 clients of 256 images and 100 of 64
    python -m benchmarks.peers --sizes 1000x32 10000x6            the rest of the curve: 100 clients in a round
    python -m benchmarks.peers --sizes 4x32 --sides ours-2 bare   a small look

FedAvg with the CNN of McMahan et al. on images of MNIST's size, plain SGD on batches of 32. Every side is a process of
its own in each repeat, one after the other; a peer's is in an environment of its own, which is made if it is not there.
Ratios are to `ours-2`: above 1 the engine is faster, or needs less.
"""

import argparse
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from benchmarks.bare import mnist_like
from benchmarks.engine import SEED, bare, settings
from benchmarks.peers.environment import NotInstalled, python_of
from benchmarks.peers.measure import Costs, Failed, costs_of
from benchmarks.peers.problem import Problem, Weights
from common.codehash import ROOT
from common.keys import random_key
from federation.data import batches, steps_of

IN_A_ROUND = 100
"""Clients, where there are more."""


@dataclass(frozen=True)
class Side:
    """Who is compared.

    Attributes:
        module: of `benchmarks.peers.sides`.
        workers: clients at once, or threads.
        peer: whose environment it needs; ours if None.
        rounds_at_once: of loops that each do a whole round by themselves.
        most: clients that it can have.
    """

    module: str
    workers: int
    peer: str | None = None
    rounds_at_once: int = 1
    most: int | None = None


SIDES = {
    "ours-2": Side("ours", 2),
    "ours-1": Side("ours", 1),
    "ours-2-channels-last": Side("ours_channels_last", 2),
    "bare": Side("bare", 2, rounds_at_once=2, most=IN_A_ROUND),
    "flower": Side("flower", 2, "flower"),
    "pfl-2": Side("pfl_research", 2, "pfl"),
    "pfl-1": Side("pfl_research", 1, "pfl"),
}
OURS = "ours-2"


@dataclass
class Measured:
    """A side's repeats at one size; `why`: it has none.

    Attributes:
        difference: of its weights after a round from ours, as a share of their norm; None where sides draw different
            clients.
    """

    repeats: list[Costs] = field(default_factory=list)
    difference: float | None = None
    why: str = ""


def problem(clients: int, images: int) -> Problem:
    """The engine's own data, initial weights, and order of images in its first round."""
    data, s = mnist_like(clients, images), settings()
    order = torch.stack([_order(client, images) for client in range(clients)])
    initial = bare(1, images).server
    return Problem(
        data.images, data.labels, order, min(clients, IN_A_ROUND), initial, s.batch_size, float(s.optimiser.lr or 0)
    )


def _order(client: int, images: int) -> Tensor:
    """Positions of a client's images as its first round goes through them; a last part of a batch, which is dropped, is
    whatever is left."""
    generator = torch.Generator().manual_seed(random_key(SEED, "batches", "round", 1, client, 0))
    batch = settings().batch_size
    gone_through = torch.cat(list(batches(images, batch, steps_of(images, batch, 1), generator)))
    left = torch.ones(images, dtype=torch.bool)
    left[gone_through] = False
    return torch.cat([gone_through, left.nonzero().flatten()])


def difference(weights: Weights, ours: Weights) -> float:
    """The norm of the difference as a share of the norm, over all tensors."""
    apart = sum(float((weights[name].double() - tensor.double()).square().sum()) for name, tensor in ours.items())
    return (apart / sum(float(tensor.double().square().sum()) for tensor in ours.values())) ** 0.5


class Comparison:
    """All sides at one size, measured in turn.

    Args:
        rounds: that are timed in each repeat, after one that is not.
        limit: seconds that a side may take for a repeat.
    """

    def __init__(self, clients: int, images: int, sides: Iterable[str], rounds: int, limit: float) -> None:
        self.clients, self.rounds, self.limit = clients, rounds, limit
        self.problem = problem(clients, images)
        self.measured = {side: Measured() for side in sides}
        for name, found in self.measured.items():
            most = SIDES[name].most
            if most is not None and clients > most:
                found.why = f"has no more than {most} clients"

    def run(self, repeats: int) -> None:
        """Every side in turn, `repeats` times; of the first repeat weights are compared."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "problem.pt"
            self.problem.save(file)
            for repeat in range(repeats):
                for name, found in self.measured.items():
                    if not found.why:
                        self._measure(name, found, file, first=repeat == 0)
                        print(f"{repeat + 1} of {repeats}: {name} {found.why}", file=sys.stderr, flush=True)
            self._compare(Path(folder))

    def _measure(self, name: str, found: Measured, file: Path, first: bool) -> None:
        side, weights = SIDES[name], file.with_name(f"{name}.pt")
        try:
            python = python_of(side.peer) if side.peer else Path(sys.executable)
            command = [python, "-m", "benchmarks.peers.side", side.module, file, "--workers", side.workers]
            command += ["--rounds", 1 + self.rounds] + (["--weights", weights] if first else [])
            here = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
            found.repeats.append(costs_of([str(word) for word in command], here, self.limit))
        except (NotInstalled, Failed) as error:
            found.why = str(error)

    def _compare(self, folder: Path) -> None:
        read = {name: folder / f"{name}.pt" for name in self.measured}
        weights = {name: torch.load(file) for name, file in read.items() if file.exists()}
        for name, found in self.measured.items():
            if self.problem.sampled == self.clients and {name, OURS} <= weights.keys():
                found.difference = difference(weights[name], weights[OURS])


@dataclass(frozen=True)
class Figures:
    """Of one repeat: seconds and processor seconds of a round, medians; MiB; and seconds until a first round, less a
    round."""

    round: float
    processor: float
    memory: float
    start_up: float

    @classmethod
    def of(cls, side: str, costs: Costs) -> "Figures":
        """What a side's costs come to."""
        time, processor, at_once = median(costs.times), median(costs.processor), SIDES[side].rounds_at_once
        return cls(time / at_once, processor / at_once, costs.memory, costs.warm_up - time)


RATIOS = ("round", "processor", "memory")
COLUMNS = ["side", *(f"{name} / {OURS}" for name in RATIOS)]
COLUMNS += ["round, s", "processor of a round, s", "memory, MiB", "start-up, s", "weights apart"]


def row(side: str, measured: dict[str, Measured]) -> list[str]:
    """A side's cells, under COLUMNS: medians; ratios are of the same repeat, with the least and the most."""
    found = measured[side]
    if found.why:
        return [side, found.why]
    mine = [Figures.of(side, costs) for costs in found.repeats]
    ours = [Figures.of(OURS, costs) for costs in measured[OURS].repeats]
    cells = [side]
    for name in RATIOS:
        ratios = [getattr(a, name) / getattr(b, name) for a, b in zip(mine, ours, strict=False)]
        cells.append(f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "")
    for name, form in (("round", ".2f"), ("processor", ".2f"), ("memory", ",.0f"), ("start_up", ".1f")):
        cells.append(format(median(getattr(figures, name) for figures in mine), form))
    return [*cells, "" if found.difference is None else f"{found.difference:.1e}"]


def table(comparison: Comparison) -> str:
    """In Markdown."""
    size = comparison.problem.order.shape[1]
    lines = [f"{comparison.clients:,} clients of {size} images, {comparison.problem.sampled} in a round:", ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for side in comparison.measured:
        cells = row(side, comparison.measured)
        lines.append("| " + " | ".join([*cells, *[""] * (len(COLUMNS) - len(cells))]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["10x256", "100x64"], help="clients x images of each")
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=list(SIDES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2, help="that are timed in each repeat")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a side in a repeat")
    options = parser.parse_args()
    for size in options.sizes:
        clients, images = map(int, size.split("x"))
        comparison = Comparison(clients, images, options.sides, options.rounds, options.limit)
        comparison.run(options.repeats)
        print(table(comparison), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
