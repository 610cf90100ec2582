"""An auto-encoder's losses by hand."""

from functools import partial

import numpy as np
import pytest
import torch

from common.errors import InputError
from common.settings import checked
from networks import Conv3, INBDigits
from objectives import Autoencoder

IMAGES = {"channels": 1, "image_size": 8}


def _made(network=INBDigits, **settings) -> Autoencoder:
    return checked(Autoencoder, "objective", settings, encoder=partial(network, **IMAGES), classes=10, **IMAGES)


@pytest.mark.parametrize("pixels", ["cross-entropy", "squared"])
def test_the_loss_is_the_mean_over_pixels(pixels):
    made, x = _made(pixels=pixels), torch.rand(3, 1, 8, 8)
    model = made.model()
    loss = made.loss(model, made.draw(x, torch.arange(3), torch.Generator()))
    p, t = model.decoder(model.encoder(x)).detach().double().numpy(), x.double().numpy()
    by_hand = {"squared": (p - t) ** 2, "cross-entropy": -(t * np.log(p) + (1 - t) * np.log(1 - p))}
    assert loss.item() == pytest.approx(by_hand[pixels].mean(), rel=1e-5)


def test_the_score_is_each_images_squared_error():
    made, x = _made(), torch.rand(3, 1, 8, 8)
    model = made.model()
    with torch.no_grad():
        found = made.scores(model, x, torch.arange(3))["reconstruction"]
        for n in range(3):
            back = model.decoder(model.encoder(x[n : n + 1]))[0]
            assert found[n].item() == pytest.approx((back - x[n]).square().mean().item(), rel=1e-4)


@pytest.mark.parametrize(("pixel", "near"), [(1.0, 1 + 1e-6), (0.0, -1e-6)])
def test_pixels_a_rounding_beyond_black_and_white_are_taken(pixel, near):
    made = _made()
    loss = made.criterion(None, [torch.full((1, 1, 8, 8), near)], {"x": torch.full((1, 1, 8, 8), pixel)})
    assert loss.item() == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize(
    ("network", "settings", "sentence"),
    [
        (INBDigits, {"pixels": "squares"}, "objective.pixels: unknown name 'squares'; did you mean 'squared'"),
        (Conv3, {}, "network.name: the objective 'autoencoder' needs a network with a decoder, such as inb-mnist"),
    ],
)
def test_bad_input_gives_one_sentence(network, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        _made(network, **settings)
