"""The conditional GAN of PS-FedGAN and SDA-FL: what its discriminator is shown, and what it is asked to say of it."""

import itertools

import pytest
import torch

from common.spec import OptimiserSettings
from federation.names import selected
from methods.ps_fedgan import PSFedGAN
from objectives import cgan
from objectives.objective import Model
from tests.digits import objective
from tests.mutation import mutated

MODULE = "objectives.cgan"


def _gan(dropout: float = 0.0):
    """A GAN in which, if not told otherwise, nothing is dropped, and a batch of real images that are all white."""
    torch.manual_seed(0)
    classifier = objective("classification")
    shape = PSFedGAN(objective=classifier, latent=6, width=16, dropout=dropout)
    model = Model(**cgan.gan(shape, classifier))
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


def test_losses_by_hand():
    """-log D(x) - log(1 - D(G(z))) and -log D(G(z)), each image and what is dropped of it by itself."""
    model, shape, x, y = _gan(dropout=0.5)
    x = x * torch.rand(x.shape, generator=torch.Generator().manual_seed(0))
    batch = cgan.drawn(x, y, shape, torch.Generator().manual_seed(1))
    layers = len(batch["masks"]) // 2
    of_real, of_fake = batch["masks"][:layers], batch["masks"][layers:]
    assert not any(torch.equal(a, b) for a, b in zip(of_real, of_fake, strict=True))
    with torch.no_grad():
        made = model.generator(batch["z"], batch["labels"])
        real = model.discriminator(2 * x - 1, y, of_real).sigmoid().double()
        fake = model.discriminator(made, batch["labels"], of_fake).sigmoid().double()
        expected = -real.log().mean() - (1 - fake).log().mean()
        assert cgan.discriminator_loss(model, batch).item() == pytest.approx(expected.item(), rel=1e-5)
        found = cgan.generator_loss(model, batch["z"], batch["labels"], of_fake).item()
        assert found == pytest.approx(-fake.log().mean().item(), rel=1e-5)


def test_what_is_dropped_is_another_in_each_step_and_for_each_secret():
    drop = {key: cgan.agreed_masks(16, 0.5, torch.arange(8), key) for key in ((1, 0), (1, 1), (2, 0))}
    for key, other in itertools.combinations(drop, 2):
        assert not all(map(torch.equal, drop[key], drop[other]))
    assert all(map(torch.equal, drop[1, 1], cgan.agreed_masks(16, 0.5, torch.arange(8), (1, 1))))


def test_made_images_have_labels_of_the_batch_and_noise_of_their_own():
    _, shape, x, _ = _gan()
    y = torch.tensor([2, 2, 2, 7] * 250)
    batch = cgan.drawn(x[:1].expand(1000, -1, -1, -1), y, shape, torch.Generator().manual_seed(1))
    assert batch["z"].shape == (1000, 6)
    assert batch["z"].mean().abs() < 0.05
    assert batch["z"].std().item() == pytest.approx(1, abs=0.05)
    assert set(batch["labels"].tolist()) == {2, 7}
    assert (batch["labels"] == 7).float().mean().item() == pytest.approx(0.25, abs=0.05), "in their proportions"
    assert not torch.equal(batch["labels"], y)


def test_a_gan_that_nobody_follows_takes_both_steps_with_its_own_optimiser():
    """First D, then G with the noise of the batch; what D drops of G's images is drawn for that step."""
    model, shape, x, y = _gan(dropout=0.5)
    optimiser = OptimiserSettings(name="adam", lr=0.02)
    phase = cgan.alone(shape, optimiser, epochs=3.0)
    assert phase.epochs == 3.0
    batch = phase.draw(x, y, torch.Generator().manual_seed(1))
    for update, part in zip(phase.updates, ("discriminator", "generator"), strict=True):
        assert update.optimiser is optimiser
        moved = {entry.name for entry in selected(model, update.which)}
        assert moved == {name for name in model.state_dict() if name.startswith(f"{part}.")}
    d, g = (update.loss(model, batch).item() for update in phase.updates)
    assert d == cgan.discriminator_loss(model, batch).item()
    assert g == cgan.generator_loss(model, batch["z"], batch["labels"], batch["dropped"]).item()
    kept = torch.cat([mask.flatten() for mask in batch["dropped"]]) != 0
    assert kept.float().mean().item() == pytest.approx(0.5, abs=0.1)
    halves = [torch.equal(a, b) for a, b in zip(batch["masks"], 2 * batch["dropped"], strict=True)]
    assert not any(halves)


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
