"""The LeNet of Zhu et al. 2019 (Deep leakage from gradients), which is smooth, so that gradients can be inverted."""

import torch.nn.functional as F
from torch import Tensor, nn

from common.settings import Width, strict_call


class SmoothLeNet(nn.Module):
    """Three 5x5 convolutions, strides 2, 2 and 1, each before a sigmoid; weights start evenly in [-0.5, 0.5].

    The linear layer behind them is the objective's and starts as torch has it; in the authors' code it starts as these.

    Args:
        width: channels of each.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int, width: Width = 12) -> None:
        super().__init__()
        sizes = [(channels, 2), (width, 2), (width, 1)]
        self.layers = nn.ModuleList(nn.Conv2d(inputs, width, 5, stride, padding=2) for inputs, stride in sizes)
        self.features = width * (-(-image_size // 4)) ** 2
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) -> (batch, features)."""
        for layer in self.layers:
            x = F.sigmoid(layer(x))
        return x.flatten(1)
