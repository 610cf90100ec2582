"""Inversion of the first discriminator that a user of PS-FedGAN publishes."""

import math
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from attacks.inversion import Found, Inversion, apart, as_images, begun_images, minimise
from attacks.wiretap import as_heard
from networks.cgan import masks
from objectives.cgan import discriminator_loss

SEARCHES = 10
"""Of which the one that comes nearest counts: a perceptron's leaky ReLUs stop many of them early."""
NOISE = 1.0
"""On the logits that searches for labels start from."""


class Discriminators(Inversion):
    """Images whose step on D leads from the discriminator that users begin with to the first that is published.

    The attacker knows what the one with r = 1 knows: the user's generator to the bit. Of the step it does not know z
    and the labels of made images, which are not those that are published and are solved for as well, nor what D drops,
    for which it draws masks of its own.
    """

    def invert(self, client: int, begun: Any, shape: tuple[int, ...], styles: Tensor | None = None) -> Found:
        """As the base says."""
        algorithm, draw = self.algorithm, self.draw(client)
        model = as_heard(algorithm, begun, self, client)
        discriminator = dict(model.discriminator.named_parameters())
        heard = {
            name: (p.detach() - self.back[client][f"discriminator.{name}"]) / self.training.optimiser.lr
            for name, p in discriminator.items()
        }
        guess = _first_guess(heard["embedding.weight"], shape[0])
        dropped = [mask for _ in range(2) for mask in masks(algorithm.width, algorithm.dropout, shape[0], draw)]

        def distance(images: Tensor, z: Tensor, real: Tensor, made: Tensor) -> Tensor:
            labels = made.softmax(dim=1)
            fakes = model.generator(z, labels)  # here, for the loss takes no gradient of it
            both = SimpleNamespace(discriminator=model.discriminator, generator=lambda *_: fakes)
            batch = {"x": 2 * images - 1, "y": real.softmax(dim=1), "z": z, "labels": labels, "masks": dropped}
            loss = discriminator_loss(both, batch)
            ours = torch.autograd.grad(loss, list(discriminator.values()), create_graph=True)
            return apart(list(ours), list(heard.values()))

        def search() -> tuple[float, Tensor, Tensor]:
            z = torch.randn(shape[0], algorithm.latent, generator=draw).requires_grad_()
            labels = [(guess + NOISE * torch.randn(guess.shape, generator=draw)).requires_grad_() for _ in range(2)]
            variables = [begun_images(shape, draw), z, *labels]
            minimise(lambda: distance(*variables), variables, self.iterations)
            return float(distance(*variables).detach().nan_to_num(torch.inf)), as_images(variables[0]), labels[0]

        _, images, labels = min((search() for _ in range(SEARCHES)), key=itemgetter(0))
        return images, labels.argmax(dim=1)


def _first_guess(embedding: Tensor, images: int) -> Tensor:
    """Logits of labels: only rows of labels that were in the batch have moved, and of one image's just one."""
    share = embedding.norm(dim=1) / embedding.norm(dim=1).sum()
    return (share + math.exp(-10)).log().repeat(images, 1)
