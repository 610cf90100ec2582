"""Supervised classification."""

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from common.settings import settings
from objectives.objective import Model, Objective


@settings
class Classification(Objective):
    """Cross-entropy of a linear head on the encoder's features."""

    def model(self) -> Any:
        """Parts: encoder, head."""
        encoder = self.encoder()
        return Model(encoder=encoder, head=nn.Linear(encoder.features, self.classes))

    def outputs(self, model: Any, batch: dict[str, Any]) -> Sequence[Tensor]:
        """The logits (batch, classes)."""
        return [model.head(model.encoder(batch["x"]))]

    def criterion(self, model: Any, outputs: Sequence[Tensor], batch: dict[str, Any]) -> Tensor:
        """Mean cross-entropy."""
        (logits,) = outputs
        return F.cross_entropy(logits, batch["y"])
