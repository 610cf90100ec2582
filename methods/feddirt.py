"""FedDIRT: Zhou, Azam, Brinton and Inouye 2023, "Efficient Federated Domain Translation", Sec. 4.3: FedAvg with the
regulariser of DIRT (Nguyen et al. 2021), on translators that a run of FedINB has trained."""

from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeFloat
from torch import Tensor, nn

from common.errors import InputError, choose
from common.settings import Layers, Units
from federation import Algorithm, Batch, Update, call_with, names, settings
from networks import ENCODERS
from objectives.classification import Classification
from objectives.iterative import Translator

DRAWN = 2**31


@settings
class FedDIRT(Algorithm):
    """Eq. 5: an image and its translation, to a domain that is drawn for each image, shall have the same features.

    Every client is a domain. The translators, auto-encoders included, are those that a run of `fedinb` left to its
    clients, `start` in the specification. They are exchanged once, before the first round, which the paper does not
    count, and stay as they are.

    Attributes:
        weight: of the distance; 2 for MNIST and 10 for FashionMNIST (App. E.2). With 0 it is FedAvg.
        through: translated to the `domains` of all clients, its own among them (Eq. 5); or to the space that is
            `shared` (Eq. 6), for which nothing has to be exchanged. Its points are codes, so that they become images
            by the client's own decoder.
        autoencoder: the network of the run that trained the translators.
        layers, directions, map_bins: as there.

    Raises:
        InputError: the network `autoencoder` does not decode.
    """

    weight: NonNegativeFloat = 2.0
    through: Literal["domains", "shared"] = "domains"
    autoencoder: str = "inb-mnist"
    layers: Layers = 10
    directions: Units = 10
    map_bins: Annotated[int, Field(ge=2, le=10_000)] = 71
    objective: Classification
    shared = names("w")

    def __post_init__(self) -> None:
        decoding = [name for name, network in ENCODERS.items() if hasattr(network, "decoder")]
        choose("algorithm.autoencoder", self.autoencoder, decoding)

    def model(self) -> nn.Module:
        """The classifier w, made first, so that it starts as FedAvg's does, and the client's translator T_m."""
        return nn.ModuleDict({"w": self.objective.model(), "translator": self.translator()})

    def translator(self) -> nn.Module:
        """One that has learned nothing."""
        encoder: Any = ENCODERS[self.autoencoder](
            channels=self.objective.channels, image_size=self.objective.image_size
        )
        sizes = encoder.features, self.objective.classes, self.layers, self.directions, self.map_bins
        return Translator(encoder, encoder.decoder(), *sizes)

    def started(self, model: Any) -> list[Any]:
        """T_m."""
        return [model.translator]

    def told(self, model: Any, x: Tensor, y: Tensor, draw: torch.Generator) -> dict[str, Tensor]:
        """T_m, whole."""
        return model.translator.state_dict() if self.through == "domains" else {}

    def constants(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """All translations of each image, (batch, domains, channels, height, width): T_m'^-1(T_m(x)) for each m'.

        Raises:
            InputError: the translator has learned nothing.
        """
        own = model.translator.eval()
        if not own.theta.any():
            raise InputError("start: FedDIRT needs a run of fedinb, whose clients' translators it works with")
        z = own.latent(x, y)
        if self.through == "shared":
            return {"translated": own.images(z, y, layers=0).unsqueeze(1)}
        others = ({name: rows[m] for name, rows in model.told.items()} for m in range(len(model.told["theta"])))
        return {"translated": torch.stack([call_with(other, _images, own, z, y) for other in others], dim=1)}

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Batch:
        """Images and labels, and a number for each that says to which domain it is translated."""
        return self.objective.draw(x, y, generator) | {"target": torch.randint(DRAWN, y.shape, generator=generator)}

    def updates(self) -> list[Update]:
        """One step on the regularised loss."""
        return [replace(u, which=u.which.below("w"), loss=self.regularised) for u in self.objective.updates()]

    def regularised(self, m: Any, batch: Batch) -> Tensor:
        """Eq. 5: l(y, g(x)) + weight * |g(x) - g(f(x))|^2, the mean over images and features."""
        target = batch["target"] % batch["translated"].shape[1]
        translated = batch["translated"][torch.arange(len(target), device=target.device), target]
        z = m.w.encoder(batch["x"])
        loss = self.objective.criterion(m.w, [m.w.head(z)], batch)
        return loss + self.weight * F.mse_loss(m.w.encoder(translated), z)

    def general(self, model: Any) -> Any:
        """w."""
        return model.w

    personal = general


def _images(translator: Translator, z: Tensor, y: Tensor) -> Tensor:
    return translator.images(z, y)
