"""What is done once, between the prologue and the first round: clients tell each other something, and precompute."""

import torch
from torch import Tensor

from federation.channel import Channel
from federation.hooks import Announcing, Precomputing
from federation.local import LocalWork, generator


def announce(algorithm: Announcing, local: LocalWork, channel: Channel) -> None:
    """Clients hear what each of the others has to say; it crosses the channel before round 1."""
    beside = local.population.beside
    if "announced" in beside:  # a run that goes on has heard it
        return
    clients = list(range(len(local.data.clients)))
    said = [_told(algorithm, local, client) for client in clients]
    told = {f"announced.{name}": torch.stack([one[name] for one in said]) for name in said[0]}
    if told:
        channel.down(0, clients, channel.up(0, clients, told))
        beside["announced"] = {name.removeprefix("announced."): rows for name, rows in told.items()}


@torch.no_grad()
def _told(algorithm: Announcing, local: LocalWork, client: int) -> dict[str, Tensor]:
    indices, draw = local.data.clients[client], generator(local.seed, "told", client)
    seen = local.seen(client, indices, draw)
    return algorithm.announced(local.population.members[client], seen, local.data.labels[indices], draw)


@torch.no_grad()
def constants(algorithm: Precomputing, local: LocalWork, client: int) -> dict[str, Tensor]:
    """What stays fixed of each of a client's images, in their order."""
    model, draws = local.population.members[client], generator(local.seed, "constants", client)
    parts = [
        algorithm.constants(model, local.seen(client, indices, draws), local.data.labels[indices])
        for indices in local.data.clients[client].split(256)
    ]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
