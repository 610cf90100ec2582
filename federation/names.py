"""Partial federation: predicates over the names of a model's tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


@dataclass(frozen=True)
class Names:
    """A set of tensor names, told by the name and the module that owns the tensor. Combine with |, & and ~."""

    contains: Callable[[str, nn.Module], bool]

    def __or__(self, other: Names) -> Names:
        return Names(lambda name, owner: self.contains(name, owner) or other.contains(name, owner))

    def __and__(self, other: Names) -> Names:
        return Names(lambda name, owner: self.contains(name, owner) and other.contains(name, owner))

    def __invert__(self) -> Names:
        return Names(lambda name, owner: not self.contains(name, owner))

    def below(self, part: str) -> Names:
        """The same tensors of the model's part of this name."""
        prefix = f"{part}."
        return Names(lambda name, owner: name.startswith(prefix) and self.contains(name[len(prefix) :], owner))


everything = Names(lambda name, owner: True)
nothing = ~everything
batch_norm = Names(lambda name, owner: isinstance(owner, _BatchNorm))


def names(*paths: str) -> Names:
    """The tensors at or below these module paths: `names("w", "encoder.conv1")`."""
    below = tuple(f"{path}." for path in paths)
    return Names(lambda name, owner: name in paths or name.startswith(below))


def anywhere(part: str) -> Names:
    """The tensors of all parts of this name, wherever in the model they are."""
    return Names(lambda name, owner: f".{part}." in f".{name}")


@dataclass(frozen=True)
class Entry:
    """One tensor of a model: its dotted name, the module that owns it, and what it is."""

    name: str
    owner: nn.Module
    tensor: Tensor
    is_parameter: bool

    @property
    def leaf(self) -> str:
        """The tensor's attribute name in its owner."""
        return self.name.rpartition(".")[2]


def entries(model: nn.Module) -> Iterator[Entry]:
    """Every parameter and buffer of `model`, module by module; a module reached twice counts once."""
    for path, owner in model.named_modules():
        prefix = f"{path}." if path else ""
        # what named_parameters and named_buffers would go through, which take several times as long
        for tensors, are_parameters in ((owner._parameters, True), (owner._buffers, False)):
            for leaf, tensor in tensors.items():
                if tensor is not None:
                    yield Entry(prefix + leaf, owner, tensor, are_parameters)


def selected(model: nn.Module, which: Names) -> list[Entry]:
    """The entries of `model` that `which` contains."""
    return [entry for entry in entries(model) if which.contains(entry.name, entry.owner)]
