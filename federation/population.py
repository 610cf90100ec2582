"""The client is a tensor axis: every tensor of the clients' models is stored once, as (clients, *shape)."""

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
    """All clients' copies of one model.

    Attributes:
        storage: name -> tensor (clients, *shape), parameters and buffers.
        members: one module per client; its tensors are views of `storage`, so that a step on a member is a step on
            one row, and an average over clients is one reduction over the first axis.
    """

    def __init__(self, template: nn.Module, clients: int, *, channels_last: bool = False) -> None:
        self.storage = {e.name: _stack(e.tensor.detach(), clients, channels_last) for e in entries(template)}
        self.members = [self._member(template, client) for client in range(clients)]

    def _member(self, template: nn.Module, client: int) -> nn.Module:
        member = copied(template)
        for entry in list(entries(member)):
            # .data: a view with a version counter of its own; otherwise autograd would take another thread's step on
            # its client for a change of this one's weights
            row = self.storage[entry.name][client].data
            setattr(entry.owner, entry.leaf, nn.Parameter(row) if entry.is_parameter else row)
        return member.train()

    @torch.no_grad()
    def install(self, clients: list[int], payload: dict[str, Tensor]) -> None:
        """Overwrite the named tensors of `clients` by those of `payload` (each without a client axis)."""
        for name, tensor in payload.items():
            rows = self.storage[name]
            for client in clients:
                rows[client].copy_(tensor)

    def rows(self, clients: list[int], names: list[str]) -> dict[str, Tensor]:
        """The named tensors of `clients`, each (len(clients), *shape), a copy unless all clients are asked for."""
        everyone = clients == list(range(len(self.members)))
        return {name: self.storage[name] if everyone else self.storage[name][clients] for name in names}

    @torch.no_grad()
    def load(self, storage: dict[str, Tensor]) -> None:
        """Copy a saved `storage` back in place, so that the members stay views of it."""
        for name, rows in self.storage.items():
            rows.copy_(storage[name])
