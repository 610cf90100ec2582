"""All clients' steps at once under vmap: the weights of the loop."""

import pytest
import torch

from common.errors import InputError
from common.spec import OptimiserSettings, ServerSettings, TrainingSettings
from diptych.simpson import federated, for_points
from federation import Diverged, MappedSimulation, Simulation
from objectives.linear import LinearGAN
from partitions.simpson import simpson

POINTS = simpson(5, clients=3, points=30)


def _gan(engine, points=POINTS, **changes):
    settings = {
        "rounds": 2,
        "local_epochs": 2,
        "batch_size": 10,
        "lr_decay": 0.5,
        "optimiser": OptimiserSettings(lr=1e-2),
        "server": ServerSettings(weighting="uniform"),
        "buffers": "local",
    }
    objective = for_points(LinearGAN, latent=1, lam=0.5)
    return federated("padpaf", objective, points, 5, TrainingSettings(**settings | changes), engine)


@pytest.mark.parametrize("points", [POINTS, POINTS[1:2]], ids=["three clients", "one"])
def test_a_gan_of_all_clients_at_once_is_the_loops(points):
    """Two updates, one of them after each third batch, power iterations, and batch norms that stay with the clients."""
    loop, mapped = _gan(Simulation, points), _gan(MappedSimulation, points)
    for name, rows in loop.population.storage.items():
        torch.testing.assert_close(mapped.population.storage[name], rows, rtol=1e-3, atol=1e-4)
    for name, tensor in loop.server.tensors.items():
        torch.testing.assert_close(mapped.server.tensors[name], tensor, rtol=1e-3, atol=1e-4)
    assert loop.local.batches == mapped.local.batches, "the count from which either would go on after a stop"
    assert not torch.equal(loop.population.storage["style.vectoriser.weight"][0], loop.template.style.vectoriser.weight)


def test_whoever_does_more_than_steps_is_refused():
    """And not trained as if it did nothing more."""
    settings = TrainingSettings(rounds=1, batch_size=10, server=ServerSettings(weighting="uniform"))
    objective = for_points(LinearGAN, latent=1, lam=0.5)
    with pytest.raises(InputError, match="take plain steps, and nothing else"):
        federated("scaffold", objective, POINTS, 5, settings, MappedSimulation)
    with pytest.raises(InputError, match="take plain steps, and nothing else"):
        _gan(MappedSimulation, optimiser_state="persistent")


def test_whoever_leaves_clients_out_is_refused():
    with pytest.raises(InputError, match=r"training\.participation: must be 1 where clients take each step together"):
        _gan(MappedSimulation, participation=0.7)


def test_a_client_that_diverges_is_named():
    with pytest.raises(Diverged, match="the loss of client"):
        _gan(MappedSimulation, optimiser=OptimiserSettings(lr=1e30))
