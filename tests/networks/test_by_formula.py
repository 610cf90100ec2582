"""What networks make of images, layer by layer in functions: activations, pooling, skips and norms have no parameters,
so that counting those does not show them."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from networks.conv3 import Conv3
from networks.feddva import DualEncoder, FedDVACNN
from networks.lenet import SmoothLeNet
from networks.mcmahan import McMahanCNN
from networks.padpaf import SNResNet, StyleGenerator, noise_sides
from networks.resnet import ResNet18
from networks.vgg4 import VGG4

SIDE, CHANNELS = 16, 3


def _images(seed: int = 1) -> Tensor:
    return torch.rand(5, CHANNELS, SIDE, SIDE, generator=torch.Generator().manual_seed(seed)).double()


def _made(network: nn.Module) -> nn.Module:
    """With parameters of mixed signs that are far from where they start, and norms far from the identity."""
    draw = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in network.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=draw))
    return network.double()


def _weights(network: nn.Module, kind: type) -> list[tuple[Tensor, Tensor | None]]:
    return [
        (m.weight.detach(), m.bias if m.bias is None else m.bias.detach()) for m in network.modules() if type(m) is kind
    ]


def _normed(x: Tensor, of: tuple[Tensor | None, Tensor | None] = (None, None)) -> Tensor:
    """By the batch's own statistics."""
    return F.batch_norm(x, None, None, *of, training=True)


def _conv3(network: nn.Module, x: Tensor) -> Tensor:
    for (weight, _), norm in zip(_weights(network, nn.Conv2d), _weights(network, nn.BatchNorm2d), strict=True):
        x = F.relu(_normed(F.conv2d(x, weight, stride=2, padding=1), norm))
    return x.mean(dim=(2, 3))


def _vgg4(network: nn.Module, x: Tensor) -> Tensor:
    for n, conv in enumerate(_weights(network, nn.Conv2d)):
        x = F.relu(F.conv2d(x, *conv, padding=1))
        x = F.max_pool2d(x, 2) if n % 2 else x
    return F.relu(F.linear(x.flatten(1), *_weights(network, nn.Linear)[0]))


def _mcmahan(network: nn.Module, x: Tensor) -> Tensor:
    for conv in _weights(network, nn.Conv2d):
        x = F.max_pool2d(F.relu(F.conv2d(x, *conv, padding=2)), 2)
    return F.relu(F.linear(x.flatten(1), *_weights(network, nn.Linear)[0]))


def _lenet(network: nn.Module, x: Tensor) -> Tensor:
    for conv, stride in zip(_weights(network, nn.Conv2d), (2, 2, 1), strict=True):
        x = torch.sigmoid(F.conv2d(x, *conv, stride=stride, padding=2))
    return x.flatten(1)


def _resnet(network: nn.Module, x: Tensor) -> Tensor:
    """The stem of small images; the blocks are torchvision's."""
    layers = network.layers
    x = F.relu(_normed(F.conv2d(x, layers.conv1.weight, stride=1, padding=1), _weights(layers.bn1, nn.BatchNorm2d)[0]))
    for block in (layers.layer1, layers.layer2, layers.layer3, layers.layer4):
        x = block(x)
    return x.mean(dim=(2, 3))


def _backbone(network: nn.Module, x: Tensor) -> Tensor:
    """FedDVA's: halved until 4 pixels are left, then to one."""
    convolutions, norms = _weights(network, nn.Conv2d), _weights(network, nn.BatchNorm2d)
    for n, (conv, norm) in enumerate(zip(convolutions, norms, strict=True)):
        last = n == len(norms) - 1
        x = F.leaky_relu(_normed(F.conv2d(x, *conv, stride=1 if last else 2, padding=0 if last else 1), norm), 0.01)
    return x.flatten(1)


def _perceptron(network: nn.Module, x: Tensor) -> Tensor:
    first, second = _weights(network, nn.Linear)
    return F.linear(F.relu(F.linear(x, *first)), *second)


def _dual(network: DualEncoder, x: Tensor) -> Tensor:
    x = 2 * x - 1
    z = _perceptron(network.general.head.mean, _backbone(network.general.backbone, x))
    personal = network.personal
    plane = F.linear(z, personal.embed_z.weight, personal.embed_z.bias).view(-1, 1, SIDE, SIDE)
    seen = torch.cat([F.conv2d(x, personal.embed_x.weight, personal.embed_x.bias), plane], dim=1)
    return torch.cat([z, _perceptron(personal.head.mean, _backbone(personal.backbone, seen))], dim=1)


def _feddva_cnn(network: FedDVACNN, x: Tensor) -> Tensor:
    return F.relu(_perceptron(network.layers, _backbone(network.layers[0], 2 * x - 1)))


def _featurizer(network: SNResNet, x: Tensor) -> Tensor:
    """Two blocks that halve, of which the first starts without activation, and one that does not (16 pixels)."""
    for n, block in enumerate(network.blocks):
        (w1, b1), (w2, b2), *skip = _weights(block, nn.Conv2d)
        h = F.conv2d(F.leaky_relu(x, 0.01) if n else x, w1, b1, padding=1)
        h = F.conv2d(F.leaky_relu(h, 0.01), w2, b2, padding=1)
        x = F.avg_pool2d(h + F.conv2d(x, *skip[0]), 2) if skip else h + x
    assert n == 2
    return F.leaky_relu(x, 0.01).mean(dim=(2, 3))


@pytest.mark.parametrize(
    ("network", "formula"),
    [
        (lambda: Conv3(CHANNELS, SIDE, width=4), _conv3),
        (lambda: VGG4(CHANNELS, SIDE, width=4), _vgg4),
        (lambda: McMahanCNN(CHANNELS, SIDE), _mcmahan),
        (lambda: SmoothLeNet(CHANNELS, SIDE, width=4), _lenet),
        (lambda: ResNet18(CHANNELS, SIDE), _resnet),
        (lambda: DualEncoder(CHANNELS, SIDE, width=4, latent=3), _dual),
        (lambda: FedDVACNN(CHANNELS, SIDE, width=4, features=6), _feddva_cnn),
        (lambda: SNResNet(CHANNELS, SIDE, width=4, spectral_norm=False), _featurizer),
    ],
    ids=lambda part: getattr(part, "__name__", "").strip("_").replace("<lambda>", ""),
)
def test_features_are_those_of_the_formula(network, formula):
    with torch.no_grad():
        made = _made(network())
        torch.testing.assert_close(made(_images()), formula(made, _images()))


def test_statistics_of_conv3_keep_up():
    """A batch is three tenths of them, where torch has a tenth."""
    network = _made(Conv3(CHANNELS, SIDE, width=4))
    network(_images())
    first = F.conv2d(_images(), network.layers[0].weight, stride=2, padding=1).mean(dim=(0, 2, 3))
    torch.testing.assert_close(network.layers[1].running_mean, 0.3 * first)


@pytest.mark.parametrize("classes", [0, 3])
def test_images_of_padpafs_generator_are_those_of_the_formula(classes):
    """Noise before norms by style, or by style and label each of half of the channels; skips that are doubled."""
    made = _made(StyleGenerator(3, 4, CHANNELS, SIDE, classes))
    draw = torch.Generator().manual_seed(3)
    z, s = (torch.randn(5, 3, generator=draw).double() for _ in range(2))
    y = F.one_hot(torch.arange(5) % classes, classes).double() if classes else None
    noise = tuple(torch.randn(5, 1, side, side, generator=draw).double() for side in noise_sides(SIDE))

    def norm(part: nn.Module, x: Tensor, n: int) -> Tensor:
        x = x + part.noise_scale * noise[n]
        halves = ((x, part.by_style, s),) if y is None else ((x[:, :2], part.by_style, s), (x[:, 2:], part.by_label, y))
        by_condition = []
        for h, by, condition in halves:
            gain, bias = F.linear(condition, by.map.weight, by.map.bias).view(5, 2, -1, 1, 1).unbind(dim=1)
            by_condition.append(gain * _normed(h) + bias)
        return torch.cat(by_condition, dim=1)

    def doubled(x: Tensor) -> Tensor:
        return x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)

    with torch.no_grad():
        x = F.linear(z, made.start.weight, made.start.bias).view(5, 4, 4, 4)
        for n, block in enumerate(made.blocks):
            (w1, b1), (w2, b2) = _weights(block, nn.Conv2d)
            h = F.conv2d(doubled(F.relu(norm(block.norm1, x, 2 * n))), w1, b1, padding=1)
            x = F.conv2d(F.relu(norm(block.norm2, h, 2 * n + 1)), w2, b2, padding=1) + doubled(x)
        expected = torch.tanh(F.conv2d(F.relu(norm(made.norm, x, -1)), made.conv.weight, made.conv.bias, padding=1))
        torch.testing.assert_close(made(z, s, y, noise), expected)
