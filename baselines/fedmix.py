"""FedMix: Yoon et al. 2021, FedMix: approximation of mixup under mean augmented federated learning."""

from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from baselines.naivemix import NaiveMix
from federation import Batch, settings


@settings
class FedMix(NaiveMix):
    """NaiveMix's exchange; the loss is the first-order Taylor expansion of mixup with every image behind the mean.

    Attributes:
        lam: lambda.
        reading: `canonical` sums the Taylor term over the batch, as the expansion has it: the gradient of a mean loss
            with respect to one image carries 1/B already. The public codes take its mean, so that it is B times too
            small; `public` does as they do.
    """

    lam: Annotated[float, Field(ge=0, le=1, alias="lambda")] = 0.05
    reading: Literal["canonical", "public"] = "canonical"

    def mixed_loss(self, m: Any, batch: Batch) -> Tensor:
        """(1 - lambda) l(f, y) + lambda l(f, y_g) + lambda <d/dx (1 - lambda) l(f, y), x_g>, all at (1 - lambda) x."""
        image, labels = self.others(m, batch)
        x = ((1 - self.lam) * batch["x"]).requires_grad_()
        logits = m.head(m.encoder(x))
        own = (1 - self.lam) * F.cross_entropy(logits, batch["y"])
        (slope,) = torch.autograd.grad(own, x, create_graph=True)
        along = (slope * image).flatten(1).sum(dim=1)
        taylor = along.sum() if self.reading == "canonical" else along.mean()
        return own + self.lam * F.cross_entropy(logits, labels) + self.lam * taylor
