"""A small run on the embedded digits: real objectives and networks, a second or two."""

from functools import cache, partial
from typing import Any

import torch

from abilities import Trained
from common.spec import DataSettings, OptimiserSettings, Spec, TrainingSettings
from federation import Algorithm, ClientData, Simulation
from networks import Conv3, INBDigits, StarGANFeatures
from objectives import OBJECTIVES, Objective
from objectives.augmentation import AugmentationSettings
from partitions import Partition, partition

NETWORKS = {"stargan": partial(StarGANFeatures, width=4), "autoencoder": INBDigits}
"""Of the objectives that need one of their own."""
STYLES = {"mnist": "digits-plain[0::9]", "svhn": "digits-photo[1::9]", "usps": "digits-bold[2::9]"}


@cache
def dealt(clients_per_style: int = 1, **settings: Any) -> Partition:
    """Three styles of 200 digits each, at 8 pixels."""
    settings = {"image_size": 8, "clients_per_style": clients_per_style, **settings}
    return partition(DataSettings(dataset="digit", styles=STYLES, **settings), "", seed=3)


def data(clients_per_style: int = 1) -> ClientData:
    split = dealt(clients_per_style)
    return ClientData(split.images, split.labels, split.clients, styles=split.image_styles)


def objective(name: str, **settings: Any) -> Objective:
    if name in ("gan", "vae"):
        settings = {"latent": 8, "width": 8, **settings}
    elif name == "stargan":
        settings = {"domains": len(STYLES), "width": 4, "blocks": 1, "discriminator_steps": 1, **settings}
    elif name not in ("classification", "autoencoder"):
        settings = {"augmentation": AugmentationSettings(crop=0.5, hue=0.0), "hidden": 16, "out": 8, **settings}
    images = {"channels": 3, "image_size": 8}
    encoder = NETWORKS.get(name, partial(Conv3, width=4))
    return OBJECTIVES[name](encoder=partial(encoder, **images), classes=10, **images, **settings)


def training(**settings: Any) -> TrainingSettings:
    return TrainingSettings(
        **{"rounds": 2, "batch_size": 16, "optimiser": OptimiserSettings(lr=0.05, momentum=0.9), **settings}
    )


def simulate(algorithm: Algorithm, dealt: ClientData | None = None, seed: int = 7, **settings: Any) -> Simulation:
    workers = settings.pop("workers", 1)
    simulation = Simulation(algorithm, dealt or data(), training(**settings), seed, workers=workers)
    simulation.run()
    return simulation


def trained(simulation: Simulation, split: Partition | None = None, **settings: Any) -> Trained:
    """What abilities are asked of; `settings` of its specification say how much is kept."""
    data = {"dataset": "digit", "styles": STYLES}
    parts = {"network": {}, "objective": {}, "algorithm": {}, "training": {"rounds": 1}}
    spec = Spec(run="x", scale="tiny", seed=7, data=data, **parts, **settings)
    return Trained(simulation, split or dealt(), spec)


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], *, of: str = "", other: str = "") -> bool:
    """Whether tensors are bitwise equal, after stripping the prefixes `of` and `other` from their names."""
    a = {name.removeprefix(of): t for name, t in a.items() if name.startswith(of)}
    b = {name.removeprefix(other): t for name, t in b.items() if name.startswith(other)}
    assert a
    assert a.keys() == b.keys()
    return all(torch.equal(a[name], b[name]) for name in a)
