"""PaDPaF: what is federated and what is not, its readings, its schedule, and re-styling."""

import copy
import dataclasses
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from baselines.ditto import Ditto
from baselines.ditto_fedprox import DittoFedProx
from baselines.fedavg import FedAvg
from common.errors import InputError
from common.spec import OptimiserSettings, ServerSettings
from federation import ClientData
from federation.names import entries, selected
from methods.padpaf import PaDPaF, Restyling
from networks import SNResNet
from objectives import OBJECTIVES
from tests.digits import few, objective, same, simulate
from tests.mutation import mutated
from tests.objectives.test_generative import barlow_twins_by_loops
from tests.pretended import DEVICE, pretended_gpu

STYLE_ONLY = {"style.encoder", "style.head", "style.projector", "style.vectoriser"}


def _gan(name: str = "gan", **settings):
    return objective(name, partial(SNResNet, width=4), width=4, **settings)


def _padpaf(**settings) -> PaDPaF:
    of_objective = {key: settings.pop(key) for key in ("conditional", "contrast") if key in settings}
    return PaDPaF(objective=_gan(**of_objective), **settings)


FEW = few(images=48)
"""Six batches of eight for each client: two steps on the generator."""


def _trained(algorithm, **settings):
    return simulate(algorithm, FEW, **{"buffers": "local", "batch_size": 8, **settings})


def _private(algorithm) -> set[str]:
    model = algorithm.model()
    return {e.name for e in selected(model, ~algorithm.shared) if e.is_parameter}


# ---- the split


def check_the_split(kind) -> None:
    """Fig. 1: style parts and the norms they steer are private, everything else is federated."""
    private = _private(kind(objective=_gan()))
    parts = {name.rpartition(".")[0] for name in private}
    assert {".".join(name.split(".")[:2]) for name in private if name.startswith("style")} == STYLE_ONLY
    assert {part for part in parts if not part.startswith("style")} == {
        f"generator.{where}.by_style.map" for where in ("blocks.0.norm1", "blocks.0.norm2", "norm")
    }


def test_the_split():
    check_the_split(PaDPaF)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("~(STYLE | STYLE_MAPS)", "~STYLE"), ("~(STYLE | STYLE_MAPS)", "everything"), ("~(STYLE |", "(STYLE |")],
)
def test_a_wrong_split_is_caught(right, wrong):
    with mutated("methods.padpaf", "PaDPaF", right, wrong) as mutant, pytest.raises(AssertionError):
        check_the_split(mutant)


def test_the_readings_of_the_split():
    assert {name.split(".")[0] for name in _private(_padpaf(conditional_norm="federated"))} == {"style"}
    assert not _private(_padpaf(reading="released"))
    labelled = _private(_padpaf(conditional=True))
    assert not any("by_label" in name for name in labelled), "maps from the label are content"
    assert any("by_style" in name for name in labelled)


def test_the_channel_carries_the_federated_part_and_not_a_byte_more():
    simulation = _trained(_padpaf(), rounds=2)
    model = simulation.template
    federated = sum(e.tensor.nbytes for e in selected(model, simulation.algorithm.shared) if e.is_parameter)
    assert simulation.channel.total("up") == simulation.channel.total("down") == 2 * 3 * federated
    assert all(e.is_parameter for e in entries(model) if e.name in simulation.server.tensors), "buffers stay"


def test_private_tensors_differ_between_clients_and_survive_the_broadcast():
    simulation = _trained(_padpaf(), rounds=3)
    private, before = _private(simulation.algorithm), {}
    for name in private:
        rows = simulation.population.storage[name]
        assert not torch.equal(rows[0], rows[1])
        before[name] = rows.clone()
    simulation._broadcast(4, [0, 1, 2])
    assert all(torch.equal(simulation.population.storage[name], before[name]) for name in private)
    shared = simulation.population.storage["generator.start.weight"]
    assert torch.equal(shared[0], shared[2])


def test_the_released_code_averages_everything():
    simulation = _trained(_padpaf(reading="released"), rounds=2)
    simulation._broadcast(3, [0, 1, 2])
    parameters = {e.name for e in entries(simulation.template) if e.is_parameter}
    assert all(
        (simulation.population.storage[name] == simulation.population.storage[name][:1]).all() for name in parameters
    )


def test_the_released_code_is_fedavg():
    assert same(_trained(_padpaf(reading="released")).server.tensors, _trained(FedAvg(objective=_gan())).server.tensors)


# ---- the schedule


def test_three_steps_on_the_discriminators_for_each_on_the_generator():
    """As 234 and 78 in an epoch of 7,500 images of MNIST at batches of 32."""
    images = ClientData(
        torch.zeros(750, 3, 8, 8, dtype=torch.uint8), torch.zeros(750, dtype=torch.long), (torch.arange(750),)
    )
    simulation = simulate(_padpaf(), images, rounds=1, batch_size=32, buffers="local")
    assert [row["steps"] for row in simulation.history] == [23, 7]


def test_rates_and_their_decay():
    """Twice the rate for the discriminators, and 0.99 of all rates after each round: SGD steps are proportional."""
    plain, slow = (_trained(_padpaf(), rounds=2, lr_decay=decay).history for decay in (1.0, 1e-9))
    assert plain[:6] == slow[:6], "the first round has the full rate"
    one, two = (
        _trained(_padpaf(), rounds=2, lr_decay=1e-9), _trained(_padpaf(), rounds=1, lr_decay=1e-9)
    )  # fmt: skip
    moved = [one.server.tensors[n] - two.server.tensors[n] for n in one.server.tensors]
    assert max(float(t.abs().max()) for t in moved) < 1e-6, "a rate of nothing moves nothing"


def test_the_server_takes_adam_steps_on_the_mean_difference():
    """Line 17, against torch's Adam."""
    server = ServerSettings(optimiser="adam", weighting="uniform", lr=1e-2, betas=(0.5, 0.9))
    simulation = _trained(_padpaf(), rounds=1, server=server, optimiser=OptimiserSettings(name="adam", lr=1e-3))
    start = dict(simulation.template.named_parameters())
    for name, after in simulation.server.tensors.items():
        parameter = torch.nn.Parameter(start[name].detach().clone())
        parameter.grad = start[name].detach() - simulation.population.storage[name].mean(0)
        torch.optim.Adam([parameter], lr=1e-2, betas=(0.5, 0.9)).step()
        clear = parameter.grad.abs() > 1e-5  # a first step is ±0.01 whatever the gradient, but for its sign
        torch.testing.assert_close(after[clear], parameter.detach()[clear], atol=1e-5, rtol=1e-3)


# ---- labels


@pytest.mark.parametrize("reading", ["paper", "released"])
def test_fake_labels_are_uniform_or_the_clients_own_whatever_is_federated(reading):
    x, y = torch.rand(64, 3, 8, 8), torch.full((64,), 3)

    def drawn(**settings):
        algorithm = _padpaf(conditional=True, reading=reading, **settings)
        return algorithm.draw(x, y, torch.Generator().manual_seed(0))["y_fake"]

    assert (drawn().sum(0) > 0).sum() > 7
    assert torch.equal(drawn(), drawn(fake_labels="all"))
    assert drawn(fake_labels="own").argmax(1).unique().tolist() == [3]
    unconditional = _padpaf(reading=reading, fake_labels="own").draw(x, y, torch.Generator().manual_seed(0))
    assert "y_fake" not in unconditional


def test_a_clients_own_fake_labels_are_drawn_by_the_generator():
    x, y = torch.rand(64, 3, 8, 8), torch.arange(64) % 10

    def drawn(seed: int) -> torch.Tensor:
        torch.seed()
        draw = torch.Generator().manual_seed(seed)
        return _padpaf(conditional=True, fake_labels="own").draw(x, y, draw)["y_fake"]

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_the_method_needs_a_generative_objective():
    with pytest.raises((InputError, ValueError), match="Generative"):
        PaDPaF(objective=OBJECTIVES["classification"](encoder=SNResNet, classes=2, channels=3, image_size=8))


# ---- the baselines of Table 1


def test_half_of_the_epochs_for_each_of_dittos_models():
    simulation = _trained(Ditto(objective=_gan(), reading="padpaf"), rounds=1, local_epochs=2)
    discriminators = [row for row in simulation.history if row["update"] == 0 and row["client"] == 0]
    assert [(row["phase"], row["steps"]) for row in discriminators] == [(0, 6), (1, 6)]


def test_the_released_ditto_loses_its_personal_model():
    """What a client's v was makes no difference to what it is after the next round."""

    def after_a_round(reading: str) -> torch.Tensor:
        simulation = _trained(Ditto(objective=_gan(), reading=reading), rounds=2)
        again = _trained(Ditto(objective=_gan(), reading=reading), rounds=1)
        again.settings, again.schedule = simulation.settings, simulation.schedule
        for e in entries(again.template):
            if e.name.startswith("v.") and e.is_parameter:
                again.population.storage[e.name].add_(1.0)
        again._communication_round(2, [0, 1, 2])
        name = "v.generator.conv.weight"
        return (again.population.storage[name] - simulation.population.storage[name]).abs().max()

    assert after_a_round("released") < 1e-6
    assert after_a_round("padpaf") > 1e-3


def test_ditto_with_fedprox_is_ditto_when_its_global_term_is_off():
    plain = _trained(Ditto(objective=_gan(), reading="padpaf"))
    off, on = (_trained(DittoFedProx(objective=_gan(), reading="padpaf", mu_global=mu)) for mu in (0.0, 5.0))
    assert same(plain.server.tensors, off.server.tensors)
    moved = [
        sum((s.server.tensors[n] - dict(s.template.named_parameters())[n]).square().sum() for n in s.server.tensors)
        for s in (plain, on)
    ]
    assert moved[1] < moved[0], "the term draws the global model to where it was"


# ---- Algorithm 2


def test_restyling_trains_its_maps_alone_and_gives_images():
    simulation = _trained(_padpaf(conditional=True))
    members = [simulation.synchronised(k) for k in range(3)]
    before = [{n: p.clone() for n, p in m.named_parameters()} for m in members]
    restyling = Restyling(simulation.algorithm.objective, members, torch.Generator().manual_seed(0))
    start = [p.clone() for p in restyling.content_map.parameters()]
    x, y = torch.rand(5, 3, 8, 8), torch.arange(5)
    found = restyling.run(6, x, y, batch=8)
    assert not restyling.content_map.training, "batch norms go by what they have seen, and not by the batch"
    assert any(not torch.equal(p, q) for p, q in zip(restyling.content_map.parameters(), start, strict=True))
    assert all(torch.equal(p, b[n]) for m, b in zip(members, before, strict=True) for n, p in m.named_parameters())
    assert found["restyle/restyled"].shape == found["restyle/source"].shape == (6, 8, 3, 8, 8)
    assert found["restyle/test-restyled"].shape == (3, 5, 3, 8, 8)
    assert found["restyle/clients"].tolist() == [[0, 0], [0, 1], [1, 1], [1, 2], [2, 2], [2, 0]]
    for key in ("source", "reconstructed", "restyled", "test-restyled"):
        assert 0 <= found[f"restyle/{key}"].min() <= found[f"restyle/{key}"].max() <= 1


def test_restyling_compares_the_projected_content_of_an_image_and_of_what_is_made_again_with_its_label():
    torch.manual_seed(0)
    m = SimpleNamespace(encoder=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 5)))
    m.projector, x, again = torch.nn.Linear(5, 4), torch.randn(6, 3, 2, 2), torch.randn(6, 3, 2, 2)
    members, label, asked = [_Telling(0), _Telling(1)], torch.eye(6), []
    restyling = Restyling(dataclasses.replace(_gan(), off_diagonal=0.3), members, torch.Generator())
    restyling.codes = lambda *of: of
    restyling.sample = lambda *given: asked.append(given) or again
    loss = restyling.loss(m, 1, x, label).item()
    ((maker, *codes, y),) = asked
    assert maker is codes[0] is m
    assert codes[1] == 1
    assert codes[2] is x
    assert y is label
    before, after = (m.projector(m.encoder(image)).detach().double().numpy() for image in (x, again))
    assert loss == pytest.approx(barlow_twins_by_loops(before, after, 0.3), rel=1e-5)


def test_maps_go_down_the_loss_of_the_image_that_was_drawn(monkeypatch):
    algorithm, slopes = _padpaf(conditional=True), []
    members = [algorithm.model() for _ in range(3)]
    trained, by_hand = (
        Restyling(algorithm.objective, copy.deepcopy(members), torch.Generator().manual_seed(1)) for _ in range(2)
    )
    monkeypatch.setattr("methods.padpaf.step", lambda settings, leaves, gradients, *rest: slopes.extend(gradients))
    trained.run(1, torch.rand(2, 3, 8, 8), torch.arange(2), batch=4)
    draw, made = by_hand.draw, by_hand.objective
    i = int(torch.randint(3, (), generator=draw))
    y = torch.nn.functional.one_hot(torch.randint(10, (4,), generator=draw), 10).float()
    x = by_hand.sample(by_hand.members[i], made.latents(4, draw), made.latents(4, draw), y)
    leaves = [*by_hand.content_map.parameters(), *by_hand.style_maps[i].parameters()]
    expected = torch.autograd.grad(by_hand.loss(by_hand.members[i], i, x, y), leaves)
    assert max(slope.abs().max() for slope in expected) > 1e-3
    assert all(torch.equal(slope, by) for slope, by in zip(slopes, expected, strict=True))


def test_maps_are_trained_by_adam_whose_rate_falls_in_fifty_steps(monkeypatch):
    """By 0.95 each, from 1e-3: the authors' fifty epochs; the content's map in every step, and the client's own."""
    simulation, taken, slopes = _trained(_padpaf(), rounds=1), [], []

    def counted(settings, parameters, gradients, state, factor):
        taken.append((settings, id(state), factor))
        slopes.append(torch.cat([slope.flatten() for slope in gradients]))

    monkeypatch.setattr("methods.padpaf.step", counted)
    restyling = Restyling(simulation.algorithm.objective, [simulation.own(k) for k in range(3)], torch.Generator())
    restyling.run(20, torch.rand(2, 3, 8, 8), torch.arange(2), batch=2)
    assert {settings for settings, _, _ in taken} == {OptimiserSettings(name="adam", lr=1e-3)}
    assert [factor for _, _, factor in taken[::2]] == [0.95 ** (50 * t // 20) for t in range(20)]
    assert [factor for _, _, factor in taken[::2]] == [factor for _, _, factor in taken[1::2]]
    assert len({state for _, state, _ in taken[::2]}) == 1, "the content's"
    assert len({state for _, state, _ in taken}) == 1 + 3
    assert not any(torch.equal(content, style) for content, style in zip(slopes[::2], slopes[1::2], strict=True))


def test_all_that_is_random_about_restyling_comes_from_its_generator():
    """Also whose map is trained in which step: by chance, eight steps would seldom be of the same clients twice."""
    simulation = _trained(_padpaf(conditional=True), rounds=1)

    def found(seed: int) -> dict[str, torch.Tensor]:
        torch.seed()
        members = [simulation.own(k) for k in range(3)]
        restyling = Restyling(simulation.algorithm.objective, members, torch.Generator().manual_seed(seed))
        return restyling.run(8, torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(2), 4)

    assert same(found(1), found(1))
    assert not same(found(1), found(2))


def test_restyling_works_where_the_clients_models_are():
    """Its maps, and the latents, labels and noise that are drawn on the CPU."""
    algorithm = _padpaf(conditional=True)
    members, x, y = [algorithm.model() for _ in range(2)], torch.rand(2, 3, 8, 8), torch.arange(2)

    def found(device: str) -> dict[str, torch.Tensor]:
        there = [copy.deepcopy(member).to(device) for member in members]
        return Restyling(algorithm.objective, there, torch.Generator().manual_seed(1)).run(1, x, y, batch=4)

    here = found("cpu")
    with pretended_gpu():
        assert same(here, {name: tensor.cpu() for name, tensor in found(DEVICE).items()})


def test_restyling_is_of_a_gan_and_only_if_it_is_asked_for():
    """Before anything is looked at."""
    for algorithm in (_padpaf(), PaDPaF(objective=_gan("vae"), restyle_steps=1)):
        assert algorithm.restyled([], torch.Generator(), torch.zeros(0), torch.zeros(0)) == {}


class _Telling(torch.nn.Module):
    """A client whose images say in four pixels who made them, and of which content, style and label."""

    def __init__(self, client: int) -> None:
        super().__init__()
        self.client, self.weight = client, torch.nn.Parameter(torch.zeros(1))
        self.encoder = lambda x: x[:, 0, 0, 1:2]
        self.encoder.features = 1
        self.style = SimpleNamespace(encoder=lambda x: x[:, 0, 0, 2:3], vectoriser=lambda z: z + 10 * client)
        self.style.encoder.features = 1

    def generator(self, z_c, s, y, noise):
        who = torch.full_like(z_c, self.client)
        return torch.cat([who, z_c, s, y.argmax(dim=1, keepdim=True).float()], dim=1)[:, None, None]


def test_content_comes_from_the_source_and_style_from_the_target():
    """Line 11: G_b(z^c(x), z^s ~ N), for x of client a, with x's label; the reconstruction is all of a's."""
    members = [_Telling(k) for k in range(5)]
    restyling = Restyling(
        dataclasses.replace(_gan(conditional=True), latent=1), members, torch.Generator().manual_seed(0)
    )
    restyling.content_map, restyling.style_maps = (lambda h: h), [lambda h, k=k: h + 100 * k for k in range(5)]
    x_test = torch.zeros(3, 1, 1, 4)
    x_test[:, 0, 0, 1] = torch.tensor([0.2, 0.5, 0.9])
    found = restyling.transfers(50, x_test, torch.tensor([4, 7, 1]))
    assert found["clients"].tolist() == [pair for a in range(5) for pair in ([a, a], [a, (a + 3) % 5])]
    for pair, (a, b) in enumerate(found["clients"].tolist()):
        source, again, moved = (2 * found[key][pair, :, 0, 0] - 1 for key in ("source", "reconstructed", "restyled"))
        for images, client in ((source, a), (again, a), (moved, b)):
            torch.testing.assert_close(images[:, 0], torch.full((50,), float(client)))
            torch.testing.assert_close(images[:, 3], found["labels"][pair].float())
            torch.testing.assert_close(images[:, 1], source[:, 1], msg="the content is the source's")
        torch.testing.assert_close(again[:, 2], source[:, 2] + 100 * a + 10 * a, rtol=1e-4, atol=1e-4)
        assert abs(moved[:, 2].mean() - 10 * b) < 0.5, "a style drawn from the target"
        assert moved[:, 2].std() == pytest.approx(1, abs=0.35)
        assert len(found["labels"][pair].unique()) > 5
    tested = 2 * found["test-restyled"][:, :, 0, 0] - 1
    for k in range(5):
        assert tested[k, :, 0].tolist() == [k] * 3
        torch.testing.assert_close(tested[k, :, 1], 2 * x_test[:, 0, 0, 1] - 1)
        assert (tested[k, :, 2] - 10 * k).abs().max() < 5
        assert tested[k, :, 3].tolist() == [4, 7, 1]


def test_maps_start_as_often_anew_as_there_are_draws():
    made = dataclasses.replace(_gan(), latent=1)
    starts = {
        Restyling(made, [_Telling(0)], torch.Generator().manual_seed(seed)).content_map[-1].weight.item()
        for seed in range(70)
    }
    assert len(starts) == 70


def test_images_are_restyled_in_batches_of_32():
    made = dataclasses.replace(_gan(conditional=True), latent=1)
    restyling = Restyling(made, [_Telling(0), _Telling(1)], torch.Generator())
    restyling.content_map, restyling.style_maps = torch.nn.Identity(), [torch.nn.Identity()] * 2
    assert restyling.run(0, torch.zeros(1, 1, 1, 4), torch.zeros(1).long())["restyle/source"].shape[:2] == (4, 32)


def test_what_is_transferred_by_a_model_without_labels_has_none():
    simulation = _trained(_padpaf(), rounds=1)
    restyling = Restyling(simulation.algorithm.objective, [simulation.synchronised(0)], torch.Generator())
    assert restyling.transfer(0, 0, 2)["labels"].tolist() == [-1, -1]


def test_the_vae_is_federated_by_the_same_predicate():
    algorithm = PaDPaF(objective=_gan("vae"))
    assert {".".join(n.split(".")[:2]) for n in _private(algorithm) if n.startswith("style")} == {
        "style.encoder", "style.posterior", "style.projector", "style.vectoriser"}  # fmt: skip
    assert _trained(algorithm).round == 2
