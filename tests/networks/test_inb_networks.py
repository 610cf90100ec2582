"""FedINB's auto-encoders against the published sizes (App. E.1), and what pixels are taken for without one."""

import pytest
import torch
from scipy import stats

from common.errors import InputError
from networks import INBClothes, INBDigits, Pixels
from tests.networks.sizes import parameters


@pytest.mark.parametrize(
    ("network", "features", "encoder", "both"),
    [
        (INBDigits, 392, 160 + 1160, 3217),
        (INBClothes, 288, 80 + 1168 + 32 + 4640, 11825),
        (Pixels, 784, 0, 0),
    ],
)
def test_sizes_are_the_published_ones(network, features, encoder, both):
    made = network(channels=1, image_size=28)
    decoder = made.decoder()
    assert made.features == features
    assert (parameters(made), parameters(decoder)) == (encoder, both - encoder)


def _at(network) -> int:
    return 28 if network is INBClothes else 8


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("network", [INBDigits, INBClothes, Pixels])
def test_decoders_make_images_whatever_the_code(network, channels):
    encoder = network(channels=channels, image_size=_at(network)).eval()
    decoder = encoder.decoder().eval()
    codes = 5 * torch.randn(4, encoder.features)
    with torch.no_grad():
        images = decoder(codes)
        assert images.shape == (4, channels, _at(network), _at(network))
        assert 0 <= images.min() <= images.max() <= 1
        assert encoder(images).shape == codes.shape


@pytest.mark.parametrize("network", [INBDigits, INBClothes])
def test_codes_are_not_negative(network):
    with torch.no_grad():
        assert network(channels=1, image_size=28).eval()(torch.rand(5, 1, 28, 28)).min() >= 0


def test_pixels_are_probabilities_of_a_standard_normal_variable():
    x = torch.rand(5, 1, 8, 8)
    made = Pixels(channels=1, image_size=8)
    torch.testing.assert_close(made(x).double(), torch.from_numpy(stats.norm.ppf(x.flatten(1))), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(made.decoder()(made(x)), x, atol=1e-5, rtol=0)
    ends = made(torch.tensor([0.0, 1.0]).repeat(32).reshape(1, 1, 8, 8))
    assert ends.isfinite().all()
    assert ends[0, 0].item() == pytest.approx(stats.norm.ppf(1e-6), rel=1e-3)


@pytest.mark.parametrize(
    ("network", "size", "sentence"),
    [
        (INBDigits, 30, r"data\.image_size: network 'inb-mnist' needs a multiple of 4, got 30"),
        (INBClothes, 32, r"data\.image_size: network 'inb-fmnist' needs 28, got 32"),
    ],
)
def test_sizes_that_do_not_come_back_are_refused(network, size, sentence):
    with pytest.raises(InputError, match=sentence):
        network(channels=1, image_size=size)
