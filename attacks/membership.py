"""Membership inference (Yeom et al. 2018): images on which the model that a client last sent has a low loss are said to
be its own."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from attacks.wiretap import Wiretap, as_heard, batch_of
from federation import Algorithm
from federation.names import selected
from networks.spectral import settle

COMPANY = 7
"""Images beside the one that is asked about, the same for all: losses that compare images say nothing of one alone."""


class Membership(Wiretap):
    """Keeps what each client has sent last."""

    last = True


def says(
    algorithm: Algorithm,
    wiretap: Membership,
    client: int,
    begun: Any,
    asked: tuple[Tensor, Tensor],
    company: tuple[Tensor, Tensor],
    style: int | None,
    seed: int,
) -> Tensor:
    """Minus the algorithm's own loss on each image (n,), by the model that a client has last sent, in evaluation mode.

    It is the sum of those losses that move something that was sent. What a batch draws is the same for all images.
    Batch norms whose statistics stay with the client take those of the images that are asked about: with any others
    their features have no bounds.

    Args:
        begun: the model that the client has begun with.
        asked: images (n, channels, height, width) in [0, 1] and their labels (n,).
        company: `COMPANY` others, or as many as there are, that each is asked about with.
        style: of all of them, if images show any.
    """
    model = as_heard(algorithm, begun, wiretap, client)
    model.load_state_dict(wiretap.back[client], strict=False)
    settle(model)
    _evaluated(model, wiretap.back[client])
    styles = None if style is None else torch.full((1 + len(company[1]),), style)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        draw, losses = torch.Generator().manual_seed(seed), []
        for phase in algorithm.phases():
            batch = batch_of(algorithm, phase, model, x, y, styles, draw)
            for update in phase.updates:
                if any(entry.name in wiretap.back[client] for entry in selected(model, update.which & phase.only)):
                    losses.append(update.loss(model, batch).detach())
        return torch.stack(losses).sum()

    losses = torch.stack(
        [
            loss(*(torch.cat([one[None], others]) for one, others in zip(pair, company, strict=True)))
            for pair in zip(*asked, strict=True)
        ]
    )
    return -losses


def _evaluated(model: nn.Module, sent: Mapping[str, Tensor]) -> None:
    """Evaluation mode, but for batch norms of which no statistics were sent."""
    model.eval()
    for path, module in model.named_modules():
        if isinstance(module, _BatchNorm) and f"{path}.running_mean" not in sent:
            module.train()
