"""StarGAN's losses against brute force, its targets, its two sides and its translations."""

import copy
import dataclasses
from functools import partial

import pytest
import torch

from baselines.centralized import Centralized
from baselines.fedavg import FedAvg
from common.errors import InputError
from common.spec import OptimiserSettings
from diptych.given import client_data
from federation import Simulation
from federation.names import selected
from networks import Conv3
from networks.stargan import StarGANGenerator
from objectives.stargan import DISCRIMINATOR, GENERATOR, StarGAN, gradient_penalty
from tests.digits import STYLES, data, dealt, few, objective, prepared, same, simulate, watch_batches
from tests.mutation import mutated
from tests.networks.sizes import parameters

ADAM = OptimiserSettings(name="adam", lr=2e-3, betas=(0.5, 0.999))


def _setting(**settings):
    made = objective("stargan", **settings)
    torch.manual_seed(0)
    model = made.model()
    batch = made.draw(torch.rand(6, 3, 8, 8), torch.arange(6), torch.Generator().manual_seed(1))
    return made, model, {**batch, "style": torch.tensor([0, 1, 2, 2, 1, 1])}


FEW = few(images=32)
"""Two batches for each client."""


# ---- losses


def check_penalty(penalty) -> None:
    """A linear critic with two patches has the slope w_1 + w_2 everywhere."""
    w = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    x = torch.randn(5, 3, 4, 4)
    length = (
        float(sum((w[0, c, i, j] + w[1, c, i, j]) ** 2 for c in range(3) for i in range(4) for j in range(4))) ** 0.5
    )
    found = penalty(lambda images: images.flatten(1) @ w.flatten(1).T, x)
    assert found.item() == pytest.approx((length - 1) ** 2, rel=1e-5)
    # a critic whose slope is the image itself: each image has a length of its own
    each = [(float(image.square().sum()) ** 0.5 - 1) ** 2 for image in x]
    found = penalty(lambda images: images.flatten(1).square().sum(dim=1, keepdim=True) / 2, x)
    assert found.item() == pytest.approx(sum(each) / 5, rel=1e-5)


def test_the_penalty_by_hand():
    check_penalty(gradient_penalty)


@pytest.mark.parametrize(
    ("right", "wrong"), [("- 1)", "- 0)"), (".sum()", ".mean()"), ("norm(dim=1)", "norm()"), (".square()", ".abs()")]
)
def test_a_wrong_penalty_is_caught(right, wrong):
    with mutated("objectives.stargan", "gradient_penalty", right, wrong) as mutant, pytest.raises(AssertionError):
        check_penalty(mutant)


def test_the_penalty_reaches_the_critics_weights():
    """Against the derivative by hand: d/dw of (|w| - 1)^2 is 2 (|w| - 1) w / |w|."""
    w = torch.tensor([3.0, 4.0], requires_grad=True)
    (slope,) = torch.autograd.grad(gradient_penalty(lambda x: x.flatten(1) @ w[:, None], torch.rand(3, 1, 1, 2)), [w])
    torch.testing.assert_close(slope, 2 * 4 * torch.tensor([0.6, 0.8]))


def _cross_entropy(logits, labels):
    return -sum(row.log_softmax(0)[label] for row, label in zip(logits, labels, strict=True)) / len(labels)


def check_losses(kind=StarGAN) -> None:
    """Eq. 1-6 and 8, image by image, with weights that tell the terms apart."""
    made, m, batch = _setting(targets="uniform", lambda_cls=0.7, lambda_rec=3.0, lambda_gp=2.0)
    made = kind(**{f.name: getattr(made, f.name) for f in dataclasses.fields(made)})
    m, batch["x"] = m.double(), batch["x"].double()  # at the start, terms differ in late digits
    x, style, target = batch["x"], batch["style"], batch["target"]
    assert (style != target).any()
    eye, n = torch.eye(3), len(x)
    fake = torch.cat([m.generator(x[k : k + 1], eye[style[k]][None], eye[target[k]][None]) for k in range(n)])
    back = torch.cat([m.generator(fake[k : k + 1], eye[target[k]][None], eye[style[k]][None]) for k in range(n)])
    score = lambda images: m.critic(m.encoder(images))  # noqa: E731
    penalties = []
    for k in range(n):
        e = batch["epsilon"][k]
        between = (e * x[k] + (1 - e) * fake[k]).detach()[None].requires_grad_()
        (slope,) = torch.autograd.grad(score(between).sum(), between)
        penalties.append((slope.norm().item() - 1) ** 2)
    d = score(fake).mean() - score(x).mean() + 2.0 * sum(penalties) / n
    d = d + 0.7 * _cross_entropy(m.classifier(m.encoder(x)), style)
    g = -score(fake).mean() + 0.7 * _cross_entropy(m.classifier(m.encoder(fake)), target)
    g = g + 3.0 * (back - x).abs().sum() / x.numel()
    torch.testing.assert_close(made.discriminator_loss(m, batch), d, rtol=1e-9, atol=0)
    torch.testing.assert_close(made.generator_loss(m, batch), g, rtol=1e-9, atol=0)


def test_losses_by_hand():
    check_losses()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("epsilon * real + (1 - epsilon) * fake", "epsilon * fake + (1 - epsilon) * real"),
        ("m.classifier(features), source", "m.classifier(features), target"),
        ("m.classifier(features), target", "m.classifier(features), source"),
        ("m.generator(fake, there, here)", "m.generator(fake, here, there)"),
        ("- self.lambda_gp * penalty", "+ self.lambda_gp * penalty"),
        ("return -m.critic(features).mean()", "return m.critic(features).mean()"),
        ("self.lambda_rec * reconstruction", "reconstruction"),
    ],
)
def test_wrong_losses_are_caught(right, wrong):
    with mutated("objectives.stargan", "StarGAN", right, wrong) as mutant, pytest.raises(AssertionError):
        check_losses(mutant)


def test_each_step_moves_its_own_side_and_nothing_of_the_other():
    made, m, batch = _setting(discriminator_steps=5)
    d, g = made.updates()
    assert (d.every, d.lr_factor, g.every, g.lr_factor) == (1, 1.0, 5, 1.0)
    sides = [{e.name for e in selected(m, u.which) if e.is_parameter} for u in (d, g)]
    assert not sides[0] & sides[1]
    assert sides[0] | sides[1] == {name for name, _ in m.named_parameters()}
    leaves = [e.tensor for e in selected(m, GENERATOR) if e.is_parameter]
    loss = d.loss(m, batch)
    assert all(slope is None for slope in torch.autograd.grad(loss, leaves, allow_unused=True))


def test_the_generator_has_as_many_blocks_as_it_is_told():
    made = objective("stargan", blocks=2)
    told = StarGANGenerator(made.channels, made.image_size, made.domains, made.width, blocks=2)
    assert parameters(made.model().generator) == parameters(told) != parameters(objective("stargan").model().generator)


def test_the_generator_stands_still_until_its_turn():
    """Four steps of the discriminator in the first round; the generator's first comes with the fifth, in the second."""
    made = FedAvg(objective=objective("stargan", discriminator_steps=5))
    simulation = prepared(made, few(clients=1), local_steps=4)
    start = {name: p.clone() for name, p in simulation.template.named_parameters()}
    moved: list[set[str]] = []

    def look(simulation: Simulation) -> None:
        rows = simulation.population.storage
        moved.append({name for name, tensor in start.items() if not torch.equal(rows[name][0], tensor)})

    simulation.run(look)
    parts = [
        {e.name for e in selected(simulation.template, side) if e.is_parameter} for side in (DISCRIMINATOR, GENERATOR)
    ]
    assert moved == [set(), parts[0], parts[0] | parts[1]]


# ---- targets


def test_permuted_targets_are_the_batchs_own_domains_in_another_order():
    made = objective("stargan", targets="permuted")
    style = torch.tensor([0, 0, 0, 1, 1, 2])
    found = set()
    for seed in range(50):
        drawn = made.draw(torch.rand(6, 3, 8, 8), torch.arange(6), torch.Generator().manual_seed(seed))
        source, target = made.pairs({**drawn, "style": style})
        assert torch.equal(source, style)
        assert torch.equal(target.sort().values, style)
        found.add(tuple(target.tolist()))
    assert len(found) > 20


@pytest.mark.parametrize("targets", ["permuted", "uniform"])
def test_what_a_client_with_one_domain_is_asked_for(targets):
    """The authors' targets: always for the source, and so for a reconstruction. Uniform ones: for every domain."""
    made = objective("stargan", targets=targets)
    simulation = prepared(FedAvg(objective=made), FEW)
    asked = {client: set() for client in range(len(STYLES))}

    def look(client, batch):
        source, target = made.pairs(batch)
        assert (source == client).all(), "client k has style k"
        asked[client] |= set(target.tolist())

    watch_batches(simulation, look)
    simulation.run()
    everything = set(range(len(STYLES)))
    assert asked == {client: {client} if targets == "permuted" else everything for client in asked}


# ---- training


@pytest.fixture(scope="module")
def trained():
    """Centralised training on three styles of the embedded digits, a few dozen steps."""
    made = Centralized(objective=objective("stargan", targets="uniform", width=8, discriminator_steps=2))
    pooled = client_data(dealt(), "clients")
    return simulate(made, pooled, rounds=3, optimiser=ADAM, optimiser_state="persistent")


def _reconstruction_error(simulation, model) -> float:
    made, images = simulation.algorithm.objective, simulation.data.images[simulation.data.clients[0]].float() / 255
    style, eye = simulation.data.styles[simulation.data.clients[0]], torch.eye(3)
    with torch.no_grad():
        other = (style + 1) % made.domains
        there = model.generator(images, eye[style], eye[other])
        return (model.generator(there, eye[other], eye[style]) - images).abs().mean().item()


def test_a_few_dozen_steps_lower_the_reconstruction_error(trained):
    assert 60 < trained.done < 100
    before, after = copy.deepcopy(trained.template).train(), trained.own(0)
    assert _reconstruction_error(trained, after) < 0.6 * _reconstruction_error(trained, before)


def test_running_statistics_travel():
    made = FedAvg(objective=objective("stargan"))
    shared = simulate(made, FEW, rounds=1).server.tensors
    means = [name for name in shared if name.endswith("running_mean")]
    assert means
    assert all(shared[name].any() for name in means)
    kept = simulate(made, FEW, rounds=1, buffers="local").server.tensors
    assert not any(name.endswith("running_mean") for name in kept)


def test_threads_give_the_weights_of_the_loop():
    """The penalty's derivative is taken inside of a thread."""
    made = FedAvg(objective=objective("stargan"))
    assert same(simulate(made, FEW).population.storage, simulate(made, FEW, workers=3).population.storage)


def test_translations_are_images_and_leave_the_model_as_it_is(trained):
    made, model = trained.algorithm.objective, trained.own(0).eval()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    x = torch.rand(6, 3, 8, 8)
    source, target = torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([0, 0, 0, 1, 2, 2])
    images = made.translate(model, x, source, target)
    assert images.shape == x.shape
    assert not images.requires_grad
    assert same(dict(model.state_dict()), before)
    eye = torch.eye(3)
    with torch.no_grad():
        plain = torch.cat(
            [model.generator(x[k : k + 1], eye[source[k : k + 1]], eye[target[k : k + 1]]) for k in range(6)]
        )
    assert plain.min() < 0, "a tanh goes below black"
    torch.testing.assert_close(images, plain.clamp(0, 1))


# ---- bad input


def test_images_without_a_style_are_refused():
    with pytest.raises(InputError, match=r"data\.pool: StarGAN learns from the style of each image"):
        simulate(FedAvg(objective=objective("stargan")), dataclasses.replace(data(), styles=None))


def test_a_style_beyond_the_domains_is_refused():
    with pytest.raises(InputError, match=r"objective\.domains: an image shows a style beyond these 2"):
        simulate(FedAvg(objective=objective("stargan", domains=2)))


def test_another_network_is_refused():
    made = objective("stargan")
    other = dataclasses.replace(made, encoder=partial(Conv3, channels=3, image_size=8))
    with pytest.raises(InputError, match=r"network\.name: the objective 'stargan' needs 'stargan', got Conv3"):
        other.model()


def test_what_cannot_be_translated_is_refused():
    made, m, _ = _setting()
    x, domain = torch.rand(2, 3, 8, 8), torch.tensor([0, 2])
    with pytest.raises(InputError, match="images must be 3 x 8 x 8, got 1 x 8 x 8"):
        made.translate(m, x[:, :1], domain, domain)
    with pytest.raises(InputError, match=r"source: domains are in 0\.\.2, got 0\.\.3"):
        made.translate(m, x, torch.tensor([0, 3]), domain)
    with pytest.raises(InputError, match=r"target: domains are in 0\.\.2, got -1\.\.0"):
        made.translate(m, x, domain, torch.tensor([0, -1]))
    with pytest.raises(InputError, match=r"target: must be \(2,\), got \(3,\)"):
        made.translate(m, x, domain, torch.tensor([0, 1, 2]))
