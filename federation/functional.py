"""Functions of modules: calling them with other tensors in the module's place, and their gradients."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call


class _Call(nn.Module):
    def __init__(self, function: Callable[..., Any], module: nn.Module) -> None:
        super().__init__()
        self.function, self.module = function, module

    def forward(self, *arguments: Any) -> Any:
        return self.function(self.module, *arguments)


def call_with(tensors: dict[str, Tensor], function: Callable[..., Any], module: nn.Module, *arguments: Any) -> Any:
    """`function(module, *arguments)`, evaluated as if the named tensors of `module` were `tensors`."""
    named = {f"module.{name}": tensor for name, tensor in tensors.items()}
    return functional_call(_Call(function, module), named, arguments)


def gradients(loss: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """The gradient with respect to each leaf: 0 where the loss does not depend on it, as a classifier on an encoder's
    means does not on its variances.

    Raises:
        ValueError: it depends on none of them.
    """
    found = torch.autograd.grad(loss, leaves, allow_unused=True)
    if all(gradient is None for gradient in found):
        raise ValueError("a loss depends on none of the parameters that its update names")
    return [torch.zeros_like(p) if g is None else g for p, g in zip(leaves, found, strict=True)]
