"""ResNet-18 of He et al. 2016, without its classifier."""

from torch import Tensor, nn

from common.settings import strict_call


class ResNet18(nn.Module):
    """torchvision's ResNet-18, randomly initialised.

    Images of up to 64 pixels get the stem that is usual for them (3x3, stride 1, no max-pooling), as in the FedU code
    whose protocol FedStyle follows; larger ones the ImageNet stem.
    """

    @strict_call
    def __init__(self, channels: int, image_size: int) -> None:
        super().__init__()
        from torchvision.models import resnet18  # two seconds to import, which runs without a ResNet need not pay

        self.features = 512
        self.layers = resnet18(weights=None)
        self.layers.fc = nn.Identity()
        if image_size <= 64:
            self.layers.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
            self.layers.maxpool = nn.Identity()
        elif channels != 3:
            self.layers.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width) -> (batch, 512)."""
        return self.layers(x)
