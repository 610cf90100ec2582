"""PaDPaF's networks: their sizes, and spectral norm against a singular value decomposition."""

import pytest
import torch
from torch import nn

from common.errors import InputError
from networks import SNResNet
from networks.padpaf import (
    LabelNorm,
    ProjectionHead,
    StyleGenerator,
    StyleNorm,
    StyleVectoriser,
    latent_map,
    noise_sides,
    projector,
)
from networks.spectral import SNConv2d, SNLinear, settle
from tests.digits import objective
from tests.networks.sizes import parameters


def test_parameter_counts_on_mnist():
    """Features 64, latents 128 (App. B)."""
    assert parameters(SNResNet(3, 32, 64), ProjectionHead(64)) == 264_769
    assert parameters(StyleGenerator(128, 64, 3, 32)) == 471_427
    assert parameters(StyleGenerator(128, 64, 3, 32, classes=10)) == 418_115
    assert parameters(StyleVectoriser(128)) == 132_096
    assert parameters(projector(64)) == 24_832
    assert parameters(latent_map(64, 128)) == 42_624


def test_parameter_counts_on_cifar_and_celeba():
    """Features 128, latents 256, images of 64 pixels; CIFAR-10's style discriminator has a quarter of the width."""
    content, style = SNResNet(3, 64, 128), SNResNet(3, 64, 32)
    assert (content.features, style.features) == (512, 128)
    assert parameters(content, ProjectionHead(512)) == 1_349_377
    assert parameters(style, ProjectionHead(128)) == 85_441
    assert parameters(StyleGenerator(256, 128, 3, 64)) == 2_303_747
    assert parameters(StyleVectoriser(256)) == 526_336
    assert (parameters(projector(512)), parameters(projector(128))) == (1_574_912, 98_816)


@pytest.mark.parametrize("layer", [SNLinear(7, 5), SNConv2d(3, 6, 3, padding=1)])
def test_the_normalised_weight_has_spectral_norm_one(layer):
    """Against the singular value decomposition, also after the weight has changed and power iteration has not."""
    with torch.no_grad():
        layer.weight.add_(torch.randn_like(layer.weight))
    layer.settle(steps=2000)  # the two largest singular values may be nearly equal
    normalised = layer.eval().normalised().flatten(1)
    assert torch.linalg.matrix_norm(normalised, 2).item() == pytest.approx(1, abs=1e-3)
    largest = torch.linalg.svdvals(layer.weight.flatten(1))[0]
    torch.testing.assert_close(layer.weight.flatten(1) / normalised, largest.expand_as(normalised), rtol=1e-3, atol=0)


def test_it_is_torchs_spectral_norm():
    """Value and gradient of torch's parametrisation of the same weight, once both iterations have converged."""
    ours = SNLinear(6, 4)
    theirs = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4))
    with torch.no_grad():
        theirs.parametrizations.weight.original.copy_(ours.weight)
        theirs.bias.copy_(ours.bias)
    settle(ours)
    x = torch.randn(3, 6)
    for _ in range(200):
        theirs(x)
        ours(x)
    assert torch.allclose(ours(x), theirs(x), atol=1e-4)
    theirs_gradient = torch.autograd.grad(theirs(x).square().sum(), theirs.parametrizations.weight.original)[0]
    assert torch.allclose(torch.autograd.grad(ours(x).square().sum(), ours.weight)[0], theirs_gradient, atol=1e-4)


def test_evaluation_mode_leaves_the_vector_as_it_is():
    layer = SNLinear(6, 4)
    with torch.no_grad():
        layer.weight.mul_(torch.randn_like(layer.weight))
    before = layer.u.clone()
    layer.eval()(torch.randn(2, 6))
    assert torch.equal(layer.u, before)
    layer.train()(torch.randn(2, 6))
    assert not torch.equal(layer.u, before)


def test_the_projection_head():
    """Eq. 5: psi(phi) + y^T V phi, with both matrices normalised; y may name several attributes."""
    head, h = ProjectionHead(6, classes=4).eval(), torch.randn(5, 6)
    y = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]])
    v, w = head.embedding.normalised(), head.linear.normalised()
    expected = [h[n] @ w[0] + head.linear.bias[0] + sum(y[n, c] * (v[:, c] @ h[n]) for c in range(4)) for n in range(5)]
    torch.testing.assert_close(head(h, y), torch.stack(expected))


def test_conditional_norms_start_as_stated():
    by_label = LabelNorm(8, classes=5)
    gain, bias = by_label.map.weight.chunk(2)
    assert gain.mean().item() == pytest.approx(1, abs=0.05)
    assert not bias.any()
    by_style = StyleNorm(8, latent=12)
    assert by_style.map.weight[:, :8].mean().item() == pytest.approx(1, abs=0.05)
    assert not by_style.map.weight[:, 8:].any()


@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_generator_and_featurizer_fit_each_other(size):
    generator = StyleGenerator(6, 8, 3, size)
    noise = tuple(torch.zeros(2, 1, side, side) for side in noise_sides(size))
    images = generator(torch.randn(2, 6), torch.randn(2, 6), None, noise)
    assert images.shape == (2, 3, size, size)
    assert SNResNet(3, size, 8)(images).shape == (2, SNResNet(3, size, 8).features)


def test_fewer_latents_than_the_papers_begin_with_hardly_a_style():
    """Each of eight layers passes on about a tenth of the root of their number, of which s is what is left."""
    torch.manual_seed(0)
    spread = {n: StyleVectoriser(n)(torch.randn(256, n)).std(dim=0).mean().item() for n in (128, 64, 32)}
    assert spread[64] < spread[128] / 10
    assert spread[32] < spread[128] / 100


def test_style_enters_through_norms_alone():
    """With the norms' maps at zero, the style changes nothing."""
    generator = StyleGenerator(6, 8, 3, 8)
    noise = tuple(torch.zeros(4, 1, side, side) for side in noise_sides(8))
    z, first, second = torch.randn(4, 6), torch.randn(4, 6), torch.randn(4, 6)
    assert not torch.allclose(generator(z, first, None, noise), generator(z, second, None, noise))
    for name, parameter in generator.named_parameters():
        if "by_style.map" in name:
            nn.init.zeros_(parameter)
    assert torch.equal(generator(z, first, None, noise), generator(z, second, None, noise))


def test_an_image_size_that_cannot_be_doubled_to_is_refused():
    made = objective("gan")
    object.__setattr__(made, "image_size", 28)
    with pytest.raises(InputError, match=r"data\.image_size: .*got 28"):
        made.generator()
