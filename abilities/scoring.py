"""How good clients' own models are on their test images, and on styles that nobody has, round by round."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from abilities.trained import BATCH, Trained, looked_at
from federation import Simulation, View
from federation.hooks import FineTuning, pooled
from partitions import Partition

COLUMNS = ["round", "client", "score", "value", "style", "part"]


@dataclass(frozen=True)
class _Asked:
    """Images as a client sees them, to be scored on: its test images, or the `part` of a `style` that no client has."""

    client: int
    indices: Tensor
    view: View | None
    style: str = ""
    part: str = ""


def due(simulation: Simulation, every: int) -> bool:
    """Whether clients are scored after this round; the last one is scored when all local work is done."""
    return bool(every) and 0 < simulation.round < simulation.settings.rounds and simulation.round % every == 0


@torch.no_grad()
def scores(trained: Trained) -> list[dict[str, Any]]:
    """The mean of every score of the algorithm over each client's test images: rows of scores.csv.

    Of a pooled run, and of a model that only the server has, the mean over clients of these means: one row.

    The same over training and over test images of each style that no client has, with the names of style and part. The
    former may show what clients were trained on, otherwise rotated or marked.

    A client uses its model with the shared tensors as the server last put them together, or, if the algorithm says so,
    as its own training left it. Batch norms are in evaluation mode, with the client's statistics.
    """
    rows: list[dict[str, Any]] = []
    last: dict[tuple[str, str], tuple[dict[str, Tensor], Tensor, dict[str, float]]] = {}
    for client in trained.clients:
        model = used(trained, client)
        tensors = trained.algorithm.personal_model(model).state_dict()
        if pooled(trained.algorithm):
            means = _over_clients(trained.dealt, partial(_means, trained, model))
            rows += _rows(trained, client, means, style="", part="")
        for asked in _asked(trained, client):
            key = asked.style, asked.part
            if asked.view is not None or key not in last or not _alike((tensors, asked.indices), last[key][:2]):
                last[key] = (tensors, asked.indices, _means(trained, model, asked))
            rows += _rows(trained, client, last[key][2], style=asked.style, part=asked.part)
    if trained.simulation.server_work is not None:
        rows += _rows(trained, -1, _of_the_cloud(trained))
    return rows


def _rows(trained: Trained, client: int, means: dict[str, float], **of: str) -> list[dict[str, Any]]:
    round = trained.simulation.round
    return [{"round": round, "client": client, "score": name, "value": mean, **of} for name, mean in means.items()]


def _asked(trained: Trained, client: int) -> Iterator[_Asked]:
    dealt = trained.dealt
    if not pooled(trained.algorithm):
        yield _Asked(client, dealt.tests[client], None if dealt.views is None else dealt.views[client])
    for style, name in enumerate(dealt.styles):
        if style not in dealt.seen:
            view = None if dealt.style_views is None else dealt.style_views[style]
            yield _Asked(client, dealt.train[style], view, name, "train")
            yield _Asked(client, dealt.test[style], view, name, "test")


def _means(trained: Trained, model: nn.Module, asked: _Asked) -> dict[str, float]:
    """Of images as the client sees them, or as their style is seen, the same in every round."""
    labels = trained.dealt.labels
    return _mean(
        looked_at(trained.algorithm.scores, model, _seen(trained, asked, i), labels[i])
        for i in asked.indices.split(BATCH)
    )


def _seen(trained: Trained, asked: _Asked, indices: Tensor) -> Tensor:
    return trained.shown(indices, asked.view, "scored", asked.client, int(indices[0]))


def _over_clients(dealt: Partition, means: Callable[[_Asked], dict[str, float]]) -> dict[str, float]:
    """The mean over clients of what is found on each one's test images, as it sees them; what several see alike counts
    for each, and is looked at once."""
    found: dict[tuple[int, int], dict[str, float]] = {}
    of_clients = []
    for client, indices in enumerate(dealt.tests):
        view = None if dealt.views is None else dealt.views[client]
        key = id(indices), 0 if view is None else client
        if key not in found:
            found[key] = means(_Asked(client, indices, view))
        of_clients.append(found[key])
    if len(found) == 1:
        return of_clients[0]
    return {name: fmean(of_client[name] for of_client in of_clients) for name in of_clients[0]}


def _mean(parts: Iterator[dict[str, Tensor]]) -> dict[str, float]:
    whole = list(parts)
    return {name: float(torch.cat([part[name] for part in whole]).double().mean()) for name in whole[0]}


def _alike(ours: tuple[dict[str, Tensor], Tensor], theirs: tuple[dict[str, Tensor], Tensor]) -> bool:
    """The same model on the same images, as FedAvg's clients are, need not be scored twice."""
    (a, i), (b, j) = ours, theirs
    return torch.equal(i, j) and a.keys() == b.keys() and all(torch.equal(t, b[name]) for name, t in a.items())


def _of_the_cloud(trained: Trained) -> dict[str, float]:
    """The same of the server's own model, whose client is called -1."""
    cloud, data = trained.simulation.server_work, trained.simulation.data
    assert cloud is not None

    def means(asked: _Asked) -> dict[str, float]:
        return _mean(cloud.scores(_seen(trained, asked, i), data.labels[i]) for i in asked.indices.split(BATCH))

    return _over_clients(trained.dealt, means)


def used(trained: Trained, client: int) -> nn.Module:
    """A copy of the model that a client would use."""
    if isinstance(trained.algorithm, FineTuning):
        return trained.simulation.own(client)
    return trained.simulation.synchronised(client)
