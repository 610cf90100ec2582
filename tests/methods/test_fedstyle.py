"""FedStyle against its equations."""

import copy

import numpy as np
import pytest
import torch
from scipy import ndimage

from baselines.fedavg import FedAvg
from common.errors import InputError
from federation.simulation import initial_model
from methods.fedstyle import FedStyle, sobel_images, styled
from networks import ResNet18, mlp
from tests.digits import data, few, objective, prepared, same, simulate, watch_batches
from tests.mutation import mutated
from tests.networks.sizes import parameters
from tests.objectives.test_losses import _info_nce_by_loops

SIMCLR = objective("simclr")


def _fedstyle(**settings) -> FedStyle:
    return FedStyle(objective=SIMCLR, **{"style_epochs": 1, **settings})


def _batch(model, n: int = 6):
    """Two views, and style features far enough apart that mixing them up shows."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n, 3, 8, 8, generator=generator)
    width = model.content.encoder.features
    h_s, h_sobel = (torch.randn(n, width, generator=generator) for _ in range(2))
    return {**SIMCLR.draw(x, torch.arange(n), generator), "h_s": h_s, "h_sobel": h_sobel}


def test_sobel_images_against_scipy():
    """Gradient magnitude of the grey image, scaled to a maximum of 1; the border is repeated."""
    x = torch.rand(2, 3, 9, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    grey = (x * torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64).view(3, 1, 1)).sum(1).numpy()
    for image, ours in zip(grey, sobel_images(x), strict=True):
        edges = np.hypot(ndimage.sobel(image, 0, mode="nearest"), ndimage.sobel(image, 1, mode="nearest"))
        np.testing.assert_allclose(ours[0].numpy(), edges / edges.max(), atol=1e-5)
        assert torch.equal(ours[0], ours[1])
        assert torch.equal(ours[0], ours[2])


def test_a_grey_image_has_the_edges_of_one_in_colour_that_looks_like_it():
    grey = torch.rand(2, 1, 9, 7, generator=torch.Generator().manual_seed(0))
    assert sobel_images(grey).shape == grey.shape
    torch.testing.assert_close(sobel_images(grey).expand(-1, 3, -1, -1), sobel_images(grey.expand(-1, 3, -1, -1)))


def test_a_flat_image_has_no_edges():
    assert sobel_images(torch.full((1, 3, 8, 8), 0.7)).max() < 0.01


def test_parameter_counts_of_the_paper():
    """ResNet-18 features (512): generator 1024 -> 256 -> 512, projector 512 -> 256 -> 128."""
    assert parameters(mlp(1024, 256, 512)) == 393_984
    assert parameters(mlp(512, 256, 128)) == 164_224
    assert ResNet18(3, 32).features == 512


def test_style_loss_by_loops():
    """Eq. 2: originals are each other's positives, and so are their Sobel images."""
    algorithm = _fedstyle()
    model = algorithm.model().eval()
    x = torch.rand(4, 3, 8, 8)
    z = model.style.projector(model.style.encoder(torch.cat([x, sobel_images(x)]))).detach().numpy()
    the_others = np.kron(np.eye(2), np.ones((4, 4)) - np.eye(4))
    expected = _info_nce_by_loops(z.astype(float), the_others, 0.07)
    assert algorithm.style_loss(model, {"x": x}).item() == pytest.approx(expected, rel=1e-4)


def test_the_literal_style_loss_has_the_sum_and_the_divisor_of_eq_2():
    model = _fedstyle().model().eval()
    x = torch.rand(5, 3, 8, 8)
    usual, literal = (_fedstyle(reading=r).style_loss(model, {"x": x}).item() for r in ("corrected", "literal"))
    assert literal == pytest.approx(usual * 10 * 4 / 9, rel=1e-5)  # sum over 2B = 10 anchors; (B - 1) / (2B - 1)


def check_infusion(kind: type = FedStyle, ssl: str = "simclr") -> None:
    """Eq. 3 term by term: view 1 is infused with h_s, view 2 with h_sobel, and lambda weighs the second loss."""
    unsupervised = objective(ssl)
    algorithm = kind(objective=unsupervised, **{"lambda": 0.3})
    torch.manual_seed(0)
    model = algorithm.model().eval()
    batch = _batch(model)
    f, g, G = model.content.encoder, model.content.projector, model.generator
    h1, h2 = f(batch["views"][0]), f(batch["views"][1])
    plain = unsupervised.criterion(model.content, [g(h1), g(h2)], {})
    infused = unsupervised.criterion(
        model.content, [g(G(torch.cat([h1, batch["h_s"]], 1))), g(G(torch.cat([h2, batch["h_sobel"]], 1)))], {}
    )
    torch.testing.assert_close(algorithm.infusion_loss(model, batch), plain + 0.3 * infused)


@pytest.mark.parametrize("ssl", ["simclr", "simsiam"])
def test_infusion(ssl):
    check_infusion(ssl=ssl)


def test_an_objective_may_look_at_the_batch_in_both_terms(monkeypatch):
    """One with labels, for instance: here, what is added to a term is the sum of them."""
    criterion = type(SIMCLR).criterion
    algorithm, model = _fedstyle(lam=0.5), _fedstyle().model()
    batch = _batch(model)
    plain = algorithm.infusion_loss(model, batch)
    monkeypatch.setattr(type(SIMCLR), "criterion", lambda *told: criterion(*told) + told[-1]["y"].sum())
    torch.testing.assert_close(algorithm.infusion_loss(model, batch), plain + 1.5 * (0 + 1 + 2 + 3 + 4 + 5))


def check_initial(kind: type = FedStyle) -> None:
    """What stays at a client may be drawn by each, the same for the same seed; what is sent is everybody's."""
    begun = [
        prepared(kind(objective=SIMCLR, initial=initial), seed=seed).population.members
        for initial, seed in (("own", 7), ("own", 7), ("own", 8), ("shared", 7))
    ]
    own, again, another, shared = ([dict(member.state_dict()) for member in members] for members in begun)
    kernels = {name for name, tensor in own[0].items() if tensor.dim() > 1 and not name.startswith("content")}
    assert {name.split(".")[0] for name in kernels} == {"style", "generator"}
    for name, tensor in own[0].items():
        assert torch.equal(tensor, again[0][name])
        assert torch.equal(shared[0][name], shared[1][name])
        if name in kernels:
            assert not torch.equal(tensor, own[1][name])
            assert not torch.equal(tensor, another[0][name])
        if name.startswith("content"):
            assert torch.equal(tensor, own[1][name])


def test_initial_tensors():
    check_initial()


PARTS = ("style.encoder", "style.projector", "content.encoder", "content.projector", "generator")


def check_what_trains(kind: type = FedStyle) -> None:
    """The prologue moves the style model alone, the rounds all but it; only the content model is sent."""
    algorithm = kind(objective=SIMCLR, style_epochs=1)
    simulation = prepared(algorithm, rounds=1)
    moved = []

    def note(simulation):
        start = dict(simulation.template.named_parameters())
        rows = simulation.population.storage
        names = {name for name, p in start.items() if not torch.equal(rows[name], p.expand_as(rows[name]))}
        moved.append({part for part in PARTS if any(name.startswith(part) for name in names)})

    simulation.run(note)
    assert moved == [{"style.encoder", "style.projector"}, set(PARTS)]
    assert {name.split(".")[0] for name in simulation.server.tensors} == {"content"}
    style = simulation.population.storage["style.encoder.layers.0.weight"]
    assert not torch.equal(style[0], style[1])


def test_what_trains():
    check_what_trains()


def test_the_literal_reading_leaves_the_generator_as_it_is():
    simulation = simulate(_fedstyle(reading="literal"), rounds=1)
    for name, parameter in simulation.template.generator.named_parameters():
        rows = simulation.population.storage[f"generator.{name}"]
        assert torch.equal(rows, parameter.expand_as(rows))


def test_no_style_epochs_means_an_untrained_style_model():
    simulation = simulate(_fedstyle(style_epochs=0), rounds=1)
    rows = simulation.population.storage["style.encoder.layers.0.weight"]
    assert torch.equal(rows, simulation.template.style.encoder.layers[0].weight.expand_as(rows))


def test_a_client_of_one_image_has_no_style_to_extract():
    """Of its style there is no other image in the batch, and Eq. 2 is no number."""
    with pytest.raises(InputError, match=r"^algorithm\.style_epochs: must be 0 where a client has one image"):
        prepared(_fedstyle(), few(images=1))
    prepared(_fedstyle(style_epochs=0), few(images=1))


def test_style_features_are_those_of_the_frozen_model_and_computed_once():
    simulation = simulate(_fedstyle(), rounds=1)
    model, indices = simulation.population.members[0], data().clients[0]
    x = data().images[indices].float() / 255
    frozen = copy.deepcopy(model).eval().style.encoder
    with torch.no_grad():
        torch.testing.assert_close(simulation.local.constants[0]["h_s"], frozen(x))
        torch.testing.assert_close(simulation.local.constants[0]["h_sobel"], frozen(sobel_images(x)))
    assert model.style.encoder.training  # left as it was


def test_a_batch_carries_the_style_features_of_its_own_images():
    """Each row of h_s belongs to the image of the same row."""
    seen = []

    class Watched(FedStyle):
        def infusion_loss(self, m, batch):
            with torch.no_grad():
                seen.append(
                    (batch["h_s"], styled(m, batch["x"]), batch["h_sobel"], styled(m, sobel_images(batch["x"])))
                )
            return super().infusion_loss(m, batch)

    simulate(Watched(objective=SIMCLR, style_epochs=1), rounds=1)
    assert len(seen) > 6
    for h_s, expected, h_sobel, expected_sobel in seen:
        torch.testing.assert_close(h_s, expected)
        torch.testing.assert_close(h_sobel, expected_sobel)


def test_style_extraction_sees_each_clients_images_as_they_are_stored():
    seen: list[int] = []
    simulation, everyone = prepared(_fedstyle(), rounds=1), data()

    def look(client, batch):
        if "views" not in batch:  # those of the prologue
            own = everyone.images[everyone.clients[client]].float() / 255
            assert all((own == image).flatten(1).all(dim=1).any() for image in batch["x"])
            seen.append(client)

    watch_batches(simulation, look)
    simulation.run()
    assert set(seen) == {0, 1, 2}


def test_the_content_model_starts_like_fedavgs():
    fedstyle, fedavg = initial_model(_fedstyle(), 7), initial_model(FedAvg(objective=SIMCLR), 7)
    assert same(dict(fedstyle.content.named_parameters()), dict(fedavg.named_parameters()))


@pytest.mark.parametrize(
    ("right", "wrong", "check"),
    [
        ('batch["h_sobel"]], dim=1)', 'batch["h_s"]], dim=1)', check_infusion),  # no Sobel style
        ("self.lam * self.unsupervised(", "self.unsupervised(", check_infusion),  # lambda forgotten
        ("m.content, h1_styled, h2_styled, batch", "m.content, h1, h2_styled, batch", check_infusion),
        ('shared = names("content")', 'shared = names("content", "generator")', check_what_trains),
        ('shared = names("content")', 'shared = names("content", "style")', check_what_trains),
        ('names("style.encoder", "style.projector")', 'names("style.projector")', check_what_trains),
        ('names("style.encoder", "style.projector")', 'names("style.encoder")', check_what_trains),
        ('names("content", "generator") if', 'names("content") if', check_what_trains),
        ('random_key(seed, "initial style", client)', 'random_key(seed, "initial style")', check_initial),
        ('random_key(seed, "initial style", client)', "client", check_initial),
        ("member.generator.load_state_dict", "drawn.generator.load_state_dict", check_initial),
    ],
)
def test_a_wrong_fedstyle_is_caught(right, wrong, check):
    with (
        mutated("methods.fedstyle", "FedStyle", right, wrong) as mutant,
        pytest.raises((AssertionError, RuntimeError)),
    ):
        check(mutant)
