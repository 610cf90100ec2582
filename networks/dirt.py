"""The classifier that domains are generalised with: Nguyen et al. 2021 (DIRT), with FedDIRT's norms."""

from torch import Tensor, nn

from common.settings import strict_call

FEATURES = 64


def _xavier(*layers: nn.Module) -> nn.Sequential:
    """The layers in a row; weights evenly drawn as Glorot and Bengio 2010 have it."""
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return nn.Sequential(*layers)


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
            *(
                nn.Conv2d(channels, 32, 5, padding=padding, bias=False),
                nn.InstanceNorm2d(32),
                nn.ReLU(),
                nn.MaxPool2d(2),
            ),
            *(nn.Conv2d(32, 64, 5, padding=padding, bias=False), nn.InstanceNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Flatten(),
            nn.Linear(64 * side**2, FEATURES),
        )

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) -> z (batch, 64), what is to be the same in every domain."""
        return self.layers(x)

    def classifier(self, classes: int) -> nn.Module:
        """z -> logits, (batch, 64) -> (batch, classes)."""
        return _xavier(nn.ReLU(), nn.Linear(FEATURES, classes))
