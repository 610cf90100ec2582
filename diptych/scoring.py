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
    rows: list[dict[str, Any]] = []
    last: tuple[dict[str, Tensor], Tensor, dict[str, float]] = ({}, torch.zeros(0), {})
    for client in range(len(simulation.population.members)):
        model = _used(simulation, client).eval()
        tensors = simulation.algorithm.personal(model).state_dict()
        indices = dealt.all_test if simulation.algorithm.pooled else dealt.tests[client]
        if simulation.data.views is not None or not _alike((tensors, indices), last[:2]):
            last = (tensors, indices, _means(simulation, client, model, indices))
        rows += [
            {"round": simulation.round, "client": client, "score": name, "value": value}
            for name, value in last[2].items()
        ]
    if simulation.cloud is not None:
        rows += _of_the_cloud(simulation, dealt.all_test)
    return rows


def _means(simulation: Simulation, client: int, model: nn.Module, indices: Tensor) -> dict[str, float]:
    parts = [
        simulation.algorithm.scores(model, _seen(simulation, client, i), simulation.data.labels[i])
        for i in indices.split(BATCH)
    ]
    return {name: float(torch.cat([part[name] for part in parts]).double().mean()) for name in parts[0]}


def _alike(ours: tuple[dict[str, Tensor], Tensor], theirs: tuple[dict[str, Tensor], Tensor]) -> bool:
    """The same model on the same images, as FedAvg's clients are, need not be scored twice."""
    (a, i), (b, j) = ours, theirs
    return torch.equal(i, j) and a.keys() == b.keys() and all(torch.equal(t, b[name]) for name, t in a.items())


def _of_the_cloud(simulation: Simulation, indices: Tensor) -> list[dict[str, Any]]:
    """The same of the server's own model, on all test images; its client is called -1."""
    parts = [
        simulation.cloud.scores(as_float(simulation.data.images[i]), simulation.data.labels[i])  # type: ignore[union-attr]
        for i in indices.split(BATCH)
    ]
    means = {name: float(torch.cat([part[name] for part in parts]).double().mean()) for name in parts[0]}
    return [{"round": simulation.round, "client": -1, "score": n, "value": mean} for n, mean in means.items()]


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
