"""FedDIRT: Zhou, Azam, Brinton and Inouye 2023, "Efficient Federated Domain Translation", Sec. 4.3: FedAvg with the
regulariser of DIRT (Nguyen et al. 2021), on translators that a run of FedINB has trained."""

from dataclasses import field, replace
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
Angle = Annotated[float, Field(ge=-360, le=360)]


@settings
class FedDIRT(Algorithm):
    """Eq. 5: an image and its translation, to a domain that is drawn for each image, shall have the same features.

    Every client is a domain. The translators, auto-encoders included, are those that a run of `fedinb` left to its
    clients, `start` in the specification. They are exchanged once, before the first round, which the paper does not
    count, and stay as they are.

    Attributes:
        weight: of the distance; 2 for MNIST and 10 for FashionMNIST (App. E.2). With 0 it is FedAvg, but
            for the statistics of batch norm, which see the translations as well; the paper's network has none.
        through: translated to the `domains` of all clients, its own among them (Eq. 5); or to the space that is
            `shared` (Eq. 6), for which nothing has to be exchanged. Its points are codes, so that they become images
            by the client's own decoder.
        translation: by `inb`; or a control: by the client's encoder and another's decoder, `autoencoders` without the
            layers between them; or by `rotation`, as whoever knows the domains' angles would, without a `start`.
        angles: of the domains, in degrees counter-clockwise, for `rotation`.
        autoencoder: the network of the run that trained the translators.
        layers, directions, map_bins: as there.

    Raises:
        InputError: the network `autoencoder` does not decode; or a control translates to a space that is shared.
    """

    weight: NonNegativeFloat = 2.0
    through: Literal["domains", "shared"] = "domains"
    translation: Literal["inb", "autoencoders", "rotation"] = "inb"
    angles: list[Angle] = field(default_factory=list)
    autoencoder: str = "inb-mnist"
    layers: Layers = 10
    directions: Units = 10
    map_bins: Annotated[int, Field(ge=2, le=10_000)] = 71
    objective: Classification
    shared = names("w")

    def __post_init__(self) -> None:
        decoding = [name for name, network in ENCODERS.items() if hasattr(network, "decoder")]
        choose("algorithm.autoencoder", self.autoencoder, decoding)
        if self.through == "shared" and self.translation != "inb":
            raise InputError(
                "algorithm.translation: must be 'inb' with algorithm.through 'shared', the space between its layers, "
                f"got '{self.translation}'"
            )

    def model(self) -> nn.Module:
        """The classifier w, made first, so that it starts as FedAvg's does, and the client's translator T_m."""
        return nn.ModuleDict({"w": self.objective.model(), "translator": self.translator()})

    def translator(self) -> nn.Module:
        """One that has learned nothing."""
        if self.translation == "rotation":
            return Rotation()
        encoder: Any = ENCODERS[self.autoencoder](
            channels=self.objective.channels, image_size=self.objective.image_size
        )
        sizes = encoder.features, self.objective.classes, self.layers, self.directions, self.map_bins
        return Translator(encoder, encoder.decoder(), *sizes)

    def prepare(self, members: list[Any], seed: int) -> None:
        """A domain that is turned knows its angle.

        Raises:
            InputError: there are more or fewer domains than angles.
        """
        if self.translation == "rotation":
            if len(self.angles) != len(members):
                raise InputError(f"algorithm.angles: there are {len(members)} domains, got {len(self.angles)} angles")
            for member, angle in zip(members, self.angles, strict=True):
                member.translator.angle.fill_(angle)

    def started(self, model: Any) -> list[Any]:
        """T_m."""
        return [model.translator]

    def announced(self, model: Any, x: Tensor, y: Tensor, draw: torch.Generator) -> dict[str, Tensor]:
        """T_m, whole."""
        return model.translator.state_dict() if self.through == "domains" else {}

    def constants(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """All translations of each image, (batch, domains, channels, height, width): T_m'^-1(T_m(x)) for each m'.

        Raises:
            InputError: the translator has learned nothing.
        """
        own = model.translator.eval()
        if self.translation == "rotation":
            return {"translated": torch.stack([own.turned(x, angle) for angle in model.announced["angle"]], dim=1)}
        if not own.theta.any():
            raise InputError("start: FedDIRT needs a run of fedinb, whose clients' translators it works with")
        layers = 0 if self.translation == "autoencoders" else None
        z = own.latent(x, y, layers)
        if self.through == "shared":
            return {"translated": own.images(z, y, layers=0).unsqueeze(1)}
        told = model.announced
        others = ({name: rows[m] for name, rows in told.items()} for m in range(len(told["theta"])))
        return {"translated": torch.stack([call_with(other, _images, own, z, y, layers) for other in others], dim=1)}

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

    def global_model(self, model: Any) -> Any:
        """w."""
        return model.w

    personal_model = global_model


class Rotation(nn.Module):
    """What a translator would be that knows what makes the domains: T_m of images turned by `angle`, in degrees."""

    angle: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("angle", torch.zeros(()))

    def turned(self, x: Tensor, angle: Tensor) -> Tensor:
        """This domain's images (batch, channels, height, width) as those of the domain that is turned by `angle`."""
        from torchvision.transforms.functional import rotate  # two seconds, which only this control need pay

        return rotate(x, float(angle - self.angle))  # nearest pixel, black outside, as the domains are made


def _images(translator: Translator, z: Tensor, y: Tensor, layers: int | None) -> Tensor:
    return translator.images(z, y, layers)
