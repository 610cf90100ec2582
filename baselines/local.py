"""Every client alone: what federation has to improve on."""

from federation import Algorithm, nothing, settings


@settings
class Local(Algorithm):
    """Nothing crosses the channel. Rounds only count a client's epochs."""

    shared = nothing
