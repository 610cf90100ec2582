"""Images from what a client sends first: what all such attacks have in common."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attacks.wiretap import Wiretap
from common.keys import random_key
from common.spec import TrainingSettings

Found = tuple[Tensor, Tensor | None]
"""Images (n, channels, height, width) in [0, 1] and labels (n,); None where what was sent does not depend on labels."""


class Inversion(Wiretap):
    """Somebody who looks for images that lead from what was sent to what came back.

    Known are the algorithm, its settings, and on how many images a client works.

    Args:
        iterations: of L-BFGS, at most.
    """

    def __init__(self, algorithm: Any, training: TrainingSettings, iterations: int, seed: int) -> None:
        super().__init__()
        self.algorithm: Any = algorithm
        self.training, self.iterations, self.seed = training, iterations, seed

    def invert(self, client: int, begun: Any, shape: tuple[int, ...], styles: Tensor | None = None) -> Found:
        """What a client's message gives away.

        Args:
            begun: the model that the client has begun with.
            shape: of its images, (n, channels, height, width).
            styles: of its images (n,), if they show any.
        """
        raise NotImplementedError

    def draw(self, client: int) -> torch.Generator:
        """The attacker's own random numbers."""
        return torch.Generator().manual_seed(random_key(self.seed, "inversion", client))


def begun_images(shape: tuple[int, ...], draw: torch.Generator) -> Tensor:
    """What the search starts from: grey, with a little noise."""
    return (0.5 + 0.1 * torch.randn(shape, generator=draw)).requires_grad_()


def as_images(x: Tensor) -> Tensor:
    """What was found, in [0, 1]."""
    return x.detach().nan_to_num(0.5).clamp(0, 1)


def apart(ours: list[Tensor], theirs: list[Tensor]) -> Tensor:
    """The squared distance of two lists of tensors, relative to that of nothing from the second."""
    size = torch.stack([b.square().sum() for b in theirs]).sum()
    return torch.stack([(a - b).square().sum() for a, b in zip(ours, theirs, strict=True)]).sum() / size


def minimise(distance: Callable[[], Tensor], variables: list[Tensor], iterations: int) -> None:
    """Lower a distance, in place, by L-BFGS as Zhu et al. 2019 do; variables that it does not depend on stay."""

    def closure() -> Tensor:
        loss = distance()
        slopes = torch.autograd.grad(loss, variables, allow_unused=True)
        for variable, slope in zip(variables, slopes, strict=True):
            variable.grad = torch.zeros_like(variable) if slope is None else slope.contiguous()
        return loss

    optimiser = torch.optim.LBFGS(
        variables,
        max_iter=iterations,
        history_size=50,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-12,
        tolerance_change=1e-14,
    )
    optimiser.step(closure)
