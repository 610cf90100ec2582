"""DIRT's classifier against the published shapes, and what its norms make of an image."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from networks import DIRT
from objectives import Classification


def _classifier(image_size: int = 28, channels: int = 1, **settings):
    images = {"channels": channels, "image_size": image_size}
    return Classification(encoder=partial(DIRT, **images), classes=10, **images, **settings).model()


def test_at_28_pixels_it_has_the_published_shapes():
    model = _classifier()
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert shapes == {
        "encoder.layers.0.weight": (32, 1, 5, 5),
        "encoder.layers.2.weight": (64, 32, 5, 5),
        "encoder.layers.5.weight": (64, 1024),
        "encoder.layers.5.bias": (64,),
        "head.1.weight": (10, 64),
        "head.1.bias": (10,),
    }
    assert not list(model.buffers()), "instance norms keep no statistics"


def test_it_is_what_its_formula_says():
    model, x = _classifier(), torch.rand(4, 1, 28, 28)
    p = dict(model.named_parameters())

    def block(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x = F.conv2d(x, weight)
        centred = x - x.mean(dim=(2, 3), keepdim=True)
        x = (centred / (centred.square().mean(dim=(2, 3), keepdim=True) + 1e-5).sqrt()).clamp_min(0)
        return x.unflatten(2, (-1, 2)).unflatten(4, (-1, 2)).amax(dim=(3, 5))

    x2 = block(block(x, p["encoder.layers.0.weight"]), p["encoder.layers.2.weight"])
    z = x2.flatten(1) @ p["encoder.layers.5.weight"].T + p["encoder.layers.5.bias"]
    torch.testing.assert_close(model.encoder(x), z, atol=1e-5, rtol=1e-4)
    assert (z < 0).any(), "z itself is not rectified"
    torch.testing.assert_close(model.head(z), z.clamp_min(0) @ p["head.1.weight"].T + p["head.1.bias"])


def test_brightness_and_contrast_of_an_image_do_not_matter():
    """An instance norm takes out what is the same all over an image."""
    encoder, x = DIRT(channels=1, image_size=28), torch.rand(3, 1, 28, 28)
    torch.testing.assert_close(encoder(0.5 * x + 0.2), encoder(x), atol=1e-2, rtol=0)


@pytest.mark.parametrize(("name", "fan"), [("encoder.layers.0", 25 + 800), ("encoder.layers.5", 1088), ("head.1", 74)])
def test_weights_start_evenly_within_glorots_bounds(name, fan):
    weight = _classifier().get_parameter(f"{name}.weight").detach()
    bound = (6 / fan) ** 0.5
    assert weight.abs().max() <= bound
    assert weight.abs().mean() == pytest.approx(bound / 2, rel=0.1)


def test_all_clients_can_be_mapped_at_once():
    clients, x = [DIRT(channels=1, image_size=28) for _ in range(3)], torch.rand(3, 2, 1, 28, 28)
    stacked, _ = torch.func.stack_module_state(clients)
    mapped = torch.func.vmap(partial(torch.func.functional_call, clients[0]))(stacked, x)
    torch.testing.assert_close(mapped, torch.stack([f(x_f) for f, x_f in zip(clients, x, strict=True)]))


@pytest.mark.parametrize("image_size", [8, 15, 16, 32])
def test_other_sizes_work(image_size):
    model = _classifier(image_size, channels=3)
    assert model.head(model.encoder(torch.rand(2, 3, image_size, image_size))).shape == (2, 10)


def test_a_hidden_layer_that_is_asked_for_takes_its_classifiers_place():
    assert _classifier(hidden=7).head[0].out_features == 7
