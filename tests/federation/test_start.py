"""A run that begins as another has ended: with its shared tensors, or each client with its own."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from baselines.apfl import APFL
from baselines.centralized import Centralized
from baselines.ditto import Ditto
from baselines.fedavg import FedAvg
from baselines.local import Local
from common.errors import InputError
from common.spec import TrainingSettings
from diptych.training import _start
from federation import Algorithm, Simulation, names, nothing
from tests import quadratic
from tests.digits import left_by, objective, prepared, same, simulate, spec
from tests.mutation import mutated

SIMCLR = objective("simclr")


class _WithAPart(Algorithm):
    """The objective's model w, which is shared, beside a part of each client's own that another run has made."""

    shared = names("w")

    def model(self) -> nn.Module:
        return nn.ModuleDict({"w": self.objective.model(), "part": self.objective.model()})

    def updates(self):
        return [update.on("w") for update in self.objective.updates()]

    def started(self, model):
        return [model.part]

    def global_model(self, model):
        return model.w

    personal_model = global_model


@pytest.fixture(scope="module")
def alone() -> dict[str, torch.Tensor]:
    """What every client has after it was trained alone, (3, ...)."""
    return simulate(Local(objective=SIMCLR), rounds=1).population.storage


def _began(algorithm: Algorithm, start) -> Simulation:
    return prepared(algorithm, start=start)


def check_each_client_begins_with_its_own_row(start) -> None:
    simulation = _began(Local(objective=SIMCLR), start)
    assert same(simulation.population.storage, start)
    for client, member in enumerate(simulation.population.members):
        assert same(dict(member.named_parameters()), {n: start[n][client] for n, _ in member.named_parameters()})


def test_each_client_begins_with_its_own_row(alone):
    assert all((rows != rows[:1]).any() for name, rows in alone.items() if name.endswith("weight"))
    check_each_client_begins_with_its_own_row(alone)


@pytest.mark.parametrize("wrong", ["rows[0]", "rows[-1 - client]"])
def test_another_clients_row_is_caught(alone, wrong):
    replaced = mutated(
        "federation.start", "begin_each", "name: rows[client]", f"name: {wrong}", where="federation.simulation"
    )
    with replaced, pytest.raises(AssertionError):
        check_each_client_begins_with_its_own_row(alone)


def test_one_row_is_for_everybody_and_for_the_server():
    trained = {name: t.unsqueeze(0) for name, t in simulate(FedAvg(objective=SIMCLR)).server.tensors.items()}
    simulation = _began(FedAvg(objective=SIMCLR), trained)
    assert all(torch.equal(simulation.server.tensors[name], rows[0]) for name, rows in trained.items())
    assert all((simulation.population.storage[name] == rows).all() for name, rows in trained.items())


def test_an_algorithm_says_which_part_begins(alone):
    simulation = _began(_WithAPart(objective=SIMCLR), alone)
    fresh = _began(_WithAPart(objective=SIMCLR), None)
    assert same(simulation.population.storage, alone, of="part.", other="")
    assert same(simulation.population.storage, fresh.population.storage, of="w.", other="w.")
    simulation.run()
    assert same(simulation.population.storage, alone, of="part."), "what no update names stays"


@pytest.mark.parametrize(
    "made", [Ditto(objective=SIMCLR), APFL(objective=SIMCLR), APFL(objective=SIMCLR, reading="fedstyle")], ids=repr
)
def test_both_models_of_a_client_begin(made, alone):
    one = {name: rows[:1] for name, rows in alone.items()}
    storage = _began(made, one).population.storage
    assert all((storage[f"{part}.{name}"] == rows).all() for part in "wv" for name, rows in one.items())


def test_what_is_shared_here_cannot_begin_with_each_clients_own(alone):
    with pytest.raises(InputError, match=r"start: 'encoder\.\S+' is shared here, but in that run every client had its"):
        _began(FedAvg(objective=SIMCLR), alone)


@pytest.mark.parametrize("clients", [2, 3])
def test_a_run_begins_where_each_client_of_the_same_algorithm_has_ended(clients):
    """With all that the other run has left, w and v of Ditto: what is shared is the same for all."""
    dealt = replace(quadratic.data(), clients=quadratic.data().clients[:clients])
    ended = quadratic.simulate(Ditto(objective=quadratic.Quadratic(), mu=0.5), dealt=dealt)
    left = {name: rows.clone() for name, rows in ended.population.storage.items()}
    for name, tensor in ended.server.tensors.items():
        left[name][:] = tensor
    made = Ditto(objective=quadratic.Quadratic())
    begun = Simulation(made, dealt, TrainingSettings(rounds=1), 0, start=left)
    assert any(name.startswith("w.") for name in left)
    for client, member in enumerate(begun.population.members):
        assert same(dict(member.named_parameters()), {name: rows[client] for name, rows in left.items()})
    assert same(begun.server.tensors, ended.server.tensors)


def test_another_number_of_clients_is_refused(alone):
    with pytest.raises(InputError, match="start: that run has left the models of 2 clients, here are 3"):
        _began(Local(objective=SIMCLR), {name: rows[:2] for name, rows in alone.items()})


@pytest.mark.parametrize("name", ["encoder.layers.0.weight", "elsewhere"])
def test_tensors_that_do_not_fit_are_refused(alone, name):
    with pytest.raises(InputError, match=f"has not in this shape: {name}"):
        _began(Local(objective=SIMCLR), {**alone, name: torch.zeros(3, 1)})


@pytest.mark.parametrize(("first", "rows"), [("local", 3), ("centralized", 1), ("fedavg", 1)])
def test_a_run_goes_on_from_what_a_folder_holds(first, rows, tmp_path):
    before, run = f"p/c/{first}/default/3", "p/c/local/again/3"
    left = load_file(left_by(spec(first, run=before), tmp_path / before).path / "model.safetensors")
    again = spec("local", run=run, start=before)
    start = _start(again, tmp_path / run)
    assert {len(tensor) for tensor in start.values()} == {rows}
    assert {name for name, _ in Centralized(objective=objective("classification")).model().named_parameters()} <= set(
        start
    )
    for name, tensor in start.items():
        assert torch.equal(tensor, left[f"shared/{name}"][None] if first == "fedavg" else left[f"clients/{name}"])
    left_by(again, tmp_path / run)


def test_alone_is_without_a_channel(alone):
    simulation = simulate(Local(objective=SIMCLR), rounds=1)
    assert Local.shared is nothing
    assert not simulation.channel.traffic
    assert not simulation.server.tensors


def test_who_joins_what_the_same_algorithm_has_trained_gets_what_it_shares_and_nothing_else():
    """Ditto's w; v is the newcomer's own, and new."""
    ended = simulate(Ditto(objective=SIMCLR, mu=0.1), rounds=1)
    left = {name: tensor.unsqueeze(0) for name, tensor in ended.server.tensors.items()}
    joined = _began(Ditto(objective=SIMCLR, mu=0.1), left)
    storage, fresh = joined.population.storage, prepared(Ditto(objective=SIMCLR, mu=0.1)).population.storage
    assert all(torch.equal(storage[name], tensor.expand_as(storage[name])) for name, tensor in left.items())
    assert same(storage, fresh, of="v.", other="v.")
    assert not same(storage, fresh, of="w.", other="w.")
