"""How good clients' own models are on their test images, round by round."""

from typing import Any

import torch
from torch import Tensor, nn

from common.keys import random_key
from federation import Simulation
from federation.data import as_float
from partitions import Partition

BATCH = 256
COLUMNS = ["round", "client", "score", "value"]


def due(simulation: Simulation, every: int) -> bool:
    """Whether clients are scored after this round; the last one is scored when all local work is done."""
    return bool(every) and 0 < simulation.round < simulation.settings.rounds and simulation.round % every == 0


@torch.no_grad()
def scores(simulation: Simulation, dealt: Partition) -> list[dict[str, Any]]:
    """The mean of every score of the algorithm over each client's test images: rows of scores.csv.

    A client uses its model with the shared tensors as the server last put them together, or, if the algorithm says so,
    as its own training left it. Batch norms are in evaluation mode, with the client's statistics.
    """
    rows = []
    for client in range(len(simulation.population.members)):
        model = _used(simulation, client).eval()
        indices = torch.cat(dealt.test).unique() if simulation.algorithm.pooled else dealt.tests[client]
        parts = [
            simulation.algorithm.scores(model, _seen(simulation, client, i), simulation.data.labels[i])
            for i in indices.split(BATCH)
        ]
        means = {name: torch.cat([part[name] for part in parts]).double().mean() for name in parts[0]}
        rows += [
            {"round": simulation.round, "client": client, "score": name, "value": float(mean)}
            for name, mean in means.items()
        ]
    if simulation.cloud is not None:
        rows += _of_the_cloud(simulation, torch.cat(dealt.test).unique())
    return rows


def _of_the_cloud(simulation: Simulation, indices: Tensor) -> list[dict[str, Any]]:
    """The same of the server's own model, on all test images; its client is called -1."""
    parts = [
        simulation.cloud.scores(as_float(simulation.data.images[i]), simulation.data.labels[i])  # type: ignore[union-attr]
        for i in indices.split(BATCH)
    ]
    means = {name: torch.cat([part[name] for part in parts]).double().mean() for name in parts[0]}
    return [{"round": simulation.round, "client": -1, "score": n, "value": float(m)} for n, m in means.items()]


def _seen(simulation: Simulation, client: int, indices: Tensor) -> Tensor:
    """Images as the client sees them, the same in every round."""
    images = as_float(simulation.data.images[indices])
    if simulation.data.views is None:
        return images
    draw = torch.Generator().manual_seed(random_key(simulation.seed, "scored", client, int(indices[0])))
    return simulation.data.views[client](images, draw)


def _used(simulation: Simulation, client: int) -> nn.Module:
    """A copy of the model that a client would use."""
    if simulation.algorithm.keeps_own:
        return simulation.own(client)
    return simulation.synchronised(client)
