"""What moving images onto others costs, against permutations, SciPy and POT."""

import itertools

import numpy as np
import ot
import pytest
from scipy.optimize import linear_sum_assignment

from evaluation import transport
from evaluation.transport import Cost, exact, flat, sinkhorn
from partitions.rotations import rotated
from tests.digits import dealt
from tests.mutation import mutated


def _points(n: int, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, d))


def _costs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.square(a[:, None] - b[None]).sum(axis=-1)


def test_images_are_points_of_the_unit_cube():
    images = np.array([0, 51, 255, 102], dtype=np.uint8).reshape(2, 1, 1, 2)
    np.testing.assert_allclose(flat(images), [[0, 0.2], [1, 0.4]])


# ---- exactly


def check_exact(measure) -> None:
    """The cheapest of all 120 assignments of five points; SciPy's of forty."""
    a, b = _points(5), _points(5, seed=1)
    by_hand = min(_costs(a, b)[range(5), order].mean() for order in itertools.permutations(range(5)))
    assert measure(a, b).value == pytest.approx(by_hand)
    a, b = _points(40), _points(40, seed=1)
    assert measure(a, b).value == pytest.approx(_costs(a, b)[linear_sum_assignment(_costs(a, b))].mean())


def test_it_is_the_cheapest_assignment():
    check_exact(exact)


@pytest.mark.parametrize("wrong", ["ot.dist(a, b, metric='euclidean')", "ot.dist(a, a)", "ot.dist(a, b) / 2"])
def test_another_cost_is_caught(wrong):
    with (
        mutated("evaluation.transport", "exact", "ot.dist(a, b)", wrong) as mutant,
        pytest.raises(AssertionError),
    ):
        check_exact(mutant)


def test_equal_sets_are_no_distance_apart():
    a = _points(30)
    assert exact(a, a[::-1]) == Cost(pytest.approx(0, abs=1e-12))


def test_moving_all_points_costs_the_square_of_how_far():
    a, b, t = _points(30), _points(20, seed=1), np.array([0.3, -2.0, 0.0, 1.0])
    assert exact(a, a + t).value == pytest.approx(np.square(t).sum())
    apart = a.mean(axis=0) - b.mean(axis=0)  # of any two sets: |t|^2, and twice t times the distance of their means
    assert exact(a + t, b).value == pytest.approx(exact(a, b).value + np.square(t).sum() + 2 * t @ apart)


def test_sets_of_different_sizes():
    """Of two points onto one, of one onto three, by hand; of six onto four, each copied until there are twelve."""
    one = np.zeros((1, 2))
    assert exact(np.array([[1.0, 0.0], [0.0, 3.0]]), one).value == pytest.approx(5)
    assert exact(one, np.array([[1.0, 0.0], [0.0, 3.0], [1.0, 1.0]])).value == pytest.approx(4)
    a, b = _points(6), _points(4, seed=1)
    copies = _costs(a.repeat(2, axis=0), b.repeat(3, axis=0))
    assert exact(a, b).value == pytest.approx(copies[linear_sum_assignment(copies)].mean())


def test_an_unfinished_plan_is_refused(monkeypatch):
    unfinished = 1.0, {"warning": "numItermax reached before optimality"}
    monkeypatch.setattr(ot, "emd2", lambda *args, **settings: unfinished)
    with pytest.raises(RuntimeError, match="optimal transport: numItermax reached"):
        exact(_points(3), _points(3))


def test_there_are_iterations_enough_for_thousands_of_images(monkeypatch):
    asked = []
    monkeypatch.setattr(ot, "emd2", lambda *args, **settings: asked.append(settings) or (1.0, {"warning": None}))
    assert exact(_points(3), _points(3)) == Cost(1.0, 0.0, 0.0)
    assert asked[0]["numItermax"] >= 10_000_000


# ---- as published


def _with(monkeypatch, **constants: float) -> None:
    for name, value in constants.items():
        monkeypatch.setattr(transport, name, value)


def _by_hand(cost: np.ndarray, epsilon: float, iterations: int, least: float) -> np.ndarray:
    """Sinkhorn's plan by scaling rows and columns of exp(-cost / epsilon) in turn."""
    kernel, v = np.exp(-cost / epsilon), np.ones(cost.shape[1])
    for _ in range(iterations):
        u = (1 / len(cost) + least) / (kernel @ v)
        v = (1 / cost.shape[1] + least) / (kernel.T @ u)
    return u[:, None] * kernel * v


@pytest.mark.parametrize("iterations", [1, 2, 7])
@pytest.mark.parametrize("sizes", [(12, 12), (12, 7)])
@pytest.mark.parametrize("least", [0, 0.01])
def test_sinkhorn_is_what_the_definition_says_after_every_iteration(iterations, sizes, least, monkeypatch):
    """And with a little more mass to each point, as FedINB's code has it."""
    _with(monkeypatch, EPSILON=0.05, STILL=0, ITERATIONS=iterations, LEAST=least)
    a, b = _points(sizes[0]), _points(sizes[1], seed=1)
    plan = _by_hand(_costs(a, b), 0.05, iterations, least)
    found = sinkhorn(a, b)
    assert found.value == pytest.approx((plan * _costs(a, b)).sum())
    assert found.iterations == iterations
    assert found.marginal_error == pytest.approx(np.abs(plan.sum(axis=1) - 1 / sizes[0]).sum())


def test_when_it_converges_it_is_pots_plan_and_nearly_the_exact_cost(monkeypatch):
    _with(monkeypatch, EPSILON=0.02, STILL=0, ITERATIONS=1000)
    a, b = _points(40), _points(40, seed=1)
    plan = ot.bregman.sinkhorn_log([], [], _costs(a, b), reg=0.02, numItermax=2000)
    found = sinkhorn(a, b)
    assert found.value == pytest.approx((plan * _costs(a, b)).sum(), rel=1e-4)
    assert found.value == pytest.approx(exact(a, b).value, rel=0.1)
    assert found.marginal_error < 1e-4


def test_as_published_it_stops_long_before_the_plan_is_one():
    """Digits, and the same turned by 60 degrees: after a few iterations most of the mass is not where it should be."""
    split = dealt()
    digits = split.images[split.labels == 0][:80]
    a, b = flat(digits[:40].numpy()), flat(rotated(digits, 60)[40:].numpy())
    found = sinkhorn(a, b)
    assert found.iterations < 10
    assert found.marginal_error > 0.5
    assert abs(found.value / exact(a, b).value - 1) > 0.02


def test_it_stops_when_u_hardly_changes(monkeypatch):
    _with(monkeypatch, EPSILON=0.05)
    a, b = _points(12), _points(12, seed=1)
    _with(monkeypatch, STILL=1e-6)
    long = sinkhorn(a, b).iterations
    _with(monkeypatch, STILL=1e-2)
    assert 1 < sinkhorn(a, b).iterations < long < transport.ITERATIONS


@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_it_stops_after_the_first_iteration_whose_changes_of_u_are_small_in_sum(iterations, monkeypatch):
    """u is the logarithm of what rows are scaled by, times the regularisation; each point has a little more mass."""
    a, b, mass = _points(12), _points(12, seed=1), 1 / 12 + 0.01
    kernel, v, u, changes = np.exp(-_costs(a, b) / 0.05), np.ones(12), np.zeros(12), list[float]()
    for _ in range(iterations):
        before, scaled = u, mass / (kernel @ v)
        u, v = 0.05 * np.log(scaled), mass / (kernel.T @ scaled)
        changes.append(np.abs(u - before).sum())
    assert changes == sorted(changes, reverse=True)
    _with(monkeypatch, EPSILON=0.05, LEAST=0.01, STILL=changes[-1] * 1.001)
    assert sinkhorn(a, b).iterations == iterations
    _with(monkeypatch, STILL=changes[-1] * 0.999)
    assert sinkhorn(a, b).iterations > iterations


def test_chunks_are_moved_each_on_its_own_and_count_by_their_images(monkeypatch):
    _with(monkeypatch, EPSILON=0.05, CHUNK=10)
    a, b = _points(24), _points(24, seed=1)
    parts = [sinkhorn(a[i : i + 10], b[i : i + 10]) for i in (0, 10, 20)]
    for field in ("value", "iterations", "marginal_error"):
        mean = np.average([getattr(part, field) for part in parts], weights=[10, 10, 4])
        assert getattr(sinkhorn(a, b), field) == pytest.approx(mean)
    assert sinkhorn(a, b).value != pytest.approx(np.mean([part.value for part in parts]), rel=1e-3)
