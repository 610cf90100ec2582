"""Putting models together."""

import copy

from torch import nn


def twins(model: nn.Module, first: str, second: str) -> nn.Module:
    """A module with two equal parts of these names: `model` and a copy of it."""
    return nn.ModuleDict({first: model, second: copy.deepcopy(model)})
