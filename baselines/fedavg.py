"""FedAvg: McMahan et al. 2017, Communication-efficient learning of deep networks from decentralized data."""

from federation import Algorithm, Update, everything, settings


@settings
class FedAvg(Algorithm):
    """Algorithm 1: clients train what they receive, the server averages all of it."""

    def updates(self) -> list[Update]:
        """ClientUpdate: w <- w - lr * grad of the loss."""
        return [Update(everything, self.loss)]
