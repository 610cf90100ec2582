"""FedINB: Zhou, Gong, Lohit, Kulkarni and Inouye 2023, Federated domain translation by iterative barycenters.

A protocol over the channel; domains (clients), classes and directions are tensor axes. Shapes: samples x (domains,
classes, n, d), directions theta (classes, d, K).
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from common.errors import InputError
from common.keys import random_key
from common.settings import settings
from federation import Channel
from objectives import monotone, slices, stiefel

FIRST_STEP, GROWTH, SHRINK, ARMIJO, STILL = 0.1, 1.5, 0.5, 0.5, 1e-6
"""Of the line search, as in the authors' code: the first step, by how much the next first trial is longer than the last
accepted step, a trial than the one before it, the slope that is asked for, and the change of theta that ends it."""
TRIALS = 60
"""In one iteration at most; then the step is nothing to 64-bit floats."""


@settings
class INB:
    """Algorithm 3.

    Attributes:
        layers, directions, iterations: L, K and J.
        bins: V of the histograms that are sent in the place of sorted samples; null for the samples.
    """

    layers: PositiveInt = 10
    directions: PositiveInt = 10
    iterations: PositiveInt = 200
    bins: Annotated[int, Field(ge=1)] | None = None


@dataclass(frozen=True)
class Layer:
    """x <- x + theta (t(theta^T x) - theta^T x) for each domain, t_m = F_bary^-1 after F_m.

    Algorithm 3 leaves out what lies outside theta's span, and so would project everything into it.
    """

    theta: Tensor
    domains: monotone.Distribution
    barycenter: monotone.Distribution

    def forward(self, x: Tensor) -> Tensor:
        """Every domain's samples to the space that all share."""
        return self._moved(x, lambda z: self.barycenter.inverse(self.domains(z)))

    def inverse(self, x: Tensor) -> Tensor:
        """And back."""
        return self._moved(x, lambda z: self.domains.inverse(self.barycenter(z)))

    def _moved(self, x, along) -> Tensor:  # type: ignore[no-untyped-def]
        z = slices.slices(x, self.theta)
        return x + (along(z) - z).mT @ self.theta.mT


class Federation:
    """The domains' samples, and the channel that all that is exchanged crosses.

    Raises:
        InputError: there is one domain, or a class has fewer than two samples, or K > d.
    """

    def __init__(self, x: Tensor, inb: INB, channel: Channel, seed: int) -> None:
        domains, classes, n, d = x.shape
        if domains < 2:
            raise InputError(f"data: translation needs two domains, got {domains}")
        if inb.directions > d:
            raise InputError(f"algorithm.directions: there are {d} dimensions, got {inb.directions} directions")
        if n < 2:
            raise InputError(f"data: every domain needs two samples of each class, got {n}")
        self.x, self.inb, self.channel, self.seed = x.double(), inb, channel, seed
        self.everyone = list(range(domains))
        self.layers: list[Layer] = []
        self.iterations = torch.zeros(classes, dtype=torch.long)
        self.trials = torch.zeros(classes, dtype=torch.long)

    def run(self) -> list[Layer]:
        """All layers (Algorithm 3)."""
        while len(self.layers) < self.inb.layers:
            layer = self._layer(len(self.layers))
            self.x = layer.forward(self.x)
            self.layers.append(layer)
        return self.layers

    def _layer(self, number: int) -> Layer:
        theta = self.directions(number)
        z = slices.slices(self.x, theta)
        domains = monotone.estimated(z, monotone.bins_for(z.shape[0] * z.shape[-1]))
        self._up(number, histogram=torch.cat([domains.masses[..., 1:], domains.mean, domains.deviation], dim=-1))
        centre = monotone.barycenter(domains)
        self._down(number, barycenter=torch.cat([centre.places[..., 1:-1], centre.mean, centre.deviation], dim=-1))
        return Layer(theta, domains, centre)

    # ---- Algorithm 1

    def directions(self, number: int) -> Tensor:
        """Fed-multi-max-K-SW: the directions along which the domains are furthest apart."""
        _, classes, _, d = self.x.shape
        draw = torch.Generator().manual_seed(random_key(self.seed, "directions", number))
        theta = stiefel.random(classes, d, self.inb.directions, draw)
        self._down(number, theta=theta)
        tau = torch.full((classes,), FIRST_STEP, dtype=theta.dtype)
        active = torch.arange(classes)
        loss, centre = self._objective(number, theta, active)
        for _ in range(self.inb.iterations):
            gradient = self._gradient(number, theta[active], centre[active], active)
            step, moved, new_loss, new_centre = self._search(
                number, theta[active], gradient, loss[active], tau[active], active
            )
            change = (moved - theta[active]).abs().amax(dim=(-1, -2))
            theta[active], loss[active], centre[active], tau[active] = moved, new_loss, new_centre, step * GROWTH
            self.iterations[active] += 1
            active = active[change >= STILL]
            if not len(active):
                break
        return theta

    def _objective(self, number: int, theta: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each class and the barycenter of its slices, once they have crossed the channel."""
        ordered = slices.slices(self.x[:, which], theta).sort(dim=-1).values
        sent = ordered if self.inb.bins is None else slices.histogram(ordered, self.inb.bins)
        self._up(number, slices=sent)
        centre = sent.mean(dim=0)
        self._down(number, slices=centre)
        if self.inb.bins is not None:
            centre = slices.pseudo_samples(centre, ordered.shape[-1])
        losses = slices.loss(ordered, centre) / len(self.everyone)
        self._up(number, loss=losses)
        return losses.sum(dim=0), centre

    def _gradient(self, number: int, theta: Tensor, centre: Tensor, which: Tensor) -> Tensor:
        own = slices.gradient(self.x[:, which], theta, centre) / len(self.everyone)
        self._up(number, gradient=own)
        return own.sum(dim=0)

    def _search(
        self, number: int, theta: Tensor, gradient: Tensor, loss: Tensor, tau: Tensor, which: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Backtracking until Armijo's condition holds. Clients halve the step by themselves (App. C.3): theta crosses
        once, slices and barycenters at each trial."""
        slope = stiefel.slope(theta, gradient)
        tau, left = tau.clone(), torch.arange(len(which))
        moved, new_loss = theta.clone(), loss.clone()
        centre = torch.empty(0)
        for trial in range(TRIALS):
            tried = stiefel.cayley(theta[left], gradient[left], tau[left])
            if trial == 0:
                self._down(number, theta=tried)
            found, found_centre = self._objective(number, tried, which[left])
            centre = found_centre.clone() if trial == 0 else centre.index_copy(0, left, found_centre)
            moved[left], new_loss[left] = tried, found
            self.trials[which[left]] += 1
            left = left[found > loss[left] + ARMIJO * tau[left] * slope[left]]
            if not len(left):
                break
            tau[left] *= SHRINK
        return tau, moved, new_loss, centre

    def _up(self, number: int, **tensors: Tensor) -> None:
        self.channel.up(number, self.everyone, {name: t.float() for name, t in tensors.items()})

    def _down(self, number: int, **tensors: Tensor) -> None:
        self.channel.down(number, self.everyone, {name: t.float() for name, t in tensors.items()})
