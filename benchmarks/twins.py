"""What PS-FedGAN's protocol costs: its steps with the server's twins and without, and users one by one or together.

    python -m benchmarks.twins
    python -m benchmarks.twins --users 2 --images 128 --width 16 --repeats 3

The GAN of Table 4 on images of MNIST's size, batches of 64. First a round of PS-FedGAN against the same round of users
who send their generators once and are followed by nobody. Then the step on all users' generators, taken by one user
after the other, as the engine does, against the same as one step on tensors with an axis for users.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.engine import SEED, seconds
from common.optimisers import step
from common.settings import checked
from common.spec import OptimiserSettings, TrainingSettings
from diptych.assembly import algorithm_class
from diptych.process import use_threads
from federation import ClientData, Simulation, call_with
from networks import VGG4
from networks.cgan import Discriminator, Generator, masks
from objectives.cgan import generator_loss
from objectives.classification import Classification
from objectives.objective import Model

ADAM = OptimiserSettings(name="adam", lr=2e-4, betas=(0.5, 0.999))
BATCH, DROPOUT = 64, 0.3
IMAGES = {"channels": 1, "image_size": 28}


def simulation(share: str, users: int, images: int, width: int) -> Simulation:
    """A round of one epoch, ready to run; the server makes no images."""
    encoder = partial(VGG4, **IMAGES, width=1)
    objective = checked(Classification, "objective", {}, encoder=encoder, classes=10, **IMAGES)
    content = {"share": share, "width": width, "synthetic": 1, "classifier_epochs": 1}
    name = "ps-fedgan" if share == "discriminator" else "full-gan"
    algorithm = checked(algorithm_class(name), "algorithm", content, objective=objective)
    draw = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (users * images, 1, 28, 28), dtype=torch.uint8, generator=draw)
    labels = torch.randint(0, 10, (users * images,), generator=draw)
    data = ClientData(pixels, labels, torch.arange(users * images).split(images))
    training = TrainingSettings(rounds=1, batch_size=BATCH, optimiser=ADAM, optimiser_state="persistent")
    return Simulation(algorithm, data, training, SEED)


class GeneratorSteps:
    """One step on each user's generator, the same either way."""

    def __init__(self, users: int, width: int) -> None:
        shape = {**IMAGES, "classes": 10, "width": width}
        torch.manual_seed(SEED)
        self.models: list[Any] = [
            Model(generator=Generator(**shape), discriminator=Discriminator(**shape)) for _ in range(users)
        ]
        draw = torch.Generator().manual_seed(1)
        self.inputs = [
            (torch.randn(BATCH, 100, generator=draw), torch.arange(BATCH) % 10, masks(width, DROPOUT, BATCH, draw))
            for _ in range(users)
        ]
        self.leaves = [list(model.generator.parameters()) for model in self.models]
        self.states: list[Any] = [{} for _ in self.models]
        self.stacked = {
            name: torch.stack([dict(m.named_parameters())[name].detach() for m in self.models])
            for name, _ in self.models[0].named_parameters()
        }
        self.state: Any = {}

    def one_by_one(self) -> None:
        """A step by each user."""
        for model, given, leaves, state in zip(self.models, self.inputs, self.leaves, self.states, strict=True):
            gradients = torch.autograd.grad(generator_loss(model, *given), leaves)
            step(ADAM, leaves, list(gradients), state)

    def together(self) -> None:
        """A step on all, with an axis for users."""

        def loss(own: dict[str, torch.Tensor], others: dict[str, torch.Tensor], *given: Any) -> torch.Tensor:
            return call_with(own | others, generator_loss, self.models[0], *given)

        own = {name: t for name, t in self.stacked.items() if name.startswith("generator.")}
        others = {name: t for name, t in self.stacked.items() if name not in own}
        z, labels = (torch.stack([given[n] for given in self.inputs]) for n in (0, 1))  # type: ignore[misc]
        dropped = tuple(torch.stack(parts) for parts in zip(*(given[2] for given in self.inputs), strict=True))
        gradients = torch.func.vmap(torch.func.grad(loss))(own, others, z, labels, dropped)
        step(ADAM, list(own.values()), [gradients[name] for name in own], self.state)


def compared(sides: Callable[[], tuple[Callable[[], None], Callable[[], None]]], repeats: int) -> list[str]:
    """Milliseconds of either side, medians, and the ratio of the second to the first: median, least and most."""
    pairs = [tuple(1000 * seconds(side) for side in sides()) for _ in range(repeats)]
    ratios = [second / first for first, second in pairs]
    medians = (statistics.median(side) for side in zip(*pairs, strict=True))
    return [*(f"{m:.0f}" for m in medians), *(f"{f(ratios):.2f}" for f in (statistics.median, min, max))]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument("--images", type=int, default=256, help="of each user")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    use_threads(1)
    shape = options.users, options.images, options.width
    steps = GeneratorSteps(options.users, options.width)
    rows = {
        "a round without twins; with": lambda: (
            simulation("once", *shape).run,
            simulation("discriminator", *shape).run,
        ),
        "a step on all generators, one by one; together": lambda: (steps.one_by_one, steps.together),
    }
    print("| what | first, ms | second, ms | ratio: median | least | most |")
    print("|---|---|---|---|---|---|")
    for what, sides in rows.items():
        compared(sides, 1)  # warm up
        print("|", " | ".join([what, *compared(sides, options.repeats)]), "|")


if __name__ == "__main__":
    main()
