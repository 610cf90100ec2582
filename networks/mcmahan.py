"""The networks of McMahan et al. 2017, Sec. 3, up to their last hidden layers."""

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


class McMahan2NN(nn.Module):
    """The "2NN": two hidden layers of 200 with ReLU.

    With one channel, 28x28 images and a linear head for 10 classes it has 199,210 parameters, the paper's number.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int) -> None:
        super().__init__()
        self.features = 200
        inputs = channels * image_size**2
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) -> (batch, 200)."""
        return self.layers(x)
