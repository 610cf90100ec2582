"""StarGAN's networks: their sizes, and what reaches what."""

import pytest
import torch
import torch.nn.functional as F

from common.errors import InputError
from networks.stargan import StarGANFeatures, StarGANGenerator, classifier, critic
from tests.networks.sizes import parameters


def test_parameter_counts_on_rotated_mnist():
    """As published: width 64, six blocks, 5 domains, 28 pixels."""
    assert parameters(StarGANGenerator(1, 28, domains=5)) == 8_433_664
    encoder = StarGANFeatures(1, 28)
    assert parameters(encoder, critic(encoder), classifier(encoder, 5)) == 2_761_664


@pytest.mark.parametrize(("size", "side"), [(8, 1), (12, 1), (28, 1), (32, 2), (64, 4)])
def test_sizes_fit_each_other(size, side):
    encoder, generator = StarGANFeatures(3, size, width=4), StarGANGenerator(3, size, 2, width=4, blocks=1)
    one_hot = torch.eye(2)
    images = generator(torch.rand(2, 3, size, size), one_hot, one_hot)
    assert images.shape == (2, 3, size, size)
    assert encoder(images).shape == (2, encoder.features)
    assert critic(encoder)(encoder(images)).shape == (2, side**2)
    assert classifier(encoder, 7)(encoder(images)).shape == (2, 7)


def test_the_discriminator_by_hand():
    """Four strided convolutions with slope 0.01; a 3x3 convolution and one over all maps as heads."""
    encoder = StarGANFeatures(1, 32, width=2)
    real, domain = critic(encoder), classifier(encoder, 3)
    h = x = torch.randn(2, 1, 32, 32)
    for layer in encoder.layers:
        h = F.conv2d(h, layer.weight, layer.bias, stride=2, padding=1)
        h = torch.where(h > 0, h, 0.01 * h)
    assert h.shape == (2, 16, 2, 2)
    torch.testing.assert_close(real(encoder(x)), F.conv2d(h, real[1].weight, padding=1).flatten(1))
    kernel = domain.weight.unflatten(1, (16, 2, 2))
    torch.testing.assert_close(domain(encoder(x)), F.conv2d(h, kernel)[:, :, 0, 0])


def test_the_generator_sees_both_domains_and_no_other_image():
    torch.manual_seed(0)
    generator, one_hot = StarGANGenerator(1, 8, 3, width=4, blocks=1), torch.eye(3)
    x = torch.rand(1, 1, 8, 8).expand(4, -1, -1, -1)
    source, target = one_hot[[0, 1, 0, 0]], one_hot[[2, 2, 1, 2]]
    first, other_source, other_target, again = generator(x, source, target)
    torch.testing.assert_close(first, again)
    assert not torch.allclose(first, other_source)
    assert not torch.allclose(first, other_target)
    torch.testing.assert_close(generator(x[:1], source[:1], target[:1])[0], first)


def test_in_evaluation_mode_running_statistics_count():
    generator, one_hot = StarGANGenerator(1, 8, 2, width=4, blocks=1), torch.eye(2)
    x = torch.rand(2, 1, 8, 8)
    norms = [m for m in generator.modules() if isinstance(m, torch.nn.InstanceNorm2d)]
    assert len(norms) == 3 + 2 + 2
    own = generator(x, one_hot, one_hot)
    assert all(norm.running_mean.any() for norm in norms)
    before = [norm.running_mean.clone() for norm in norms]
    assert not torch.allclose(generator.eval()(x, one_hot, one_hot), own)
    assert all(torch.equal(norm.running_mean, mean) for norm, mean in zip(norms, before, strict=True))


@pytest.mark.parametrize("size", [4, 14, 30])
def test_an_image_size_that_cannot_be_halved_twice_is_refused(size):
    with pytest.raises(InputError, match=rf"data\.image_size: .*needs 8, 12, 16, \.\.\., got {size}"):
        StarGANGenerator(1, size, 2)
