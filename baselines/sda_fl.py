"""SDA-FL-like: Li et al. 2022, Federated learning with GAN-based data synthesis; no code of it is public."""

from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from common.settings import Count, Epochs, Units, Width
from common.spec import OptimiserSettings
from federation import Algorithm, Batch, Phase, Update, names, settings
from objectives.cgan import alone, gan, images_of
from objectives.classification import Classification

UNSURE = -1  # no label


@settings
class SDAFL(Algorithm):
    """What its abstract says: clients train GANs, share images that these make, and train on them beside their own,
    with labels by the global model where that is sure. All else is ours; there is no differential privacy.

    Attributes:
        latent, width, dropout, gan_optimiser: of the GAN, which is PS-FedGAN's.
        gan_epochs, synthetic: passes before the first round; images that a client then shares, once.
        confidence: how sure the global model must be (`pseudo`; never sure, it is FedAvg); `client`: labels asked for.
    """

    latent: Units = 100
    width: Width = 256
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.3
    gan_epochs: Epochs = 50.0
    gan_optimiser: OptimiserSettings = OptimiserSettings(name="adam", lr=2e-4, betas=(0.5, 0.999))
    synthetic: Count = 4000
    confidence: Annotated[float, Field(ge=0, le=1)] = 0.95
    labels: Literal["pseudo", "client"] = "pseudo"
    objective: Classification
    shared = names("w")

    def model(self) -> nn.Module:
        """The classifier w, and a GAN that stays."""
        return nn.ModuleDict({"w": self.objective.model(), **gan(self, self.objective)})

    def prologue(self) -> list[Phase]:
        """The GAN."""
        return [alone(self, self.gan_optimiser, self.gan_epochs)]

    def announced(self, model: Any, x: Tensor, y: Tensor, draw: torch.Generator) -> dict[str, Tensor]:
        """Images, bytes, and the labels that they were asked for, in the proportions in which the client has them."""
        labels = y.sort().values[torch.arange(self.synthetic) * len(y) // self.synthetic]
        made = images_of(model.generator, torch.randn(self.synthetic, self.latent, generator=draw), labels)
        return {"images": (made * 255).round().byte(), "labels": labels}

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Batch:
        """Own images, and which shared ones to put beside them."""
        return {"x": x, "y": y, "other": torch.randint(2**31, y.shape, generator=generator)}

    def phases(self) -> list[Phase]:
        """One step on both halves."""
        return [Phase([Update(self.objective.updates()[0].which.below("w"), self.both_halves)])]

    def both_halves(self, m: Any, batch: Batch) -> Tensor:
        """The mean cross-entropy of own images and of shared ones whose labels are sure; norms see no others."""
        k = batch["other"] % m.announced["labels"].numel()
        made, asked = m.announced["images"].flatten(0, 1)[k].float() / 255, m.announced["labels"].flatten()[k]
        with torch.no_grad():
            sure, named = self.objective.outputs(m.received.w.eval(), {"x": made})[0].softmax(dim=1).max(dim=1)
        pseudo = torch.where(sure >= self.confidence, named, UNSURE)
        y = torch.cat([batch["y"], asked if self.labels == "client" else pseudo])
        return self.objective.loss(m.w, {"x": torch.cat([batch["x"], made])[y != UNSURE], "y": y[y != UNSURE]})

    def global_model(self, model: Any) -> Any:
        """w."""
        return model.w

    personal_model = global_model
