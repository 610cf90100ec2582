"""FedRep: Collins et al. 2021, Exploiting shared representations for personalized federated learning."""

from typing import Literal

from federation import Algorithm, Phase, Update, names, settings

BODY = names("encoder")
HEAD = ~BODY


@settings
class FedRep(Algorithm):
    """Algorithm 1: in each round many steps on the local head, then a few on the shared body.

    Attributes:
        reading: `canonical` trains the head for the local epochs and the body for one, as the authors' scripts do;
            `fedstyle` (its App. C) trains each for the local epochs, twice the budget of the other methods. App. C
            puts these loops inside LocalTraining, which Algorithm 1 repeats once more; that would square the epochs,
            and is taken as a slip.
    """

    reading: Literal["canonical", "fedstyle"] = "canonical"

    shared = BODY

    def phases(self) -> list[Phase]:
        """Algorithm 1: the head's updates with the body fixed, then the body's with the head fixed."""
        return [
            Phase([Update(HEAD, self.loss)]),
            Phase([Update(BODY, self.loss)], epochs=1.0 if self.reading == "canonical" else None),
        ]
