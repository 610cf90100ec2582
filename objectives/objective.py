"""The base of all objectives."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from common.errors import InputError
from common.settings import settings
from federation import Update, everything


class Model(nn.Module):
    """An encoder and the parts that an objective adds to it, each an attribute."""

    encoder: Any

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)


@settings
class Objective:
    """A loss in two steps, outputs and criterion, so that methods can work on the outputs; or `updates` of its own.

    Attributes:
        encoder: makes a new encoder, with its output size in `features`; keywords replace settings of the network.
        classes: the number of classes in the data.
        channels, image_size: of the images.
    """

    encoder: Callable[..., Any]
    classes: int
    channels: int
    image_size: int

    def model(self) -> Any:
        """A new model."""
        raise NotImplementedError

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> dict[str, Any]:
        """A batch from images x (batch, channels, height, width) in [0, 1] and labels y (batch,)."""
        return {"x": x, "y": y}

    def outputs(self, model: Any, batch: dict[str, Any]) -> Sequence[Tensor]:
        """What the criterion compares: one tensor (batch, dimensions) per view of the batch."""
        raise InputError(f"objective '{type(self).__name__}' has no outputs that a method could mix")

    def criterion(self, model: Any, outputs: Sequence[Tensor], batch: dict[str, Any]) -> Tensor:
        """The scalar loss of these outputs."""
        raise NotImplementedError

    def loss(self, model: Any, batch: dict[str, Any]) -> Tensor:
        """The scalar loss of a batch."""
        return self.criterion(model, self.outputs(model, batch), batch)

    def updates(self) -> list[Update]:
        """The steps that lower it: one on all parameters, unless the objective is a game between several."""
        return [Update(everything, self.loss)]

    def scores(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """What a trained model is scored by on test images: name -> a number for each image, (batch,)."""
        return {}
