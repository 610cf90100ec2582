"""Training at the server, on images of its own or that it has made."""

from typing import Any

import torch
from torch import Tensor

from common.optimisers import State, decay, step
from federation.algorithm import Objective
from federation.data import on_device
from federation.functional import gradients
from federation.hooks import ServerWorkSettings
from federation.names import selected


def train_on(
    objective: Objective,
    model: Any,
    images: Tensor,
    labels: Tensor,
    work: ServerWorkSettings,
    states: list[State],
    draw: torch.Generator,
    epochs: int,
    styles: Tensor | None = None,
    batches: int = 0,
    round: int = 1,
) -> int:
    """Take the steps of an objective on its model, in place, over `epochs` passes in random order.

    Args:
        images: (images, channels, height, width) in [0, 1].
        states: of the optimisers, one for each update; an empty list is filled.
        draw: decides the order and all else that is random.
        styles: of the images, (images,), as clients' batches have them.
        batches: those of earlier calls, from which the count goes on for updates that are not taken on each.
        round: by which learning rates have decayed.

    Returns:
        The batches until now.
    """
    model.train()
    updates = objective.updates()
    leaves = [[entry.tensor for entry in selected(model, u.which) if entry.is_parameter] for u in updates]
    states += [State() for _ in updates[len(states) :]]
    parts = [rows for _ in range(epochs) for rows in torch.randperm(len(images), generator=draw).split(work.batch_size)]
    parts = [rows for rows in parts if len(rows) > 1]  # batch norm needs two
    decayed = decay(work.lr_decay, round)
    for n, rows in enumerate(parts, start=batches + 1):
        batch = on_device(objective.draw(images[rows], labels[rows], draw), images.device)
        if styles is not None:
            batch["style"] = styles[rows]
        for update, own, state in zip(updates, leaves, states, strict=True):
            if n % update.every == 0:
                slopes = gradients(update.loss(model, batch), own)
                step(update.optimiser or work.optimiser, own, slopes, state, decayed * update.lr_factor)
    return batches + len(parts)
