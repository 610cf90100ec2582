"""Training the judge of a condition: on real training images, as every client sees them."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from common.keys import random_key
from common.spec import Spec
from diptych.study import JudgeSettings
from evaluation.judge import JudgeNetwork, fit, save
from federation.data import as_float
from partitions import Partition, partition

BATCH = 128


def train_judge(spec: Spec, settings: JudgeSettings, data_root: str, out: Path) -> dict[str, float]:
    """Train a judge for the data of a run and write it; its accuracy on test images is returned and written, too."""
    dealt = partition(spec.data, data_root, spec.seed)
    shape = {
        "channels": spec.data.channels,
        "size": spec.data.image_size,
        "width": settings.width,
        "features": settings.features,
        "classes": dealt.classes,
        "clients": len(dealt.clients),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(random_key(spec.seed, "judge"))
        network = JudgeNetwork(**shape)
    draw = torch.Generator().manual_seed(random_key(spec.seed, "judge images"))
    fit(network, (batch for _ in range(settings.epochs) for batch in _pass(dealt, dealt.train, draw)))
    network.eval()
    right = {"label": 0, "client": 0}
    seen = 0
    with torch.no_grad():
        for x, label, client in _pass(dealt, dealt.test, draw):
            _, says_label, says_client = network(x)
            right["label"] += int((says_label.argmax(1) == label).sum())
            right["client"] += int((says_client.argmax(1) == client).sum())
            seen += len(x)
    accuracy = {question: hits / seen for question, hits in right.items()}
    save(network, shape, accuracy, out)
    return accuracy


def _pass(
    dealt: Partition, of_styles: tuple[Tensor, ...], draw: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Every image once, in random order, as a client that is drawn at random sees it.

    Where styles deal one source's images out between them, each style sees all of them here: the judge is not a client.
    """
    of_seen = tuple(of_styles[style] for style in dealt.seen)
    everyone = of_seen if dealt.own_sources else (torch.cat(of_seen).unique(),) * len(of_seen)
    indices = torch.cat(everyone).unique()
    styles = torch.stack([torch.isin(indices, own) for own in everyone], dim=1).float()  # (images, styles)
    for rows in torch.randperm(len(indices), generator=draw).split(BATCH):
        if len(rows) < 2:  # batch norm needs two
            continue
        chosen = torch.multinomial(styles[rows], 1, generator=draw).squeeze(1)
        members = torch.tensor(dealt.client_styles)
        x, labels, clients = [], [], []
        for place in chosen.unique().tolist():
            style, part = dealt.seen[place], indices[rows[chosen == place]]
            images = as_float(dealt.images[part])
            x.append(images if dealt.style_views is None else dealt.style_views[style](images, draw))
            labels.append(dealt.labels[part])
            of_style = torch.nonzero(members == style).squeeze(1)
            clients.append(of_style[torch.randint(len(of_style), (len(part),), generator=draw)])
        yield torch.cat(x), torch.cat(labels), torch.cat(clients)
