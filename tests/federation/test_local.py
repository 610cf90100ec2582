"""What clients do by themselves, on a model of eight numbers: batches, counts, optimisers, threads."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import federation.local
from baselines.fedavg import FedAvg
from baselines.local import Local
from common.errors import InputError
from common.settings import settings
from common.spec import OptimiserSettings, TrainingSettings
from federation import ClientData, Diverged, Phase, Simulation, names, nothing
from federation.local import steps_in, updates_of
from tests.digits import watch_batches
from tests.quadratic import Quadratic


class _Noisy(Quadratic):
    """Whose batches say which images they have, and have a number that is drawn for each."""

    def draw(self, x, y, generator):
        return {"x": x, "y": y, "noise": torch.rand(len(x), generator=generator)}


def _clients(clients: int = 2, images: int = 20) -> ClientData:
    """All of whom have the same images; the label is the image's number."""
    drawn = torch.randn(images, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return ClientData(drawn, torch.arange(images), (torch.arange(images),) * clients)


@settings
class _Everywhere(FedAvg):
    """A phase before the first round, two in each and one after the last; `updates` are the same in all of them."""

    every: int = 1

    def updates(self):
        return [replace(update, every=self.every) for update in super().updates()]

    def prologue(self):
        return [Phase(self.updates())]

    def phases(self):
        return [Phase(self.updates()), Phase(self.updates())]

    def epilogue(self):
        return [Phase(self.updates())]


def _prepared(algorithm, data: ClientData, seed: int = 1, workers: int = 1, **changes: Any) -> Simulation:
    asked = {"rounds": 2, "batch_size": 20, "optimiser": OptimiserSettings(lr=0.1), **changes}
    return Simulation(algorithm, data, TrainingSettings(**asked), seed, workers=workers)


# ---- batches


def _orders_and_noise(seed: int) -> tuple[list[tuple[int, ...]], list[tuple[float, ...]]]:
    simulation = _prepared(_Everywhere(objective=_Noisy()), _clients(), seed)
    seen: list[dict[str, Any]] = []
    watch_batches(simulation, lambda client, batch: seen.append(batch))
    simulation.run()
    assert len(seen) == 2 * (1 + 2 * 2 + 1), "two clients: the prologue, two phases in each of two rounds, the epilogue"
    return [tuple(b["y"].tolist()) for b in seen], [tuple(b["noise"].tolist()) for b in seen]


def test_each_seed_round_client_and_phase_has_an_order_and_draws_of_its_own():
    """Though all clients have the same images; and the same again in another run with this seed."""
    first, again, other = _orders_and_noise(1), _orders_and_noise(1), _orders_and_noise(2)
    assert first == again
    for mine, others in zip(first, other, strict=True):
        assert len({*mine, *others}) == len(mine) + len(others)
    assert all(sorted(order) == list(range(20)) for order in first[0])


@pytest.mark.parametrize(("numbers", "together"), [(1, [2] * 10), (3 * 16 + 15, [6, 6, 6, 2]), (2**20, [20])])
def test_batches_are_drawn_together_up_to_so_many_numbers(numbers, together, monkeypatch):
    """Batches of two images of eight numbers; they are the same images however many are drawn together."""
    monkeypatch.setattr(federation.local, "DRAWN_NUMBERS", numbers)
    drawn: list[int] = []
    batches: list[list[int]] = []

    class Watched(_Noisy):
        def draw(self, x, y, generator):
            drawn.append(len(x))
            return super().draw(x, y, generator)

    simulation = _prepared(FedAvg(objective=Watched()), _clients(1), batch_size=2, rounds=1)
    watch_batches(simulation, lambda client, batch: batches.append(batch["y"].tolist()))
    simulation.run()
    assert drawn == together
    order = torch.randperm(20, generator=federation.local.generator(1, "batches", "round", 1, 0, 0)).tolist()
    assert batches == [order[n : n + 2] for n in range(0, 20, 2)]


def test_a_phase_may_have_draws_of_its_own():
    simulation = _prepared(FedAvg(objective=_Noisy()), _clients(1))
    phase = Phase([], draw=lambda x, y, generator: {"twice": 2 * x})
    (batch,) = simulation.local.drawn(1, 0, 0, phase, "round")
    assert batch.keys() == {"twice"}
    assert torch.equal(batch["twice"].sort(0).values, 2 * simulation.data.images.sort(0).values)


@pytest.mark.parametrize("channels_last", [False, True])
def test_clients_see_images_as_their_views_show_them_and_laid_out_as_asked(channels_last):
    """Client 1 sees them with noise, which comes from the generator that the view is given."""
    images = torch.randint(0, 256, (4, 3, 5, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(4))

    def noisy(x, generator):
        return x + torch.rand(x.shape, generator=generator)

    views = (lambda x, generator: 1 - x, noisy)
    data = ClientData(images, torch.arange(4), (torch.arange(4),) * 2, views=views)
    local = _prepared(FedAvg(objective=Quadratic()), data, channels_last=channels_last).local
    rows = torch.tensor([3, 1])
    seen = [local.seen(client, rows, torch.Generator().manual_seed(6)) for client in range(2)]
    plain = images[rows].float() / 255
    assert torch.equal(seen[0], 1 - plain)
    assert torch.equal(seen[1], plain + torch.rand(plain.shape, generator=torch.Generator().manual_seed(6)))
    for x in seen:
        assert x.is_contiguous(memory_format=torch.channels_last) == channels_last


def test_what_views_draw_follows_from_the_runs_seed():
    def noisy(x, generator):
        return x + torch.rand(x.shape, generator=generator, dtype=x.dtype)

    def seen(seed: int) -> list[torch.Tensor]:
        torch.seed()
        batches: list[torch.Tensor] = []
        simulation = _prepared(FedAvg(objective=_Noisy()), replace(_clients(1), views=(noisy,)), seed)
        watch_batches(simulation, lambda client, batch: batches.append(batch["x"]))
        simulation.run()
        return batches

    first, again, other = seen(1), seen(1), seen(2)
    assert len(first) == 2
    assert torch.equal(torch.cat(first), torch.cat(again))
    drawn = [set(torch.cat(batches).flatten().tolist()) for batches in (first, other)]
    assert not drawn[0] & drawn[1]


# ---- updates that are not taken on each batch, and which of them are taken at all


def test_batches_are_counted_for_each_client_phase_and_stage_by_itself():
    """Three batches each time, and a step after every second: one at first, and two where three have been before."""
    made = _Everywhere(objective=Quadratic(), every=2)
    simulation = _prepared(made, _clients(images=6), batch_size=2)
    simulation.run()
    taken = {(r["stage"], r["round"], r["client"], r["phase"]): r["steps"] for r in simulation.history}
    once = {(stage, round, 0) for stage, round in (("prologue", 0), ("round", 1), ("epilogue", 3))} | {("round", 1, 1)}
    expected = {(stage, round, client, phase): 1 for stage, round, phase in once for client in range(2)}
    assert taken == expected | {("round", 2, client, phase): 2 for client in range(2) for phase in range(2)}


def test_a_phase_takes_the_updates_that_name_what_may_move_in_it():
    template = Quadratic().model()
    (both,) = Quadratic().updates()
    body, head = (replace(both, which=names(part)) for part in ("encoder", "head"))
    assert updates_of(Phase([body, head, both], only=names("encoder")), template) == [body, both]
    assert updates_of(Phase([body, head]), template) == [body, head]
    for phase in (Phase([head], only=names("encoder")), Phase([body, replace(both, which=nothing)]), Phase([])):
        with pytest.raises(InputError, match="no parameter to train"):
            updates_of(phase, template)


def test_what_may_not_move_in_a_phase_stays_and_has_no_rate():
    """Also of an update that names it beside what may."""
    told = []

    class Watched(Local):
        def phases(self):
            return [Phase(self.updates(), only=names("encoder"), end=lambda model, work: told.append(work.rates))]

    simulation = _prepared(Watched(objective=Quadratic()), _clients(1), rounds=1)
    simulation.run()
    start = dict(Quadratic().model().named_parameters())
    for name, rows in simulation.population.storage.items():
        assert torch.equal(rows[0], start[name]) == name.startswith("head."), name
    assert told == [{"encoder.a": 0.1, "encoder.b": 0.1}]


# ---- steps


@pytest.mark.parametrize(
    ("phase", "changes", "images", "steps"),
    [
        ({}, {}, 20, 15),
        ({"epochs": 2}, {}, 20, 10),
        ({"epochs": 0}, {}, 20, 0),
        ({"share": 0.4}, {}, 20, 6),
        ({"epochs": 2, "share": 0.4}, {}, 20, 4),
        ({}, {"local_steps": 6}, 20, 6),
        ({}, {"local_steps": 6}, 3, 6),
        ({"share": 0.5}, {"local_steps": 6}, 23, 3),
        ({"epochs": 2, "share": 0.5}, {"local_steps": 6}, 23, 5),
    ],
)
def test_steps_of_a_phase_are_its_share_of_its_passes_or_of_the_runs_steps(phase, changes, images, steps):
    """Batches of four images; three passes in a round, or six steps."""
    asked = TrainingSettings(rounds=1, batch_size=4, local_epochs=3, **changes)
    assert steps_in(Phase([], **phase), asked, images) == steps


@pytest.mark.parametrize("optimiser_state", ["round", "persistent"])
def test_momentum_lasts_a_round_or_the_run_by_client_phase_and_update(optimiser_state):
    """By hand: v <- 0.9 v + slope and p <- p - rate v, with a v for each client, phase and update."""
    sgd = OptimiserSettings(lr=0.1, momentum=0.9)

    class Phased(Local):
        def phases(self):
            (both,) = self.updates()
            body = replace(both, which=names("encoder"), lr_factor=0.5)
            return [Phase([body, both]), Phase([both], epochs=2)]

    rows = (torch.arange(0, 7), torch.arange(7, 20))
    data = replace(_clients(), clients=rows)
    asked = {"rounds": 3, "optimiser": sgd, "optimiser_state": optimiser_state, "lr_decay": 0.5, "local_epochs": 3}
    simulation = _prepared(Phased(objective=Quadratic()), data, **asked)
    simulation.run()
    for client, indices in enumerate(rows):
        model, batch = Quadratic().model(), {"x": data.images[indices]}
        parts = [list(model.encoder.parameters()), list(model.parameters()), list(model.parameters())]
        for round in range(3):
            if round == 0 or optimiser_state == "round":
                momenta = [[torch.zeros_like(p) for p in part] for part in parts]
            for u in (0, 1, 0, 1, 0, 1, 2, 2):
                slopes = torch.autograd.grad(Quadratic().loss(model, batch), parts[u])
                momenta[u] = [0.9 * v + slope for v, slope in zip(momenta[u], slopes, strict=True)]
                with torch.no_grad():
                    for p, v in zip(parts[u], momenta[u], strict=True):
                        p -= 0.1 * (0.5 if u == 0 else 1) * 0.5**round * v
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(simulation.population.storage[name][client], parameter.detach())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_loss_is_computed_with_the_precision_that_is_asked_for(precision):
    """Whatever torch's own choice for the device is, which on a GPU is float16."""
    seen = set()

    class Watched(Quadratic):
        def loss(self, model, batch):
            seen.add(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32)
            return super().loss(model, batch)

    before = torch.get_autocast_dtype("cpu")
    torch.set_autocast_dtype("cpu", torch.float16)
    try:
        _prepared(FedAvg(objective=Watched()), _clients(1), rounds=1, precision=precision).run()
    finally:
        torch.set_autocast_dtype("cpu", before)
    assert seen == {{"fp32": torch.float32, "bf16": torch.bfloat16}[precision]}


def test_a_phase_begins_and_ends_with_the_clients_model_and_without_gradients():
    """What begins sees what the client has, and may change it; what ends sees the same model after its steps."""
    seen: list[tuple[str, float]] = []

    def begin(model: nn.Module) -> None:
        assert not torch.is_grad_enabled()
        model.head.c.fill_(5)
        seen.append(("begin", model.head.c.item()))

    def end(model: nn.Module, work: Any) -> None:
        assert not torch.is_grad_enabled()
        seen.append(("end", model.head.c.item()))

    class Watched(Local):
        def phases(self):
            return [Phase(self.updates(), begin=begin, end=end)]

    data = _clients(1)
    simulation = _prepared(Watched(objective=Quadratic()), data, rounds=1)
    simulation.run()
    centre = data.images[:, 7].mean().item()
    assert seen == [("begin", 5.0), ("end", pytest.approx(5 - 0.1 * 2 * (5 - centre)))]
    assert simulation.population.storage["head.c"].item() == seen[-1][1]


def test_a_loss_that_is_not_finite_names_client_round_and_number():
    class Broken(Quadratic):
        def draw(self, x, y, generator):
            return {"x": x * torch.where(y == 13, torch.inf, 1.0)[:, None]}

    data = replace(_clients(), clients=(torch.arange(13), torch.arange(13, 20)))
    with pytest.raises(Diverged, match=r"the loss of client 1 is (nan|inf) in round 1") as caught:
        _prepared(Local(objective=Broken()), data).run()
    assert caught.value.__notes__ == ["while training client 1 in round 1"]


# ---- threads


@pytest.mark.parametrize("clients", [2, 6])
def test_as_many_clients_are_under_way_at_once_as_there_are_workers(clients):
    """With a torch thread each: two wait for each other, and a third never comes in between."""
    under_way: set[int] = set()
    at_once: list[int] = []
    threads: set[int] = set()
    pair = threading.Barrier(2, timeout=5)

    def look(client, batch):
        under_way.add(client)
        pair.wait()
        time.sleep(0.02)
        at_once.append(len(under_way))
        threads.add(torch.get_num_threads())
        pair.wait()
        under_way.discard(client)

    simulation = _prepared(FedAvg(objective=Quadratic()), _clients(clients), workers=2, rounds=1)
    watch_batches(simulation, look)
    torch.set_num_threads(2)
    try:
        simulation.run()
    finally:
        torch.set_num_threads(1)
    assert at_once == [2] * clients
    assert threads == {1}


def test_clients_train_one_after_the_other_unless_workers_are_asked_for():
    threads: set[threading.Thread] = set()
    simulation = Simulation(FedAvg(objective=Quadratic()), _clients(4), TrainingSettings(rounds=1), 1)
    watch_batches(simulation, lambda client, batch: threads.add(threading.current_thread()))
    simulation.run()
    assert threads == {threading.current_thread()}
