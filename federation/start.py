"""Going on from another run: its tensors, where the algorithm says they belong."""

from typing import Any

import torch
from torch import Tensor, nn

from common.errors import InputError
from federation.algorithm import Algorithm
from federation.hooks import Transfers
from federation.names import Entry
from federation.population import Population

Start = dict[str, Tensor]
"""What another run has left, with a leading axis of one for all clients, or of all of them."""


def begin(algorithm: Algorithm, model: nn.Module, start: Start) -> None:
    """Put what is left for everybody, or the first client's, into a model.

    Raises:
        InputError: there is no such tensor in it, or it has another shape.
    """
    _put(algorithm, model, {name: rows[0] for name, rows in start.items()})


def begin_each(algorithm: Algorithm, population: Population, shared: list[Entry], start: Start) -> None:
    """Every client begins as the client of the same number has ended, if that run has left each one's own tensors.

    Raises:
        InputError: it had another number of clients, or what they had each for themselves is shared here.
    """
    for rows in start.values():
        if len(rows) not in (1, population.clients):
            raise InputError(
                f"start: that run has left the models of {len(rows)} clients, here are {population.clients}"
            )
    own = {name: rows for name, rows in start.items() if len(rows) > 1}
    for client, member in enumerate(population.members if own else ()):
        _put(algorithm, member, {name: rows[client] for name, rows in own.items()})
        begun = _tensors(member)
        for entry in shared:
            if not torch.equal(begun[entry.name], entry.tensor):
                raise InputError(f"start: '{entry.name}' is shared here, but in that run every client had its own")


def _put(algorithm: Algorithm, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    for part in _started(algorithm, model, tensors) if tensors else []:
        own = _tensors(part)
        odd = [name for name, t in tensors.items() if name not in own or own[name].shape != t.shape]
        if odd:
            raise InputError(f"start: that run has tensors that this one has not in this shape: {', '.join(odd[:4])}")
        with torch.no_grad():
            for name, tensor in tensors.items():
                own[name].copy_(tensor)


def _tensors(part: nn.Module) -> Start:
    return dict(part.named_parameters()) | dict(part.named_buffers())


def _started(algorithm: Algorithm, model: nn.Module, tensors: Start) -> list[Any]:
    """The parts that begin: of one who joins what the same algorithm has trained, all that it shares."""
    if tensors.keys() <= _tensors(model).keys():
        return [model]
    if isinstance(algorithm, Transfers):
        return algorithm.started(model)
    return [algorithm.global_model(model), algorithm.personal_model(model)]
