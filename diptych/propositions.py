"""What papers state of their methods whatever the data, tried by the methods' own code on small images of noise.

No run of a study is needed, and nothing is random in what is asked: a difference is as small as computing leaves it, or
the statement does not hold. No size and no data are other than published, since the statements name none.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from common.algorithms import algorithm_module
from common.codehash import code_hash
from common.settings import checked
from common.spec import OptimiserSettings, TrainingSettings
from diptych.assembly import algorithm_class
from federation import ClientData, Simulation
from networks import ENCODERS
from objectives import OBJECTIVES, slices, stiefel

CONDITION = "propositions"
"""In the names of what stands for runs, and the table of these numbers."""
SEED = 2011
CLIENTS, CLASSES, IMAGES, SIZE = 3, 2, 40, 4
"""Of the data: clients, classes, grey images of each class at each client, and their edge in pixels."""
LAYERS, DIRECTIONS, ITERATIONS = 2, 3, 12
"""Of FedINB."""
GAN = {"latent": 6, "width": 8, "synthetic": 20}
"""Settings of PS-FedGAN."""


@dataclass(frozen=True)
class Proposition:
    """A statement that two ways of computing come to the same.

    Attributes:
        paper, method, setting: where its record stands; the setting says what is compared, if several things are.
        metric: what is the same, as the name of the largest difference.
        difference: computes it.
    """

    paper: str
    method: str
    setting: str
    metric: str
    difference: Callable[[], float]

    @property
    def run(self) -> str:
        """The name of what stands for a run."""
        return f"{self.paper}/{CONDITION}/{self.method}/{self.setting or 'default'}/{SEED}"

    @property
    def digest(self) -> str:
        """What stands for a specification: sizes are of this file, so that its code says them."""
        return hashlib.sha256(self.run.encode()).hexdigest()[:12]

    @property
    def code(self) -> str:
        """The hash of all code that decides the number."""
        algorithm = self.method.removesuffix("-hist")  # a setting of FedINB's
        return code_hash("diptych.propositions", algorithm_module(algorithm))


def records(papers: Collection[str]) -> Iterator[dict[str, Any]]:
    """A record for each of these papers' propositions, without scale and provenance."""
    for proposition in PROPOSITIONS:
        if proposition.paper not in papers:
            continue
        yield {
            "paper": proposition.paper, "table": CONDITION, "kind": "result", "dataset": "noise", "style": "all",
            "method": proposition.method, "setting": proposition.setting, "metric": proposition.metric,
            "unit": "score", "aggregate": "none", "value": proposition.difference(), "status": "ok", "budget": 1,
            "seed": SEED, "run": proposition.run, "spec": proposition.digest, "code": proposition.code,
        }  # fmt: skip


def gradient_of_the_sum() -> float:
    """FedINB, Remark 1: the sum of what clients send, to each of whom the barycenter is a constant, and the gradient
    of the loss of all data together, through the barycenter."""
    images = _noise().images.double().flatten(1)
    x = images.unflatten(0, (CLIENTS, CLASSES, IMAGES))
    theta = stiefel.random(CLASSES, x.shape[-1], DIRECTIONS, torch.Generator().manual_seed(SEED)).requires_grad_()
    ordered = slices.sorted_slices(x, theta)
    centre = ordered.values.mean(dim=0)
    (whole,) = torch.autograd.grad(slices.loss(ordered.values, centre).sum(), theta)
    own = slices.gradient(x, ordered, centre).sum(dim=0)
    return (own - whole).abs().max().item()


def directions_with_edges(edges: int) -> float:
    """FedINB, App. C.2: directions found by sorted samples, and by histograms with so many edges."""
    exact, binned = (_inb(bins).population.storage["theta"] for bins in (None, edges - 1))
    return (exact - binned).abs().max().item()


def discriminators_without_twins() -> float:
    """PS-FedGAN, Proposition 1: the users' discriminators, with a server whose generators take each step with them, and
    with one that is told the users' generators at the end of a round."""
    followed, alone = (_gan(share).population.storage for share in ("discriminator", "once"))
    names = [name for name in followed if name.startswith("discriminator.")]
    return max((followed[name] - alone[name]).abs().max().item() for name in names)


# "As many bins as samples", when "the quantiles sent would just be the samples" (App. C.2), are as many edges; as many
# bins of Definition 1, whose edges are counted from 0, have one edge more, with which it does not hold.
PROPOSITIONS = (
    Proposition("fedinb", "fedinb", "", "gradient_max_abs_diff", gradient_of_the_sum),
    Proposition("fedinb", "fedinb-hist", "edges=n", "theta_max_abs_diff", partial(directions_with_edges, IMAGES)),
    Proposition("fedinb", "fedinb-hist", "edges=n+1", "theta_max_abs_diff", partial(directions_with_edges, IMAGES + 1)),
    Proposition(
        "psfedgan",
        "ps-fedgan",
        "with_vs_without_server_generator",
        "discriminator_max_abs_diff",
        discriminators_without_twins,
    ),
)


def _noise() -> ClientData:
    """Images (all, 1, SIZE, SIZE), by client, class and then one by one: of each class at each client a cloud of its
    own. The first of each class at each client is the server's."""
    draw = torch.Generator().manual_seed(SEED)
    clouds = torch.randn(CLIENTS * CLASSES, 1, SIZE * SIZE, generator=draw)
    pixels = torch.special.ndtr(clouds + torch.randn(CLIENTS * CLASSES, IMAGES, SIZE * SIZE, generator=draw))
    indices = torch.arange(CLIENTS * CLASSES * IMAGES)
    return ClientData(
        pixels.reshape(-1, 1, SIZE, SIZE),
        torch.arange(CLASSES).repeat_interleave(IMAGES).repeat(CLIENTS),
        indices.split(CLASSES * IMAGES),
        server=indices[::IMAGES],
    )


def _inb(bins: int | None) -> Simulation:
    """FedINB on pixels, by sorted samples or by histograms."""
    settings = {"layers": LAYERS, "directions": DIRECTIONS, "iterations": ITERATIONS, "bins": bins}
    return _trained("fedinb", settings, "autoencoder", "pixels", TrainingSettings(rounds=LAYERS))


def _gan(share: str) -> Simulation:
    """PS-FedGAN, or its users with another server."""
    optimiser = OptimiserSettings(name="adam", lr=2e-4, betas=(0.5, 0.999))
    training = TrainingSettings(rounds=2, batch_size=16, optimiser=optimiser, optimiser_state="persistent")
    return _trained("ps-fedgan", {"share": share, **GAN}, "classification", "mcmahan-2nn", training)


def _trained(
    algorithm: str, settings: dict[str, Any], objective: str, network: str, training: TrainingSettings
) -> Simulation:
    images = {"channels": 1, "image_size": SIZE}
    encoder = partial(ENCODERS[network], **images)
    asked = checked(OBJECTIVES[objective], "objective", {}, encoder=encoder, classes=CLASSES, **images)
    method = checked(algorithm_class(algorithm), "algorithm", settings, objective=asked)
    simulation = Simulation(method, _noise(), training, SEED)
    simulation.run()
    return simulation
