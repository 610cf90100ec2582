"""FedAvg with fine-tuning: the final global model, trained on by each client."""

from baselines.fedavg import FedAvg
from common.settings import Epochs
from federation import Phase, settings


@settings
class FedAvgFT(FedAvg):
    """FedAvg; after the last round every client fine-tunes what it receives on its own data.

    Between rounds, a client's local training is its fine-tuning of what it received: that is the model it keeps.

    Attributes:
        fine_tuning_epochs: passes over the client's data.
    """

    fine_tuning_epochs: Epochs = 1.0

    def epilogue(self) -> list[Phase]:
        """Local work on the final model."""
        return [Phase(self.updates(), epochs=self.fine_tuning_epochs)]
