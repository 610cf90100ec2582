"""Supervised classification."""

from collections.abc import Sequence
from typing import Annotated, Any

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from common.settings import settings
from federation import Update, everything, names
from networks import mlp
from objectives.objective import Model, Objective


@settings
class Classification(Objective):
    """Cross-entropy of a head on the encoder's features.

    Attributes:
        hidden: units of the head's hidden layer; 0 for a linear head, or the network's own classifier if it has one.
        frozen: the head alone is trained; of the encoder, only the statistics of batch norms follow the images.
    """

    hidden: Annotated[int, Field(ge=0, le=4096)] = 0
    frozen: bool = False

    def model(self) -> Any:
        """Parts: encoder, head."""
        encoder = self.encoder()
        if self.hidden:
            head: nn.Module = mlp(encoder.features, self.hidden, self.classes)
        elif hasattr(encoder, "classifier"):
            head = encoder.classifier(self.classes)
        else:
            head = nn.Linear(encoder.features, self.classes)
        return Model(encoder=encoder, head=head)

    def updates(self) -> list[Update]:
        """One step, on all parameters or on the head's."""
        return [Update(names("head") if self.frozen else everything, self.loss)]

    def outputs(self, model: Any, batch: dict[str, Any]) -> Sequence[Tensor]:
        """The logits (batch, classes)."""
        return [model.head(model.encoder(batch["x"]))]

    def criterion(self, model: Any, outputs: Sequence[Tensor], batch: dict[str, Any]) -> Tensor:
        """Mean cross-entropy."""
        (logits,) = outputs
        return F.cross_entropy(logits, batch["y"])

    def scores(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Whether the likeliest class is the label."""
        return {"accuracy": (model.head(model.encoder(x)).argmax(dim=1) == y).float()}
