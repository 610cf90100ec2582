"""One round of PaDPaF against a bare PyTorch loop that takes the same steps without federation, in turn.

    python -m benchmarks.gan
    python -m benchmarks.gan --clients 2 --images 96 --repeats 3

Eight clients, networks of a quarter of the paper's width, images of 16 pixels, one thread. Ratios of steps per second,
engine to bare: above 1 the engine is faster.
"""

import argparse
import statistics
from functools import partial
from typing import Any

import torch

from benchmarks.engine import SEED, seconds
from common.keys import random_key
from common.settings import checked
from common.spec import OptimiserSettings, ServerSettings, TrainingSettings
from diptych.assembly import algorithm_class
from diptych.process import use_threads
from federation import ClientData, Simulation
from federation.data import batches, steps_of
from federation.names import selected
from federation.simulation import initial_model
from networks import SNResNet
from objectives import GAN

DISCRIMINATOR_STEPS = 3
"""For each of the generator's, as in the paper."""


def settings() -> TrainingSettings:
    """The paper's optimisers on batches of 32, one epoch."""
    adam = OptimiserSettings(name="adam", lr=1e-3, betas=(0.5, 0.9))
    server = ServerSettings(optimiser="adam", weighting="uniform", lr=1e-2, betas=(0.5, 0.9))
    return TrainingSettings(rounds=1, batch_size=32, optimiser=adam, server=server, buffers="local")


def data(clients: int, images: int) -> ClientData:
    """Random colour images of 16 pixels, `images` for each client."""
    draw = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (clients * images, 3, 16, 16), dtype=torch.uint8, generator=draw)
    return ClientData(
        pixels, torch.zeros(clients * images, dtype=torch.long), torch.arange(clients * images).split(images)
    )


def algorithm() -> Any:
    """PaDPaF on its GAN."""
    images = {"channels": 3, "image_size": 16}
    encoder = partial(SNResNet, channels=3, image_size=16, width=16)
    sizes = {"latent": 32, "width": 16, "discriminator_steps": DISCRIMINATOR_STEPS}
    objective = checked(GAN, "objective", sizes, encoder=encoder, classes=10, **images)
    return checked(algorithm_class("padpaf"), "algorithm", {}, objective=objective)


def engine(clients: int, images: int) -> Simulation:
    """A simulation that is ready to run."""
    return Simulation(algorithm(), data(clients, images), settings(), SEED)


class BareGAN:
    """A model for each client, torch's Adam for each side, and the engine's own order, latents and noise."""

    def __init__(self, clients: int, images: int) -> None:
        self.algorithm, self.data, self.settings = algorithm(), data(clients, images), settings()
        self.models = [initial_model(self.algorithm, SEED) for _ in range(clients)]

    def run(self) -> None:
        """One epoch of every client."""
        for client, model in enumerate(self.models):
            self._train(client, model)

    def _train(self, client: int, model: Any) -> None:
        s, own = self.settings, self.data.images[self.data.clients[client]]
        updates = self.algorithm.updates()
        sides = [[e.tensor for e in selected(model, u.which) if e.is_parameter] for u in updates]
        rates = [s.optimiser.lr * u.lr_factor for u in updates]
        optimisers = [
            torch.optim.Adam(side, lr=lr, betas=s.optimiser.betas) for side, lr in zip(sides, rates, strict=True)
        ]
        order, draws = (
            torch.Generator().manual_seed(random_key(SEED, purpose, "round", 1, client, 0))
            for purpose in ("batches", "draw")
        )
        labels = torch.zeros(s.batch_size, dtype=torch.long)
        steps = steps_of(len(own), s.batch_size, s.local_epochs)
        for n, rows in enumerate(batches(len(own), s.batch_size, steps, order), start=1):
            batch = self.algorithm.draw(own[rows].float().div_(255), labels[: len(rows)], draws)
            for update, side, optimiser in zip(updates, sides, optimisers, strict=True):
                if n % update.every == 0:
                    gradients = torch.autograd.grad(update.loss(model, batch), side)
                    for tensor, gradient in zip(side, gradients, strict=True):
                        tensor.grad = gradient
                    optimiser.step()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--images", type=int, default=192, help="of each client")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    use_threads(1)
    steps = options.clients * (options.images // settings().batch_size)
    pairs = []
    engine(1, 96).run()  # warm up
    for _ in range(options.repeats):
        sides = engine(options.clients, options.images), BareGAN(options.clients, options.images)
        pairs.append(tuple(steps / seconds(side.run) for side in sides))
    ratios = [ours / theirs for ours, theirs in pairs]
    medians = (statistics.median(side) for side in zip(*pairs, strict=True))
    cells = [*(f"{m:.1f}" for m in medians), *(f"{f(ratios):.2f}" for f in (statistics.median, min, max))]
    print("| clients | engine, steps/s | bare, steps/s | ratio: median | least | most |")
    print("|---|---|---|---|---|---|")
    print("|", " | ".join([str(options.clients), *cells]), "|")


if __name__ == "__main__":
    main()
