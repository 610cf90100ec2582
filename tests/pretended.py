"""A GPU that is not there: tensors that say they are elsewhere, while their numbers are on the CPU.

They are what torch's fake CUDA tensors would be with numbers in them, so that all that depends on numbers (`unique`,
`item`, a line search) goes as it goes. Whatever mixes them with the CPU's as CUDA would not is refused by its name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

aten = torch.ops.aten
DEVICE = "meta"
"""Its name: the only one beside the CPU's for which torch needs no driver. Fake tensors named `cuda` go forward without
one, but no longer backward."""
MOVES = {aten._to_copy, aten.copy_, aten._foreach_copy_}
"""From one device to another."""
INDEXING = {aten.index, aten._unsafe_index, aten.index_put, aten.index_put_, aten._index_put_impl_}
"""A CUDA tensor may be indexed by the CPU's."""
FILLING = {aten.fill, aten.fill_, aten.masked_fill, aten.masked_fill_, aten.index_put, aten.index_put_}
"""Beside the pointwise operators, those that take one number from the CPU."""

NOT_OF_NOTHING = {aten._upsample_bilinear2d_aa}
"""What CUDA refuses to do to no images."""


class Elsewhere(RuntimeError):
    """What CUDA refuses, or would answer with an access to memory that is not its own."""


class Pretended(Tensor):
    """A tensor that says it is on the GPU; its numbers are in `held`, on the CPU."""

    held: Tensor
    is_meta = False  # for these have numbers
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> "Pretended":
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        made = Tensor._make_wrapper_subclass(cls, held.shape, **layout, dtype=held.dtype, device=DEVICE)
        made.held = held
        return made

    def __repr__(self) -> str:
        return f"Pretended({self.held})"

    def tolist(self) -> Any:
        return self.held.tolist()

    @property
    def data(self) -> Tensor:
        return Tensor.data.__get__(self)

    @data.setter
    def data(self, other: "Pretended") -> None:
        self.held = other.held

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        return _called(func, args, dict(kwargs or {}))


class _Everywhere(TorchDispatchMode):
    """Also where no tensor is there yet, or all of them are on the CPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        return _called(func, args, dict(kwargs or {}))


def _called(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    wanted = None if kwargs.get("device") is None else torch.device(kwargs["device"]).type
    leaves = [*_leaves(args), *_leaves(kwargs.values())]
    if wanted != DEVICE and not any(isinstance(leaf, Pretended) for leaf in leaves):
        return func(*args, **kwargs)
    _refuse(func, args, leaves)
    named = {name: _mapped(_held, value) for name, value in kwargs.items()}
    out = func(*_mapped(_held, args), **named | ({"device": "cpu"} if wanted else {}))
    if wanted in (None, DEVICE):
        out = _mapped(lambda t: Pretended(t) if isinstance(t, Tensor) else t, out)
    return return_and_correct_aliasing(func, args, kwargs, out)


def _refuse(func: Any, args: tuple[Any, ...], leaves: list[Any]) -> None:
    packet = func.overloadpacket
    if any(isinstance(leaf, torch.Generator) for leaf in leaves):
        raise Elsewhere(f"{func}: the tensor is on the GPU, and the generator of its numbers on the CPU")
    if packet in INDEXING and isinstance(args[0], Pretended):
        leaves = list(_leaves(args[2:]))
    numbers = packet in FILLING or torch.Tag.pointwise in func.tags
    others = [t for t in leaves if isinstance(t, Tensor) and not isinstance(t, Pretended) and (t.dim() or not numbers)]
    if packet in NOT_OF_NOTHING and not args[0].numel():
        raise Elsewhere(f"{func}: invalid argument")
    if others and packet not in MOVES:
        raise Elsewhere(f"{func}: one tensor is on the GPU, another of shape {tuple(others[0].shape)} is on the CPU")


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    """Of an operator's arguments, which are lists at most."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_mapped(function, part) for part in value)
    return function(value)


def _held(value: Any) -> Any:
    return value.held if isinstance(value, Pretended) else value


def _made(make: Callable[..., Tensor], *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
    """What torch makes of numbers without a word to any mode."""
    return make(*args, **kwargs) if device is None else make(*args, **kwargs).to(device)


@contextmanager
def pretended_gpu() -> Iterator[None]:
    """In here, `DEVICE` is a GPU: one without streams, memory or arithmetic of its own, and with 32-bit floats."""
    overwriting = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)  # so that `module.to` keeps what it is given
    try:
        with (
            _Everywhere(),
            patch.object(torch, "tensor", partial(_made, torch.tensor)),
            patch.object(torch, "as_tensor", partial(_made, torch.as_tensor)),
            patch.object(torch, "autocast", lambda *_, **__: nullcontext()),
        ):
            yield
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(overwriting)
