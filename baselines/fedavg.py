"""FedAvg: McMahan et al. 2017, Communication-efficient learning of deep networks from decentralized data."""

from federation import Algorithm, Update, settings


@settings
class FedAvg(Algorithm):
    """Algorithm 1: clients train what they receive, the server averages all of it."""

    def updates(self) -> list[Update]:
        """ClientUpdate: the objective's own steps, for most w <- w - lr * grad of the loss."""
        return self.objective.updates()
