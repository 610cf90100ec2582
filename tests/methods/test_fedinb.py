"""FedINB's exchanges: what is said, what it costs, what it raises, and what it leaves to every client."""

import itertools
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch

from common.errors import InputError
from common.settings import checked
from federation import ClientData, Simulation
from federation.channel import Message
from methods.fedinb import FedINB
from networks import INBDigits, Pixels
from objectives import Autoencoder
from tests.digits import training
from tests.mutation import mutated

DOMAINS, CLASSES, N, D, K, B1 = 3, 2, 40, 9, 3, 8
SIZES = {"layers": 2, "directions": K, "iterations": 12, "map_bins": B1}


def _objective(network=Pixels, image_size: int = 3, classes: int = CLASSES) -> Autoencoder:
    images = {"channels": 1, "image_size": image_size}
    return Autoencoder(encoder=partial(network, **images), classes=classes, **images)


def _codes() -> torch.Tensor:
    """(domains, classes, n, d): of each class the same cloud, turned and moved; on pixels, INB works on these."""
    draw = torch.Generator().manual_seed(0)
    cloud = torch.randn(1, CLASSES, N, D, generator=draw) * torch.linspace(0.2, 1, D)
    turn = torch.linalg.qr(torch.randn(DOMAINS, 1, D, D, generator=draw)).Q
    return (cloud @ turn + torch.randn(DOMAINS, CLASSES, 1, D, generator=draw)) / 2


def _data(domains: int = DOMAINS) -> ClientData:
    """The same as images of 3 x 3 pixels, each client's in an order of its own."""
    images = torch.special.ndtr(_codes())[:domains].reshape(-1, 1, 3, 3)
    labels = torch.arange(CLASSES).repeat_interleave(N).repeat(domains)
    draw = torch.Generator().manual_seed(1)
    clients = tuple(2 * N * m + torch.randperm(2 * N, generator=draw) for m in range(domains))
    return ClientData(images, labels, clients)


def _simulation(kind=FedINB, dealt=None, listeners=(), rounds: int = 2, objective=None, **settings) -> Simulation:
    share = settings.pop("participation", 1.0)
    algorithm = kind(objective=objective or _objective(), **{**SIZES, **settings})
    asked = training(rounds=rounds, participation=share)
    return Simulation(algorithm, dealt or _data(), asked, 7, listeners=listeners)


def _trained(**settings) -> Simulation:
    simulation = _simulation(**settings)
    simulation.run()
    return simulation


def _heard(**settings) -> tuple[Simulation, list[Message]]:
    heard: list[Message] = []
    return _trained(listeners=[heard.append], **settings), heard


def _said(heard: list[Message], name: str, direction: str = "") -> list[torch.Tensor]:
    return [m.tensors[name] for m in heard if name in m.tensors and direction in ("", m.direction)]


# ---- the search


def check_search(bins: int | None = None) -> None:
    """In each layer and class the objective never falls, and in the first layer it rises; in later ones the gradient
    that histograms give need not be one, so that a search may end at once."""
    notes = _trained(bins=bins, iterations=25).notes
    cases = sorted({(row["round"], row["class"]) for row in notes})
    assert cases == [(layer, c) for layer in (1, 2) for c in range(CLASSES)]
    for case in cases:
        rows = [row for row in notes if (row["round"], row["class"]) == case]
        assert [row["iteration"] for row in rows] == list(range(1, len(rows) + 1))
        values = [row["objective"] for row in rows]
        assert all(later >= sooner - 1e-6 for sooner, later in itertools.pairwise(values))
        assert values[-1] > 1.5 * values[0] or case[0] > 1


@pytest.mark.parametrize("bins", [None, 6])
def test_the_objective_never_falls(bins):
    check_search(bins)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (
            "again = found > loss[left] + ARMIJO * tau[left] * slope[left]",
            "again = torch.zeros_like(found, dtype=bool)",
        ),
        ("gradient = self.exchange.up(gradient=own).double()", "gradient = -self.exchange.up(gradient=own).double()"),
        ("self.theta[which], self.loss[which], self.centre[which] = theta, loss, centre", "self.loss[which] = loss"),
    ],
)
def test_a_wrong_search_is_caught(right, wrong):
    with mutated("methods.fedinb", "Search", right, wrong), pytest.raises(AssertionError):
        check_search()


def _searched(x: torch.Tensor, theta: torch.Tensor, iterations: int) -> list[tuple[int, float]]:
    """Trials and objective of each iteration with all of a class's samples (domains, n, d) in one place, 64 bits and
    d x d matrices: Algorithm 1 as it would be without federation, on the sum over domains, as the authors' code."""

    def objective(theta: torch.Tensor) -> torch.Tensor:
        ordered = (x @ theta).sort(dim=1).values
        return len(x) * (ordered - ordered.mean(dim=0)).square().mean()

    tau, eye, found = 0.1, torch.eye(D).double(), []
    for _ in range(iterations):
        at = theta.requires_grad_()
        before = objective(at)
        a = -torch.autograd.grad(before, at)[0] @ at.mT
        a, theta, trials = (a - a.mT).detach(), theta.detach(), 0
        while True:
            trials += 1
            moved = torch.linalg.solve(eye + tau / 2 * a, (eye - tau / 2 * a) @ theta)
            if objective(moved) >= before + 0.5 * tau * a.square().sum() / 2:
                break
            tau /= 2
        theta, tau = moved, tau * 1.5
        found.append((trials, float(objective(theta).detach()) / len(x)))
    return found


def check_against_the_central_search() -> None:
    simulation, heard = _heard(rounds=1, iterations=20)
    start = _said(heard, "theta")[0].double()
    for c in range(CLASSES):
        rows = [row for row in simulation.notes if row["class"] == c]
        expected = _searched(_codes()[:, c].double(), start[c], 20)
        assert [row["trials"] for row in rows] == [trials for trials, _ in expected]
        assert [row["objective"] for row in rows] == pytest.approx([value for _, value in expected], rel=1e-4)
        assert max(trials for trials, _ in expected) > 1


def test_it_finds_what_a_central_search_does():
    check_against_the_central_search()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("inb.first_step * self.domains", "inb.first_step"),
        ("tau[left] *= SHRINK", "tau[left] *= 0.8 * SHRINK"),
        ("self.tau[which] = tau * GROWTH", "self.tau[which] = tau"),
        ("ARMIJO * tau[left] * slope[left]", "tau[left] * slope[left]"),
        ("stiefel.recovered(theta, tried, tau)", "stiefel.recovered(theta, tried, 2 * tau)"),
    ],
)
def test_another_search_is_caught(right, wrong):
    with mutated("methods.fedinb", "Search", right, wrong), pytest.raises(AssertionError):
        check_against_the_central_search()


def test_each_layer_of_each_run_begins_with_directions_of_its_own():
    heard: list[Message] = []
    for seed in (7, 8):
        algorithm = FedINB(objective=_objective(), **SIZES | {"iterations": 1})
        Simulation(algorithm, _data(), training(rounds=2), seed, listeners=[heard.append]).run()
    starts = _said(heard, "theta")[::2]  # what is tried next is said, too
    assert len(starts) == 2 * 2
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(starts, 2))


def test_directions_stay_orthonormal():
    simulation, heard = _heard(iterations=60)
    steps = _said(heard, "theta")
    assert len(steps) > 60
    for theta in (*steps, simulation.population.storage["theta"]):
        torch.testing.assert_close(theta.mT @ theta, torch.eye(K).expand(*theta.shape[:-2], K, K), atol=1e-6, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"bins": N - 1, "barycenter": "through"}])
@pytest.mark.parametrize(("alone", "other"), [(1, 0), (0, 1)])
def test_a_class_that_stands_still_is_left_alone(alone, other, settings):
    """One that is alike in all domains has nothing to search; the other goes on as if that one moved."""
    alike = _codes()
    alike[:, alone] = alike[0, alone]
    one, iterations = _data(), 8
    images = torch.special.ndtr(alike).reshape(-1, 1, 3, 3)
    still = _trained(
        dealt=ClientData(images, one.labels, one.clients), rounds=1, iterations=iterations, **settings
    ).notes
    both = _trained(rounds=1, iterations=iterations, **settings).notes
    assert [row["objective"] for row in still if row["class"] == alone] == pytest.approx([0], abs=1e-12)
    first, again = ([row["objective"] for row in notes if row["class"] == other] for notes in (both, still))
    assert len(first) == iterations
    assert again == pytest.approx(first)


# ---- what is said


def check_first_words(bins: int | None) -> None:
    """The first slices, barycenter, losses and gradients, worked out from images and what was heard."""
    _, heard = _heard(bins=bins, rounds=1, iterations=1)
    theta, slices_up, centre, losses, gradients = (
        _said(heard, name)[0] for name in ("theta", "slices", "barycenter_slices", "loss", "gradient")
    )
    samples = _codes()
    q = np.linspace(0, 1, N if bins is None else bins + 1)
    heard_edges = centre.double().numpy()
    at = np.linspace(0, 1, N)
    places = torch.from_numpy(np.apply_along_axis(lambda edges: np.interp(at, q, edges), -1, heard_edges))
    own_edges = []
    for m in range(DOMAINS):
        by_rank = theta.double().requires_grad_()
        ordered = torch.einsum("cnd,cdk->ckn", samples[m].double(), by_rank).sort(dim=-1).values
        own_edges.append(np.moveaxis(np.quantile(ordered.detach().numpy(), q, axis=-1), 0, -1))
        loss = -(ordered - places).square().mean(dim=(-1, -2)) / DOMAINS
        np.testing.assert_allclose(slices_up[m].numpy(), own_edges[m], atol=1e-4)
        np.testing.assert_allclose(losses[m].numpy(), loss.detach().numpy(), atol=1e-5)
        np.testing.assert_allclose(gradients[m].numpy(), torch.autograd.grad(loss.sum(), by_rank)[0], atol=1e-5)
    np.testing.assert_allclose(centre.numpy(), np.mean(own_edges, axis=0), atol=1e-4)


def check_gradient_through(bins: int = 6) -> None:
    """Of the whole loss, by each client's slices: autograd through matrices whose columns numpy interpolates."""
    _, heard = _heard(bins=bins, barycenter="through", rounds=1, iterations=1)
    q, at = np.linspace(0, 1, bins + 1), np.linspace(0, 1, N)
    edges = torch.tensor(np.stack([np.interp(q, at, unit) for unit in np.eye(N)], axis=-1))
    places = torch.tensor(np.stack([np.interp(at, q, unit) for unit in np.eye(bins + 1)], axis=-1))
    theta = _said(heard, "theta")[0].double().expand(DOMAINS, -1, -1, -1).clone().requires_grad_()
    ordered = torch.einsum("mcnd,mcdk->mckn", _codes().double(), theta).sort(dim=-1).values
    centre = (ordered @ edges.mT).mean(dim=0) @ places.mT
    loss = -(ordered - centre).square().mean(dim=(-1, -2)).mean(dim=0).sum()
    torch.testing.assert_close(
        _said(heard, "gradient")[0].double(), torch.autograd.grad(loss, theta)[0], atol=1e-5, rtol=0
    )


def test_the_gradient_goes_through_the_barycenter_if_asked_to():
    check_gradient_through()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("return centre + slices", "return centre - slices"),
        ("slices.gathered(apart, bins + 1)).mean", "slices.gathered(apart, bins + 1)).sum"),
        ('self.inb.barycenter == "constant"', "True"),
    ],
)
def test_another_way_through_is_caught(right, wrong):
    with mutated("methods.fedinb", "Search", right, wrong), pytest.raises(AssertionError):
        check_gradient_through()


def test_with_sorted_samples_the_barycenter_may_as_well_be_a_constant():
    """Remark 1."""
    constant, through = (
        _trained(bins=bins, barycenter=kind, iterations=5).population.storage["theta"]
        for bins, kind in ((None, "constant"), (None, "through"))
    )
    assert torch.equal(constant, through)
    all_edges = _trained(bins=N - 1, barycenter="through", iterations=5).population.storage["theta"]
    torch.testing.assert_close(all_edges, constant, atol=1e-4, rtol=0)


def test_a_search_through_the_barycenter_finds_steps_where_one_beside_it_ends():
    """In later layers, with few bins, what a constant barycenter promises is not there (`check_search`)."""
    notes = [
        _trained(bins=3, barycenter=kind, iterations=25, layers=4, rounds=4).notes for kind in ("constant", "through")
    ]
    trials, found = ([sum(row["trials"] for row in one) / len(one) for one in notes], [len(one) for one in notes])
    assert trials[1] < trials[0]
    assert found[1] > found[0]


@pytest.mark.parametrize("bins", [None, 6])
def test_clients_say_their_quantiles_and_the_gradient_with_a_constant_barycenter(bins):
    check_first_words(bins)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("slices.histogram(ordered.values, bins)", "slices.histogram(slices.slices(self.x, theta.to(self.x)), bins)"),
        ("slices.histogram(ordered.values, bins)", "slices.histogram(ordered.values.flip(0), bins)"),
        ("self._left_behind(which), which)", "self._sorted(which).values.mean(dim=0), which)"),
        ("self._left_behind(which), which) / self.domains", "self._left_behind(which), which)"),
        ("self._sorted(which), self._left_behind(which)", "self._sorted(which), 0 * self.centre[which]"),
    ],
)
def test_other_words_are_caught(right, wrong):
    with mutated("methods.fedinb", "Search", right, wrong), pytest.raises(AssertionError):
        check_first_words(bins=6)


def test_with_a_bin_between_any_two_samples_histograms_change_nothing():
    sorted_, binned = _trained(bins=None, iterations=5), _trained(bins=N - 1, iterations=5)
    for name, rows in sorted_.population.storage.items():
        torch.testing.assert_close(rows, binned.population.storage[name], atol=1e-4, rtol=0)
    assert [r["trials"] for r in sorted_.notes] == [r["trials"] for r in binned.notes]
    fewer = _trained(bins=N // 4, iterations=5).population.storage["theta"]
    assert (fewer - sorted_.population.storage["theta"]).abs().max() > 1e-3


def check_traffic(bins: int | None = 6) -> None:
    """2 J K (d + V) + 2 J' K V + K (B1 + 2) + K (100 + 2) numbers for each client, layer and class, and what has to be
    added: a layer's first theta, slices and barycenter, V + 1 edges of V bins, losses, and flags."""
    simulation = _trained(bins=bins)
    searches, edges = 2 * CLASSES, N if bins is None else bins + 1
    j = len(simulation.notes)
    extra = int(sum(row["trials"] for row in simulation.notes)) - j
    assert extra > 0
    counted = [Counter() for _ in range(DOMAINS)]
    for (_, client, direction, name), size in simulation.channel.traffic.items():
        counted[client][direction, name] += size
    expected = {
        ("up", "gradient"): j * K * D,
        ("down", "theta"): (j + searches) * K * D,
        ("up", "slices"): (j + extra + searches) * K * edges,
        ("down", "barycenter_slices"): (j + extra + searches) * K * edges,
        ("up", "loss"): j + extra + searches,
        ("up", "histogram"): searches * K * (B1 + 2),
        ("down", "barycenter"): searches * K * (100 + 2),
        ("down", "halved"): (j + extra) / 4,  # one byte each
    }
    assert all({key: size / 4 for key, size in one.items()} == expected for one in counted)
    v = edges if bins is None else bins
    formula = 2 * j * K * (D + v) + 2 * extra * K * v + searches * K * (B1 + 2) + searches * K * (100 + 2)
    first, ends = searches * K * (D + 2 * edges), 2 * (j + extra) * K * (edges - v)
    scalars = (j + extra + searches) + (j + extra) / 4
    assert sum(counted[0].values()) / 4 == formula + first + ends + scalars


@pytest.mark.parametrize("bins", [None, 6])
def test_what_crosses_is_what_the_formula_says(bins):
    check_traffic(bins)


def test_words_that_nobody_counted_are_caught():
    again = "self.exchange.down(halved=again)"
    with (
        mutated("methods.fedinb", "Search", again, f"{again}; self.exchange.down(theta=tried)"),
        pytest.raises(AssertionError),
    ):
        check_traffic()


# ---- what is left


def test_translators_are_inverted_and_bring_domains_together():
    simulation, samples = _trained(layers=4, rounds=4, directions=D), _codes()
    algorithm, members = simulation.algorithm, simulation.population.members
    x, y = torch.special.ndtr(samples).reshape(DOMAINS, -1, 1, 3, 3), torch.arange(CLASSES).repeat_interleave(N)
    for a, b in itertools.product(range(DOMAINS), repeat=2):
        with torch.no_grad():
            found = (
                members[b].encoder(algorithm.translate(members[a], [members[b]], x[a], y)[0]).unflatten(0, (CLASSES, N))
            )
        if a == b:
            assert (found - samples[a]).abs().amax(dim=-1).quantile(0.95) < 1e-3
        else:
            before, after = ((part.mean(1) - samples[b].mean(1)).norm(dim=-1) for part in (samples[a], found))
            assert (after < 0.2 * before).all()


def test_source_and_target_are_not_interchanged():
    simulation, everyone = _trained(), _data()
    source, target = simulation.population.members[:2]
    x, y = everyone.images[everyone.clients[0]], everyone.labels[everyone.clients[0]]
    with torch.no_grad():
        expected = target.images(source.latent(x, y), y)
        there, back = simulation.algorithm.translate(source, [target, source], x, y)
        assert torch.equal(there, expected)
        assert torch.equal(back, source.images(source.latent(x, y), y))
        assert not torch.allclose(target.latent(x, y), source.latent(x, y), atol=1e-3)


def test_all_domains_have_the_same_directions_and_barycenters_and_a_distribution_of_their_own():
    storage = _trained().population.storage
    for name in ("theta", "barycenter"):
        assert (storage[name] == storage[name][:1]).all()
    assert (storage["own"] != storage["own"][:1]).flatten(1).any(dim=1).tolist() == [False, True, True]


def test_a_layer_that_a_client_was_not_at_leaves_its_images_alone():
    simulation, everyone = _trained(participation=0.67), _data()
    for layer, present in enumerate(simulation.schedule):
        assert len(present) == 2
        for client, member in enumerate(simulation.population.members):
            z = member.encoder(everyone.images[everyone.clients[client]])[None].expand(CLASSES, -1, -1)
            assert torch.equal(member.layer(layer).forward(z), z) == (client not in present)


def test_auto_encoders_are_trained_before_the_first_layer_each_on_its_own():
    objective = _objective(INBDigits, image_size=8)
    images = torch.rand(2 * 2 * N, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    dealt = ClientData(images, torch.arange(2).repeat(2 * N), tuple(torch.arange(4 * N).split(2 * N)))
    simulation = _trained(objective=objective, dealt=dealt, rounds=1, iterations=2, autoencoder_epochs=3)
    assert {(row["stage"], row["steps"]) for row in simulation.history} == {("prologue", 15)}
    start = simulation.template.state_dict()
    for name, rows in simulation.population.storage.items():
        if name.startswith(("encoder.", "decoder.")):
            assert (rows[0] != rows[1]).any()
            assert (rows[0] != start[name]).any()
    untrained = _trained(objective=objective, dealt=dealt, rounds=1, iterations=2, autoencoder_epochs=0)
    assert not untrained.history
    assert torch.equal(untrained.population.storage["encoder.layers.0.weight"][0], start["encoder.layers.0.weight"])


def test_auto_encoders_of_another_run_stay_as_they_are():
    objective = _objective(INBDigits, image_size=8)
    start = {name: torch.rand(2, *t.shape) for name, t in objective.model().state_dict().items()}
    algorithm = FedINB(objective=objective, **SIZES, autoencoder_epochs=0)
    images, labels = torch.rand(4 * N, 1, 8, 8), torch.arange(CLASSES).repeat(2 * N)
    dealt = ClientData(images, labels, tuple(torch.arange(4 * N).split(2 * N)))
    simulation = Simulation(algorithm, dealt, training(rounds=1), 7, start=start)
    simulation.run()
    assert all(torch.equal(simulation.population.storage[name], rows) for name, rows in start.items())


def test_pixels_need_no_training():
    assert not _trained(autoencoder_epochs=50).history


# ---- bad input


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"directions": D + 1}, r"algorithm\.directions: there are 9 dimensions, got 10 directions"),
        ({"bins": 0}, r"algorithm\.bins: .*greater than 0, got 0"),
        ({"map_bins": 1}, r"algorithm\.map_bins: .*greater than or equal to 2, got 1"),
        ({"iterations": 0}, r"algorithm\.iterations: .*greater than 0, got 0"),
        ({"layers": 0}, r"algorithm\.layers: .*greater than 0, got 0"),
        ({"autoencoder_epochs": -1}, r"algorithm\.autoencoder_epochs: .*greater than or equal to 0, got -1"),
        ({"direction": 2}, r"algorithm\.direction: unknown key; did you mean 'directions'"),
    ],
)
def test_settings_that_make_no_sense(settings, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        checked(FedINB, "algorithm", settings, objective=_objective())


def _without(keep) -> ClientData:
    one = _data()
    return ClientData(one.images, one.labels, (keep(one.clients[0], one.labels[one.clients[0]]), *one.clients[1:]))


@pytest.mark.parametrize(
    ("dealt", "more", "sentence"),
    [
        (_data(domains=1), {}, "data: translation needs two domains, got 1"),
        (_without(lambda i, y: i[y != 1]), {}, r"data\.per_class: .* each class at each client.*got between 0 and 40"),
        (_without(lambda i, y: i[1:]), {}, r"data\.per_class: .* each class at each client.*got between 39 and 40"),
        (None, {"participation": 0.34}, "data: translation needs two domains, got 1"),
        (None, {"rounds": 3}, r"training\.rounds: there are 2 layers \(algorithm\.layers\), got more rounds"),
    ],
)
def test_data_that_do_not_fit(dealt, more, sentence):
    with pytest.raises(InputError, match=sentence):
        _simulation(dealt=dealt, **more)


def test_single_images_are_refused():
    one = _data()
    first = tuple(torch.stack([i[one.labels[i] == c][0] for c in range(CLASSES)]) for i in one.clients)
    with pytest.raises(InputError, match=r"data\.per_class: .*two or more; got between 1 and 1"):
        _simulation(dealt=ClientData(one.images, one.labels, first))
