"""The conditional GAN of PS-FedGAN and SDA-FL: what its discriminator is shown, and what it is asked to say of it."""

from functools import partial

import pytest
import torch

from methods.ps_fedgan import PSFedGAN
from networks import Conv3
from objectives import OBJECTIVES, cgan
from objectives.objective import Model
from tests.mutation import mutated

IMAGES = {"channels": 3, "image_size": 8}
MODULE = "objectives.cgan"


def _gan():
    """A GAN in which nothing is dropped, and a batch of real images that are all white."""
    torch.manual_seed(0)
    objective = OBJECTIVES["classification"](encoder=partial(Conv3, **IMAGES, width=4), classes=10, **IMAGES)
    shape = PSFedGAN(objective=objective, latent=6, width=16, dropout=0.0)
    model = Model(**cgan.gan(shape, objective))
    x, y = torch.ones(32, 3, 8, 8), torch.arange(32) % 10
    return model, shape, x, y


def check_scores(loss=cgan.discriminator_loss) -> None:
    """Steps on D raise what it says of real images, and lower what it says of made ones."""
    model, shape, x, y = _gan()
    batch = cgan.drawn(x, y, shape, torch.Generator().manual_seed(1))
    made = model.generator(batch["z"], batch["labels"]).detach()

    def said(images, labels):
        return model.discriminator(images, labels, batch["masks"][: len(batch["masks"]) // 2]).mean().item()

    before = said(batch["x"], batch["y"]), said(made, batch["labels"])
    parameters = list(model.discriminator.parameters())
    optimiser = torch.optim.SGD(parameters, lr=0.05)
    for _ in range(20):
        optimiser.zero_grad()
        loss(model, batch).backward()
        optimiser.step()
    assert said(batch["x"], batch["y"]) > before[0] + 0.1
    assert said(made, batch["labels"]) < before[1] - 0.1


def check_range(drawn=cgan.drawn) -> None:
    """Real images are in [-1, 1], where a tanh leaves made ones."""
    model, shape, x, y = _gan()
    x = x * torch.linspace(0, 1, 32)[:, None, None, None]
    real = drawn(x, y, shape, torch.Generator().manual_seed(1))["x"]
    assert (real.min(), real.max()) == (-1, 1)
    torch.testing.assert_close((real + 1) / 2, x)
    made = cgan.images_of(model.generator, torch.randn(64, 6), torch.arange(64) % 10)
    assert 0 <= made.min() < 0.5 < made.max() <= 1, "and images are given back in [0, 1]"


def test_the_discriminator_learns_to_call_real_images_real_and_made_ones_made():
    check_scores()


def test_real_images_are_shown_in_the_range_of_made_ones():
    check_range()


@pytest.mark.parametrize(
    ("bug", "right", "wrong"),
    [
        ("fakes are pushed to real", "F.softplus(fake)", "F.softplus(-fake)"),
        ("real images are pushed to made", "F.softplus(-real)", "F.softplus(real)"),
        ("made images are not shown", 'torch.cat([batch["x"], made])', 'torch.cat([batch["x"]] * 2)'),
    ],
)
def test_a_wrong_discriminator_is_caught(bug, right, wrong):
    with mutated(MODULE, "discriminator_loss", right, wrong) as mutant, pytest.raises(AssertionError):
        check_scores(mutant)


def test_real_images_left_in_0_to_1_are_caught():
    with mutated(MODULE, "drawn", "2 * x - 1", "x") as mutant, pytest.raises(AssertionError):
        check_range(mutant)
