"""The CNN of McMahan et al. 2017, up to its last hidden layer."""

from torch import Tensor, nn

from common.settings import strict_call


class McMahanCNN(nn.Module):
    """Two 5x5 convolutions (32, 64), each with ReLU and 2x2 max-pooling, and a hidden layer of 512.

    With one channel, 28x28 images and a linear head for 10 classes it has 582,026 parameters if the convolutions do
    not pad, and 1,663,370, the paper's number, with the padding used here.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int) -> None:
        super().__init__()
        self.features = 512
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * (image_size // 4) ** 2, 512),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) -> (batch, 512)."""
        return self.layers(x)
