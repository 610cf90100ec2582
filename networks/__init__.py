"""The architectures, each named after where it is published. An encoder maps images to `features` numbers each, and may
have a `classifier` to go on them."""

from collections.abc import Callable

from torch import nn

from networks.conv3 import Conv3
from networks.dirt import DIRT
from networks.feddva import DualEncoder, FedDVACNN
from networks.inb import INBClothes, INBDigits, Pixels
from networks.lenet import SmoothLeNet
from networks.mcmahan import McMahan2NN, McMahanCNN
from networks.mlp import mlp
from networks.padpaf import SNResNet
from networks.resnet import ResNet18
from networks.stargan import StarGANFeatures
from networks.vgg4 import VGG4

ENCODERS: dict[str, Callable[..., nn.Module]] = {
    "conv3": Conv3,
    "dirt": DIRT,
    "dual-encoder": DualEncoder,
    "feddva-cnn": FedDVACNN,
    "inb-fmnist": INBClothes,
    "inb-mnist": INBDigits,
    "mcmahan-2nn": McMahan2NN,
    "mcmahan-cnn": McMahanCNN,
    "pixels": Pixels,
    "resnet18": ResNet18,
    "smooth-lenet": SmoothLeNet,
    "sn-resnet": SNResNet,
    "stargan": StarGANFeatures,
    "vgg4": VGG4,
}

__all__ = [
    "DIRT",
    "ENCODERS",
    "VGG4",
    "Conv3",
    "DualEncoder",
    "FedDVACNN",
    "INBClothes",
    "INBDigits",
    "McMahan2NN",
    "McMahanCNN",
    "Pixels",
    "ResNet18",
    "SNResNet",
    "SmoothLeNet",
    "StarGANFeatures",
    "mlp",
]
