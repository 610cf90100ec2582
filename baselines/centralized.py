"""Centralised training: everybody's data in one place, the reference without federation."""

from federation import Algorithm, nothing, settings


@settings
class Centralized(Algorithm):
    """One client holds all data; nothing crosses the channel. Rounds only count its epochs."""

    shared = nothing
    pooled = "clients"
