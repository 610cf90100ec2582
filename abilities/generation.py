"""Images from latents of content and of style, and the real ones that they are held against."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from abilities.trained import Arrays, Trained, as_bytes
from federation import copied

ROWS, COLUMNS = 6, 10
"""Of a grid of samples."""


def generated(trained: Trained) -> Arrays:
    """`client/<k>/...`, its real images, test images like them and what its models make; and `grid/<k>/...`."""
    arrays: Arrays = {}
    for client in trained.clients:
        arrays |= {f"client/{client}/{key}": rows for key, rows in _of_client(trained, client).items()}
    return arrays | _grids(trained)


def images(trained: Trained, model: Any, labels: Tensor, draw: torch.Generator) -> Iterator[Tensor]:
    """Images (batch, channels, height, width) in [0, 1], batch by batch; `labels` also says how many."""
    objective = trained.objective
    for y in labels.split(trained.spec.samples.batch):
        z_c, z_s = (objective.latents(len(y), draw) for _ in range(2))
        yield _made(trained, model, z_c, z_s, y, objective.noise(len(y), draw))


@torch.no_grad()
def _made(trained: Trained, model: Any, z_c: Tensor, z_s: Tensor, y: Tensor, noise: tuple[Tensor, ...]) -> Tensor:
    """Images in [0, 1]."""
    device, one_hot = next(model.parameters()).device, trained.objective.one_hot
    latents = z_c.to(device), z_s.to(device)
    return trained.objective.generate(model, *latents, one_hot(y.to(device)), tuple(part.to(device) for part in noise))


def classes_of(trained: Trained, client: int) -> Tensor:
    """The classes that a client has images of."""
    return trained.dealt.labels[trained.dealt.clients[client]].unique()


def _of_client(trained: Trained, client: int) -> Arrays:
    mine, labels, count = trained.dealt.clients[client], trained.dealt.labels, trained.spec.samples.images
    draw = trained.stream("samples", "labels", client)
    asked = labels[mine][torch.randint(len(mine), (count,), generator=draw)]
    own = trained.personal_models[client]
    arrays = {
        "style": trained.style_of(client),
        **_real(trained, client, "real", mine, count),
        **_real(trained, client, "held out", _tests_like(trained, client), count),
        "generated/labels": asked.numpy() if trained.objective.conditional else np.full(count, -1),
    }
    models = {
        "": own,
        "/bn=eval": _evaluation_mode(trained, own, asked, client),
        "/generator=global": trained.global_models[client],
    }
    for name, model in models.items():
        made = torch.cat(list(images(trained, model, asked, trained.stream("samples", "generated", client))))
        arrays[f"generated{name}"] = as_bytes(made)
    return arrays | (_unseen(trained, client, own) if trained.objective.conditional else {})


def _real(trained: Trained, client: int, kind: str, indices: Tensor, count: int) -> Arrays:
    """Some of these images as a client sees them, and their labels."""
    chosen = trained.some(indices, count, "samples", "some", f"{kind} {client}")
    name = kind.replace(" ", "-")
    return {
        name: as_bytes(trained.seen(client, chosen, kind)),
        f"{name}/labels": trained.dealt.labels[chosen].numpy(),
    }


def _unseen(trained: Trained, client: int, own: Any) -> Arrays:
    """Images of labels that a client has none of, by its own model, and test images that show them."""
    count, dealt = trained.spec.samples.images, trained.dealt
    missing = sorted(set(range(dealt.classes)) - set(classes_of(trained, client).tolist()))
    if not missing:
        return {}
    asked = torch.tensor(missing).repeat(-(-count // len(missing)))[: min(count, 100 * len(missing))]
    made = torch.cat(list(images(trained, own, asked, trained.stream("samples", "unseen", client))))
    tests = dealt.test[dealt.client_styles[client]]
    others = tests[torch.isin(dealt.labels[tests], torch.tensor(missing))]
    found = {"unseen": as_bytes(made), "unseen/labels": asked.numpy()}
    return found | _real(trained, client, "held out unseen", others, len(asked))


def _tests_like(trained: Trained, client: int) -> Tensor:
    """As many of a client's test images as have its labels in the proportions in which it has them, but for labels that
    are not tested; all of them if none is, or if labels are people, of whom one has hardly two."""
    tests, classes = trained.dealt.tests[client], trained.dealt.classes
    labels = trained.dealt.labels[tests]
    mine = torch.bincount(trained.dealt.labels[trained.dealt.clients[client]], minlength=classes)
    tested = torch.bincount(labels, minlength=classes)
    both = (mine > 0) & (tested > 0)
    if trained.spec.data.people or not both.any():
        return tests
    times = float((tested[both] / mine[both]).min())
    of_each = enumerate((mine * times + 1e-6).long().tolist())
    return torch.cat([trained.some(tests[labels == c], n, "samples", "some", f"like {client} {c}") for c, n in of_each])


def _evaluation_mode(trained: Trained, model: Any, labels: Tensor, client: int) -> Any:
    """The model with batch-norm statistics of its own images, as those of its training lag behind its weights."""
    model = copied(model)
    norms = [m for m in model.generator.modules() if isinstance(m, _BatchNorm)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean over batches
    draw = trained.stream("samples", "statistics", client)
    for _ in images(trained, model, labels[: 40 * trained.spec.samples.batch], draw):
        pass
    return model.eval()


def _grids(trained: Trained) -> Arrays:
    """Samples from the same latents for all clients: rows and columns as in PaDPaF's Fig. 6, 7, 10, 11 and 13.

    `style-by-row`: z^s down, z^c (and the label) across. `content-by-row`: z^c down, z^s (and the label) across.
    `both`: all latents differ.
    """
    draw, objective = trained.stream("samples", "grid"), trained.objective
    rows, columns, both = (objective.latents(n, draw) for n in (ROWS, COLUMNS, 2 * ROWS * COLUMNS))
    down, across = rows.repeat_interleave(COLUMNS, 0), columns.repeat(ROWS, 1)
    y = (torch.arange(COLUMNS) % trained.dealt.classes).repeat(ROWS)
    noise = objective.noise(len(y), draw)
    latents = {"style-by-row": (across, down), "content-by-row": (down, across), "both": both.chunk(2)}
    arrays = {}
    for client, model in enumerate(trained.personal_models):
        for name, (z_c, z_s) in latents.items():
            grid = _made(trained, model, z_c, z_s, y, noise)
            arrays[f"grid/{client}/{name}"] = as_bytes(grid.unflatten(0, (ROWS, COLUMNS)))
    return arrays
