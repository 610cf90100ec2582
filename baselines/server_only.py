"""Training on the server's own images alone: what a method that is given them has to improve on."""

from federation import Algorithm, nothing, settings


@settings
class ServerOnly(Algorithm):
    """Nobody else takes part. Rounds only count its epochs. PS-FedGAN's tables leave this row out."""

    shared = nothing
    pooled = "server"
