"""The engine: the same numbers however clients are run, whatever is interrupted, and only through the channel."""

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch
from torch.func import functional_call, grad, vmap

from baselines.ditto import Ditto
from baselines.fedavg import FedAvg
from baselines.fedper import FedPer
from baselines.fedprox import FedProx
from common.errors import InputError
from common.optimisers import step
from common.spec import OptimiserSettings, ServerSettings
from diptych.given import client_data
from federation import ClientData, Diverged, Phase, Simulation, Work, names
from federation.channel import Message
from federation.checkpoint import resume, save
from federation.data import batches, on_device, split_batch, steps_of
from federation.names import selected
from federation.server import Server
from federation.simulation import initial_model, schedule
from methods.fedstyle import FedStyle
from objectives import OBJECTIVES
from tests.digits import (
    data,
    dealt,
    few,
    objective,
    prepared,
    same,
    simulate,
    training,
    watch_batches,
    with_a_stop,
)

# ---- loop and vmap


class _Mapped(torch.nn.Module):
    """An update's loss as a module, so that torch.func can give it other tensors."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch):
        return self.loss(self.model, batch)


def _stacked(batches_of_clients):
    """Batches of all clients as one, with a leading client axis."""
    for together in zip(*batches_of_clients, strict=True):
        yield {
            key: tuple(map(torch.stack, zip(*(batch[key] for batch in together), strict=True)))
            if isinstance(value, tuple)
            else torch.stack([batch[key] for batch in together])
            for key, value in together[0].items()
        }


@pytest.fixture
def doubles():
    torch.set_default_dtype(torch.float64)
    yield dataclasses.replace(data(), images=data().images.double() / 255)
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("algorithm", "name"), [*((FedAvg, name) for name in OBJECTIVES), (FedProx, "classification")])
def test_the_loss_can_be_mapped_over_clients(algorithm, name, doubles):
    """One round of all clients at once under vmap gives the weights of the loop, batch-norm statistics included."""
    made = algorithm(objective=objective(name))
    updates = made.updates()
    settings = training(rounds=1, local_epochs=0.5)
    looped, batches_of_clients = Simulation(made, doubles, settings, 7), [[] for _ in doubles.clients]
    watch_batches(looped, lambda client, batch: batches_of_clients[client].append(batch))
    start = Simulation(made, doubles, settings, 7)
    for simulation in (looped, start):
        simulation.keep_own()
    start._broadcast(1, [0, 1, 2])
    looped.run()
    kinds = (start.template.named_parameters, start.template.named_buffers)
    parameters, buffers = ({n: start.population.storage[n].clone() for n, _ in kind()} for kind in kinds)
    member, states = start.population.members[0], [{} for _ in updates]
    moving = [{e.name for e in selected(member, update.which) if e.is_parameter} for update in updates]

    def loss(moved, still, batch, template):
        tensors = {f"model.{n}": t for n, t in [*moved.items(), *still.items()]}
        return functional_call(template, tensors, (batch,))

    for number, batch in enumerate(_stacked(batches_of_clients), start=1):
        for update, names_, state in zip(updates, moving, states, strict=True):
            if number % update.every:
                continue
            moved = {n: t for n, t in parameters.items() if n in names_}
            still = {n: t for n, t in parameters.items() if n not in names_} | buffers
            mapped = partial(loss, template=_Mapped(member, update.loss))
            gradients = vmap(grad(mapped))(moved, still, batch)
            step(settings.optimiser, list(moved.values()), list(gradients.values()), state, update.lr_factor)
    assert all(states)
    for n, rows in [*parameters.items(), *buffers.items()]:
        torch.testing.assert_close(rows, looped.population.storage[n])


# ---- batches


@pytest.mark.parametrize("pooled", ["", "clients"])
def test_every_batch_says_which_styles_its_images_show(pooled):
    """Also where several batches are drawn at a time; without styles, batches have none."""
    split = dealt()
    plain = client_data(split, pooled)
    numbered = dataclasses.replace(plain, labels=torch.arange(len(plain.labels)))  # an image's number for its label

    def seen(data):
        simulation = Simulation(FedAvg(objective=objective("simclr")), data, training(), 7)
        indices, order = data.clients[0], torch.Generator().manual_seed(0)
        positions = batches(len(indices), 16, 5, order)
        return list(simulation.local.batches_of(Phase([]), 0, indices, positions, torch.Generator().manual_seed(1)))

    for batch in seen(numbered):
        for image, style in zip(batch["y"], batch["style"], strict=True):
            known = torch.cat([split.train[style], split.test[style]])
            assert image in known
    assert {int(style) for batch in seen(numbered) for style in batch["style"]} == ({0, 1, 2} if pooled else {0})
    assert all("style" not in batch for batch in seen(dataclasses.replace(numbered, styles=None)))


def test_clients_with_turns_work_on_the_rounds_turn_alone_and_are_checked_for_it():
    """Client 0 has turns of 8 and of 12 images, client 1 one of 8; an image is its own number, and so is its constant.

    Four rounds of one of the two clients: batches of four, each image of the turn once.
    """
    numbers = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    turns = ((numbers[:8], numbers[8:20]), (numbers[20:28],))
    images = (torch.arange(40) / 64)[:, None, None, None].expand(-1, 3, 8, 8).contiguous()
    turned = ClientData(images, torch.arange(40) % 10, (numbers[:20].flip(0), numbers[20:28].flip(0)), turns=turns)
    checked: list[list[list[int]]] = []

    class Watched(FedAvg):
        def check(self, training, rounds):
            checked.extend([labels.tolist() for labels in one] for one in rounds)

        def constants(self, model, x, y):
            return {"number": x[:, 0, 0, 0] * 64}

    settings = training(rounds=4, batch_size=4, participation=0.5)
    simulation = Simulation(Watched(objective=objective("classification")), turned, settings, 3)
    assert sorted({chosen for (chosen,) in simulation.schedule}) == [0, 1], "both take part"
    seen: list[tuple[int, torch.Tensor]] = []

    def look(client, batch):
        assert torch.equal(batch["x"][:, 0, 0, 0] * 64, batch["number"])
        assert torch.equal(batch["y"], batch["number"].long() % 10)
        seen.append((simulation.round + 1, batch["number"].long()))

    watch_batches(simulation, look)
    simulation.run()
    for round, (client,) in enumerate(simulation.schedule, 1):
        turn = turns[client][(round - 1) % len(turns[client])]
        assert torch.equal(torch.cat([rows for n, rows in seen if n == round]).sort().values, turn.sort().values)
        assert checked[round - 1] == [(turn % 10).tolist()]


def test_a_client_weighs_as_much_as_the_images_that_it_has_worked_on_in_a_round(monkeypatch):
    numbers, sizes = torch.arange(40), []
    turns = ((numbers[:8], numbers[8:20]), (numbers[20:28],))
    turned = ClientData(torch.rand(40, 3, 8, 8), numbers % 10, (numbers[:20], numbers[20:28]), turns=turns)
    simulation = Simulation(FedAvg(objective=objective("classification")), turned, training(rounds=3), 3)
    aggregate = simulation.server.aggregate

    def weighed(uploads, of, factor):
        sizes.append(of)
        aggregate(uploads, of, factor)

    monkeypatch.setattr(simulation.server, "aggregate", weighed)
    simulation.run()
    assert sizes == [[8, 8], [12, 8], [8, 8]]


# ---- rates


def test_what_a_client_has_done_is_told_with_the_rates_of_its_steps():
    """Also of an update with an optimiser of its own: four steps at 0.3, and half of them at twice the run's 0.05."""
    told: list[Work] = []

    class Watched(FedAvg):
        def phases(self):
            (both,) = super().updates()
            body = dataclasses.replace(both, which=names("encoder"), optimiser=OptimiserSettings(lr=0.3))
            head = dataclasses.replace(both, which=names("head"), lr_factor=2.0, every=2)
            return [Phase([body, head], end=lambda model, work: told.append(work))]

    simulate(Watched(objective=objective("classification")), rounds=2, local_steps=4, lr_decay=0.5)
    assert len(told) == 6
    for work, decay in zip((told[0], told[-1]), (1, 0.5), strict=True):
        assert work.rates["encoder.layers.0.weight"] == pytest.approx(4 * 0.3 * decay)
        assert work.rates["head.weight"] == pytest.approx(2 * 2 * 0.05 * decay)


def test_what_a_client_has_done_is_told_with_the_share_of_clients_that_take_part():
    """Two of three in each round; everybody before the first and after the last. Steps of two updates add up."""
    told: list[Work] = []

    class Watched(FedAvg):
        def phases(self):
            body = dataclasses.replace(super().updates()[0], which=names("encoder"))
            return [Phase([body, body], end=lambda model, work: told.append(work))]

        def prologue(self):
            return self.phases()

        def epilogue(self):
            return self.phases()

    simulation = simulate(
        Watched(objective=objective("classification")), rounds=2, local_steps=1, participation=0.67, lr_decay=0.5
    )
    assert [len(chosen) for chosen in simulation.schedule] == [2, 2]
    assert [work.participation for work in told] == pytest.approx([1] * 3 + [2 / 3] * 4 + [1] * 3)
    rates = [0.05] * 5 + [0.025] * 2 + [0.0125] * 3  # the first round's, as before it; then half, and half again
    for work, rate in zip(told, rates, strict=True):
        assert list(work.rates.values()) == pytest.approx([2 * rate] * len(work.rates))


# ---- updates that are not taken on each batch


def _taken(simulation: Simulation, update: int = 1) -> dict[int, list[tuple[int, int]]]:
    """For each client, the rounds in which it took an update, and how often."""
    rows = [row for row in simulation.history if row["update"] == update and row["phase"] == 0]
    clients = {row["client"] for row in simulation.history}
    return {k: [(row["round"], row["steps"]) for row in rows if row["client"] == k] for k in clients}


def test_every_third_batch_is_counted_over_rounds():
    """Batches 1 and 2, 3 and 4, 5 and 6: the generator's steps come after the third and after the sixth."""
    simulation = simulate(FedAvg(objective=objective("gan")), rounds=3, local_steps=2, buffers="local")
    assert _taken(simulation) == {k: [(2, 1), (3, 1)] for k in range(3)}
    assert all(row["steps"] for row in simulation.history), "no step, no loss"


def test_every_third_batch_is_counted_by_each_client():
    simulation = simulate(
        FedAvg(objective=objective("gan")), rounds=6, local_steps=2, participation=0.34, buffers="local"
    )
    rounds = {k: [n for n, chosen in enumerate(simulation.schedule, 1) if k in chosen] for k in range(3)}
    assert sorted(map(len, rounds.values())) != [2, 2, 2], "the clients differ"
    expected = {k: [(n, 1) for visit, n in enumerate(own) if visit in (1, 2, 4, 5)] for k, own in rounds.items()}
    assert _taken(simulation) == {k: steps for k, steps in expected.items() if rounds[k]}


def test_every_third_batch_is_counted_in_each_phase_by_itself():
    """PaDPaF's Ditto: two batches for w, two for v, in each round."""
    simulation = simulate(Ditto(objective=objective("gan"), reading="padpaf"), rounds=3, local_steps=4, buffers="local")
    steps = [(row["round"], row["phase"]) for row in simulation.history if row["update"] == 1 and row["client"] == 0]
    assert steps == [(2, 0), (2, 1), (3, 0), (3, 1)]


def test_the_count_goes_on_after_a_stop(tmp_path):
    made = FedAvg(objective=objective("gan"))
    whole, resumed = with_a_stop(lambda: prepared(made, rounds=3, local_steps=2, buffers="local"), tmp_path)
    assert same(resumed.population.storage, whole.population.storage)
    assert resumed.history == whole.history


@pytest.mark.parametrize("made", [FedAvg, partial(Ditto, reading="padpaf")])
def test_a_run_that_never_takes_an_update_is_refused_before_it_begins(made):
    """Two batches in all, and the generator would be stepped after the third."""
    algorithm = made(objective=objective("gan"))
    steps = 4 if isinstance(algorithm, Ditto) else 2
    with pytest.raises(InputError, match=r"generator.* would never be trained.* each 3 batches .* more than 2 in"):
        prepared(algorithm, rounds=1, local_steps=steps)
    prepared(algorithm, rounds=2, local_steps=steps)


def test_what_is_switched_off_is_not_refused():
    simulation = simulate(FedStyle(objective=objective("simclr"), style_epochs=0))
    assert {row["stage"] for row in simulation.history} == {"round"}


# ---- randomness


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    made = FedAvg(objective=objective("simclr"))
    first, second, other = simulate(made), simulate(made), simulate(made, seed=8)
    assert same(first.server.tensors, second.server.tensors)
    assert not same(first.server.tensors, other.server.tensors)


def test_global_random_state_neither_matters_nor_changes():
    made = FedAvg(objective=objective("simclr"))
    torch.manual_seed(1)
    first, after = simulate(made), torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), after)
    assert same(simulate(made).server.tensors, first.server.tensors)


def test_a_client_draws_the_same_whoever_else_is_there():
    """Client 0 trains to the same weights in round 1 with and without the others."""
    made = FedAvg(objective=objective("simclr"))
    everybody = simulate(made, rounds=1)
    alone = simulate(made, few(clients=1), rounds=1)
    assert same(
        {n: t[0] for n, t in everybody.population.storage.items()},
        {n: t[0] for n, t in alone.population.storage.items()},
    )


def test_schedule():
    rounds = schedule(11, 400, 10, 0.45)
    assert all(len(set(chosen)) == 4 and chosen == sorted(chosen) for chosen in rounds)
    visits = np.bincount(np.concatenate(rounds), minlength=10)
    assert visits.min() > 120  # 160 expected each
    assert visits.max() < 200
    assert schedule(11, 400, 10, 0.45) == rounds
    assert schedule(12, 400, 10, 0.45) != rounds
    assert schedule(0, 1, 30, 0.1) == schedule(0, 2, 30, 0.1)[:1]
    assert [len(c) for c in schedule(0, 1, 3, 0.1)] == [1]
    assert [len(c) for c in schedule(0, 1, 20, 0.15)] == [3]  # 0.15 * 20 is a hair below 3 in floating point


@pytest.mark.parametrize(
    ("clients", "share", "sampled"), [(15, 0.5, 7), (3, 0.5, 1), (7, 0.4, 2), (9, 0.999, 8), (9, 1.0, 9)]
)
def test_a_share_of_the_clients_is_rounded_down(clients, share, sampled):
    """The integer part of alpha N, as FedStyle has it."""
    assert {len(chosen) for chosen in schedule(0, 5, clients, share)} == {sampled}


def test_batches_pass_over_everything_before_anything_comes_again():
    generator = torch.Generator().manual_seed(0)
    found = list(batches(10, 3, 7, generator))
    assert [len(b) for b in found] == [3] * 7
    for start in (0, 3):
        seen = torch.cat(found[start : start + 3])
        assert len(set(seen.tolist())) == 9
    first, second = torch.cat(found[:3]).tolist(), torch.cat(found[3:6]).tolist()
    assert first != second, "each pass has an order of its own"
    assert [len(b) for b in batches(2, 64, 2, generator)] == [2, 2]


@pytest.mark.parametrize(("epochs", "steps"), [(0, 0), (0.5, 2), (1, 3), (2, 6), (0.01, 1)])
def test_steps(epochs, steps):
    assert steps_of(10, 3, epochs) == steps
    assert steps_of(2, 3, 2) == 2


@pytest.mark.parametrize("local_steps", [1, 7, 40])
def test_local_steps_take_the_place_of_the_runs_epochs_and_of_no_other(local_steps):
    algorithm = FedStyle(objective=objective("simclr"), style_epochs=1)
    counted = simulate(algorithm, local_steps=local_steps, local_epochs=3)
    per_pass = len(data().clients[0]) // 16
    taken = {
        stage: {row["steps"] for row in counted.history if row["stage"] == stage} for stage in ("prologue", "round")
    }
    assert taken == {"prologue": {per_pass}, "round": {local_steps}}
    assert counted.done == counted.total == 3 * (per_pass + 2 * local_steps)


def test_phases_share_local_steps():
    """PaDPaF's Ditto gives half of them to each model."""
    simulation = simulate(Ditto(objective=objective("simclr"), reading="padpaf"), local_steps=6)
    assert {row["steps"] for row in simulation.history} == {3}


def test_as_many_local_steps_as_a_pass_has_are_an_epoch():
    made = FedAvg(objective=objective("simclr"))
    per_pass = len(data().clients[0]) // 16
    by_steps, by_epochs = (simulate(made, **of) for of in ({"local_steps": per_pass}, {"local_epochs": 1.0}))
    assert same(by_steps.server.tensors, by_epochs.server.tensors)


def test_split_batch_keeps_samples_together():
    batch = {"x": torch.arange(5), "views": (torch.arange(5) * 10, torch.arange(5) * 100)}
    parts = list(split_batch(batch, [2, 3]))
    assert [p["x"].tolist() for p in parts] == [[0, 1], [2, 3, 4]]
    assert [p["views"][1].tolist() for p in parts] == [[0, 100], [200, 300, 400]]


def test_a_batch_goes_to_its_device_whole():
    batch = on_device({"x": torch.arange(5), "views": (torch.ones(5), torch.zeros(5))}, torch.device("meta"))
    assert {tensor.device.type for tensor in (batch["x"], *batch["views"])} == {"meta"}


def test_all_clients_start_from_the_same_tensors_and_own_their_copies():
    simulation = prepared(FedAvg(objective=objective("simclr")))
    template = dict(initial_model(simulation.algorithm, 7).named_parameters())
    first, second, _ = simulation.population.members
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, template[name])
    with torch.no_grad():
        next(first.parameters()).add_(1)
    assert not torch.equal(next(first.parameters()), next(second.parameters()))
    name = next(iter(template))
    assert torch.equal(simulation.population.storage[name][0], first.get_parameter(name))  # a view, not a copy


@pytest.mark.parametrize("settings", [{"channels_last": True}, {"precision": "bf16"}])
def test_layout_and_precision_change_the_way_a_little(settings):
    made = FedAvg(objective=objective("classification"))
    plain, changed = simulate(made), simulate(made, **settings)
    start = dict(plain.template.named_parameters())
    moved = [
        torch.cat([(s.server.tensors[n] - p.detach()).flatten() for n, p in start.items()]) for s in (plain, changed)
    ]
    assert torch.cosine_similarity(*moved, dim=0) > 0.9
    kernel = changed.population.members[0].encoder.layers[3].weight
    assert kernel.is_contiguous(memory_format=torch.channels_last) == ("channels_last" in settings)


# ---- the channel


@pytest.mark.parametrize(("algorithm", "participation"), [(FedAvg, 1.0), (FedPer, 0.4), (Ditto, 0.7)])
def test_bytes_are_those_of_what_crossed(algorithm, participation):
    messages = []
    made = algorithm(objective=objective("simclr"))
    simulation = simulate(made, data(2), participation=participation, listeners=[messages.append])
    assert messages
    for way in ("up", "down"):
        crossed = [m for m in messages if m.direction == way]
        copies = [1 if way == "up" else len(m.clients) for m in crossed]
        heard = sum(
            n * sum(t.numel() * t.element_size() for t in m.tensors.values())
            for m, n in zip(crossed, copies, strict=True)
        )
        assert simulation.channel.total(way) == heard > 0
    sent = {name for m in messages for name in m.tensors}
    assert sent == set(simulation.server.tensors)
    assert {c for (_, c, _, _) in simulation.channel.traffic} <= set(range(6))


def test_a_listener_sees_what_was_sent_and_it_stays_what_it_was():
    messages = []
    made = FedPer(objective=objective("simclr"))
    simulation = simulate(made, rounds=1, listeners=[messages.append])
    down, up = messages
    weights = torch.tensor([len(i) for i in data().clients], dtype=torch.float32)
    for name, rows in up.tensors.items():
        expected = torch.tensordot(weights / weights.sum(), rows, dims=1)
        torch.testing.assert_close(simulation.server.tensors[name], expected)
        assert not torch.equal(down.tensors[name], simulation.server.tensors[name])
    assert all(name.startswith("encoder") for name in up.tensors)
    simulation.population.storage["encoder.layers.0.weight"].zero_()
    assert up.tensors["encoder.layers.0.weight"].abs().sum() > 0


def test_private_tensors_stay_private_and_survive_rounds():
    simulation = simulate(FedPer(objective=objective("simclr")))
    heads = simulation.population.storage["projector.0.weight"]
    assert not torch.equal(heads[0], heads[1])
    assert not any(name.startswith("projector") for name in simulation.server.tensors)
    with pytest.raises(AttributeError):
        _ = simulation.population.members[0].received.projector.weight


def test_nothing_can_be_stashed_away_on_an_algorithm():
    """The one object that clients and server share is frozen: nothing passes through it beside the channel."""
    made = FedAvg(objective=objective("simclr"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.secret = torch.ones(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.objective.secret = torch.ones(1)


def test_the_received_model_does_not_follow_the_client():
    """What FedProx and Ditto refer to is what was received, also after many local steps."""
    references = []

    class Watched(FedProx):
        def proximal_term(self, m, batch):
            references.append(next(m.received.parameters()).clone())
            return super().proximal_term(m, batch)

    simulate(Watched(objective=objective("classification"), mu=1), rounds=1)
    assert len(references) > 6
    assert all(torch.equal(r, references[0]) for r in references)


def test_a_pass_of_the_received_model_moves_no_statistics_but_its_own():
    """In training mode it moves its batch norms; the next client is given what the server sent."""

    class Watched(FedProx):
        def proximal_term(self, m, batch):
            m.received.train().encoder(batch["x"])
            return super().proximal_term(m, batch)

    simulation = Simulation(Watched(objective=objective("simclr"), mu=1), data(), training(rounds=1, local_steps=1), 3)
    sent = dict(simulation.server.tensors)
    before = {name: tensor.clone() for name, tensor in sent.items() if name.endswith("running_mean")}
    assert before
    simulation.run()
    assert same({name: sent[name] for name in before}, before)


def test_a_penalty_sees_the_batch_as_the_loss_does():
    """What a contrast between models needs (MOON), and a part's own loss does not change."""
    (update,) = FedAvg(objective=objective("classification")).updates()
    model, batch = objective("classification").model(), {"x": torch.rand(5, 3, 8, 8), "y": torch.arange(5)}
    both = update.plus(lambda m, batch: batch["y"].sum() * m.head.bias.sum())
    expected = update.loss(model, batch) + 10 * model.head.bias.sum()
    torch.testing.assert_close(both.loss(model, batch), expected)


def test_an_update_that_names_nothing_is_refused():
    class Empty(FedAvg):
        def updates(self):
            return [dataclasses.replace(super().updates()[0], which=names("no_such_part"))]

    with pytest.raises(InputError, match="no parameter to train"):
        simulate(Empty(objective=objective("classification")))


# ---- server and optimisers against torch's own


@pytest.mark.parametrize(
    ("settings", "theirs"),
    [
        (OptimiserSettings(lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
        (
            OptimiserSettings(lr=0.1, momentum=0.9, weight_decay=0.01),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        ),
        (
            OptimiserSettings(name="adam", lr=0.1, betas=(0.5, 0.9), weight_decay=0.01),
            lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.5, 0.9), weight_decay=0.01),
        ),
    ],
)
def test_optimisers_are_torchs(settings, theirs):
    generator = torch.Generator().manual_seed(0)
    ours = [torch.randn(shape, generator=generator) for shape in ((3,), (2, 2), (2, 4, 3, 3))]
    ours[2] = ours[2].to(memory_format=torch.channels_last)  # its gradients are laid out in another way
    reference = [torch.nn.Parameter(p.clone()) for p in ours]
    optimiser, state = theirs(reference), {}
    for _ in range(4):
        gradients = [torch.randn(p.shape, generator=generator) for p in ours]
        for p, g in zip(reference, gradients, strict=True):
            p.grad = g.clone()
        optimiser.step()
        step(settings, ours, gradients, state)
    for a, b in zip(ours, reference, strict=True):
        torch.testing.assert_close(a, b.detach())


def in_turn(rows: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """What each client sends, of tensors with a leading client axis."""
    return [dict(zip(rows, one, strict=True)) for one in zip(*rows.values(), strict=True)]


def test_adam_on_the_server_follows_the_pseudo_gradient_and_buffers_take_the_mean():
    start = {"w": torch.tensor([1.0, -2.0]), "mean": torch.tensor([0.5])}
    server = Server(dict(start), {"w"}, ServerSettings(optimiser="adam", lr=0.1, betas=(0.9, 0.99)))
    reference = torch.nn.Parameter(start["w"].clone())
    adam = torch.optim.Adam([reference], lr=0.1, betas=(0.9, 0.99))
    for shift in (0.3, -0.7, 0.2):
        w = server.tensors["w"]
        uploads = {"w": torch.stack([w + shift, w - 2 * shift]), "mean": torch.tensor([[1.0], [4.0]])}
        reference.grad = reference.detach() - (0.25 * uploads["w"][0] + 0.75 * uploads["w"][1])
        adam.step()
        server.aggregate(in_turn(uploads), [1, 3])
        torch.testing.assert_close(server.tensors["w"], reference.detach())
        assert server.tensors["mean"].item() == pytest.approx(3.25)


# ---- interruption


@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_the_servers_rate_decays_by_round_and_sizes_are_those_of_who_was_sampled(weighting):
    """What came up in each round, put together once more beside the simulation."""
    heard: list[Message] = []
    asked = ServerSettings(optimiser="adam", lr=0.01, weighting=weighting)
    options = {"rounds": 3, "local_steps": 1, "lr_decay": 0.5, "participation": 0.67}
    uneven = tuple(indices[: 40 + 30 * k] for k, indices in enumerate(data().clients))
    everyone = dataclasses.replace(data(), clients=uneven)
    made = FedAvg(objective=objective("classification"))
    simulation = prepared(made, everyone, **options, server=asked, listeners=[heard.append])
    parameters = {entry.name for entry in simulation.shared if entry.is_parameter}
    server = Server({name: t.clone() for name, t in simulation.server.tensors.items()}, parameters, asked)
    simulation.run()
    assert len(set(map(tuple, simulation.schedule))) > 1, "not always the same two"
    for message in heard:
        if message.direction == "up":
            sizes = [40 + 30 * k for k in message.clients]
            server.aggregate(in_turn(message.tensors), sizes, 0.5 ** (message.round - 1))
    assert same(simulation.server.tensors, server.tensors)


def test_the_servers_first_step_is_its_rate_times_the_factor():
    """Adam's first step moves each number by the rate, whatever the size of its gradient; statistics are the mean."""
    old = {"weight": torch.tensor([1.0, -2.0]), "bias": torch.tensor([[0.5]]), "running": torch.tensor([3.0])}
    server = Server(old, {"weight", "bias"}, ServerSettings(optimiser="adam", lr=0.2))
    sent = {"weight": torch.tensor([2.0, -4.0]), "bias": torch.tensor([[0.25]]), "running": torch.tensor([5.0])}
    server.aggregate([sent], [7], lr_factor=0.25)
    expected = {"weight": torch.tensor([1.05, -2.05]), "bias": torch.tensor([[0.45]]), "running": torch.tensor([5.0])}
    torch.testing.assert_close(server.tensors, expected)


@pytest.mark.parametrize(
    ("algorithm", "stop", "optimiser_state"),
    [(FedStyle, 0, "persistent"), (FedAvg, 1, "persistent"), (Ditto, 2, "round")],
)
def test_resuming_gives_what_never_stopping_gives(tmp_path, algorithm, stop, optimiser_state):
    """After the prologue, and after rounds of some of the clients, with an optimiser on the server."""
    settings = {"style_epochs": 1} if algorithm is FedStyle else {}
    made = algorithm(objective=objective("simclr"), **settings)
    server = ServerSettings(optimiser="adam", lr=0.01)
    options = {"rounds": 3, "local_epochs": 0.25, "participation": 0.7, "optimiser_state": optimiser_state}
    whole, resumed = with_a_stop(lambda: prepared(made, **options, server=server), tmp_path, after=stop)
    assert same(resumed.population.storage, whole.population.storage)
    assert same(resumed.server.tensors, whole.server.tensors)
    assert resumed.history == whole.history
    assert resumed.channel.traffic == whole.channel.traffic


def test_a_checkpoint_of_another_run_is_not_taken(tmp_path):
    made = FedAvg(objective=objective("classification"))
    simulation = prepared(made)
    assert resume(tmp_path / "none.pt", simulation, "key") is None
    save(tmp_path / "checkpoint.pt", simulation, "other key", 7.0)
    assert resume(tmp_path / "checkpoint.pt", simulation, "key") is None
    assert simulation.round == -1


def test_divergence_names_round_and_client():
    made = FedAvg(objective=objective("classification"))
    with pytest.raises(Diverged, match=r"loss of client 0 is (nan|inf) in round \d; try a lower learning rate"):
        simulate(made, rounds=3, optimiser=OptimiserSettings(lr=1e20))
