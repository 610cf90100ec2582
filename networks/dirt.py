"""The classifier that domains are generalised with: Nguyen et al. 2021 (DIRT), with FedDIRT's norms."""

import torch.nn.functional as F
from torch import Tensor, nn

from common.settings import strict_call

FEATURES = 64


def _xavier(*layers: nn.Module) -> nn.Sequential:
    """The layers in a row; weights evenly drawn as Glorot and Bengio 2010 have it."""
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return nn.Sequential(*layers)


class _NormAndPool(nn.Module):
    """Instance norm, ReLU and 2x2 max-pooling, as a CPU does them fastest.

    Instance norm is a group norm with a group for each channel; a pixel's channels lie together when the largest pixel
    is looked for; and ReLU comes after that, which changes nothing. A step then takes three quarters of the time.
    """

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) -> (batch, channels, height / 2, width / 2)."""
        x = F.group_norm(x.contiguous(), x.shape[1])
        x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)  # channels-last, by what vmap can map as well
        return F.relu(F.max_pool2d(x, 2))


class DIRT(nn.Module):
    """Two 5x5 convolutions (32, 64), each with instance norm, ReLU and 2x2 max-pooling, and a linear layer to 64.

    DIRT has batch norms; FedDIRT changes them to instance norms (App. E.2), taken without weights of their own, which
    is PyTorch's default. A bias before such a norm would do nothing, so that there is none. Images of less than 16
    pixels, which no paper has, are padded, or nothing would be left of them.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int) -> None:
        super().__init__()
        self.features, padding = FEATURES, 0 if image_size >= 16 else 2
        side = image_size
        for _ in range(2):
            side = (side - 4 + 2 * padding) // 2
        self.layers = _xavier(
            *(nn.Conv2d(channels, 32, 5, padding=padding, bias=False), _NormAndPool()),
            *(nn.Conv2d(32, 64, 5, padding=padding, bias=False), _NormAndPool()),
            nn.Flatten(),
            nn.Linear(64 * side**2, FEATURES),
        )

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) -> z (batch, 64), what is to be the same in every domain."""
        return self.layers(x)

    def classifier(self, classes: int) -> nn.Module:
        """z -> logits, (batch, 64) -> (batch, classes)."""
        return _xavier(nn.ReLU(), nn.Linear(FEATURES, classes))
