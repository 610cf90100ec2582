"""The small CNN that PS-FedGAN's classifiers are; the paper describes none."""

from torch import Tensor, nn

from common.settings import Width, strict_call


class VGG4(nn.Module):
    """Four 3x3 convolutions, the width doubled after two, 2x2 max-pooling after each two, and a hidden layer.

    Args:
        width: channels of the first two.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int, width: Width = 32) -> None:
        super().__init__()
        self.features = 4 * width
        layers: list[nn.Module] = []
        for inputs, outputs in ((channels, width), (width, 2 * width)):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
            layers += [nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        flat = 2 * width * (image_size // 4) ** 2
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, self.features), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) -> (batch, 4 * width)."""
        return self.layers(x)
