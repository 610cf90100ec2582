"""A trained algorithm as it stands, and the one way of looking at its models and images."""

from collections.abc import Callable
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from attacks.wiretap import Wiretap
from common.keys import random_key
from common.spec import Spec
from federation import Algorithm, Simulation, View
from federation.data import as_float
from networks.spectral import settle
from partitions import Partition
from partitions.views import resized

Arrays = dict[str, np.ndarray]
Listening = TypeVar("Listening", bound=Wiretap)
Look = Callable[..., dict[str, Tensor]]
"""(model, *batch) -> name -> (batch, ...)."""
BATCH = 256  # larger ones are slower per image: they leave the cache


def as_bytes(x: Tensor) -> np.ndarray:
    """Images in [0, 1] as they would be saved; bytes as they are."""
    if x.dtype == torch.uint8:
        return x.numpy()
    return x.detach().clamp(0, 1).mul(255).round().byte().cpu().numpy()


def settled(model: Any) -> Any:
    """The model, ready to be looked at: spectral norms of averaged weights are found anew."""
    settle(model)
    return model.train()


@torch.no_grad()
def looked_at(look: Look, model: nn.Module, *columns: Tensor, size: int = BATCH) -> dict[str, Tensor]:
    """What `look` finds, batch by batch, of a model in evaluation mode; on the CPU.

    Args:
        columns: what it looks at, (samples, ...) each; bytes are images, and become floats in [0, 1].
    """
    device = next((tensor.device for tensor in chain(model.parameters(), model.buffers())), columns[0].device)
    training = model.training
    model.eval()
    batches = zip(*(column.split(size) for column in columns), strict=True)
    parts = [look(model, *(as_float(part.to(device)) for part in batch)) for batch in batches]
    model.train(training)
    return {name: torch.cat([part[name] for part in parts]).cpu() for name in parts[0]}


class Trained:
    """What every ability is asked of: a simulation between two rounds or at its end. Nothing in it changes.

    What is random depends on the run's seed and on what it is for, so that after every round the same images are chosen
    and the same latents drawn.

    Attributes:
        dealt: the images, and who has which.
        spec: says how much is kept.
        clients: their numbers.
    """

    def __init__(self, simulation: Simulation, dealt: Partition, spec: Spec) -> None:
        self.simulation, self.dealt, self.spec = simulation, dealt, spec
        self.algorithm: Algorithm = simulation.algorithm
        self.objective: Any = simulation.algorithm.objective
        self.clients = range(len(simulation.population.members))

    def listening(self, kind: type[Listening]) -> Listening | None:
        """Who of this kind listens on the channel, if anybody does."""
        return next((x for x in self.simulation.channel.listeners if isinstance(x, kind)), None)

    # ---- models: copies, in training mode

    @cached_property
    def own(self) -> list[Any]:
        """What every client holds, as its last local training left it."""
        return [settled(self.simulation.own(k)) for k in self.clients]

    @cached_property
    def with_shared(self) -> list[Any]:
        """The same with all shared tensors as the server last put them together."""
        return [settled(self.simulation.shared_model(k)) for k in self.clients]

    @property
    def personal_models(self) -> list[Any]:
        """Every client's own, complete model of the objective, as its last local training left it."""
        return [self.algorithm.personal_model(model) for model in self.own]

    @property
    def global_models(self) -> list[Any]:
        """Every client's model of the objective, as the server would know it."""
        return [self.algorithm.global_model(model) for model in self.with_shared]

    # ---- images

    def stream(self, *purpose: int | str) -> torch.Generator:
        """Random numbers for one purpose."""
        return torch.Generator().manual_seed(random_key(self.simulation.seed, *purpose))

    def some(self, indices: Tensor, count: int, *purpose: int | str) -> Tensor:
        """As many of these images at most, drawn at random."""
        return indices[torch.randperm(len(indices), generator=self.stream(*purpose))[:count]]

    def shown(self, indices: Tensor, view: View | None, *purpose: int | str) -> Tensor:
        """Images in [0, 1] as a view shows them, or as they are."""
        draw = self.stream(*purpose)
        parts = (as_float(part) for part in self.dealt.images[indices].split(1024))
        return torch.cat([part if view is None else view(part, draw) for part in parts])

    def seen(self, client: int, indices: Tensor, purpose: str) -> Tensor:
        """Images as a client sees them, in [0, 1]."""
        view = None if self.dealt.views is None else self.dealt.views[client]
        return self.shown(indices, view, "samples", "seen", purpose, client)

    def plain(self, indices: Tensor) -> Tensor:
        """Images as they are, in [0, 1], at the size that networks see."""
        return resized(as_float(self.dealt.images[indices]), self.objective.image_size)

    def of_style(self, style: int, indices: Tensor) -> Tensor:
        """Images in [0, 1] as clients of a style see them, or would."""
        views = self.dealt.style_views
        return self.shown(indices, None if views is None else views[style], "comparable", style, len(indices))

    def as_stored(self, style: int, indices: Tensor) -> Tensor:
        """Images as clients of a style see them; as the bytes that they are stored as where everybody sees them so."""
        return self.dealt.images[indices] if self.dealt.style_views is None else self.of_style(style, indices)

    @cached_property
    def trained_on(self) -> Tensor:
        """All training images in [0, 1], as clients of their styles see them: at the size that networks take."""
        return torch.cat([self.of_style(style, self.dealt.train[style].unique()) for style in self.dealt.seen])

    def style_of(self, client: int) -> np.ndarray:
        """The name of a client's style."""
        return np.array(self.dealt.styles[self.dealt.client_styles[client]])
