"""Self-supervised objectives on two augmented views of each image: SimCLR and SimSiam."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor

from common.settings import Units, settings
from networks import mlp
from objectives.augmentation import Augmentation, AugmentationSettings
from objectives.objective import Model, Objective


def info_nce(z: Tensor, positive: Tensor, temperature: float) -> Tensor:
    """InfoNCE with any number of positives per anchor (Khosla et al. 2020, Eq. 2), the mean over anchors.

    Args:
        z: (n, dimensions) projections; normalised here.
        positive: (n, n) bool, symmetric and False on the diagonal, at least one True per row.
        temperature: tau.
    """
    z = F.normalize(z, dim=1)
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    logits = (z @ z.T / temperature).masked_fill(itself, -torch.inf)
    log_probability = (logits - torch.logsumexp(logits, dim=1, keepdim=True)).masked_fill(itself, 0.0)
    return -((log_probability * positive).sum(dim=1) / positive.sum(dim=1)).mean()


@settings
class Contrastive(Objective):
    """Encoder, projector, and two views of each batch.

    Attributes:
        hidden, out: sizes of the projector's hidden layer and output (FedStyle: 256 and 128).
        augmentation: how views are made.
    """

    hidden: Units = 256
    out: Units = 128
    augmentation: AugmentationSettings = AugmentationSettings()

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> dict[str, Any]:
        """The images, their labels and two independent views."""
        augment = Augmentation.of(self.augmentation, (x.shape[-2], x.shape[-1]))
        return {"x": x, "y": y, "views": augment(torch.cat([x, x]), generator).chunk(2)}

    def outputs(self, model: Any, batch: dict[str, Any]) -> Sequence[Tensor]:
        """The projections z of both views, (batch, out) each."""
        return [model.projector(model.encoder(view)) for view in batch["views"]]


@settings
class SimCLR(Contrastive):
    """Chen et al. 2020: the two views of an image are each other's only positive among 2B - 1 others.

    Attributes:
        temperature: tau of the NT-Xent loss (FedStyle: 0.07).
    """

    temperature: PositiveFloat = 0.07

    def model(self) -> Any:
        """Parts: encoder, projector (no batch norm: FedStyle names none)."""
        encoder = self.encoder()
        return Model(encoder=encoder, projector=mlp(encoder.features, self.hidden, self.out))

    def criterion(self, model: Any, outputs: Sequence[Tensor], batch: dict[str, Any]) -> Tensor:
        """NT-Xent (Eq. 1)."""
        z1, z2 = outputs
        partner = torch.eye(2 * len(z1), dtype=torch.bool, device=z1.device).roll(len(z1), dims=0)
        return info_nce(torch.cat([z1, z2]), partner, self.temperature)


@settings
class SimSiam(Contrastive):
    """Chen and He 2021: each view predicts the other's projection, through which no gradient flows.

    Projector and predictor have batch norm in their hidden layer, without which SimSiam is known to collapse; the
    authors' projector has it at its output, too. FedStyle says only that the predictor is one more two-layer
    perceptron.
    """

    def model(self) -> Any:
        """Parts: encoder, projector, predictor."""
        encoder = self.encoder()
        return Model(
            encoder=encoder,
            projector=mlp(encoder.features, self.hidden, self.out, batch_norm=True),
            predictor=mlp(self.out, self.hidden, self.out, batch_norm=True),
        )

    def criterion(self, model: Any, outputs: Sequence[Tensor], batch: dict[str, Any]) -> Tensor:
        """-1/2 cos(p1, stop(z2)) - 1/2 cos(p2, stop(z1)) (Eq. 1, 2 and 4)."""
        z1, z2 = outputs
        p1, p2 = model.predictor(z1), model.predictor(z2)
        return -(F.cosine_similarity(p1, z2.detach()).mean() + F.cosine_similarity(p2, z1.detach()).mean()) / 2
