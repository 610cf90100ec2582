"""What is stored: a client's own for each client, all else once; and that this changes no number."""

import time

import pytest
import torch
from torch import nn

from baselines.ditto import Ditto
from baselines.fedavg import FedAvg
from baselines.fedavg_ft import FedAvgFT
from baselines.fedper import FedPer
from baselines.fedprox import FedProx
from baselines.local import Local
from benchmarks.engine import engine
from common.spec import ServerSettings
from federation import Algorithm, Phase, Simulation, batch_norm
from federation.population import Population
from federation.server import Server
from methods.fedstyle import FedStyle
from tests.digits import data, left_by, objective, same, spec, training, watch_batches
from tests.mutation import mutated


def _simulation(made: Algorithm, keep_own: bool = False, workers: int = 1, **settings) -> Simulation:
    simulation = Simulation(made, data(2), training(**settings), 7, workers=workers)
    if keep_own:
        simulation.keep_own()
    return simulation


# ---- what is stored for each client


class _Prologue(FedAvg):
    """Whose clients train what is shared before the first round."""

    def prologue(self) -> list[Phase]:
        return [Phase(self.updates())]


class _NormsFirst(FedAvg):
    """Whose clients train their batch norms before the first round."""

    def prologue(self) -> list[Phase]:
        return [Phase(self.updates(), only=batch_norm)]


def _fedprox_as_fedstyle_reads_it(objective) -> Algorithm:
    return FedProx(objective=objective, reading="fedstyle")


@pytest.mark.parametrize(
    ("made", "own"),
    [
        (FedAvg, lambda name: False),
        (FedPer, lambda name: not name.startswith("encoder.")),
        (Ditto, lambda name: name.startswith("v.")),
        (FedStyle, lambda name: not name.startswith("content.")),
        (Local, lambda name: True),
        (FedProx, lambda name: False),
        (_fedprox_as_fedstyle_reads_it, lambda name: True),
        (FedAvgFT, lambda name: True),
        (_Prologue, lambda name: True),
        (_NormsFirst, lambda name: name.startswith(("encoder.layers.1.", "encoder.layers.4.", "encoder.layers.7."))),
    ],
)
def test_rows_are_stored_of_what_is_a_clients_own_alone(made, own):
    """FedProx's fedstyle reading installs nothing that is received; an epilogue's work is handed to nobody."""
    simulation = _simulation(made(objective=objective("simclr")))
    floats = {name for name, tensor in simulation.template.state_dict().items() if tensor.is_floating_point()}
    assert {name for name in simulation.population.storage if name in floats} == set(filter(own, floats))
    assert set(simulation.template.state_dict()) - floats <= set(simulation.population.storage)
    assert all(len(rows) == 6 for rows in simulation.population.storage.values())


@pytest.mark.parametrize("made", [FedAvg, FedPer, Ditto, _fedprox_as_fedstyle_reads_it])
def test_a_synchronised_model_is_what_its_client_begins_the_next_round_with(made):
    """Which is its own, as it was, where nothing that is received is installed."""
    simulation = _simulation(made(objective=objective("classification")), rounds=1)
    simulation.run()
    everyone, shared = range(6), simulation.server.tensors
    expected = [simulation.synchronised(k).state_dict() for k in everyone]
    for k in everyone:
        model = simulation.shared_model(k).state_dict()
        assert all(torch.equal(model[name], tensor) for name, tensor in shared.items()), "whatever is installed"
        assert all(torch.equal(model[name], tensor) for name, tensor in expected[k].items() if name not in shared)
    simulation._broadcast(2, [*everyone])
    assert all(same(simulation.population.members[k].state_dict(), expected[k]) for k in everyone)


def test_statistics_that_stay_with_clients_are_their_own():
    stored = _simulation(FedAvg(objective=objective("simclr")), buffers="local").population.storage
    buffers = {name for name, _ in _simulation(FedAvg(objective=objective("simclr"))).template.named_buffers()}
    assert set(stored) == buffers


@pytest.mark.parametrize(("workers", "copies"), [(1, 1), (2, 4), (3, 6), (5, 6)])
def test_clients_share_working_copies(workers, copies):
    """One, or two for each of several workers, but no more than there are clients."""
    assert len(_simulation(FedAvg(objective=objective("simclr")), workers=workers).local.copies) == copies


def test_working_copies_have_tensors_of_their_own():
    """So that no thread trains what another one is training, nor what all begin with."""
    simulation = _simulation(FedAvg(objective=objective("simclr")), workers=2)
    models = [simulation.population.template, *simulation.local.copies]
    tensors = [t.data_ptr() for model in models for t in model.state_dict().values() if t.is_floating_point()]
    assert len(set(tensors)) == len(tensors)


def test_a_round_of_a_thousand_clients_stores_nothing_for_any_of_them():
    simulation = engine(1000, 1, sampled=5)
    before = [parameter.data_ptr() for parameter in simulation.local.copies[0].parameters()]
    simulation.run()
    assert not simulation.population.storage
    assert [parameter.data_ptr() for parameter in simulation.local.copies[0].parameters()] == before
    assert len(simulation.schedule[0]) == 5


@pytest.mark.parametrize("layout", [{}, {"channels_last": False}, {"channels_last": True}])
def test_a_kernels_rows_are_laid_out_as_it_is_unless_otherwise_asked(layout):
    kernel = nn.Conv2d(3, 4, 2)
    rows = Population(kernel, 5, {"weight"}, **layout).storage["weight"]
    assert torch.equal(rows, kernel.weight.detach().expand(5, 4, 3, 2, 2))
    assert rows[0].is_contiguous(memory_format=torch.channels_last) == layout.get("channels_last", False)
    assert rows[0].is_contiguous() != layout.get("channels_last", False)


# ---- the same numbers, whatever is stored

ALGORITHMS = {
    "FedAvg": lambda: FedAvg(objective=objective("classification")),
    "FedPer": lambda: FedPer(objective=objective("classification")),
    "Ditto": lambda: Ditto(objective=objective("classification")),
    "FedStyle": lambda: FedStyle(objective=objective("simclr"), style_epochs=1),
}


def check_nothing_changes(name: str, workers: int) -> None:
    """Five of six clients in each of two rounds: what all have, what each has, and what each would go on from.

    The first client of a round is the slowest, so that others have finished before it.
    """
    options = {"rounds": 2, "local_steps": 3, "participation": 0.85}
    stored = _simulation(ALGORITHMS[name](), keep_own=True, **options)
    stored.run()
    lean = _simulation(ALGORITHMS[name](), workers=workers, **options)
    slowest = {chosen[0] for chosen in lean.schedule}
    watch_batches(lean, lambda client, batch: time.sleep(0.1 * (workers > 1 and client in slowest)))
    lean.run()
    assert same(lean.server.tensors, stored.server.tensors)
    assert lean.population.storage.keys() < stored.population.storage.keys()
    for of, rows in lean.population.storage.items():
        assert torch.equal(rows, stored.population.storage[of]), of
    for client in range(6):
        assert same(lean.synchronised(client).state_dict(), stored.synchronised(client).state_dict())
    own = [
        (p, lean.population.storage[of]) for of, p in lean.template.named_parameters() if of in lean.population.storage
    ]
    for client in lean.schedule[0] if own else ():
        assert any((rows[client] != was).any() for was, rows in own), f"client {client} has learned nothing"
    assert lean.history == stored.history
    assert list(lean.channel.traffic.items()) == list(stored.channel.traffic.items())


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_stored_changes_no_number(name, workers):
    check_nothing_changes(name, workers)


LEND = ("federation.population", "Population")
WORK = ("federation.local", "LocalWork")
BUGS = {
    "a private row is lost": (*LEND, "[client].data", "[client].data.clone()", "FedPer", 1),
    "everybody has the first client's row": (*LEND, "[client].data", "[0].data", "FedPer", 1),
    "a working copy keeps the own of the first client that had it": (
        *LEND, "nn.Parameter(row) if entry.is_parameter else row",
        "nn.Parameter(row) if entry.is_parameter and entry.tensor is self.template.get_parameter(entry.name) "
        "else entry.tensor", "FedPer", 1),
    "a working copy keeps what the last client made of what is shared": (
        *LEND, "entry.tensor.copy_(self.common[entry.name])", "pass", "FedAvg", 1),
    "a working copy is lent before its last client is done": (
        *WORK, "len(under_way) == len(self.copies)", "len(under_way) == 2 * len(self.copies)", "FedAvg", 2),
    "the last is summed first": (*WORK, "under_way.popleft()", "under_way.pop()", "FedAvg", 2),
}  # fmt: skip
PLACES = {"Population": "federation.simulation", "LocalWork": "federation.simulation:Simulation.local_work"}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_population_is_caught(bug):
    module, name, right, wrong, algorithm, workers = BUGS[bug]
    with mutated(module, name, right, wrong, where=PLACES[name]), pytest.raises((AssertionError, RuntimeError)):
        check_nothing_changes(algorithm, workers)


# ---- who asks for clients' own models


def test_own_models_that_were_not_kept_are_not_made_up():
    simulation = _simulation(FedPer(objective=objective("classification")), rounds=1, local_steps=1)
    simulation.run()
    with pytest.raises(RuntimeError, match="not kept as their training leaves them, unless `keep_own` says so"):
        simulation.own(0)
    simulation.synchronised(0)


@pytest.mark.parametrize(
    ("algorithm", "more", "whole"),
    [
        ("fedavg", {"features": False, "score_every": 1}, False),
        ("fedavg", {"features": True}, True),
        ("fedavg", {"features": False, "abilities": ["codes"]}, False),
        ("fedavg", {"features": True, "abilities": ["codes"]}, True),
        ("fedavg-ft", {"features": False, "score_every": 1}, True),
        ("fedper", {"features": False, "samples": {"members": 2}}, False),
    ],
)
def test_a_runs_folder_has_whole_models_of_clients_where_they_were_asked_for(algorithm, more, whole, tmp_path):
    folder = left_by(spec(algorithm, **more), tmp_path)
    shared, own = folder.weights("shared/encoder."), folder.weights("clients/encoder.")
    weights = {name.removeprefix("shared/") for name in shared}
    assert weights
    assert weights & {name.removeprefix("clients/") for name in own} == (weights if whole else set())
    assert bool(folder.weights("clients/head.")) == (whole or algorithm == "fedper")


# ---- sums


def _uploads(clients: int) -> tuple[list[dict[str, torch.Tensor]], list[int]]:
    draw = torch.Generator().manual_seed(clients)
    uploads = [
        {"w": torch.randn(7, 3, 5, 5, generator=draw), "b": 100 * torch.rand(11, generator=draw)}
        for _ in range(clients)
    ]
    return uploads, torch.randint(1, 50, (clients,), generator=draw).tolist()


def check_sums(server: type[Server] = Server) -> None:
    """Against the mean in doubles, and a product with the matrix of all uploads: to one part in a million of the
    largest numbers, also of a hundred clients. Uploads are gone when the next one comes, as working copies are."""
    for clients in (1, 2, 10, 100):
        uploads, sizes = _uploads(clients)
        one = {name: torch.empty_like(tensor) for name, tensor in uploads[0].items()}

        def as_they_come(uploads=uploads, one=one):
            for upload in uploads:
                for name, tensor in upload.items():
                    one[name].copy_(tensor)
                yield one

        ours = server(dict(uploads[0]), {"w", "b"}, ServerSettings())
        ours.aggregate(as_they_come(), sizes)
        shares = torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
        for name, mean in ours.tensors.items():
            rows = torch.stack([upload[name] for upload in uploads])
            tolerance = 1e-6 * float(rows.abs().max())
            exact = torch.tensordot(shares, rows.double(), dims=1)
            torch.testing.assert_close(mean, exact.float(), rtol=0, atol=tolerance)
            torch.testing.assert_close(mean, torch.tensordot(shares.float(), rows, dims=1), rtol=0, atol=tolerance)


def test_weights_are_shares_in_doubles():
    """Of the images, or of the clients."""
    sizes = [2, 5, 3, 1]
    for weighting, shares in (("size", [n / 11 for n in sizes]), ("uniform", [0.25] * 4)):
        assert Server({}, set(), ServerSettings(weighting=weighting)).weights(sizes).tolist() == shares


def test_sums_are_means():
    check_sums()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (".tolist(), uploads, strict=True)", ".tolist()[:-1], uploads, strict=False)"),  # forgets the last
        (".tolist(), uploads, strict=True)", ".tolist(), list(uploads), strict=True)"),  # looks when all are gone
        (".add_(tensor, alpha=weight)", ".copy_(tensor)"),
        ("shares / shares.sum()", "shares / len(sizes)"),
    ],
)
def test_a_wrong_sum_is_caught(right, wrong):
    with mutated("federation.server", "Server", right, wrong) as mutant, pytest.raises(AssertionError):
        check_sums(mutant)
