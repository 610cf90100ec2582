"""A conditional GAN: the steps on its two sides, and whoever follows a user's generator by what the user publishes."""

import copy
from collections import defaultdict
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.errors import InputError
from common.keys import random_key
from common.optimisers import State, step
from common.spec import OptimiserSettings
from federation import Phase, Update, names
from networks.cgan import Discriminator, Generator, Masks, masks
from objectives.objective import Objective


class Shape(Protocol):
    """Settings of a GAN: the size of its noise, its width, and the share of D's hidden units that is dropped."""

    @property
    def latent(self) -> int: ...  # noqa: D102

    @property
    def width(self) -> int: ...  # noqa: D102

    @property
    def dropout(self) -> float: ...  # noqa: D102


def gan(shape: Shape, of: Objective) -> dict[str, nn.Module]:
    """A new generator and discriminator, for the images and labels of an objective."""
    images = {"channels": of.channels, "image_size": of.image_size, "classes": of.classes, "width": shape.width}
    return {"generator": Generator(**images, latent=shape.latent), "discriminator": Discriminator(**images)}


def drawn(x: Tensor, y: Tensor, shape: Shape, generator: torch.Generator) -> dict[str, Any]:
    """A batch for the step on D: real images in [-1, 1], z, labels of made ones among y, and what D drops of both."""
    n = len(x)
    dropped = [mask for _ in range(2) for mask in masks(shape.width, shape.dropout, n, generator)]
    fakes = y[torch.randint(n, (n,), generator=generator)]
    z = torch.randn(n, shape.latent, generator=generator)
    return {"x": 2 * x - 1, "y": y, "z": z, "labels": fakes, "masks": tuple(dropped)}


def discriminator_loss(m: Any, batch: dict[str, Any]) -> Tensor:
    """-log D(x) - log(1 - D(G(z))) (PS-FedGAN, Eq. 4), the mean over a batch as `drawn` makes it."""
    with torch.no_grad():
        made = m.generator(batch["z"], batch["labels"])
    images, labels = torch.cat([batch["x"], made]), torch.cat([batch["y"], batch["labels"]])
    layers = len(batch["masks"]) // 2
    dropped = [torch.cat(pair) for pair in zip(batch["masks"][:layers], batch["masks"][layers:], strict=True)]
    real, fake = m.discriminator(images, labels, dropped).chunk(2)
    return (F.softplus(-real) + F.softplus(fake)).mean()


def generator_loss(m: Any, z: Tensor, labels: Tensor, dropped: Masks) -> Tensor:
    """-log D(G(z)), the non-saturating form."""
    return F.softplus(-m.discriminator(m.generator(z, labels), labels, dropped)).mean()


def alone(shape: Shape, optimiser: OptimiserSettings, epochs: float) -> Phase:
    """Training a GAN that nobody follows, with an optimiser of its own: a step on D, one on G with its noise."""

    def draw(x: Tensor, y: Tensor, generator: torch.Generator) -> dict[str, Any]:
        return drawn(x, y, shape, generator) | {"dropped": masks(shape.width, shape.dropout, len(x), generator)}

    def on_generator(m: Any, batch: dict[str, Any]) -> Tensor:
        return generator_loss(m, batch["z"], batch["labels"], batch["dropped"])

    losses = {"discriminator": discriminator_loss, "generator": on_generator}
    updates = [Update(names(part), loss, optimiser=optimiser) for part, loss in losses.items()]
    return Phase(updates, epochs=epochs, draw=draw)


def tensors_of(m: Any, part: str) -> dict[str, Tensor]:
    """The parameters of a part, by their names in the whole."""
    return {f"{part}.{name}": p.detach() for name, p in getattr(m, part).named_parameters()}


def agreed_masks(width: int, dropout: float, labels: Tensor, secret: tuple[int, int]) -> Masks:
    """What a discriminator of this width drops in a step on G with these labels, for whoever knows the secret and the
    step's number."""
    drawn = masks(width, dropout, len(labels), torch.Generator().manual_seed(random_key(*secret)))
    return [mask.to(labels.device) for mask in drawn]


@torch.no_grad()
def images_of(generator: Generator, z: Tensor, labels: Tensor) -> Tensor:
    """Images (n, channels, height, width) in [0, 1]."""
    z, labels = (given.to(generator.embedding.weight.device) for given in (z, labels))
    parts = [generator(*pair) for pair in zip(z.split(512), labels.split(512), strict=True)]
    return (torch.cat(parts) + 1) / 2


class Twin:
    """Follows a user's generator by what the user publishes. It sees no image.

    Args:
        generator, discriminator: what it starts with; discriminators are replaced by published ones.
        dropout: the share of D's hidden units that is dropped.
        secret: decides which.

    Attributes:
        taken: the number of steps that were published.
        labels: those that were published.
        losses: of its generator, by round and step.
    """

    def __init__(
        self,
        generator: Generator,
        discriminator: Discriminator,
        dropout: float,
        secret: int,
        optimiser: OptimiserSettings,
    ) -> None:
        self.generator, self.discriminator = generator, discriminator
        self.dropout, self.secret, self.optimiser = dropout, secret, optimiser
        self.taken, self.labels = 0, set[int]()
        self.losses: dict[int, list[float]] = defaultdict(list)
        self.optimiser_state = State()

    def receive(self, round: int, message: dict[str, Tensor]) -> None:
        """Line 13 of Algorithm 1: the user's step; or its generator as it is.

        Raises:
            InputError: what was published is of another architecture.
        """
        for name, tensor in message.items():
            part, _, of_part = name.partition(".")
            if of_part:
                own = getattr(self, part).get_parameter(of_part)
                if own.shape != tensor.shape:
                    shapes = f"{tuple(tensor.shape)}, and here it is {tuple(own.shape)}"
                    raise InputError(f"the published {name} is {shapes}: both sides need the same architecture")
                own.data = tensor.clone()
        if "labels" in message:
            self.labels |= set(message["labels"].tolist())
        if "z" in message:
            self.taken += 1
            self.losses[round].append(self.follow(message["z"], message["labels"]))

    def follow(self, z: Tensor, labels: Tensor) -> float:
        """A step on G with this z and these labels; the loss before it."""
        dropped = agreed_masks(self.discriminator.width, self.dropout, labels, (self.secret, self.taken))
        parameters: list[Tensor] = list(self.generator.parameters())
        loss = generator_loss(self, z, labels, dropped)
        step(self.optimiser, parameters, list(torch.autograd.grad(loss, parameters)), self.optimiser_state)
        return loss.item()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        kept: dict[str, Any] = {"optimiser": self.optimiser_state, "losses": dict(self.losses)}
        kept |= {part: getattr(self, part).state_dict() for part in ("generator", "discriminator")}
        return kept | {"taken": self.taken, "labels": sorted(self.labels)}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        for part in ("generator", "discriminator"):
            getattr(self, part).load_state_dict(state[part])
        self.optimiser_state = copy.deepcopy(state["optimiser"])
        self.taken, self.labels = state["taken"], set(state["labels"])
        self.losses = defaultdict(list)
        self.losses.update(copy.deepcopy(state["losses"]))
