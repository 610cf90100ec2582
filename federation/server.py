"""The server: the shared tensors, and how what came back from the clients changes them."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from common.optimisers import State, step
from common.spec import OptimiserSettings, ServerSettings


class Server:
    """Holds the shared tensors; sees nothing of the clients but what the channel hands it.

    Args:
        tensors: the initial shared tensors by name.
        parameters: those of the names that an optimiser may step; the others (buffers) always take the mean.
    """

    def __init__(self, tensors: dict[str, Tensor], parameters: set[str], settings: ServerSettings) -> None:
        self.tensors = tensors
        self.settings = settings
        self.stepped = [name for name in tensors if name in parameters] if settings.optimiser == "adam" else []
        self.optimiser_state: State = {}

    def weights(self, sizes: list[int]) -> Tensor:
        """The weight of each participant, summing to one; `sizes` are their numbers of training images."""
        shares = torch.tensor(sizes if self.settings.weighting == "size" else [1] * len(sizes), dtype=torch.float64)
        return shares / shares.sum()

    def aggregate(self, uploads: Iterable[dict[str, Tensor]], sizes: list[int], lr_factor: float = 1.0) -> None:
        """Replace the shared tensors by the weighted mean of what each participant sends, summed as it comes.

        Args:
            uploads: of each participant, in the order of `sizes`.
            lr_factor: multiplies an optimiser's learning rate.
        """
        means = {name: torch.zeros_like(tensor) for name, tensor in self.tensors.items()}
        for weight, upload in zip(self.weights(sizes).tolist(), uploads, strict=True):
            for name, tensor in upload.items():
                means[name].add_(tensor, alpha=weight)
        old, self.tensors = self.tensors, means
        if self.stepped:
            parameters = [old[name].clone() for name in self.stepped]
            pseudo_gradients = [old[name] - means[name] for name in self.stepped]
            adam = OptimiserSettings(name="adam", lr=self.settings.lr, betas=self.settings.betas)
            step(adam, parameters, pseudo_gradients, self.optimiser_state, lr_factor)
            self.tensors = means | dict(zip(self.stepped, parameters, strict=True))

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"tensors": self.tensors, "optimiser_state": self.optimiser_state}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.tensors, self.optimiser_state = state["tensors"], state["optimiser_state"]
