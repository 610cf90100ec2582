"""How good clients' own models are on their test images, and on styles that nobody has, round by round."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from common.keys import random_key
from federation import Simulation, View
from federation.data import as_float
from federation.hooks import FineTuning, pooled
from partitions import Partition

BATCH = 256
COLUMNS = ["round", "client", "score", "value", "style", "part"]


@dataclass(frozen=True)
class _Asked:
    """Images that a client's model is scored on: its test images, or the `part` of a `style` that no client has."""

    indices: Tensor
    view: View | None
    style: str = ""
    part: str = ""


def due(simulation: Simulation, every: int) -> bool:
    """Whether clients are scored after this round; the last one is scored when all local work is done."""
    return bool(every) and 0 < simulation.round < simulation.settings.rounds and simulation.round % every == 0


@torch.no_grad()
def scores(simulation: Simulation, dealt: Partition) -> list[dict[str, Any]]:
    """The mean of every score of the algorithm over each client's test images: rows of scores.csv.

    The same over training and over test images of each style that no client has, with the names of style and part. The
    former may show what clients were trained on, otherwise rotated or marked.

    A client uses its model with the shared tensors as the server last put them together, or, if the algorithm says so,
    as its own training left it. Batch norms are in evaluation mode, with the client's statistics.
    """
    rows: list[dict[str, Any]] = []
    last: dict[tuple[str, str], tuple[dict[str, Tensor], Tensor, dict[str, float]]] = {}
    for client in range(len(simulation.population.members)):
        model = _used(simulation, client).eval()
        tensors = simulation.algorithm.personal(model).state_dict()
        for asked in _asked(simulation, dealt, client):
            key = asked.style, asked.part
            if asked.view is not None or key not in last or not _alike((tensors, asked.indices), last[key][:2]):
                last[key] = (tensors, asked.indices, _means(simulation, client, model, asked))
            named = {"style": asked.style, "part": asked.part}
            rows += [
                {"round": simulation.round, "client": client, "score": name, "value": value, **named}
                for name, value in last[key][2].items()
            ]
    if simulation.cloud is not None:
        rows += _of_the_cloud(simulation, dealt.all_test)
    return rows


def _asked(simulation: Simulation, dealt: Partition, client: int) -> Iterator[_Asked]:
    if pooled(simulation.algorithm):
        yield _Asked(dealt.all_test, None)
    else:
        yield _Asked(dealt.tests[client], None if dealt.views is None else dealt.views[client])
    for style, name in enumerate(dealt.styles):
        if style not in dealt.seen:
            view = None if dealt.style_views is None else dealt.style_views[style]
            yield _Asked(dealt.train[style], view, name, "train")
            yield _Asked(dealt.test[style], view, name, "test")


def _means(simulation: Simulation, client: int, model: nn.Module, asked: _Asked) -> dict[str, float]:
    parts = [
        simulation.algorithm.scores(model, _seen(simulation, client, asked.view, i), simulation.data.labels[i])
        for i in asked.indices.split(BATCH)
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


def _seen(simulation: Simulation, client: int, view: View | None, indices: Tensor) -> Tensor:
    """Images as the client sees them, or as their style is seen, the same in every round."""
    images = as_float(simulation.data.images[indices])
    if view is None:
        return images
    draw = torch.Generator().manual_seed(random_key(simulation.seed, "scored", client, int(indices[0])))
    return view(images, draw)


def _used(simulation: Simulation, client: int) -> nn.Module:
    """A copy of the model that a client would use."""
    if isinstance(simulation.algorithm, FineTuning):
        return simulation.own(client)
    return simulation.synchronised(client)
