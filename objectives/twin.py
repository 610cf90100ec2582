"""What two sides of PS-FedGAN have in common: the step on a generator, and whoever takes it along with a user."""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from common.keys import random_key
from common.optimisers import State, step
from common.spec import OptimiserSettings
from networks.cgan import Discriminator, Generator, Masks, masks


def generator_loss(m: Any, z: Tensor, labels: Tensor, dropped: Masks) -> Tensor:
    """What both sides take their step on."""
    return F.softplus(-m.discriminator(m.generator(z, labels), labels, dropped)).mean()


def tensors_of(m: Any, part: str) -> dict[str, Tensor]:
    """The parameters of a part, by their names in the whole."""
    return {f"{part}.{name}": p.detach() for name, p in getattr(m, part).named_parameters()}


def agreed_masks(width: int, images: int, secret: tuple[int, int]) -> Masks:
    """What a discriminator of this width drops in a step on G, for whoever knows the secret and the step's number."""
    return masks(width, images, torch.Generator().manual_seed(random_key(*secret)))


class Twin:
    """Follows a user's generator by what the user publishes. It sees no image.

    Args:
        generator, discriminator: what it starts with; discriminators are replaced by published ones.
        secret: decides what D drops.

    Attributes:
        taken: the number of steps that were published.
        labels: those that were published.
    """

    def __init__(
        self, generator: Generator, discriminator: Discriminator, secret: int, optimiser: OptimiserSettings
    ) -> None:
        self.generator, self.discriminator = generator, discriminator
        self.secret, self.optimiser = secret, optimiser
        self.taken, self.labels = 0, set[int]()
        self.optimiser_state = State()

    def receive(self, message: dict[str, Tensor]) -> None:
        """Line 11 of Algorithm 1: the user's step; or its generator as it is."""
        for name, tensor in message.items():
            part, _, of_part = name.partition(".")
            if of_part:
                getattr(self, part).get_parameter(of_part).data = tensor.clone()
        if "z" in message:
            self.taken += 1
            self.labels |= set(message["labels"].tolist())
            self.follow(message["z"], message["labels"])

    def follow(self, z: Tensor, labels: Tensor) -> None:
        """A step on G with this z and these labels."""
        dropped = agreed_masks(self.discriminator.width, len(z), (self.secret, self.taken))
        parameters: list[Tensor] = list(self.generator.parameters())
        gradients = torch.autograd.grad(generator_loss(self, z, labels, dropped), parameters)
        step(self.optimiser, parameters, list(gradients), self.optimiser_state)

    @torch.no_grad()
    def images(self, z: Tensor, labels: Tensor) -> Tensor:
        """Images (n, channels, height, width) in [0, 1]."""
        parts = [self.generator(*pair) for pair in zip(z.split(512), labels.split(512), strict=True)]
        return (torch.cat(parts) + 1) / 2

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        kept = {"generator": self.generator.state_dict(), "optimiser": self.optimiser_state}
        return kept | {"taken": self.taken, "labels": sorted(self.labels)}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.generator.load_state_dict(state["generator"])
        self.optimiser_state = copy.deepcopy(state["optimiser"])
        self.taken, self.labels = state["taken"], set(state["labels"])
