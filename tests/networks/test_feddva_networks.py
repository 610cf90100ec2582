"""FedDVA's networks: parameter counts of the authors' code, sizes, and what they refuse."""

import pytest
import torch

from common.errors import InputError
from networks.feddva import Decoder, DualEncoder, FedDVACNN
from tests.networks.sizes import parameters


def test_parameter_counts_at_28_pixels():
    encoder = DualEncoder(channels=1, image_size=28, latent=4)
    assert parameters(encoder.general.backbone) == 2_756_416
    assert parameters(encoder.general.head) == parameters(encoder.personal.head) == 264_712
    assert parameters(encoder.personal.embed_z) == 3_920
    assert parameters(encoder.personal.embed_x) == 2
    assert parameters(encoder.personal.backbone) == 2_757_440
    assert parameters(Decoder(encoder)) == 2_888_769
    assert parameters(encoder) == 6_047_202


@pytest.mark.parametrize(
    ("channels", "size", "width", "convolutions"), [(1, 28, 64, 4), (3, 32, 64, 4), (3, 64, 32, 5)]
)
def test_the_sizes_of_the_paper(channels, size, width, convolutions):
    torch.manual_seed(0)
    encoder = DualEncoder(channels=channels, image_size=size, width=width, latent=4).eval()
    kernels = [m for m in encoder.general.backbone if isinstance(m, torch.nn.Conv2d)]
    assert len(kernels) == convolutions
    assert encoder.general.backbone.features == 512
    x = torch.rand(2, channels, size, size)
    assert encoder(x).shape == (2, 8)
    z, c = encoder(x).chunk(2, dim=1)
    torch.testing.assert_close(encoder.c(x, z)[0], c)
    decoded = Decoder(encoder)(z, c)
    assert decoded.shape == x.shape
    assert float(decoded.detach().abs().max()) <= 1  # a tanh, which may saturate


def test_the_second_encoder_sees_z():
    encoder = DualEncoder(channels=1, image_size=16, width=4, latent=3).eval()
    x, z = torch.rand(4, 1, 16, 16), torch.randn(4, 3)
    assert not torch.allclose(encoder.c(x, z)[0], encoder.c(x, -z)[0])


def test_the_cnn_has_twice_the_width():
    cnn = FedDVACNN(channels=1, image_size=28)
    kernels = [m for m in cnn.layers[0] if isinstance(m, torch.nn.Conv2d)]
    assert [k.out_channels for k in kernels] == [128, 256, 512, 1024]
    assert cnn.eval()(torch.rand(2, 1, 28, 28)).shape == (2, 16)


@pytest.mark.parametrize("size", [4, 12, 30, 48])
def test_sizes_that_cannot_be_halved_are_refused(size):
    with pytest.raises(InputError, match=rf"data.image_size: .*; got {size}"):
        DualEncoder(channels=1, image_size=size)


@pytest.mark.parametrize("latent", [0, -3])
def test_latents_need_a_dimension(latent):
    with pytest.raises(ValueError, match="latent"):
        DualEncoder(channels=1, image_size=28, latent=latent)
