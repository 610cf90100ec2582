"""The architectures, each named after where it is published. An encoder maps images to `features` numbers each."""

from collections.abc import Callable

from torch import nn

from networks.conv3 import Conv3
from networks.feddva import DualEncoder, FedDVACNN
from networks.lenet import SmoothLeNet
from networks.mcmahan import McMahanCNN
from networks.mlp import mlp
from networks.padpaf import SNResNet
from networks.resnet import ResNet18
from networks.stargan import StarGANFeatures
from networks.vgg4 import VGG4

ENCODERS: dict[str, Callable[..., nn.Module]] = {
    "conv3": Conv3,
    "dual-encoder": DualEncoder,
    "feddva-cnn": FedDVACNN,
    "mcmahan-cnn": McMahanCNN,
    "resnet18": ResNet18,
    "smooth-lenet": SmoothLeNet,
    "sn-resnet": SNResNet,
    "stargan": StarGANFeatures,
    "vgg4": VGG4,
}

__all__ = [
    "ENCODERS",
    "VGG4",
    "Conv3",
    "DualEncoder",
    "FedDVACNN",
    "McMahanCNN",
    "ResNet18",
    "SNResNet",
    "SmoothLeNet",
    "StarGANFeatures",
    "mlp",
]
