"""Settings that would break a method without a word: that they do, that they are refused, and that others are not."""

from functools import partial
from unittest import mock

import pytest
import torch

from baselines.apfl import APFL
from baselines.fedavg import FedAvg
from baselines.fedprox import FedProx
from baselines.local import Local
from baselines.scaffold import Scaffold
from baselines.sda_fl import SDAFL
from common.errors import InputError
from common.spec import OptimiserSettings, ServerSettings
from diptych.assembly import algorithm_class
from federation.names import entries
from methods.feddva import FedDVA
from methods.padpaf import PaDPaF
from methods.ps_fedgan import PSFedGAN
from networks import DualEncoder
from tests.baselines.test_scaffold import check_scaffold
from tests.digits import data, objective, prepared, same, simulate
from tests.wrong import refused

ADAM, MOMENTUM, SGD = (
    OptimiserSettings(name="adam", lr=1e-3),
    OptimiserSettings(momentum=0.5),
    OptimiserSettings(lr=0.05),
)
PSF = partial(PSFedGAN, latent=6, width=8, synthetic=20, classifier_epochs=1)
CLASSIFICATION, GAN = objective("classification"), objective("gan", discriminator_steps=1)
UNIFORM = {"server": ServerSettings(weighting="uniform")}
KEPT = {"optimiser_state": "persistent"}

REFUSED = {
    "twins whose user starts its optimiser anew": (
        PSF(objective=CLASSIFICATION), {"optimiser": ADAM}, "training.optimiser_state: must be 'persistent'"),
    "twins whose user has momentum and starts it anew": (
        PSF(objective=CLASSIFICATION), {"optimiser": MOMENTUM}, "training.optimiser_state: must be 'persistent'"),
    "twins whose user takes smaller steps": (
        PSF(objective=CLASSIFICATION), {"lr_decay": 0.99, **KEPT}, "training.lr_decay: must be 1"),
    "twins whose user rounds in another way": (
        PSF(objective=CLASSIFICATION), {"precision": "bf16", **KEPT}, "training.precision: must be 'fp32'"),
    "controls of Adam's steps": (
        Scaffold(objective=CLASSIFICATION), {"optimiser": ADAM, **UNIFORM}, "training.optimiser: SCAFFOLD's controls"),
    "controls of steps with momentum": (
        Scaffold(objective=CLASSIFICATION), {"optimiser": MOMENTUM, **UNIFORM}, "training.optimiser: SCAFFOLD's"),
    "controls weighted by size": (
        Scaffold(objective=CLASSIFICATION), {"optimiser": SGD}, "training.server: SCAFFOLD takes plain means"),
    "controls that Adam steps": (
        Scaffold(objective=CLASSIFICATION),
        {"optimiser": SGD, "server": ServerSettings(weighting="uniform", optimiser="adam")},
        "training.server: SCAFFOLD takes plain means"),
}  # fmt: skip

SOUND = {
    "twins without a state": (PSF(objective=CLASSIFICATION), {"optimiser": SGD}),
    "twins of one round": (PSF(objective=CLASSIFICATION), {"optimiser": ADAM, "rounds": 1, "lr_decay": 0.9}),
    "generators that are sent as they are": (
        PSF(objective=CLASSIFICATION, share="all"), {"optimiser": ADAM, "lr_decay": 0.9}),
    "controls with weight decay": (
        Scaffold(objective=CLASSIFICATION), {"optimiser": OptimiserSettings(lr=0.05, weight_decay=1e-3), **UNIFORM}),
    "statistics beside private styles": (PaDPaF(objective=GAN), {"buffers": "shared"}),
    "no pull": (FedProx(objective=CLASSIFICATION, mu=0), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_break_a_method_is_refused_in_one_sentence(case):
    algorithm, settings, sentence = REFUSED[case]
    with refused(sentence) as refusal:
        prepared(algorithm, **settings)
    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize("case", SOUND)
def test_what_breaks_nothing_is_not_refused(case):
    algorithm, settings = SOUND[case]
    prepared(algorithm, **settings)


# ---- that they do


@pytest.fixture
def unchecked(monkeypatch):
    monkeypatch.setattr("federation.simulation.check", lambda *_: None)


def _twins_part(algorithm: PSFedGAN, **settings) -> bool:
    simulation = simulate(algorithm, local_steps=2, **settings)
    pairs = zip(simulation.population.members, simulation.server_work.twins, strict=True)
    return any(not same(user.generator.state_dict(), twin.generator.state_dict()) for user, twin in pairs)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", [case for case in REFUSED if case.startswith("twins")])
def test_refused_twins_part(case):
    algorithm, settings, _ = REFUSED[case]
    assert _twins_part(algorithm, **settings)


@pytest.mark.parametrize("case", [case for case in SOUND if case.startswith(("twins", "generators"))])
def test_other_twins_do_not(case):
    algorithm, settings = SOUND[case]
    assert not _twins_part(algorithm, **settings)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("settings", [{"momentum": 0.5}, {"weighting": "size"}])
def test_refused_controls_are_not_algorithm_1s(settings):
    with pytest.raises(AssertionError):
        check_scaffold(participation=0.67, **settings)


def test_statistics_of_norms_that_a_private_style_steers_stay_even_where_buffers_travel():
    """So nothing has to be refused there: these norms are private as a whole."""
    simulation = prepared(PaDPaF(objective=GAN), buffers="shared")
    steered = {e.name for e in entries(simulation.template) if ".by_style.norm.running" in e.name}
    assert steered
    assert not steered & set(simulation.server.tensors)
    assert any("running" in name for name in simulation.server.tensors)


def test_refused_fedprox_is_local_training():
    """That of which clients take nothing but the pull towards it, if that is nought."""
    settings = {"objective": CLASSIFICATION, "mu": 0, "reading": "fedstyle"}
    with pytest.raises(ValueError, match=r"algorithm\.mu: must be more than 0 with reading 'fedstyle'"):
        FedProx(**settings)
    with mock.patch.object(FedProx, "__post_init__"):
        ours = simulate(FedProx(**settings))
    assert same(ours.population.storage, simulate(Local(objective=CLASSIFICATION)).population.storage)


def test_refused_apfl_never_trains_what_it_calls_personal():
    """Projections weighed with nought; where weights are mixed, alpha is on the other side."""
    settings = {"objective": CLASSIFICATION, "alpha": 1, "reading": "fedstyle"}
    with pytest.raises(ValueError, match=r"algorithm\.alpha: must be less than 1 with reading 'fedstyle'"):
        APFL(**settings)
    with mock.patch.object(APFL, "__post_init__"):
        simulation = simulate(APFL(**settings))
    for name, start in simulation.template.v.named_parameters():
        assert (simulation.population.storage[f"v.{name}"] == start).all()
    APFL(**(settings | {"reading": "canonical"}))


# ---- what the reference model lacks


def test_what_does_not_travel_is_not_referred_to():
    """Statistics of batch norms that stay with the clients: those in the reference would be of nobody's images."""
    made = FedAvg(objective=CLASSIFICATION)
    local, shared = (prepared(made, buffers=buffers) for buffers in ("local", "shared"))
    assert "encoder.layers.1.running_mean" in dict(shared.received.named_buffers())
    assert not list(local.received.buffers())


def test_pseudo_labels_are_given_without_statistics_that_nobody_has_sent():
    """Norms then use those of the batch, and not the initial ones."""
    made = SDAFL(objective=CLASSIFICATION, latent=6, width=8, gan_epochs=0.2, synthetic=12)
    received = simulate(made, buffers="local").received.w.eval()
    x = data().images[:32].float() / 255
    assert torch.equal(received.encoder(x), received.train().encoder(x))


# ---- settings that were not heeded


def test_frozen_encoders_are_refused_where_they_are_what_is_trained():
    made = objective("classification", partial(DualEncoder, width=4, latent=3), frozen=True)
    with pytest.raises(InputError, match=r"objective\.frozen: must be false for FedDVA"):
        prepared(FedDVA(objective=made))


SMALL = {"latent": 6, "width": 8, "gan_epochs": 0.2, "synthetic": 12}


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        *((name, {}) for name in ("fedavg", "fedprox", "naivemix", "fedmix", "scaffold", "ditto", "apfl")),
        *((name, {"reading": "fedstyle"}) for name in ("fedprox", "ditto", "apfl")),
        ("sda-fl", SMALL),
    ],
)
def test_a_frozen_encoder_stands_still_whatever_the_algorithm(name, chosen):
    made = algorithm_class(name)(objective=objective("classification", frozen=True), **chosen)
    simulation = simulate(made, optimiser=SGD, **UNIFORM)
    start = dict(simulation.template.named_parameters())
    rows = simulation.population.storage
    moved = {key for key, was in start.items() if (rows[key] - was).abs().max() > 1e-6}  # a mean of equals is rounded
    assert any("head" in key for key in moved)
    assert not any("encoder" in key for key in moved)
