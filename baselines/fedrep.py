"""FedRep: Collins et al. 2021, Exploiting shared representations for personalized federated learning."""

from typing import Literal

from common.settings import Epochs
from federation import Algorithm, Phase, names, settings

BODY = names("encoder")
HEAD = ~BODY


@settings
class FedRep(Algorithm):
    """Algorithm 1: in each round many steps on the local head, then a few on the shared body.

    Attributes:
        body_epochs: passes in which the body is trained; one in the authors' scripts, after ten for the head.
        reading: `canonical` trains the head for the local epochs and the body for `body_epochs`; `fedstyle` (its
            App. C) trains each for the local epochs, twice the budget of the other methods. App. C puts these loops
            inside LocalTraining, which Algorithm 1 repeats once more; that would square the epochs, and is taken as a
            slip.
    """

    body_epochs: Epochs = 1.0
    reading: Literal["canonical", "fedstyle"] = "canonical"

    shared = BODY

    def phases(self) -> list[Phase]:
        """Algorithm 1: the head's updates with the body fixed, then the body's with the head fixed."""
        return [
            Phase(self.updates(), only=HEAD),
            Phase(self.updates(), epochs=self.body_epochs if self.reading == "canonical" else None, only=BODY),
        ]
