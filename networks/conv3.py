"""A small encoder of our own, for runs on a few CPU cores; it stands in for ResNet-18 and is never called that."""

from torch import Tensor, nn

from common.settings import Width, strict_call


def _block(inputs: int, outputs: int) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(outputs, momentum=0.3),  # runs on few cores take few steps, and statistics must keep up
        nn.ReLU(),
    ]


class Conv3(nn.Module):
    """Three strided 3x3 convolutions with batch norm and ReLU, then the mean over positions.

    Args:
        channels: of the images.
        width: channels after the first convolution; doubled by each of the others.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int, width: Width = 32) -> None:
        super().__init__()
        self.channels, self.image_size, self.features = channels, image_size, 4 * width
        self.layers = nn.Sequential(*_block(channels, width), *_block(width, 2 * width), *_block(2 * width, 4 * width))

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) -> (batch, 4 * width)."""
        return self.layers(x).mean(dim=(2, 3))
