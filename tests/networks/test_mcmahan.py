"""McMahan's networks: the paper's numbers of parameters, and the perceptron against the same by hand."""

import pytest
import torch

from networks import McMahan2NN, McMahanCNN
from tests.networks.sizes import parameters


@pytest.mark.parametrize(("network", "published"), [(McMahan2NN, 199_210), (McMahanCNN, 1_663_370)])
def test_numbers_of_parameters_with_a_linear_head_are_the_papers(network, published):
    encoder = network(channels=1, image_size=28)
    assert parameters(encoder) + 10 * (encoder.features + 1) == published


def test_two_hidden_layers_of_relus_on_all_pixels():
    x = torch.randn(3, 2, 5, 5)
    encoder = McMahan2NN(channels=2, image_size=5)
    first, second = (layer for layer in encoder.layers if hasattr(layer, "weight"))
    hidden = (x.reshape(3, 50) @ first.weight.T + first.bias).clamp(min=0)
    torch.testing.assert_close(encoder(x), (hidden @ second.weight.T + second.bias).clamp(min=0))
