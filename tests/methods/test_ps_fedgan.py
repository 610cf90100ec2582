"""PS-FedGAN: twins that stay identical, what is published, what breaks them."""

import copy
import dataclasses
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attacks.eavesdropper import Attacker, Eavesdropper, units_in_the_last_place
from common.errors import InputError
from common.spec import OptimiserSettings
from federation import ClientData, Simulation
from federation.channel import Message
from methods import ps_fedgan
from methods.full_gan import FullGAN
from methods.ps_fedgan import PSFedGAN
from networks.cgan import Discriminator, Generator
from tests.digits import data, objective, prepared, same, with_a_stop
from tests.mutation import mutated
from tests.networks.sizes import parameters

ADAM = OptimiserSettings(name="adam", lr=2e-4, betas=(0.5, 0.999))


def _algorithm(kind=PSFedGAN, **settings):
    small = {"latent": 6, "width": 8, "synthetic": 20, "classifier_epochs": 1}
    return kind(objective=objective("classification"), **{**small, **settings})


def _data() -> ClientData:
    everyone = data()
    own = torch.cat([indices[:5] for indices in everyone.clients])
    return ClientData(everyone.images, everyone.labels, tuple(i[5:] for i in everyone.clients), server=own)


OWNED = ({0, 1}, {2, 3, 4}, {5, 6, 7, 8, 9})


def _few_labels() -> ClientData:
    """Three users, none of whom has a label of another's (Sec. 4.2)."""
    everyone = _data()
    own = [
        torch.tensor([n for n in i.tolist() if int(everyone.labels[n]) in has])
        for i, has in zip(everyone.clients, OWNED, strict=True)
    ]
    return ClientData(everyone.images, everyone.labels, tuple(own), server=everyone.server)


def _simulation(algorithm=None, rounds: int = 2, **settings) -> Simulation:
    given = {"optimiser": ADAM, "optimiser_state": "persistent", "local_epochs": 0.5}
    dealt = settings.pop("dealt", None) or _data()
    return prepared(algorithm or _algorithm(), dealt, rounds=rounds, **given, **settings)


def check_twins(kind=PSFedGAN, **settings) -> None:
    """User and server generators are the same bits after every round, and have moved."""
    simulation = _simulation(_algorithm(kind, **settings))
    start = [[p.clone() for p in m.generator.parameters()] for m in simulation.population.members]

    def look(simulation: Simulation) -> None:
        for member, twin in zip(simulation.population.members, simulation.server_work.twins, strict=True):
            pairs = zip(member.generator.parameters(), twin.generator.parameters(), strict=True)
            assert all(torch.equal(a, b) for a, b in pairs)

    simulation.run(look)
    for member, before in zip(simulation.population.members, start, strict=True):
        assert any((p != b).any() for p, b in zip(member.generator.parameters(), before, strict=True))


@pytest.mark.parametrize("share", ["discriminator", "all", "once"])
def test_twins_are_identical(share):
    check_twins(share=share)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("PSFedGAN", '"z": batch["sent_z"]', '"z": batch["z"]'),
        ("PSFedGAN", '"labels": batch["sent_labels"]}', '"labels": batch["labels"]}'),
        ("PSFedGAN", "(int(m.secret), int(m.taken))", "(int(m.secret) + 1, int(m.taken))"),
        ("PSFedGAN", "m.taken += 1", "pass"),
        ("PSFedGAN", 'parts = tensors_of(m, "discriminator")', "parts = {}"),
    ],
)
def test_what_breaks_them_is_caught(name, right, wrong):
    with mutated("methods.ps_fedgan", name, right, wrong) as mutant, pytest.raises(AssertionError):
        check_twins(mutant)


def test_every_user_has_a_secret_and_a_generator_of_its_own():
    simulation = _simulation()
    members = simulation.population.members
    assert len({int(m.secret) for m in members}) == len(members)
    first = [next(m.generator.parameters()) for m in members]
    assert not torch.equal(first[0], first[1])


def test_a_run_that_goes_on_from_another_begins_with_generators_and_steps_that_both_sides_know():
    """Those of the other run have drawn masks that the server's new twins have not."""
    before = _simulation()
    before.run()
    left = {name: rows.clone() for name, rows in before.population.storage.items()}
    after = _simulation(start=left)
    begun = after.population.storage
    assert same(begun, left, of="discriminator.", other="discriminator.")
    assert not begun["taken"].any()
    assert not begun["asked"].any()
    after.run()
    for member, twin in zip(after.population.members, after.server_work.twins, strict=True):
        assert same(dict(member.generator.named_parameters()), dict(twin.generator.named_parameters()))


def test_twins_note_the_loss_of_each_step_by_its_round():
    simulation = _simulation()
    simulation.run()
    for user, twin in enumerate(simulation.server_work.twins):
        steps = {
            row["round"]: row["steps"]
            for row in simulation.history
            if (row["client"], row["update"]) == (user, 1) and row["stage"] == "round"
        }
        assert {round: len(losses) for round, losses in twin.losses.items()} == steps
        assert set(steps) == {1, 2}


def test_secrets_are_of_their_run():
    seeds = [int(m.secret) for seed in (7, 8) for m in _simulation(seed=seed).population.members]
    assert len(set(seeds)) == len(seeds) == 2 * 3


def test_steps_are_counted_beyond_what_floats_count():
    algorithm = _algorithm()
    model, labels = algorithm.model(), torch.zeros(1).long()
    model.taken.fill_(2**24)
    algorithm.published(model, {"sent_z": torch.zeros(1, 6), "sent_labels": labels})
    assert int(model.taken) == 2**24 + 1


@pytest.mark.parametrize("share", ["discriminator", "all", "once"])
def test_what_crosses(share):
    heard: list[Message] = []
    simulation = _simulation(_algorithm(share=share), rounds=1, listeners=[heard.append])
    simulation.run()
    steps = len(heard) if share == "discriminator" else len(heard) - 3 if share == "all" else 0
    assert len(heard) == {"discriminator": steps, "all": steps + 3, "once": 3}[share]
    names = {name.split(".")[1] for message in heard for name in message.tensors}
    assert (
        names
        == {
            "discriminator": {"discriminator", "z", "labels"},
            "all": {"discriminator", "generator", "labels"},
            "once": {"generator", "labels"},
        }[share]
    )
    assert not any(name.split(".")[-1] in ("secret", "taken") for message in heard for name in message.tensors)
    assert all(message.direction == "up" for message in heard)


def test_published_labels_are_those_that_the_user_has():
    heard: list[Message] = []
    _simulation(dealt=_few_labels(), batch_size=8, rounds=1, listeners=[heard.append]).run()
    for user, owned in enumerate(OWNED):
        sent = [message.tensors["published.labels"] for message in heard if message.clients == (user,)]
        assert set(torch.cat(sent).flatten().tolist()) == owned


# ---- the cloud


def check_asked_labels(share: str = "discriminator") -> None:
    """Images of each user are asked for with its own labels, and with all of them."""
    simulation = _simulation(_algorithm(share=share), dealt=_few_labels(), batch_size=8)
    simulation.run()
    for twin, owned in zip(simulation.server_work.twins, OWNED, strict=True):
        images, labels = simulation.server_work._images(twin, torch.Generator().manual_seed(0))
        assert set(labels.tolist()) == owned
        assert len(images) == len(labels) == 20


@pytest.mark.parametrize("share", ["discriminator", "all", "once"])
def test_the_cloud_asks_for_no_label_that_a_user_lacks(share):
    check_asked_labels(share)


def test_images_are_asked_for_evenly_over_a_users_labels():
    """20 images of 2, 3 and 5 labels: as many of each, or one more."""
    simulation = _simulation(dealt=_few_labels(), batch_size=8)
    simulation.run()
    for twin, owned in zip(simulation.server_work.twins, OWNED, strict=True):
        images, labels = simulation.server_work._images(twin, torch.Generator().manual_seed(0))
        assert {int(n) for n in labels.bincount() if n} <= {20 // len(owned), -(-20 // len(owned))}
        z = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(images, (twin.generator(z, labels).detach() + 1) / 2)


def test_what_the_server_draws_is_of_its_run_and_round(monkeypatch):
    """The noise of images that are asked for, the order in which the classifier sees them, and where that starts."""
    noise, orders, starts = [], [], []

    def counted(objective, model, images, labels, work, states, draw, epochs, *, round):
        orders.append(draw.initial_seed())
        starts.append(model.head.weight.sum().item())

    monkeypatch.setattr(ps_fedgan, "train_on", counted)
    for seed in (7, 8):
        cloud = _simulation(seed=seed).server_work
        cloud.twins[0].labels = {0}
        cloud._images = lambda twin, draw, own=cloud.own: noise.append(draw.initial_seed()) or own
        for round in (1, 2):
            cloud.finish(round, {})
    assert len(set(noise)) == len(noise) == 2 * 2
    assert len(set(orders)) == len(orders) == 2 * 3
    assert len(set(starts)) == 2


def test_a_server_that_goes_on_leaves_alone_what_it_was_restored_from():
    first, other = _simulation(), _simulation()
    first.run()
    state = first.server_work.state()
    before, work = copy.deepcopy(state), other.server_work
    work.load(state)
    work._train(3, *work.own)
    z, labels = torch.randn(4, 6), torch.arange(4)
    for twin in work.twins:
        twin.receive(2, {"z": z, "labels": labels})
    for now in (state, work.state()):
        for a, b in zip(_moments(now), _moments(before), strict=True):
            assert same(a, b) == (now is state)
    losses = [[twin["losses"] for twin in server["twins"]] for server in (state, before, work.state())]
    assert losses[0] == losses[1] != losses[2]


def _moments(server: dict[str, Any]) -> list[dict[str, torch.Tensor]]:
    """Of the optimisers of the classifier and of every twin."""
    states = [*server["optimiser"], *(twin["optimiser"] for twin in server["twins"])]
    return [{f"{key}/{n}": t for key, tensors in state.items() for n, t in enumerate(tensors)} for state in states]


def test_the_classifier_sees_images_in_another_order_in_each_round(monkeypatch):
    """And is trained by an optimiser of its own, whatever that of the users is."""
    seeds: list[list[int]] = [[], []]
    rounds: list[int] = []
    for found in seeds:

        def counted(objective, model, images, labels, work, states, draw, epochs, *, round, found=found):
            assert work.optimiser == ps_fedgan.CLASSIFIER
            found.append(draw.initial_seed())
            rounds.append(round)

        monkeypatch.setattr(ps_fedgan, "train_on", counted)
        _simulation(rounds=3).run()
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 1 + 3, "at the start, and in three rounds"
    assert rounds == [0, 1, 2, 3] * 2, "by which its rate decays"


def test_the_classifiers_optimiser_goes_on_from_round_to_round():
    """A batch of the server's 15 images, then in each round five of these and of 20 for each of three users."""
    simulation = _simulation()
    simulation.run()
    (state,) = simulation.server_work.states
    assert {int(steps) for steps in state["step"]} == {1 + 2 * 5}


def test_a_user_of_whom_nothing_has_come_is_not_asked():
    simulation = _simulation(dealt=_few_labels(), batch_size=8, rounds=1, participation=0.34)
    seen: list[torch.Tensor] = []
    simulation.server_work._train = lambda round, images, labels: seen.append(labels[15:])
    simulation.run()
    (chosen,) = simulation.schedule[0]
    assert [set(labels.tolist()) for labels in seen] == [OWNED[chosen]]


def check_what_the_classifier_sees() -> None:
    """The server's own images, and as many of each user as are asked for, which differ."""
    simulation, dealt = _simulation(), _data()
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    simulation.server_work._train = lambda round, images, labels: seen.append((images, labels))
    simulation.run()
    for images, labels in seen:
        assert len(images) == len(labels) == 15 + 3 * 20
        assert torch.equal(images[:15], dealt.images[dealt.server].float() / 255)
        assert torch.equal(labels[:15], dealt.labels[dealt.server])
        assert len({image.sum().item() for image in images[15:]}) > 50, "images of noise of their own"


def test_the_classifier_is_trained_on_the_servers_images_and_on_every_users():
    check_what_the_classifier_sees()


def test_who_sees_large_images_small_is_trained_as_on_small_ones():
    """Users by their views, and the server by its own."""

    def halved(x: torch.Tensor, draws: torch.Generator) -> torch.Tensor:
        return x[..., ::2, ::2]

    small = _data()
    twice = small.images.repeat_interleave(2, -1).repeat_interleave(2, -2)
    large = dataclasses.replace(small, images=twice, views=(halved,) * len(small.clients), server_view=halved)
    clouds = []
    for dealt in (small, large):
        simulation = _simulation(dealt=dealt)
        simulation.run()
        clouds.append(simulation.server_work.classifier.state_dict())
    assert same(*clouds)


CLOUD_BUGS = {
    "labels that a user lacks": ("sorted(twin.labels)", "range(10)", check_asked_labels),
    "the classifier trained without the server's images": (
        "zip(self.own, *made, strict=True)", "zip(*made, strict=True)", check_what_the_classifier_sees),
}  # fmt: skip


@pytest.mark.parametrize("bug", CLOUD_BUGS)
def test_a_wrong_cloud_is_caught(bug):
    right, wrong, check = CLOUD_BUGS[bug]
    with mutated("methods.ps_fedgan", "Cloud", right, wrong), pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize("share", ["all", "once"])
def test_full_sharing_has_the_classifier_of_ps_fedgan_for_the_same_secret(share):
    """Its users tell as much of their labels, and its generators are the same to the bit."""
    ours, theirs = (
        _simulation(algorithm, dealt=_few_labels(), batch_size=8)
        for algorithm in (_algorithm(), _algorithm(FullGAN, share=share))
    )
    start = copy.deepcopy(ours.server_work.classifier.state_dict())
    ours.run()
    theirs.run()
    assert same(ours.server_work.classifier.state_dict(), theirs.server_work.classifier.state_dict())
    assert not same(ours.server_work.classifier.state_dict(), start)


def test_threads_and_a_stop_change_nothing(tmp_path):
    threaded = _simulation(workers=3)
    threaded.run()
    whole, resumed = with_a_stop(_simulation, tmp_path)
    for other in (threaded, resumed):
        for name, rows in whole.population.storage.items():
            assert torch.equal(rows, other.population.storage[name]), name
        ours, theirs = (s.server_work.classifier.state_dict() for s in (whole, other))
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        assert other.channel.traffic == whole.channel.traffic


def test_parameter_counts_fit_table_4():
    count = [parameters(kind(1, 28, 10)) for kind in (Generator, Discriminator)]
    assert count == [1_489_012, 1_470_565]
    assert round(sum(count) / 1e6) == 3
    assert round(count[1] / 1e6, 1) == 1.5


# ---- who listens


def _attackers(*names, **settings) -> list[Attacker]:
    return [Attacker(name=name, **settings) for name in names]


def _heard(attackers: list[Attacker], **settings) -> dict[tuple[str, int], Eavesdropper]:
    simulation = _simulation(_algorithm(attackers=attackers, **settings))
    simulation.run()
    return simulation, {(label, e.user): e for e in simulation.eavesdroppers for label in e.labels}


def _follows(simulation, eavesdropper) -> bool:
    """Whether it has the server's generator, bit by bit."""
    theirs = simulation.server_work.twins[eavesdropper.user].generator.parameters()
    ours = eavesdropper.twin.generator.parameters()
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_who_knows_everything_follows_and_nobody_else_does():
    all_but_one = _attackers("a1", "a2", r="0.9999") + _attackers(
        "independent", "missed-step", "missed-round", "fresh", "architecture"
    )
    knows, own_masks = Attacker(name="a1"), Attacker(name="a1", masks="own")
    simulation, heard = _heard([knows, own_masks, *all_but_one])
    for user in range(3):
        assert _follows(simulation, heard["a1;r=1", user])
        for attacker in [own_masks, *all_but_one]:
            assert not _follows(simulation, heard[attacker.label, user]), attacker.label


@pytest.mark.parametrize(("name", "unknown"), [("a1", "layers.0.weight"), ("a2", "layers.0.bias"), ("fresh", "")])
def test_an_attacker_knows_all_of_a_start_but_a_factor_on_its_first_layers_weight_or_bias(name, unknown):
    true = Generator(1, 8, 10, latent=6, width=8)
    known = dict(Attacker(name=name, r="0.3").perturbed(true).named_parameters())
    for of, p in true.named_parameters():
        assert torch.equal(known[of], (p.double() * 0.3).float() if of == unknown else p), of


@pytest.mark.parametrize("name", ["fresh", "a1"])
def test_only_who_is_fresh_follows_with_a_z_of_its_own(name):
    heard, made = [], Generator(1, 8, 10, latent=6, width=8)
    twin = SimpleNamespace(generator=made, receive=lambda round, message: heard.append(message))
    eavesdropper = Eavesdropper(Attacker(name=name), 0, twin, 1, made)
    sent = {"z": torch.randn(4, 6).double(), "labels": torch.arange(4), "discriminator.bias": torch.randn(3)}
    for _ in range(2):
        eavesdropper(Message(1, "up", (0,), {f"published.{of}": tensor[None] for of, tensor in sent.items()}))
    for message in heard:
        assert message.keys() == sent.keys()
        assert all(torch.equal(message[of], sent[of]) for of in sent if of != "z")
        assert (message["z"].shape, message["z"].dtype) == (sent["z"].shape, sent["z"].dtype)
        assert (message["z"] == sent["z"]).unique().tolist() == [name != "fresh"]
    assert torch.equal(heard[0]["z"], heard[1]["z"]) == (name != "fresh")


@pytest.mark.parametrize(("r", "ulps"), [("1-1e-15", 0), ("1-1e-21", 0), ("1", 0), ("1-1e-7", None), ("0.1", None)])
def test_factors_that_round_to_one_are_no_attack(r, ulps):
    """1 - 1e-21 is 1 as a 64-bit float; 1 - 1e-15 is not, but no 32-bit weight changes by it."""
    assert (Attacker(name="a1", r="1-1e-21").factor, Attacker(name="a1", r="1-1e-15").factor < 1) == (1.0, True)
    simulation, heard = _heard(_attackers("a1", r=r))
    for user in range(3):
        found = heard[f"a1;r={r}", user]
        assert (found.ulps == 0) == (ulps == 0)
        assert _follows(simulation, found) == (ulps == 0)
        if r == "1-1e-7":
            assert 1 <= found.ulps <= 2


def test_attackers_who_know_the_same_are_one_and_each_is_reported():
    attackers = [Attacker(name=n, r=r) for n in ("a1", "a2") for r in ("1", "1-1e-21", "0.9999")]
    simulation = _simulation(
        _algorithm(attackers=[*attackers, Attacker(name="a1", masks="own"), Attacker(name="fresh")])
    )
    of_user = [e for e in simulation.eavesdroppers if e.user == 0]
    assert [set(e.labels) for e in of_user] == [
        {"a1;r=1", "a1;r=1-1e-21", "a2;r=1", "a2;r=1-1e-21"},
        {"a1;r=0.9999"},
        {"a2;r=0.9999"},
        {"a1;r=1;masks=own"},
        {"fresh"},
    ]


def test_attackers_with_the_same_start_and_masks_of_their_own_are_two():
    attackers = _attackers("a1", "a2", masks="own")
    simulation = _simulation(_algorithm(attackers=attackers))
    assert [set(e.labels) for e in simulation.eavesdroppers] == [{"a1;r=1;masks=own"}, {"a2;r=1;masks=own"}] * 3


def test_who_does_not_know_a_start_has_one_of_its_own_for_every_user_and_what_it_listens_as():
    simulation = _simulation(_algorithm(attackers=_attackers("independent", "fresh", "architecture")))
    starts = [
        torch.cat([p.flatten() for p in generator.parameters()])
        for generator in [
            *(e.twin.generator for e in simulation.eavesdroppers),
            *(m.generator for m in simulation.population.members),
        ]
    ]
    assert len(starts) == 3 * 3 + 3
    assert len({start.sum().item() for start in starts}) == len(starts)
    widths = {e.user: [] for e in simulation.eavesdroppers}
    for eavesdropper in simulation.eavesdroppers:
        widths[eavesdropper.user].append(eavesdropper.twin.generator.layers[0].out_features)
    assert widths == {user: [8, 8, 4] for user in range(3)}, "another architecture is half as wide"


@pytest.mark.parametrize(("width", "half"), [(1, 1), (2, 1), (3, 1), (6, 3)])
def test_half_of_a_width_is_a_width(width, half):
    algorithm = _algorithm(attackers=_attackers("architecture"), width=width)
    for eavesdropper in _simulation(algorithm).eavesdroppers:
        assert eavesdropper.twin.generator.layers[0].out_features == half


def test_what_attackers_draw_is_of_their_run():
    made = partial(_algorithm, attackers=_attackers("independent", "fresh"))
    everybody = [e for seed in (7, 8) for e in _simulation(made(), seed=seed).eavesdroppers]
    assert len({next(e.twin.generator.parameters()).sum().item() for e in everybody}) == 2 * 3 * 2
    assert len({e.draw.initial_seed() for e in everybody}) == 2 * 3 * 2


def test_without_dropout_there_is_no_mask_to_be_known():
    own_masks = Attacker(name="a1", masks="own")
    simulation, heard = _heard([own_masks], dropout=0.0)
    assert all(_follows(simulation, heard[own_masks.label, user]) for user in range(3))


def test_who_misses_what():
    knows, step, whole = Attacker(name="a1"), *_attackers("missed-step", "missed-round")
    _, heard = _heard([knows, step, whole])
    rounds = {name: len(heard[name, 0].twin.losses[1]) for name in ("a1;r=1", "missed-step", "missed-round")}
    assert rounds["missed-step"] == rounds["a1;r=1"] - 1
    assert rounds["missed-round"] == 0
    taken = {heard[name, 0].twin.taken for name in rounds}
    assert len(taken) == 1, "it knows how many steps it has missed, and so the masks of the next"


def test_the_servers_generators_do_not_change_the_users_training():
    """Proposition 1: with twins that follow each step, and with none that do."""
    followed, alone = (_simulation(_algorithm(share=share)) for share in ("discriminator", "once"))
    followed.run()
    alone.run()
    for name, rows in followed.population.storage.items():
        assert torch.equal(rows, alone.population.storage[name]), name


def test_units_in_the_last_place():
    a, b = (torch.nn.Linear(3, 1, bias=False) for _ in range(2))
    a.weight.data = torch.tensor([[1.0, -2.0, 0.0]])
    b.weight.data = torch.nextafter(a.weight.data, torch.tensor([[9.0, -9.0, 9.0]]))
    assert units_in_the_last_place(a, b) == 1
    b.weight.data[0, 2] = -torch.nextafter(torch.tensor(0.0), torch.tensor(1.0))
    a.weight.data[0, 2] = -0.0
    assert units_in_the_last_place(a, b) == 1


def test_full_sharing_gives_the_generator_to_everybody():
    simulation, heard = _heard(_attackers("independent"), share="all")
    assert all(_follows(simulation, e) for e in heard.values())


def test_a_generator_that_is_published_does_not_fit_who_has_another_architecture():
    simulation, heard = _heard(_attackers("architecture"), share="all")
    assert len(heard) == 3
    assert not any(_follows(simulation, e) for e in heard.values())


def test_an_eavesdropper_has_messages_and_what_it_knew_and_no_way_to_the_users():
    """What it hears are copies: nothing it does to them changes anything, and they lead nowhere else."""

    class Vandal:
        def __call__(self, message: Message) -> None:
            assert set(vars(message)) == {"round", "direction", "clients", "tensors"}
            for tensor in message.tensors.values():
                assert tensor.grad_fn is None
                tensor.zero_()

    plain, listened = _simulation(rounds=1), _simulation(rounds=1, listeners=[Vandal()])
    plain.run()
    listened.run()
    for name, rows in plain.population.storage.items():
        assert torch.equal(rows, listened.population.storage[name])
    (eavesdropper,) = _simulation(_algorithm(attackers=_attackers("independent"))).eavesdroppers[:1]
    reached = {id(o) for o in (*vars(eavesdropper).values(), *vars(eavesdropper.twin).values())}
    simulation = _simulation()
    private = (*simulation.population.members, simulation.data, simulation, simulation.server_work)
    assert not reached & {id(o) for o in private}
    with pytest.raises(AttributeError):
        eavesdropper.members  # noqa: B018


def test_attackers_survive_a_stop(tmp_path):
    made = partial(_simulation, _algorithm(attackers=_attackers("fresh", "missed-step")))
    whole, resumed = with_a_stop(made, tmp_path)
    for a, b in zip(whole.eavesdroppers, resumed.eavesdroppers, strict=True):
        pairs = zip(a.twin.generator.parameters(), b.twin.generator.parameters(), strict=True)
        assert all(torch.equal(p, q) for p, q in pairs)


def test_another_architecture_is_refused():
    (twin, *_), wider = _simulation().server_work.twins, _simulation(_algorithm(width=16)).server_work.twins[0]
    published = {f"discriminator.{name}": p.detach() for name, p in wider.discriminator.named_parameters()}
    before = [p.clone() for p in twin.generator.parameters()]
    with pytest.raises(InputError, match=r"the published discriminator\..* both sides need the same architecture"):
        twin.receive(1, published | {"z": torch.zeros(2, 6), "labels": torch.zeros(2, dtype=torch.long)})
    assert all(torch.equal(a, b) for a, b in zip(before, twin.generator.parameters(), strict=True))


@pytest.mark.parametrize("r", ["2", "-0.1", "1-2", "one", "1-x"])
def test_a_factor_outside_its_range_is_refused(r):
    with pytest.raises(InputError, match=r"attackers\.r: must be"):
        _simulation(_algorithm(attackers=_attackers("a1", r=r)))
