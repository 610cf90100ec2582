"""Inversion of what clients of FedINB send for the first layer: sorted projections, or histograms of them, and the
first gradient of the search for directions."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attacks.inversion import Found, Inversion, apart, as_images, minimise
from federation import Message
from objectives.slices import Sorted, gradient, histogram, pseudo_samples, slices

SEARCHES = 20
"""Of which the one that comes nearest counts: many end where some directions have samples the wrong way round."""


@dataclass(frozen=True)
class Heard:
    """What a client has said of one class.

    Attributes:
        theta: the directions it was sent (d, K).
        projections: onto each, of samples in ascending order (K, samples), or the edges of their histogram.
        pulls: sums of samples (d, K'), by which the first K' directions were drawn; None if none have come.
        centre: the projections (K', samples) that they were drawn away from; None if that was not all.
    """

    theta: Tensor
    projections: Tensor
    pulls: Tensor | None = None
    centre: Tensor | None = None


class Projections(Inversion):
    """Codes that have, along all directions that were sent, the projections that came back, and pull the first of them
    as the client did.

    A projection says which values there are, and not whose; of several samples several times as many directions as
    dimensions are needed, and those of one search lie close together. Its gradient is a sum of the codes themselves,
    weighed by how far each projection is from the mean of all clients', which everybody hears. Classes are apart on the
    channel, so that labels are known. Codes become images by the decoder that clients begin with.
    """

    def __call__(self, message: Message) -> None:
        """Keep directions, and the first that comes back of each, as long as all classes move; and the first pull."""
        for name, heard in message.tensors.items() if message.round == 1 else ():
            tensor = heard.cpu()
            if name == "theta" and len(tensor) == self.algorithm.objective.classes:
                self.sent[f"theta.{self._asked}"] = tensor
            elif name == "barycenter_slices":
                self.sent.setdefault("centre", tensor)
            for row, client in enumerate(message.clients):
                back = self.back.setdefault(client, {})
                if name == "slices" and tensor.shape[1] == self.algorithm.objective.classes:
                    back.setdefault(f"slices.{self._asked - 1}", tensor[row])
                elif name in ("gradient", "apart"):  # the latter where clients are drawn by more than a barycenter
                    back.setdefault(name, tensor[row] * len(message.clients))  # of the mean over clients

    @property
    def _asked(self) -> int:
        return sum(name.startswith("theta.") for name in self.sent)

    def invert(self, client: int, begun: Any, shape: tuple[int, ...], styles: Tensor | None = None) -> Found:
        """As the base says; class by class."""
        classes, back, draw = self.algorithm.objective.classes, self.back[client], self.draw(client)
        each = shape[0] // classes
        theta = torch.cat([self.sent[f"theta.{n}"] for n in range(self._asked)], dim=2)
        said = torch.cat([back[f"slices.{n}"] for n in range(self._asked)], dim=1)
        centre = pseudo_samples(self.sent["centre"], each)
        known = [None] * classes if "apart" in back else list(centre)
        heard = map(Heard, theta, said, back["gradient"], known)
        codes = [matched(one, each, self.iterations, draw) for one in heard]
        return as_images(begun.eval().decoder(torch.cat(codes))), torch.arange(classes).repeat_interleave(each)


def matched(heard: Heard, samples: int, iterations: int, draw: torch.Generator) -> Tensor:
    """Samples (samples, d) that come nearest to what was heard, each relative to how much there is of it.

    Pulls are sums of samples: as soon as there are as many, samples are looked for in their span alone. A search starts
    at the mean of all samples, which least squares tell, and spreads as projections do.
    """
    values = pseudo_samples(heard.projections, samples)
    mean, spread = values.mean(dim=1, keepdim=True), values.std(dim=1).square().mean().sqrt()
    middle = torch.linalg.lstsq(heard.theta.T, mean, driver="gelsd").solution.T
    edges = heard.projections.shape[1] - 1
    span = torch.eye(len(heard.theta))
    if heard.pulls is not None and heard.pulls.shape[1] >= samples:
        span = torch.linalg.svd(heard.pulls, full_matrices=False).U[:, :samples]

    def distance(parts: Tensor) -> Tensor:
        x = parts @ span.T
        ordered, order = slices(x, heard.theta).sort(dim=1)
        far = apart([histogram(ordered, edges) - mean], [heard.projections - mean])
        if heard.centre is None or heard.pulls is None:
            return far
        first = len(heard.centre)
        one = Sorted(ordered[None, None, :first], order[None, None, :first])
        return far + apart([gradient(x[None, None], one, heard.centre)[0, 0]], [heard.pulls])

    def search() -> Tensor:
        parts = middle @ span + spread * torch.randn(samples, span.shape[1], generator=draw)
        minimise(lambda: distance(parts), [parts.requires_grad_()], iterations)
        return parts.detach()

    return min((search() for _ in range(SEARCHES)), key=distance) @ span.T
