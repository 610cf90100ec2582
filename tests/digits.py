"""A small run on the embedded digits: real objectives and networks, a second or two."""

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch

from abilities import Trained
from common.run_folder import RunFolder
from common.spec import DataSettings, OptimiserSettings, Spec, TrainingSettings
from diptych.configuration import JudgeSettings
from diptych.judging import train_judge
from diptych.training import train
from federation import Algorithm, ClientData, Simulation
from federation.channel import Message
from federation.checkpoint import resume, save
from networks import Conv3, INBDigits, StarGANFeatures
from objectives import OBJECTIVES, Objective
from objectives.augmentation import AugmentationSettings
from partitions import Partition, partition

# ---- parts

NETWORKS = {"stargan": partial(StarGANFeatures, width=4), "autoencoder": INBDigits}
"""Of the objectives that need one of their own."""
STYLES = {"mnist": "digits-plain[0::9]", "svhn": "digits-photo[1::9]", "usps": "digits-bold[2::9]"}
UNEVEN = {"mnist": "digits-plain[0::3]", "svhn": "digits-photo[1::3]", "usps": "digits-bold[2::6]"}
"""The last has half as many images as the others."""


def uneven(**changes: Any) -> DataSettings:
    """Three styles of five clients each, of which the last has half as many images."""
    return DataSettings(**{"dataset": "digit", "styles": UNEVEN, "image_size": 8, "clients_per_style": 5, **changes})


@cache
def dealt(clients_per_style: int = 1, **settings: Any) -> Partition:
    """Three styles of 200 digits each, at 8 pixels."""
    settings = {"image_size": 8, "clients_per_style": clients_per_style, **settings}
    return partition(DataSettings(dataset="digit", styles=STYLES, **settings), "", seed=3)


def data(clients_per_style: int = 1) -> ClientData:
    split = dealt(clients_per_style)
    return ClientData(split.images, split.labels, split.clients, styles=split.image_styles)


def few(clients: int | None = None, images: int | None = None) -> ClientData:
    """The first images of the first clients, and nobody else."""
    everyone = data()
    return dataclasses.replace(everyone, clients=tuple(indices[:images] for indices in everyone.clients[:clients]))


def objective(name: str, network: Callable[..., Any] | None = None, **settings: Any) -> Objective:
    """An objective on images of 8 pixels; with another network, if one is named, and otherwise one that fits."""
    if name in ("gan", "vae"):
        settings = {"latent": 8, "width": 8, **settings}
    elif name == "stargan":
        settings = {"domains": len(STYLES), "width": 4, "blocks": 1, "discriminator_steps": 1, **settings}
    elif name not in ("classification", "autoencoder"):
        settings = {"augmentation": AugmentationSettings(crop=0.5, hue=0.0), "hidden": 16, "out": 8, **settings}
    images = {"channels": 3, "image_size": 8}
    encoder = network or NETWORKS.get(name, partial(Conv3, width=4))
    return OBJECTIVES[name](encoder=partial(encoder, **images), classes=10, **images, **settings)


def training(**settings: Any) -> TrainingSettings:
    return TrainingSettings(
        **{"rounds": 2, "batch_size": 16, "optimiser": OptimiserSettings(lr=0.05, momentum=0.9), **settings}
    )


# ---- runs in memory


def prepared(algorithm: Algorithm, dealt: ClientData | None = None, seed: int = 7, **settings: Any) -> Simulation:
    """A simulation before its first round, in which everything is stored for each client.

    `settings` are its training's, beside what the engine itself is told.
    """
    told = {key: settings.pop(key) for key in ("workers", "listeners", "start") if key in settings}
    simulation = Simulation(algorithm, dealt or data(), training(**settings), seed, **told)
    simulation.keep_own()
    return simulation


def simulate(algorithm: Algorithm, dealt: ClientData | None = None, seed: int = 7, **settings: Any) -> Simulation:
    """The same after its last round."""
    simulation = prepared(algorithm, dealt, seed, **settings)
    simulation.run()
    return simulation


def with_a_stop(
    make: Callable[[], Simulation], folder: Path, after: int = 1, each: Callable[[Simulation], None] = lambda _: None
) -> tuple[Simulation, Simulation]:
    """A run that never stopped, and one that was killed after a round and went on from its checkpoint.

    Args:
        make: makes the simulation, the same each time.
        each: done after each round by both.
    """

    def until_killed(simulation: Simulation) -> None:
        each(simulation)
        save(folder / "checkpoint.pt", simulation, "key", 7.0)
        if simulation.round == after:
            raise InterruptedError

    whole, resumed = make(), make()
    whole.run(each)
    with pytest.raises(InterruptedError):
        make().run(until_killed)
    assert resume(folder / "checkpoint.pt", resumed, "key") == 7.0
    assert resumed.round == after
    resumed.run(each)
    return whole, resumed


def watch_batches(simulation: Simulation, look: Callable[[int, dict[str, Any]], None]) -> None:
    """Have `look` shown each client and batch before it is trained on."""
    batches_of = simulation.local.batches_of

    def watched(phase: Any, client: int, *others: Any) -> Any:
        for batch in batches_of(phase, client, *others):
            look(client, batch)
            yield batch

    simulation.local.batches_of = watched


def announcements(heard: list[Message]) -> tuple[Message, Message]:
    """What all clients have told each other before the first round, once: as it went up, and as it came down."""
    up, down = (message for message in heard if any(name.startswith("announced.") for name in message.tensors))
    assert [(m.round, m.direction) for m in (up, down)] == [(0, "up"), (0, "down")]
    return up, down


def check_draws(made: Algorithm | Objective) -> None:
    """All that is random about a batch comes from its generator; the first axis of what is in it is the sample."""
    x, y = torch.rand(8, 3, 8, 8), torch.arange(8)

    def drawn() -> list[torch.Tensor]:
        torch.seed()
        batch = made.draw(x, y, torch.Generator().manual_seed(1))
        return [t for value in batch.values() for t in (value if isinstance(value, tuple) else (value,))]

    first, again = drawn(), drawn()
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert all(len(t) == 8 for t in first)


# ---- runs with a folder


def spec(algorithm: str | dict[str, Any], objective: str | dict[str, Any] = "classification", **more: Any) -> Spec:
    """A specification of one round, in which `more` takes the place of what is here."""
    algorithm, objective = ({"name": part} if isinstance(part, str) else part for part in (algorithm, objective))
    content = {
        "run": f"tests/tiny/{algorithm['name']}/default/3",
        "scale": "tiny",
        "seed": 3,
        "data": {"dataset": "digit", "styles": STYLES, "image_size": 8},
        "network": {"name": "conv3", "width": 4},
        "training": {"rounds": 1, "batch_size": 16},
    }
    return Spec(**content | {"objective": objective, "algorithm": algorithm} | more)


def left_by(spec: Spec, folder: Path, judged: bool = False, device: str = "cpu") -> RunFolder:
    """The folder that a run leaves; `judged`, with a judge that was trained for an epoch."""
    assert train(spec, folder, "", device=device) == "ok"
    if not judged:
        return RunFolder(folder)
    train_judge(spec, JudgeSettings(width=4, features=8, epochs=1), "", folder / "judge.safetensors")
    return RunFolder(folder, folder / "judge.safetensors")


def trained(simulation: Simulation, split: Partition | None = None, **settings: Any) -> Trained:
    """What abilities are asked of; `settings` of its specification say how much is kept."""
    return Trained(simulation, split or dealt(), spec("fedavg", **{"seed": 7, **settings}))


# ---- comparisons


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], *, of: str = "", other: str = "") -> bool:
    """Whether tensors are bitwise equal, after stripping the prefixes `of` and `other` from their names."""
    a = {name.removeprefix(of): t for name, t in a.items() if name.startswith(of)}
    b = {name.removeprefix(other): t for name, t in b.items() if name.startswith(other)}
    assert a
    assert a.keys() == b.keys()
    return all(torch.equal(a[name], b[name]) for name in a)
