"""SCAFFOLD against an answer by hand, its exact reductions, and bugs on purpose."""

import dataclasses

import numpy as np
import pytest
import torch

from baselines.fedavg import FedAvg
from baselines.scaffold import Scaffold
from common.spec import OptimiserSettings, ServerSettings
from federation import Simulation
from tests.digits import objective, same
from tests.digits import simulate as simulate_digits
from tests.mutation import mutated
from tests.quadratic import CURVATURE, LR, SHAPES, SIZES, START, Comparison, Quadratic, Tensors, centres, data, simulate

STEPS = 3
C = centres()


def by_hand(rounds: int, schedule: list[list[int]]) -> tuple[Tensors, list[Tensors]]:
    """Algorithm 1 with option II: server's w and c, every client's c_i."""
    server: Tensors = {}
    clients: list[Tensors] = [{} for _ in SIZES]
    for name in SHAPES:
        w, c, own = START[name], np.zeros_like(START[name]), [np.zeros_like(START[name]) for _ in SIZES]
        for chosen in schedule[:rounds]:
            trained, changes = [], []
            for k in chosen:
                y = w
                for _ in range(STEPS):
                    y = y - LR * (CURVATURE[name] * (y - C[k][name]) - own[k] + c)
                renewed = own[k] - c + (w - y) / (STEPS * LR)
                trained.append(y)
                changes.append(renewed - own[k])
                own[k] = renewed
            w = np.mean(trained, axis=0)
            c = c + len(chosen) / len(SIZES) * np.mean(changes, axis=0)
        server |= {f"w.{name}": w, f"common.{name}": c}
        for client, control in zip(clients, own, strict=True):
            client[f"own.{name}"] = control
    return server, clients


def check_scaffold(kind: type = Scaffold, **settings) -> None:
    simulation = simulate(kind(objective=Quadratic()), rounds=4, **{"weighting": "uniform", **settings})
    server, clients = by_hand(4, simulation.schedule)
    found = Comparison(simulation)
    found.server(server)
    found.clients(clients)


@pytest.mark.parametrize("participation", [1.0, 0.67, 0.34])
def test_scaffold(participation):
    check_scaffold(participation=participation)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(common[name] - own[name])", "(own[name] - common[name])"),
        ("own[name] - c + (x[name]", "own[name] + c + (x[name]"),
        ("(x[name] - y[name]) / rate", "(y[name] - x[name]) / rate"),
        ("(x[name] - y[name]) / rate", "(x[name] - y[name])"),
        ("work.participation * ", ""),
        ("own[name].copy_(renewed)", "pass"),
        ("c + work.participation * (renewed - own[name])", "c"),
        ('names("w", "common")', 'names("w")'),
    ],
)
def test_a_wrong_scaffold_is_caught(right, wrong):
    with (
        mutated("baselines.scaffold", "Scaffold", right, wrong) as mutant,
        pytest.raises((AssertionError, AttributeError, KeyError, RuntimeError)),
    ):
        check_scaffold(mutant, participation=0.67)


def test_the_first_round_is_fedavgs():
    """Controls start at 0."""
    ours, theirs = (simulate(k(objective=Quadratic()), rounds=1, weighting="uniform") for k in (Scaffold, FedAvg))
    assert same(ours.server.tensors, theirs.server.tensors, of="w.")


def test_one_client_is_sgd():
    """c is c_1, so nothing is corrected, whatever the number of steps."""
    dealt = dataclasses.replace(data(), clients=data().clients[:1])
    ours, theirs = (
        simulate(k(objective=Quadratic()), rounds=3, weighting="uniform", dealt=dealt) for k in (Scaffold, FedAvg)
    )
    for name, tensor in theirs.server.tensors.items():
        torch.testing.assert_close(ours.server.tensors[f"w.{name}"], tensor, atol=1e-9, rtol=0)


def test_whoever_goes_on_from_another_run_has_controls_whose_mean_is_the_servers():
    """What others have been is in no step, or it would stay in all of them."""
    made = Scaffold(objective=Quadratic())
    ended = simulate(made, rounds=1, weighting="uniform")
    start = {name: tensor.unsqueeze(0).clone() for name, tensor in ended.server.tensors.items()}
    assert all(start[f"common.{name}"].any() for name in SHAPES)
    joined = Simulation(made, data(), ended.settings, 0, start=start)
    joined.keep_own()
    joined.run()
    for name in SHAPES:
        w = ended.server.tensors[f"w.{name}"].numpy()
        y = np.stack([w] * len(SIZES))
        for _ in range(STEPS):
            y = y - LR * (CURVATURE[name] * (y - np.stack([C[k][name] for k in range(len(SIZES))])))
        found = joined.server.tensors
        np.testing.assert_allclose(found[f"w.{name}"], y.mean(axis=0), atol=1e-9)
        np.testing.assert_allclose(found[f"common.{name}"], joined.population.storage[f"own.{name}"].mean(0), atol=1e-9)


def test_controls_have_no_buffers_and_every_tensor_of_a_game_its_own_rate():
    """The generator of a GAN takes fewer steps than the discriminators: its control is the mean over its own."""
    simulation = simulate_digits(
        Scaffold(objective=objective("gan", discriminator_steps=2)),
        rounds=1,
        local_epochs=0.5,
        optimiser=OptimiserSettings(lr=0.05),
        server=ServerSettings(weighting="uniform"),
    )
    buffers = {name for name, _ in simulation.template.named_buffers()}
    assert buffers
    assert all(name.startswith("w.") for name in buffers)
    moved = [
        name
        for name, parameter in simulation.template.named_parameters()
        if name.startswith("own.") and (simulation.population.storage[name] != parameter).any()
    ]
    trained = [name for name, _ in simulation.template.named_parameters() if name.startswith("w.")]
    assert len(moved) == len(trained)
