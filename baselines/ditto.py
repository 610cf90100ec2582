"""Ditto: Li et al. 2021, Fair and robust federated learning through personalization."""

from typing import Any, Literal

from pydantic import NonNegativeFloat
from torch import Tensor, nn

from federation import Algorithm, Batch, Phase, Update, names, settings, sq_distance, twins


@settings
class Ditto(Algorithm):
    """Algorithm 1: a FedAvg model w, and a personal model v that is drawn towards it.

    Attributes:
        mu: weight of the proximal term (lambda in Ditto, mu in FedStyle, which uses 2; PaDPaF uses 1).
        reading: `canonical` takes both steps on each mini-batch and draws v towards the w that was received;
            `fedstyle` (its App. C) first trains w for all local epochs, then v for as many, towards the trained w;
            `padpaf` (its authors' code) gives half of the local epochs to each, one after the other, v drawn to the
            received w, each with an optimiser of its own; `released` is what that code does: v starts each round as the
            received w, which loses it.
    """

    mu: NonNegativeFloat = 1.0
    reading: Literal["canonical", "fedstyle", "padpaf", "released"] = "canonical"

    shared = names("w")

    def model(self) -> nn.Module:
        """Both models, equal at first."""
        return twins(self.objective.model(), "w", "v")

    def phases(self) -> list[Phase]:
        """Local work of one round."""
        if self.reading == "canonical":
            return [Phase(self.global_steps() + self.personal_steps())]
        if self.reading == "fedstyle":  # FedStyle App. C, Ditto, lines 1 and 12
            return [Phase(self.global_steps()), Phase(self.personal_steps())]
        lose = forget_personal if self.reading == "released" else None
        return [Phase(self.global_steps(), share=0.5), Phase(self.personal_steps(), share=0.5, begin=lose)]

    def global_steps(self) -> list[Update]:
        """w is trained as in FedAvg (Algorithm 1, line 6)."""
        return [update.on("w") for update in self.objective.updates()]

    def personal_steps(self) -> list[Update]:
        """v <- v - lr * (grad F(v) + mu * (v - w)) (Algorithm 1, line 7; Eq. 2)."""
        return [update.on("v").plus(self.proximal_term) for update in self.objective.updates()]

    def proximal_term(self, m: Any, _: Batch) -> Tensor:
        """mu/2 * |v - w|^2."""
        return self.mu / 2 * sq_distance(m.v, m.w if self.reading == "fedstyle" else m.received.w)

    def global_model(self, model: Any) -> Any:
        """The shared w."""
        return model.w

    def personal_model(self, model: Any) -> Any:
        """The personal v."""
        return model.v


def forget_personal(m: Any) -> None:
    """v becomes the received w."""
    m.v.load_state_dict(m.received.w.state_dict(), strict=False)
