"""FedINB: Zhou, Azam, Brinton and Inouye 2023, "Efficient Federated Domain Translation".

Nothing is averaged: a round is a layer (Algorithm 3), and a layer is an exchange of its own over the channel.
Domains (clients), classes and directions are tensor axes. Shapes: samples x (domains, classes, n, d), directions theta
(classes, d, K), slices (domains, classes, K, n).

INB and HistINB work on the network `pixels`, the others on an auto-encoder: of each domain's own (Ind), or one for all.
What is exchanged, sorted samples or histograms (Hist), is `bins`.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from common.errors import InputError
from common.keys import random_key
from common.settings import Count, Layers, Units, settings
from common.spec import TrainingSettings
from federation import Algorithm, Exchange, Phase, nothing
from objectives import Autoencoder, monotone, slices, stiefel
from objectives.iterative import Translator

GROWTH, SHRINK, ARMIJO, STILL = 1.5, 0.5, 0.5, 1e-6
"""Of the line search, as in the authors' code: by how much the next first trial is longer than the last accepted step,
a trial than the one before it, the slope that is asked for, and the change of theta that ends it."""
TRIALS = 60
"""In one iteration at most; then the step is nothing to 32-bit floats."""


@settings
class FedINB(Algorithm):
    """Algorithm 3.

    Attributes:
        layers, directions, iterations: L, K and J. There are as many rounds as layers.
        bins: V of the histograms that are sent in the place of sorted samples; null for the samples.
        barycenter: a `constant` to the gradient (App. E.1, INB-02); or the gradient goes `through` it, as in the
            authors' code with histograms, for which clients have to say more. With sorted samples it is the same
            (Remark 1).
        first_step: the first trial of a layer, 0.1 in the authors' code, on the sum over domains.
        map_bins: B1 of the histograms of Algorithm 2, in the authors' code the root of the number of samples of a class
            over all domains.
        autoencoder_epochs: passes over its images before the first layer in which every client trains the
            auto-encoder; none if it comes from another run.
    """

    objective: Autoencoder
    layers: Layers = 10
    directions: Units = 10
    iterations: Count = 200
    bins: Count | None = None
    barycenter: Literal["constant", "through"] = "constant"
    first_step: PositiveFloat = 0.1
    map_bins: Annotated[int, Field(ge=2, le=10_000)] = 71
    autoencoder_epochs: Annotated[int, Field(ge=0, le=1_000_000)] = 50

    shared = nothing

    def __post_init__(self) -> None:
        dimensions = self.objective.encoder().features
        if self.directions > dimensions:
            raise InputError(
                f"algorithm.directions: there are {dimensions} dimensions, got {self.directions} directions"
            )

    def model(self) -> Translator:
        """The auto-encoder, and the layers."""
        parts: Any = self.objective.model()
        sizes = parts.encoder.features, self.objective.classes, self.layers, self.directions, self.map_bins
        return Translator(parts.encoder, parts.decoder, *sizes)

    def prologue(self) -> list[Phase]:
        """The auto-encoders (Sec. 2.5)."""
        epochs = float(self.autoencoder_epochs)
        trained = any(True for _ in self.objective.model().parameters())  # pixels have no weights
        return [Phase(self.objective.updates(), epochs=epochs)] if epochs and trained else []

    def phases(self) -> list[Phase]:
        """No local work beside the exchange."""
        return []

    def check(self, training: TrainingSettings, rounds: Iterable[list[Tensor]]) -> None:
        """Raises InputError: there are more rounds than layers; or in one of them there is one domain, a class is
        missing somewhere, or there is more of it at one than at another."""
        for number, labels in enumerate(rounds, 1):
            if number > self.layers:
                raise InputError(f"training.rounds: there are {self.layers} layers (algorithm.layers), got more rounds")
            if len(labels) < 2:
                raise InputError(f"data: translation needs two domains, got {len(labels)}")
            counts = torch.stack([torch.bincount(y, minlength=self.objective.classes) for y in labels])
            if (counts != counts[0, 0]).any() or counts[0, 0] < 2:
                raise InputError(
                    "data.per_class: FedINB needs as many images of each class at each client, and two or more; "
                    f"got between {int(counts.min())} and {int(counts.max())}"
                )

    def constants(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Codes, which are what all layers start from."""
        return {"codes": model.eval().encoder(x)}

    @torch.no_grad()
    def exchange(self, exchange: Exchange) -> list[dict[str, float]]:
        """A layer: directions, then the maps along them. Returns what each iteration came to."""
        cases = zip(exchange.members, exchange.constants, exchange.labels, strict=True)
        x = torch.stack([_by_class(*case, exchange.round - 1) for case in cases])
        theta, notes = Search(self, exchange, x).run()
        centre, own = self.averaged(exchange, slices.slices(x, theta.to(x)).double())
        for member, histogram in zip(exchange.members, own, strict=True):
            member.put(exchange.round - 1, theta, histogram, centre)
        return notes

    def averaged(self, exchange: Exchange, z: Tensor) -> tuple[Tensor, Tensor]:
        """Algorithm 2 along all directions at once, with equal weights: quantiles of the barycenter, as clients hear
        them, and their own histograms."""
        own = exchange.up(histogram=monotone.estimated(z, self.map_bins).histogram())
        centre = monotone.barycenter(monotone.Distribution.of_histogram(own))
        return exchange.down(barycenter=centre.quantiles()), own

    def translate(self, source: Any, targets: Iterable[Any], x: Tensor, y: Tensor) -> list[Tensor]:
        """f = T_target^-1 after T_source: images x of a client's domain, with labels y, as those of each of others."""
        z = source.latent(x, y)
        return [target.images(z, y) for target in targets]


def _by_class(member: Translator, constants: dict[str, Tensor], labels: Tensor, layers: int) -> Tensor:
    """z_m <- T_m(x_m), as (classes, n, d)."""
    order = labels.argsort(stable=True)
    return member.aligned(constants["codes"], labels, layers)[order].unflatten(0, (member.theta.shape[1], -1))


class Search:
    """Algorithm 1, Fed-multi-max-K-SW: directions along which the domains are furthest apart, of all classes at once.

    What the other side works with is what crossed the channel, 32-bit floats.
    """

    def __init__(self, inb: FedINB, exchange: Exchange, x: Tensor) -> None:
        self.inb, self.exchange, self.x = inb, exchange, x
        self.domains, classes, _, d = x.shape
        draw = torch.Generator().manual_seed(random_key(exchange.seed, "directions", exchange.round))
        self.theta = stiefel.random(classes, d, inb.directions, draw).to(x.device)
        # ours is Eq. 2, the mean over domains; the authors' code (iaf/swd_hist.py) takes its steps on the sum
        self.tau = self.theta.new_full((classes,), inb.first_step * self.domains)
        self.active = torch.arange(classes, device=x.device)
        self.notes: list[dict[str, float]] = []

    def run(self) -> tuple[Tensor, list[dict[str, float]]]:
        """The directions, and what each iteration came to."""
        self.theta = self.exchange.down(theta=self.theta).double()
        self.loss, self.ordered, self.centre = self._objective(self.theta, self.active)
        for number in range(1, self.inb.iterations + 1):
            still = self._iteration(number)
            self.active = self.active[~still]
            if not len(self.active):
                break
        return stiefel.orthonormal(self.theta), self.notes

    def _iteration(self, number: int) -> Tensor:
        """One step of every class that still moves; returns which of them do no longer."""
        which = self.active
        theta, loss, tau = self.theta[which], self.loss[which], self.tau[which]
        own = slices.gradient(self.x, self._sorted(which), self._left_behind(which), which) / self.domains
        gradient = self.exchange.up(gradient=own).double().sum(dim=0)
        slope = stiefel.slope(theta, gradient)
        tried = self.exchange.down(theta=stiefel.cayley(theta, gradient, tau)).double()
        direction = stiefel.recovered(theta, tried, tau)
        left = torch.arange(len(which), device=which.device)
        trials = torch.zeros(len(which), device=which.device)
        for _ in range(TRIALS):
            found, ordered, centre = self._objective(tried, which[left])
            self._accept(which[left], tried, found, ordered, centre)
            trials[left] += 1
            again = found > loss[left] + ARMIJO * tau[left] * slope[left]
            self.exchange.down(halved=again)
            left = left[again]
            if not len(left):
                break
            # clients do the same by themselves (App. C.3): theta crosses once, slices at each trial
            tau[left] *= SHRINK
            tried = stiefel.cayley(theta[left], direction[left], tau[left])
        self.tau[which] = tau * GROWTH
        self._note(number, which, trials)
        return (self.theta[which] - theta).abs().amax(dim=(-1, -2)) < STILL

    def _objective(self, theta: Tensor, which: Tensor) -> tuple[Tensor, slices.Sorted, Tensor]:
        """The loss of each class, and slices and their barycenter, once they have crossed the channel."""
        ordered, bins = slices.sorted_slices(self.x, theta.to(self.x), which), self.inb.bins
        sent = ordered.values if bins is None else slices.histogram(ordered.values, bins)
        centre = self.exchange.down(barycenter_slices=self.exchange.up(slices=sent).mean(dim=0))
        if bins is not None:
            centre = slices.pseudo_samples(centre, ordered.values.shape[-1])
        losses = self.exchange.up(loss=slices.loss(ordered.values, centre) / self.domains)
        return losses.double().sum(dim=0), ordered, centre

    def _left_behind(self, which: Tensor) -> Tensor:
        """What slices are drawn away from: the barycenter, and how much of it follows if they move."""
        centre, bins = self.centre[which], self.inb.bins
        if bins is None or self.inb.barycenter == "constant":
            return centre
        apart = self._sorted(which).values - centre
        edges = self.exchange.up(apart=slices.gathered(apart, bins + 1)).mean(dim=0)
        return centre + slices.gathered(self.exchange.down(apart=edges), apart.shape[-1])

    def _accept(self, which: Tensor, theta: Tensor, loss: Tensor, ordered: slices.Sorted, centre: Tensor) -> None:
        self.theta[which], self.loss[which], self.centre[which] = theta, loss, centre
        self.ordered.values[:, which], self.ordered.order[:, which] = ordered.values, ordered.order

    def _sorted(self, which: Tensor) -> slices.Sorted:
        return slices.Sorted(self.ordered.values[:, which], self.ordered.order[:, which])

    def _note(self, number: int, which: Tensor, trials: Tensor) -> None:
        for c, n, value in zip(which.tolist(), trials.tolist(), (-self.loss[which]).tolist(), strict=True):
            self.notes.append({"class": c, "iteration": number, "trials": n, "objective": value})
