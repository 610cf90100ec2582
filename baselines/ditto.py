"""Ditto: Li et al. 2021, Fair and robust federated learning through personalization."""

from typing import Any, Literal

from pydantic import NonNegativeFloat
from torch import Tensor, nn

from federation import Algorithm, Batch, Phase, Update, names, settings, sq_distance, twins


@settings
class Ditto(Algorithm):
    """Algorithm 1: a FedAvg model w, and a personal model v that is drawn towards it.

    Attributes:
        mu: weight of the proximal term (lambda in Ditto, mu in FedStyle, which uses 2).
        reading: `canonical` takes both steps on each mini-batch and draws v towards the w that was received;
            `fedstyle` (its App. C) first trains w for all local epochs, then v for as many, towards the trained w.
    """

    mu: NonNegativeFloat = 1.0
    reading: Literal["canonical", "fedstyle"] = "canonical"

    shared = names("w")

    def model(self) -> nn.Module:
        """Both models, equal at first."""
        return twins(self.objective.model(), "w", "v")

    def phases(self) -> list[Phase]:
        """Local work of one round."""
        if self.reading == "canonical":
            return [Phase([self.global_step(), self.personal_step()])]
        return [Phase([self.global_step()]), Phase([self.personal_step()])]  # FedStyle App. C, Ditto, lines 1 and 12

    def global_step(self) -> Update:
        """w is trained as in FedAvg (Algorithm 1, line 6)."""
        return Update(names("w"), lambda m, batch: self.loss(m.w, batch))

    def personal_step(self) -> Update:
        """v <- v - lr * (grad F(v) + mu * (v - w)) (Algorithm 1, line 7)."""
        return Update(names("v"), self.personal_loss)

    def personal_loss(self, m: Any, batch: Batch) -> Tensor:
        """F(v) + mu/2 * |v - w|^2, Eq. 2 of the paper."""
        reference = m.received.w if self.reading == "canonical" else m.w
        return self.loss(m.v, batch) + self.mu / 2 * sq_distance(m.v, reference)

    def generalised(self, model: Any, x: Tensor) -> dict[str, Tensor]:
        """Features of the shared w."""
        return super().generalised(model.w, x)

    def personalised(self, model: Any, x: Tensor) -> dict[str, Tensor]:
        """Features of the personal v."""
        return super().generalised(model.v, x)
