"""FedPer: Arivazhagan et al. 2019, Federated learning with personalization layers."""

from federation import Algorithm, names, settings


@settings
class FedPer(Algorithm):
    """Algorithm 1: base layers (the encoder) are federated, personalisation layers (all others) stay local."""

    shared = names("encoder")
