"""Ditto+FedProx: Ditto whose global model is trained as in FedProx, a baseline of PaDPaF's Table 1."""

from typing import Any

from pydantic import NonNegativeFloat
from torch import Tensor

from baselines.ditto import Ditto
from federation import Batch, Update, settings, sq_distance


@settings
class DittoFedProx(Ditto):
    """Ditto with FedProx's proximal term (Li et al. 2020, Eq. 2) on the global steps as well.

    Attributes:
        mu_global: weight of that term; PaDPaF uses 1 for both.
    """

    mu_global: NonNegativeFloat = 1.0

    def global_steps(self) -> list[Update]:
        """w is trained towards what was received."""
        return [update.plus(self.global_proximal_term) for update in super().global_steps()]

    def global_proximal_term(self, m: Any, _: Batch) -> Tensor:
        """mu/2 * |w - w^t|^2."""
        return self.mu_global / 2 * sq_distance(m.w, m.received.w)
