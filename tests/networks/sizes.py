"""How large a network is, as papers print it."""

from torch import nn


def parameters(*modules: nn.Module) -> int:
    """The numbers that are trained."""
    return sum(p.numel() for module in modules for p in module.parameters())
