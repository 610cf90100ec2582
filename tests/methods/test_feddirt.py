"""FedDIRT: what is translated to what, by whose translator, and what is learned from it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from baselines.fedavg import FedAvg
from common.errors import InputError
from common.settings import checked
from common.spec import OptimiserSettings
from federation import Simulation
from federation.channel import Message
from federation.once import announce, constants
from methods.feddirt import FedDIRT
from networks import DIRT
from partitions.rotations import rotated
from tests.digits import announcements, data, few, objective, prepared, same, simulate, training
from tests.mutation import mutated

ADAM = OptimiserSettings(name="adam", lr=1e-3)
SMALL = {"layers": 2, "directions": 3, "map_bins": 4}


def _objective():
    return objective("classification", DIRT)


class _Shift(nn.Module):
    """A stand-in translator that can be checked in one's head: T_m takes `theta` + label / 10 away, T_m^-1 adds them,
    and its decoder alone halves."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("theta", torch.zeros(1))
        self.norm = nn.BatchNorm1d(1)

    def latent(self, x, y, layers=None):
        assert not self.training, "the statistics of a finished auto-encoder must stay"
        return x - self.theta - (y / 10)[:, None, None, None]

    def images(self, z, y, layers=None):
        assert not self.training
        assert len(z) == len(y), "with any number of layers they are sorted by label"
        return z / 2 if layers == 0 else z + self.theta + (y / 10)[:, None, None, None]


class _Shifted(FedDIRT):
    def translator(self) -> nn.Module:
        return _Shift()


THETAS = torch.tensor([[0.25], [0.5], [1.0]])


def _simulation(kind=_Shifted, listeners=(), start=None, **settings) -> Simulation:
    algorithm = kind(objective=_objective(), **settings)
    start = {"theta": THETAS} if start is None and kind is not FedAvg else start
    return prepared(algorithm, optimiser=ADAM, local_steps=5, listeners=listeners, start=start)


def _trained(*args, **settings) -> Simulation:
    simulation = _simulation(*args, **settings)
    simulation.run()
    return simulation


# ---- translations


def check_translations(**settings) -> None:
    """Image by image: client k's x becomes x - theta_k + theta_m in domain m, whatever its label."""
    simulation, everyone = _trained(**settings), data()
    for k, indices in enumerate(everyone.clients):
        x = everyone.images[indices].float() / 255
        expected = torch.stack([x - THETAS[k] + THETAS[m] for m in range(3)], dim=1)
        torch.testing.assert_close(simulation.local.constants[k]["translated"], expected, atol=1e-6, rtol=0)


def test_every_image_is_translated_from_its_clients_domain_to_all_of_them():
    check_translations()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("rows[m]", "rows[0]"),
        ("rows[m]", "rows[-1 - m]"),
        ("z = own.latent(x, y, layers)", "z = x"),
        ("own, z, y, layers)", "own, z, 0 * y, layers)"),
    ],
)
def test_another_translation_is_caught(right, wrong):
    with mutated("methods.feddirt", "FedDIRT", right, wrong) as mutant, pytest.raises(AssertionError):
        check_translations(kind=type("_Mutant", (mutant,), {"translator": _Shifted.translator}))


def test_in_the_shared_space_the_own_decoder_makes_the_image_and_nothing_is_told():
    heard: list[Message] = []
    simulation, everyone = _trained(through="shared", listeners=[heard.append]), data()
    for k, indices in enumerate(everyone.clients):
        x, y = everyone.images[indices].float() / 255, everyone.labels[indices]
        expected = (x - THETAS[k] - (y / 10)[:, None, None, None]) / 2
        torch.testing.assert_close(simulation.local.constants[k]["translated"][:, 0], expected, atol=1e-6, rtol=0)
    assert {name.partition(".")[0] for message in heard for name in message.tensors} == {"w"}


def test_translators_cross_once_before_the_first_round_and_are_counted():
    heard: list[Message] = []
    simulation = _trained(listeners=[heard.append])
    told, _ = announcements(heard)
    assert torch.equal(told.tensors["announced.theta"], THETAS)
    size = sum(t.nbytes for t in _Shift().state_dict().values())
    traffic = simulation.channel.traffic.items()
    assert sum(n for (_, _, way, name), n in traffic if name.startswith("announced.") and way == "up") == 3 * size
    assert sum(n for (_, _, way, name), n in traffic if name.startswith("announced.") and way == "down") == 9 * size


def test_translators_stay_as_they_are():
    storage = _trained().population.storage
    fresh = _simulation().population.storage
    assert same(storage, fresh, of="translator.", other="translator.")
    assert torch.equal(storage["translator.theta"], THETAS)


# ---- the loss


def _batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return {
        "x": torch.rand(6, 3, 8, 8),
        "y": torch.arange(6),
        "target": torch.tensor([0, 4, 2, 3, 1, 5]),
        "translated": torch.rand(6, 3, 3, 8, 8),
    }


def check_loss(kind=FedDIRT) -> None:
    """Eq. 5, loss and gradients, spelled out for each image; sample n is translated to domain target[n] mod 3."""
    algorithm = kind(objective=_objective(), weight=3.0, **SMALL)
    torch.manual_seed(0)
    model, batch = algorithm.model(), _batch()
    expected = torch.zeros(())
    for n, m in enumerate([0, 1, 2, 0, 1, 2]):
        z = model.w.encoder(batch["x"][n : n + 1])[0]
        other = model.w.encoder(batch["translated"][n, m][None])[0]
        entropy = -torch.log_softmax(model.w.head[1](z.clamp_min(0)), dim=0)[batch["y"][n]]
        expected = expected + (entropy + 3.0 * ((z - other) ** 2).sum() / 64) / 6
    (update,) = algorithm.updates()
    loss = update.loss(model, batch)
    torch.testing.assert_close(loss, expected)
    parameters = list(model.w.parameters())
    ours, theirs = (torch.autograd.grad(value, parameters) for value in (loss, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def test_the_loss_and_its_gradient_by_hand():
    check_loss()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("F.mse_loss(m.w.encoder(translated), z)", "F.mse_loss(m.w.encoder(translated).detach(), z)"),
        ("F.mse_loss(m.w.encoder(translated), z)", "F.mse_loss(m.w.encoder(translated), z.detach())"),
        ("F.mse_loss(m.w.encoder(translated), z)", "F.mse_loss(m.w.encoder(translated), z, reduction='sum')"),
        ("len(target), device=target.device), target]", "len(target), device=target.device), target[0]]"),
        ("len(target), device=target.device), target]", "len(target), device=target.device), 0 * target]"),
        ("len(target), device=target.device), target]", "len(target), device=target.device), target.flip(0)]"),
    ],
)
def test_a_wrong_loss_is_caught(right, wrong):
    with mutated("methods.feddirt", "FedDIRT", right, wrong) as mutant, pytest.raises(AssertionError):
        check_loss(mutant)


def check_no_gradient_reaches_what_was_translated(**settings) -> None:
    simulation = _simulation(**settings)
    lend = simulation.population.lend

    def with_trained_directions(model, client):
        lend(model, client).translator.theta.requires_grad_()
        return model

    simulation.population.lend = with_trained_directions
    announce(simulation.algorithm, simulation.local, simulation.channel)
    assert not constants(simulation.algorithm, simulation.local, 0)["translated"].requires_grad


def test_no_gradient_reaches_what_was_translated():
    check_no_gradient_reaches_what_was_translated()


def test_a_gradient_that_reaches_what_was_translated_is_caught():
    with (
        mutated("federation.once", "constants", "@torch.no_grad()\n", "", where=__name__),
        pytest.raises(AssertionError),
    ):
        check_no_gradient_reaches_what_was_translated()


def test_targets_are_even_over_all_domains_and_drawn_for_each_image():
    algorithm = FedDIRT(objective=_objective(), **SMALL)
    x, y = torch.rand(6000, 3, 8, 8), torch.zeros(6000, dtype=torch.long)
    target = algorithm.draw(x, y, torch.Generator().manual_seed(0))["target"] % 5
    counts = torch.bincount(target, minlength=5)
    assert ((counts - 1200).abs() < 4 * (6000 * 0.2 * 0.8) ** 0.5).all()


# ---- as an algorithm


def test_without_weight_it_is_fedavg_bit_for_bit():
    ours, theirs = _trained(weight=0.0), _trained(FedAvg)
    assert same(ours.server.tensors, theirs.server.tensors, of="w.")
    assert [row["loss"] for row in ours.history] == [row["loss"] for row in theirs.history]
    assert not same(_trained(weight=1.0).server.tensors, theirs.server.tensors, of="w.")


def test_it_brings_an_image_and_its_translation_together():
    everyone = data()
    x = everyone.images[everyone.clients[0]].float() / 255

    def apart(weight: float) -> float:
        simulation = _simulation(weight=weight)
        simulation.settings = training(rounds=2, optimiser=ADAM, local_steps=40)
        simulation.run()
        w = simulation.shared_model().w
        other = simulation.local.constants[0]["translated"][:, 2].clamp(0, 1)
        return float(F.mse_loss(w.encoder(x), w.encoder(other)).detach() / w.encoder(x).var().detach())

    assert apart(10.0) < 0.5 * apart(0.0)


@pytest.mark.parametrize("through", ["domains", "shared"])
def test_it_needs_translators_that_have_learned_something(through):
    with pytest.raises(InputError, match="start: FedDIRT needs a run of fedinb"):
        _trained(FedDIRT, through=through, start={}, **SMALL)


def test_a_network_that_does_not_decode_is_refused():
    with pytest.raises(InputError, match=r"algorithm\.autoencoder: unknown name 'conv3'"):
        checked(FedDIRT, "algorithm", {"autoencoder": "conv3"}, objective=_objective())


# ---- with translators as FedINB leaves them


def _left_by_fedinb(layers: int = 2) -> dict[str, torch.Tensor]:
    """Auto-encoders of three domains, of which each has trained its own, and maps along the same directions."""
    made = FedDIRT(objective=_objective(), **{**SMALL, "layers": layers})
    torch.manual_seed(3)
    rows = [made.translator().state_dict() for _ in range(3)]
    theta = torch.linalg.qr(torch.randn(layers, 10, 32, 3)).Q
    for row in rows:
        row["theta"] = theta
        row["own"] = row["own"] + torch.rand_like(row["own"])
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def test_translations_are_those_of_two_translators_in_a_row():
    start, small = _left_by_fedinb(), few(images=40)
    algorithm = FedDIRT(objective=_objective(), **SMALL)
    simulation = simulate(algorithm, small, rounds=1, optimiser=ADAM, start=start)
    translators = []
    for k in range(3):
        translators.append(algorithm.translator().eval())
        translators[k].load_state_dict({name: rows[k] for name, rows in start.items()})
    for k, indices in enumerate(small.clients):
        x, y = small.images[indices].float() / 255, small.labels[indices]
        with torch.no_grad():
            expected = [translators[m].images(translators[k].latent(x, y), y) for m in range(3)]
        torch.testing.assert_close(simulation.local.constants[k]["translated"], torch.stack(expected, dim=1))
        assert not torch.allclose(expected[0], expected[1], atol=1e-3)


def test_translators_of_another_size_are_refused():
    with pytest.raises(InputError, match=r"start: that run has tensors that this one has not in this shape: theta"):
        _simulation(FedDIRT, start=_left_by_fedinb(layers=1), **SMALL)


# ---- controls


def test_auto_encoders_alone_are_translators_with_layers_that_do_nothing():
    """To the bit, and not what the translators make of the same images."""
    learned = _left_by_fedinb()
    nothing = learned | {"theta": torch.full_like(learned["theta"], 1e-30)}  # not zero, which is refused
    control = _constants(learned, translation="autoencoders", **SMALL)
    assert same(control, _constants(nothing, **SMALL))
    assert not torch.allclose(control["translated"], _constants(learned, **SMALL)["translated"], atol=1e-3)


def _constants(start: dict[str, torch.Tensor], **settings) -> dict[str, torch.Tensor]:
    """Of the first client."""
    simulation = _simulation(FedDIRT, start=start, **settings)
    announce(simulation.algorithm, simulation.local, simulation.channel)
    return constants(simulation.algorithm, simulation.local, 0)


ANGLES = [0.0, 30.0, 90.0]


def check_rotations(kind=FedDIRT) -> None:
    """Each client's images turned by PIL from its angle to each of the others."""
    simulation, everyone = _simulation(kind, start={}, translation="rotation", angles=ANGLES), data()
    announce(simulation.algorithm, simulation.local, simulation.channel)
    for k, indices in enumerate(everyone.clients):
        translated = constants(simulation.algorithm, simulation.local, k)["translated"]
        for m, angle in enumerate(ANGLES):
            expected = rotated(everyone.images[indices], angle - ANGLES[k]).float() / 255
            assert (translated[:, m] != expected).float().mean() < 0.02  # pixels halfway between two others


def test_rotations_turn_images_from_a_domains_angle_to_anothers():
    check_rotations()


@pytest.mark.parametrize(("right", "wrong"), [("zip(members,", "zip(members[::-1],"), ("own.turned(x, angle)", "x")])
def test_another_rotation_is_caught(right, wrong):
    with mutated("methods.feddirt", "FedDIRT", right, wrong) as mutant, pytest.raises(AssertionError):
        check_rotations(mutant)


def test_as_many_angles_as_domains_are_asked_for():
    with pytest.raises(InputError, match=r"algorithm\.angles: there are 3 domains, got 2 angles"):
        _simulation(FedDIRT, start={}, translation="rotation", angles=[0.0, 30.0])


@pytest.mark.parametrize("translation", ["autoencoders", "rotation"])
def test_a_control_does_not_go_through_the_shared_space(translation):
    with pytest.raises(InputError, match=f"algorithm.translation: must be 'inb' with .* '{translation}'"):
        checked(FedDIRT, "algorithm", {"translation": translation, "through": "shared"}, objective=_objective())
