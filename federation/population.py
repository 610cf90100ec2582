"""The client is a tensor axis: what clients have of their own is stored as (clients, *shape), all else once."""

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from federation.models import copied
from federation.names import entries


def _stack(tensor: Tensor, clients: int, channels_last: bool) -> Tensor:
    """`clients` copies of `tensor` along a new first axis; copies of a 4-D kernel laid out channels-last if asked."""
    if channels_last and tensor.dim() == 4:
        tensor = tensor.permute(0, 2, 3, 1)
        return tensor.repeat(clients, 1, 1, 1, 1).permute(0, 1, 4, 2, 3)
    return tensor.unsqueeze(0).repeat(clients, *[1] * tensor.dim())


class Population:
    """Clients' copies of one model, of which only what is a client's own is stored for each of them.

    Args:
        template: all clients begin as this one.
        own: the names of the parameters and buffers that a client has for itself.

    Attributes:
        storage: name -> tensor (clients, *shape) of what is a client's own.
        common: name -> tensor of all else, as the server has sent it last.
        beside: name -> what every client's model has as an attribute of this name, and is no part of it.
    """

    def __init__(self, template: nn.Module, clients: int, own: Collection[str], *, channels_last: bool = False) -> None:
        self.template, self.clients, self.channels_last = template, clients, channels_last
        self.common = {entry.name: entry.tensor.detach() for entry in entries(template)}
        self.storage: dict[str, Tensor] = {}
        self.beside: dict[str, Any] = {}
        self.keep(own)

    def keep(self, names: Collection[str]) -> None:
        """From now on these are a client's own, all of whom have what was common."""
        for name in [name for name in self.common if name in names]:
            self.storage[name] = _stack(self.common.pop(name), self.clients, self.channels_last)

    # ---- models

    @property
    def members(self) -> Sequence[Any]:
        """Every client's model, made when it is asked for: what is its own are views of `storage`, so that a step on
        it is a step on one row, and all else is a copy that lasts as long as the model does."""
        return _Members(self)

    def working_copy(self) -> nn.Module:
        """A model that clients use in turn; each takes it over by `lend`."""
        model = copied(self.template, {id(entry.tensor): entry.tensor for entry in entries(self.template)})
        for entry in [entry for entry in entries(model) if entry.name in self.common]:
            fresh = _stack(entry.tensor.detach(), 1, self.channels_last)[0]
            setattr(entry.owner, entry.leaf, nn.Parameter(fresh) if entry.is_parameter else fresh)
        return model

    @torch.no_grad()
    def lend(self, model: nn.Module, client: int) -> nn.Module:
        """Make a working copy the model of a client. Nothing stays in it of the one who had it before."""
        for entry in list(entries(model)):
            if entry.name in self.common:
                entry.tensor.copy_(self.common[entry.name])
            else:
                # .data: a view with a version counter of its own; otherwise autograd would take another thread's step
                # on its client for a change of this one's weights
                row = self.storage[entry.name][client].data
                # past nn.Module's setattr, which takes several times as long
                tensors: dict[str, Any] = entry.owner._parameters if entry.is_parameter else entry.owner._buffers
                tensors[entry.leaf] = nn.Parameter(row) if entry.is_parameter else row
        vars(model).update(self.beside)  # past nn.Module's registry
        return model.train()

    # ---- tensors

    @torch.no_grad()
    def install(self, clients: list[int], payload: dict[str, Tensor]) -> None:
        """Overwrite the named tensors of `clients` by those of `payload` (each without a client axis).

        What is common is so to all who go on from here.
        """
        for name, tensor in payload.items():
            if name in self.common:
                self.common[name] = tensor
            else:
                for client in clients:
                    self.storage[name][client].copy_(tensor)

    @torch.no_grad()
    def load(self, storage: dict[str, Tensor]) -> None:
        """Copy a saved `storage` back in place, so that models stay views of it."""
        for name, rows in self.storage.items():
            rows.copy_(storage[name])


class _Members(Sequence[Any]):
    def __init__(self, population: Population) -> None:
        self.population = population

    def __len__(self) -> int:
        return self.population.clients

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            return [self[client] for client in range(len(self))[which]]
        return self.population.lend(self.population.working_copy(), range(len(self))[which])
