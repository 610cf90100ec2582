"""Batch-norm statistics: shared or local as declared, and counted."""

import torch
from torch import nn

from common.spec import OptimiserSettings, TrainingSettings
from federation import Algorithm, ClientData, Simulation, Update, everything


class _Norm:
    """A model that is one batch norm; its running mean after one step tells whose images it has seen."""

    def model(self):
        return nn.ModuleDict({"encoder": nn.BatchNorm1d(2, momentum=1.0)})

    def draw(self, x, y, generator):
        return {"x": x}

    def updates(self):
        return [Update(everything, self.loss)]

    def loss(self, model, batch):
        return (model.encoder(batch["x"]) * torch.tensor([1.0, -2.0])).sum() * 0.1 + model.encoder.bias.sum()


IMAGES = torch.tensor([[1.0, -2.0], [3.0, 0.0], [-4.0, 8.0], [0.0, 2.0], [4.0, -1.0]])
CLIENTS = (torch.tensor([0, 1]), torch.tensor([2, 3, 4]))
MEANS = torch.stack([IMAGES[i].mean(0) for i in CLIENTS])


def _simulate(buffers: str) -> Simulation:
    settings = TrainingSettings(rounds=1, batch_size=10, buffers=buffers, optimiser=OptimiserSettings(lr=0.1))
    data = ClientData(IMAGES, torch.zeros(5, dtype=torch.long), CLIENTS)
    simulation = Simulation(Algorithm(objective=_Norm()), data, settings, seed=0)
    simulation.run()
    return simulation


def check_shared_statistics() -> None:
    """With the policy `shared` the server holds the size-weighted mean of the clients' running means."""
    server = _simulate("shared").server.tensors
    assert "encoder.running_mean" in server
    torch.testing.assert_close(server["encoder.running_mean"], 0.4 * MEANS[0] + 0.6 * MEANS[1])


def check_local_statistics() -> None:
    """With the policy `local` the statistics stay where they are, and cost nothing."""
    simulation = _simulate("local")
    assert set(simulation.server.tensors) == {"encoder.weight", "encoder.bias"}
    torch.testing.assert_close(simulation.population.storage["encoder.running_mean"], MEANS)
    assert simulation.channel.total("up") == 2 * 2 * 2 * 4  # clients, tensors, numbers, bytes


def test_shared_statistics():
    check_shared_statistics()


def test_local_statistics():
    check_local_statistics()


def test_counters_never_travel():
    """`num_batches_tracked` is a count, and its mean would not be."""
    assert not any("num_batches" in name for name in _simulate("shared").server.tensors)
