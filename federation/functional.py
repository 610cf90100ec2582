"""Calling a function of a module with other tensors in the module's place."""

from collections.abc import Callable
from typing import Any

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
