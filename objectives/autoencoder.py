"""An auto-encoder: images as they come back from few numbers."""

from collections.abc import Sequence
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

from common.errors import InputError
from common.settings import settings
from objectives.objective import Model, Objective


@settings
class Autoencoder(Objective):
    """Pixels as probabilities, by cross-entropy, or their squared difference.

    FedINB does not say what its auto-encoders are trained with.

    Raises:
        InputError: the network has no decoder.
    """

    pixels: Literal["cross-entropy", "squared"] = "cross-entropy"

    def __post_init__(self) -> None:
        if not hasattr(self.encoder(), "decoder"):
            raise InputError(
                "network.name: the objective 'autoencoder' needs a network with a decoder, such as inb-mnist"
            )

    def model(self) -> Model:
        """`encoder` and `decoder`."""
        encoder = self.encoder()
        return Model(encoder=encoder, decoder=encoder.decoder())

    def outputs(self, model: Any, batch: dict[str, Any]) -> Sequence[Tensor]:
        """The images that come back."""
        return (model.decoder(model.encoder(batch["x"])),)

    def criterion(self, model: Any, outputs: Sequence[Tensor], batch: dict[str, Any]) -> Tensor:
        """How far they are from those that were given, the mean over pixels."""
        distance = F.mse_loss if self.pixels == "squared" else F.binary_cross_entropy
        return distance(outputs[0].clamp(0, 1), batch["x"])  # pixels come back a rounding beyond 1

    def scores(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """The mean squared difference of each image's pixels."""
        return {"reconstruction": (model.decoder(model.encoder(x)) - x).square().mean(dim=(1, 2, 3))}
