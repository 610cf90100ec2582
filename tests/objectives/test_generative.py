"""The GAN's and the β-VAE's losses against brute force."""

import dataclasses
import math
from unittest import mock

import numpy as np
import pytest
import torch
from torch.distributions import Normal
from torch.distributions import kl_divergence as torchs_kl

from common.errors import InputError
from federation.names import selected
from networks.padpaf import noise_sides
from objectives.gan import DISCRIMINATORS, GENERATORS, LOSSES
from objectives.generative import barlow_twins
from objectives.vae import kl_to_prior, posterior
from tests.digits import objective
from tests.mutation import mutated


def barlow_twins_by_loops(a: np.ndarray, b: np.ndarray, off_diagonal: float) -> float:
    """Eq. 7 and 8, entry by entry."""
    loss = 0.0
    for i in range(a.shape[1]):
        for j in range(a.shape[1]):
            c = sum(a[:, i] * b[:, j]) / math.sqrt((a[:, i] ** 2).sum() * (b[:, j] ** 2).sum())
            loss += (1 - c) ** 2 if i == j else off_diagonal * c**2
    return loss


def check_barlow_twins(loss) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    expected = barlow_twins_by_loops(a, b, 0.3)
    assert loss(torch.tensor(a), torch.tensor(b), 0.3).item() == pytest.approx(expected, rel=1e-9)


def test_barlow_twins():
    check_barlow_twins(barlow_twins)
    a = torch.linalg.qr(torch.randn(8, 4))[0]  # equal views with uncorrelated features
    assert barlow_twins(a, a, 1.0).item() == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("(1 - diagonal)", "diagonal"), ("off_diagonal *", ""), ("- diagonal.square().sum()", ""), ("dim=0", "dim=1")],
)
def test_a_wrong_barlow_twins_is_caught(right, wrong):
    with mutated("objectives.generative", "barlow_twins", right, wrong) as mutant, pytest.raises(AssertionError):
        check_barlow_twins(mutant)


def test_real_images_are_shown_in_the_range_of_made_ones():
    """Black is -1 and white is 1, as for a tanh."""
    x = torch.linspace(0, 1, 4)[:, None, None, None].expand(4, 3, 8, 8)
    for name in ("gan", "vae"):
        shown = objective(name, conditional=True).draw(x, torch.arange(4), torch.Generator().manual_seed(0))["x"]
        torch.testing.assert_close(shown, 2 * x - 1)


def test_adversarial_losses_by_hand():
    """Scores with both signs, on both sides of the hinge."""
    s = torch.tensor([-2.0, 0.5, 3.0])
    real, fake, own = (torch.stack([loss(x) for x in s]).tolist() for loss in LOSSES["hinge"])
    assert real == [3.0, 0.5, 0.0]
    assert fake == [0.0, 1.5, 4.0]
    assert own == [2.0, -0.5, -3.0]
    real, fake, own = (loss(s).tolist() for loss in LOSSES["non-saturating"])
    assert real == pytest.approx([-math.log(1 / (1 + math.exp(-x))) for x in s.tolist()], rel=1e-5)
    assert fake == pytest.approx([-math.log(1 - 1 / (1 + math.exp(-x))) for x in s.tolist()], rel=1e-4)
    assert own == real
    assert [loss(s).tolist() for loss in LOSSES["wasserstein"]] == [(-s).tolist(), s.tolist(), (-s).tolist()]


def _setting(**settings):
    made = objective("gan", **settings)
    torch.manual_seed(0)
    model = made.model().eval()  # batch norm and power iteration stand still, so that passes can be taken apart
    batch = made.draw(torch.rand(6, 3, 8, 8), torch.arange(6), torch.Generator().manual_seed(1))
    return made, model, batch


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("contrast", ["both", "content"])
def test_the_discriminators_loss_in_pieces(contrast, conditional):
    """Eq. 9 and 14 with every image passed on its own."""
    made, m, batch = _setting(contrast=contrast, conditional=conditional, lam=0.7)
    batch["image_noise"] = tuple(30 * noise for noise in batch["image_noise"])  # as small as it is, it decides nothing
    y, y_fake = batch.get("y"), batch.get("y_fake")
    real = batch["x"] + batch["image_noise"][4]
    with torch.no_grad():
        fake, other_style, other_content = (made.fake(m, batch, *which) for which in ((0, 0), (0, 1), (1, 0)))
        hinge_real, hinge_fake, _ = LOSSES["hinge"]
        content = hinge_real(m.head(m.encoder(real), y)) + hinge_fake(m.head(m.encoder(fake), y_fake))
        style = hinge_real(m.style.head(m.style.encoder(real))) + hinge_fake(m.style.head(m.style.encoder(fake)))
        gamma = barlow_twins(m.projector(m.encoder(fake)), m.projector(m.encoder(other_style)), made.off_diagonal)
        if contrast == "both":
            views = (m.style.projector(m.style.encoder(x)) for x in (fake, other_content))
            gamma = gamma + barlow_twins(*views, made.off_diagonal)
    expected = content.mean() + style.mean() + 0.7 * gamma
    assert made.discriminator_loss(m, batch).item() == pytest.approx(expected.item(), rel=1e-4)


def test_the_generators_loss_in_pieces():
    made, m, batch = _setting(conditional=True)
    with torch.no_grad():
        fake = made.fake(m, batch, 1, 1)
        expected = -m.head(m.encoder(fake), batch["y_fake"]).mean() - m.style.head(m.style.encoder(fake)).mean()
    assert made.generator_loss(m, batch).item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_four_fakes_differ_in_what_their_numbers_say():
    made, m, batch = _setting()
    quiet = {**batch, "image_noise": tuple(map(torch.zeros_like, batch["image_noise"]))}
    quiet["noise"] = tuple(map(torch.zeros_like, batch["noise"]))
    again = made.fake(m, quiet, 0, 1)
    swapped = {**quiet, "z_s": quiet["z_s"][::-1]}
    assert torch.equal(made.fake(m, swapped, 0, 0), again)
    assert not torch.allclose(made.fake(m, quiet, 0, 0), again)


def test_each_fake_is_made_with_maps_of_its_own():
    made, m, batch = _setting()
    layers = len(batch["noise"]) // 4
    again = made.fake(m, batch, 0, 1)
    others = {**batch, "noise": tuple(n if layers <= i < 2 * layers else -n for i, n in enumerate(batch["noise"]))}
    assert torch.equal(made.fake(m, others, 0, 1), again)


def test_each_fake_has_the_noise_on_it_that_was_drawn_for_it():
    made, m, batch = _setting()
    quiet = {**batch, "image_noise": tuple(map(torch.zeros_like, batch["image_noise"]))}
    for number, which in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        on_it = made.fake(m, batch, *which) - made.fake(m, quiet, *which)
        torch.testing.assert_close(on_it, batch["image_noise"][number], atol=1e-6, rtol=0)


@pytest.mark.parametrize(("contrast", "passes"), [("both", 3), ("content", 2)])
def test_the_generator_makes_no_images_that_no_term_needs(contrast, passes):
    """Of another content, where only the content is contrasted: its batch norms would follow them."""
    made, m, batch = _setting(contrast=contrast)
    with mock.patch.object(m.generator, "forward", side_effect=m.generator.forward) as generator:
        made.discriminator_loss(m, batch)
    assert generator.call_count == passes


def test_each_step_moves_its_own_side_and_nothing_of_the_other():
    made, m, _ = _setting()
    d, g = made.updates()
    sides = [{e.name for e in selected(m, u.which) if e.is_parameter} for u in (d, g)]
    assert not sides[0] & sides[1]
    assert sides[0] | sides[1] == {name for name, _ in m.named_parameters()}
    assert sides[1] == {n for n, _ in m.named_parameters() if n.startswith(("generator.", "style.vectoriser."))}
    assert (d.every, d.lr_factor, g.every, g.lr_factor) == (1, 2.0, 3, 1.0)


def test_without_the_styles_term_its_projector_stays_as_it_is():
    made, m, _ = _setting(contrast="content")
    d, g = made.updates()
    sides = [{e.name for e in selected(m, u.which) if e.is_parameter} for u in (d, g)]
    still = {name for name, _ in m.named_parameters() if name.startswith("style.projector.")}
    assert still
    assert sides[0] == {e.name for e in selected(m, DISCRIMINATORS) if e.is_parameter} - still
    assert sides[1] == {e.name for e in selected(m, GENERATORS) if e.is_parameter}


def test_generated_images_are_given_back_in_the_range_of_real_ones():
    made, m, batch = _setting(conditional=True)
    layers = len(batch["noise"]) // 4
    latents = batch["z_c"][0], batch["z_s"][0], batch["y"], batch["noise"][:layers]
    with torch.no_grad():
        inside = m.generator(latents[0], m.style.vectoriser(latents[1]), *latents[2:])
        torch.testing.assert_close(made.generate(m, *latents), (inside + 1) / 2)


@pytest.mark.parametrize(
    ("low", "high", "fits"), [(0, 1, True), (0, 0, True), (0, 1.25, True), (-0.01, 1, False), (0, 1.26, False)]
)
def test_real_images_may_be_as_bright_as_a_colour_transform_leaves_them(low, high, fits):
    made, x = objective("gan"), torch.tensor([low, high]).float().repeat(2, 3, 8, 4)
    if fits:
        torch.testing.assert_close(made.scaled(x), 2 * x - 1)
    else:
        with pytest.raises(InputError, match=r"images must be in \[0, 1\]"):
            made.scaled(x)


def test_the_content_discriminator_alone_is_asked_about_the_label():
    _, m, batch = _setting(conditional=True)
    with torch.no_grad():
        h, other = m.encoder(batch["x"]), batch["y"].roll(1, dims=1)
        assert not torch.allclose(m.head(h, batch["y"]), m.head(h, other))
    plain = objective("gan").model()
    assert {n for n, _ in m.style.head.named_parameters()} == {n for n, _ in plain.head.named_parameters()}


def test_labels_of_a_client_that_has_only_one_are_labels():
    made = objective("gan", conditional=True)
    assert made.one_hot(torch.tensor([3, 3])).argmax(dim=1).tolist() == [3, 3]
    assert made.one_hot(torch.tensor([0, 9])).argmax(dim=1).tolist() == [0, 9]


def test_a_conditional_generator_makes_another_image_of_another_label():
    made = objective("gan", conditional=True)
    torch.manual_seed(0)
    generator, draw = made.generator().eval(), torch.Generator().manual_seed(1)
    for parameter in generator.parameters():  # labels begin with maps that are nearly nothing
        parameter.data += 0.1 * torch.randn(parameter.shape)
    z, s, noise = made.latents(2, draw), made.latents(2, draw), made.noise(2, draw)
    with torch.no_grad():
        of_one, of_another = (generator(z, s, made.one_hot(torch.tensor([y, y])), noise) for y in (3, 4))
    assert not torch.allclose(of_one, of_another, atol=1e-3)


@pytest.mark.parametrize("side", [4, 6, 12])
def test_images_whose_side_no_doubling_reaches_are_refused(side):
    with pytest.raises(InputError, match=rf"data\.image_size: .* from 4 pixels on, got {side}"):
        dataclasses.replace(objective("gan"), image_size=side).generator()


def test_the_regulariser_reaches_no_generator():
    """sg in Eq. 14."""
    made, m, batch = _setting()
    loss = made.discriminator_loss(m, batch)
    leaves = [e.tensor for e in selected(m, GENERATORS) if e.is_parameter]
    assert all(g is None for g in torch.autograd.grad(loss, leaves, allow_unused=True))


def test_kl_against_torchs():
    mean, log_variance = torch.randn(4, 3), torch.randn(4, 3)
    theirs = torchs_kl(Normal(mean, (log_variance / 2).exp()), Normal(0, 1)).sum(dim=1).mean()
    torch.testing.assert_close(kl_to_prior((mean, log_variance)), theirs)


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("contrast", ["both", "content"])
def test_the_vaes_loss_in_pieces(contrast, conditional):
    made = objective("vae", lam=0.3, beta=0.5, contrast=contrast, conditional=conditional)
    torch.manual_seed(0)
    m = made.model().eval()
    for name, parameter in m.named_parameters():  # labels and styles begin with maps that are nearly nothing
        parameter.data += (1.0 if "vectoriser" in name else 0.1) * torch.randn(parameter.shape)
    batch = made.draw(torch.rand(6, 3, 8, 8), torch.arange(6), torch.Generator().manual_seed(1))
    (update,) = made.updates()
    assert ("y" in batch) == conditional
    layers = len(batch["noise"]) // 3
    with torch.no_grad():
        codes = posterior(m, batch["x"]), posterior(m.style, batch["x"])
        z_c, z_s = (mean + (log / 2).exp() * e for (mean, log), e in zip(codes, batch["epsilon"], strict=True))

        def decode(c, s, n):
            return m.generator(c, m.style.vectoriser(s), batch.get("y"), batch["noise"][n * layers : (n + 1) * layers])

        error = (decode(z_c, z_s, 0) - batch["x"]).square().mean()
        divergence = sum(kl_to_prior(code) for code in codes)
        gamma = sum(
            barlow_twins(
                part.projector(torch.cat(code, 1)),
                part.projector(torch.cat(posterior(part, image), 1)),
                made.off_diagonal,
            )
            for part, code, image in (
                (m, codes[0], decode(z_c, batch["prior"][1], 1)),
                (m.style, codes[1], decode(batch["prior"][0], z_s, 2)),
            )[: 2 if contrast == "both" else 1]
        )
    terms = {"error": error, "divergence": 0.5 * 8 / (3 * 8 * 8) * divergence, "gamma": 0.3 * gamma}
    assert update.loss(m, batch).item() == pytest.approx(sum(terms.values()).item(), rel=1e-5)
    for without, left in (({"lam": 0.0, "beta": 0.0}, ["error"]), ({"beta": 0.0}, ["error", "gamma"])):
        loss = dataclasses.replace(made, **without).loss(m, batch).item()  # that no large term hides a small one
        assert loss == pytest.approx(sum(terms[name] for name in left).item(), rel=1e-5)


def test_the_vaes_loss_of_a_single_image_weighs_the_divergence_likewise():
    made = objective("vae", lam=0.0, beta=0.5)
    m = made.model().eval()
    batch = made.draw(torch.rand(1, 3, 8, 8), torch.zeros(1).long(), torch.Generator().manual_seed(1))
    with torch.no_grad():
        light, heavy = (dataclasses.replace(made, beta=beta).loss(m, batch) for beta in (0.0, 0.5))
        divergence = kl_to_prior(posterior(m, batch["x"])) + kl_to_prior(posterior(m.style, batch["x"]))
    torch.testing.assert_close(heavy - light, 0.5 * 8 / (3 * 8 * 8) * divergence, atol=1e-6, rtol=1e-3)


def test_noise_has_the_deviation_of_the_authors_code_and_a_map_for_each_layer():
    made = objective("gan")
    draw = torch.Generator().manual_seed(1)
    batch = made.draw(torch.rand(200, 3, 8, 8), torch.arange(200) % 10, draw)
    assert len(batch["image_noise"]) == 5, "on four fakes and the real image"
    assert len(batch["noise"]) == 4 * len(noise_sides(8))
    for maps in (batch["image_noise"], batch["noise"]):
        assert [part.std().item() for part in maps] == pytest.approx([0.02] * len(maps), rel=0.05)
        assert len({part.flatten()[0].item() for part in maps}) == len(maps), "each is drawn by itself"
    assert [tuple(part.shape) for part in made.noise(2, draw)] == [(2, 1, s, s) for s in noise_sides(8)]
    for latents in (batch["z_c"], batch["z_s"]):
        assert [z.std().item() for z in latents] == pytest.approx([1, 1], abs=0.08)
        assert [tuple(z.shape) for z in latents] == [(200, 8)] * 2


# ---- bad input


def test_what_cannot_be_generated_from_is_refused():
    made, m, _ = _setting(conditional=True)
    draw = torch.Generator().manual_seed(0)
    z, noise, y = made.latents(2, draw), made.noise(2, draw), made.one_hot(torch.tensor([3, 4]))
    assert made.generate(m, z, z, y, noise).shape == (2, 3, 8, 8)
    with pytest.raises(InputError, match=r"z_s: must be \(images, 8\), got \(2, 5\)"):
        made.generate(m, z, torch.randn(2, 5), y, noise)
    with pytest.raises(InputError, match="y: the generator is conditional on labels"):
        made.generate(m, z, z, None, noise)
    with pytest.raises(InputError, match=r"labels must be in 0\.\.9, got 3\.\.10"):
        made.one_hot(torch.tensor([3, 10]))
    with pytest.raises(InputError, match="images must be 3 x 8 x 8, got 1 x 8 x 8"):
        made.draw(torch.rand(4, 1, 8, 8), torch.arange(4), draw)
    with pytest.raises(InputError, match=r"images must be in \[0, 1\], got 0\.\.255"):
        made.draw(torch.tensor([0.0, 255.0]).repeat(2, 3, 8, 4), torch.arange(2), draw)
