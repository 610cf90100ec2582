"""NaiveMix: Yoon et al. 2021, FedMix, Sec. 3: mixup with other clients' mean images."""

from typing import Annotated, Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from federation import Algorithm, Batch, Update, settings
from objectives.classification import Classification

DRAWN = 2**31


@settings
class NaiveMix(Algorithm):
    """FedAvg on inputs (1 - lambda) x + lambda x_g, where x_g is the mean image of a client, and labels likewise.

    Every client tells all others the mean of its images and of its one-hot labels, once. The paper averages over groups
    of M_k images; here M_k is all that a client has, so that what it tells is one image. Each batch draws one of them.

    Attributes:
        lam: lambda, the weight of the mean image.
    """

    lam: Annotated[float, Field(ge=0, le=1, alias="lambda")] = 0.1
    objective: Classification

    def announced(self, model: Any, x: Tensor, y: Tensor, draw: torch.Generator) -> dict[str, Tensor]:
        """The mean image, and the class proportions."""
        return {"image": x.mean(dim=0), "label": F.one_hot(y, self.objective.classes).float().mean(dim=0)}

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Batch:
        """Images, labels, and a number that says whose mean image is mixed in: the first one counts for a batch."""
        return {"x": x, "y": y, "other": torch.randint(DRAWN, y.shape, generator=generator)}

    def updates(self) -> list[Update]:
        """One step on the mixed loss."""
        return [Update(self.objective.updates()[0].which, self.mixed_loss)]

    def others(self, m: Any, batch: Batch) -> tuple[Tensor, Tensor]:
        """The mean image (channels, height, width) of the client that the batch has drawn, and its labels for each."""
        k = batch["other"][0] % len(m.announced["image"])
        return m.announced["image"][k], m.announced["label"][k].expand(len(batch["y"]), -1)

    def mixed_loss(self, m: Any, batch: Batch) -> Tensor:
        """(1 - lambda) CE(f(x'), y) + lambda CE(f(x'), y_g) at x' = (1 - lambda) x + lambda x_g."""
        image, labels = self.others(m, batch)
        logits = m.head(m.encoder((1 - self.lam) * batch["x"] + self.lam * image))
        return (1 - self.lam) * F.cross_entropy(logits, batch["y"]) + self.lam * F.cross_entropy(logits, labels)
