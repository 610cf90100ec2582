"""FedProx: Li et al. 2020, Federated optimization in heterogeneous networks."""

from typing import Any, Literal

from pydantic import NonNegativeFloat
from torch import Tensor

from federation import Algorithm, Batch, Names, Update, everything, nothing, require, settings, sq_distance


@settings
class FedProx(Algorithm):
    """Algorithm 2: FedAvg whose clients minimise h(w; w^t) = F(w) + mu/2 * |w - w^t|^2.

    Attributes:
        mu: weight of the proximal term; FedStyle uses 0.2.
        reading: `fedstyle` follows its App. C to the letter: the received model is stored as the reference w_{k,g}
            but never copied into w_k, which so is a persistent local model drawn towards the global one.

    Raises:
        InputError: nothing draws it there.
    """

    mu: NonNegativeFloat = 0.1
    reading: Literal["canonical", "fedstyle"] = "canonical"

    def __post_init__(self) -> None:
        pulled = self.reading == "canonical" or self.mu > 0
        require(pulled, "algorithm.mu: must be more than 0 with reading 'fedstyle', or every client trains alone")

    @property
    def installed(self) -> Names:
        """Algorithm 2, line 5: w_k starts from w^t."""
        return everything if self.reading == "canonical" else nothing

    def updates(self) -> list[Update]:
        """Algorithm 2, line 6: steps on h(w; w^t), Eq. 2 of the paper."""
        return [update.plus(self.proximal_term) for update in self.objective.updates()]

    def proximal_term(self, m: Any, _: Batch) -> Tensor:
        """mu/2 * |w - w^t|^2."""
        return self.mu / 2 * sq_distance(m, m.received)
