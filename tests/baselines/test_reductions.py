"""Every baseline has settings at which it is another one, bit for bit, on a real objective under the same seed."""

import pytest
import torch

from baselines.apfl import APFL
from baselines.centralized import Centralized
from baselines.ditto import Ditto
from baselines.fedavg import FedAvg
from baselines.fedavg_ft import FedAvgFT
from baselines.fedper import FedPer
from baselines.fedprox import FedProx
from baselines.fedrep import FedRep
from baselines.local import Local
from federation import Update, everything
from methods.fedstyle import FedStyle
from tests.digits import few, objective, same, simulate

SIMCLR = objective("simclr")


@pytest.fixture(scope="module")
def fedavg():
    return simulate(FedAvg(objective=SIMCLR))


def test_fedprox_with_mu_0_is_fedavg(fedavg):
    assert same(simulate(FedProx(objective=SIMCLR, mu=0)).server.tensors, fedavg.server.tensors)


def test_fedprox_with_mu_is_not_fedavg(fedavg):
    assert not same(simulate(FedProx(objective=SIMCLR, mu=1)).server.tensors, fedavg.server.tensors)


@pytest.mark.parametrize("reading", ["canonical", "fedstyle"])
def test_the_global_model_of_ditto_is_fedavg(fedavg, reading):
    ditto = simulate(Ditto(objective=SIMCLR, mu=2, reading=reading))
    assert same(ditto.server.tensors, fedavg.server.tensors, of="w.")


@pytest.mark.parametrize("reading", ["canonical", "fedstyle"])
def test_the_shared_model_of_apfl_is_fedavg(fedavg, reading):
    """Mixing outputs shows each batch to w twice, so that its running statistics move twice; its parameters do not."""
    apfl = simulate(APFL(objective=SIMCLR, reading=reading)).server.tensors
    ours, theirs = (
        {n: t for n, t in tensors.items() if reading == "canonical" or "running" not in n}
        for tensors in (apfl, fedavg.server.tensors)
    )
    assert same(ours, theirs, of="w.")


def test_the_personal_model_of_ditto_with_mu_0_trains_alone():
    """It is what the same client becomes when nothing is shared at all."""
    ditto = simulate(Ditto(objective=SIMCLR, mu=0)).population.storage
    alone = simulate(Local(objective=SIMCLR)).population.storage
    assert same(ditto, alone, of="v.")


def test_apfl_with_alpha_0_never_moves_its_local_model_and_evaluates_the_shared_one():
    apfl = APFL(objective=SIMCLR, alpha=0)
    simulation = simulate(apfl)
    parameters = [f"v.{n}" for n, _ in simulation.template.v.named_parameters()]
    for name in parameters:
        start = simulation.template.get_parameter(name)
        assert all(torch.equal(row, start) for row in simulation.population.storage[name])
    mixture = apfl.mixture(simulation.population.members[0])
    shared = dict(simulation.population.members[0].w.named_parameters())
    assert all(torch.equal(mixture[name], shared[name]) for name in shared)


def test_apfl_with_alpha_1_trains_its_local_model_like_ditto_with_mu_0():
    apfl = simulate(APFL(objective=SIMCLR, alpha=1)).population.storage
    ditto = simulate(Ditto(objective=SIMCLR, mu=0)).population.storage
    assert same(apfl, ditto, of="v.", other="v.")


@pytest.mark.parametrize("kind", [FedPer, FedRep])
def test_one_client_alone_loses_nothing_by_keeping_its_head(kind):
    """What is sent by a single client comes back unchanged, so what is shared makes no difference."""
    only = few(clients=1)
    algorithm = kind(objective=SIMCLR)
    expected = {FedPer: FedAvg(objective=SIMCLR), FedRep: _AllShared(objective=SIMCLR)}[kind]
    assert same(simulate(algorithm, dealt=only).population.storage, simulate(expected, dealt=only).population.storage)


class _AllShared(FedRep):
    shared = everything


def test_fedper_without_a_head_is_fedavg():
    class Headless:
        """SimCLR on the encoder's features themselves."""

        def model(self):
            model = SIMCLR.model()
            model.projector = torch.nn.Identity()
            return model

        def updates(self):
            return [Update(everything, SIMCLR.loss)]

        draw = SIMCLR.draw

    assert same(
        simulate(FedPer(objective=Headless())).server.tensors, simulate(FedAvg(objective=Headless())).server.tensors
    )


def test_one_client_is_centralised_training():
    only = few(clients=1)
    federated = simulate(FedAvg(objective=SIMCLR), dealt=only).population.storage
    assert same(federated, simulate(Centralized(objective=SIMCLR), dealt=only).population.storage)


def test_fine_tuning_leaves_the_global_model_alone(fedavg):
    tuned = simulate(FedAvgFT(objective=SIMCLR))
    assert same(tuned.server.tensors, fedavg.server.tensors)
    assert not same(tuned.population.storage, fedavg.population.storage)


@pytest.mark.parametrize("ssl", ["simclr", "simsiam"])
def test_fedstyle_with_lambda_0_trains_the_content_model_of_fedavg(ssl):
    """Up to statistics of the batch norms that see stylised features too, even where they weigh nothing."""
    loss = objective(ssl)
    fedstyle = simulate(FedStyle(objective=loss, style_epochs=1, **{"lambda": 0})).server.tensors
    fedavg = simulate(FedAvg(objective=loss)).server.tensors
    seen_twice = ("projector", "predictor")
    keep = [n for n in fedavg if not (n.startswith(seen_twice) and "running" in n)]
    assert all(torch.equal(fedstyle[f"content.{n}"], fedavg[n]) for n in keep)
    assert len(keep) >= len(fedavg) - 4
