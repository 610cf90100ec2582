"""Simpson's paradox: every client's trend, the engine's regression, and what a router needs to be told."""

import numpy as np
import pytest

from common.keys import random_key
from common.spec import OptimiserSettings, ServerSettings, TrainingSettings
from diptych.cli import main
from diptych.simpson import _differs, case, federated, for_points, own_regressions, private_biases, router
from diptych.study import load_study
from federation import Simulation
from objectives.linear import LinearRegression
from partitions.simpson import simpson


def test_the_federated_weight_finds_every_clients_trend():
    points = simpson(1)
    slope, biases = private_biases(points, 1)
    centred = points - points.mean(axis=1, keepdims=True)
    within = (centred[..., 0] * centred[..., 1]).sum() / (centred[..., 0] ** 2).sum()
    assert slope == pytest.approx(within, abs=0.05)
    np.testing.assert_allclose(biases, (points[..., 1] - slope * points[..., 0]).mean(axis=1), atol=0.05)


def test_the_regression_of_all_clients_at_once_is_the_engines():
    """FedPer on LinearRegression, trained client by client."""
    points = simpson(3, clients=3, points=20)
    settings = TrainingSettings(
        rounds=4, batch_size=10, optimiser=OptimiserSettings(lr=0.2), server=ServerSettings(weighting="uniform")
    )
    engine = federated("fedper", for_points(LinearRegression), points, 3, settings, engine=Simulation)
    slope, biases = private_biases(points, 3, rounds=4)
    assert slope == pytest.approx(float(engine.server.tensors["encoder.weight"]), rel=1e-5)
    np.testing.assert_allclose(biases, engine.population.storage["head.b"].ravel(), rtol=1e-5)


def test_a_regression_for_each_client_is_its_own_least_squares():
    points = simpson(2, clients=3, points=20)
    slopes, biases = own_regressions(points)
    for own, slope, bias in zip(points, slopes, biases, strict=True):
        np.testing.assert_allclose(np.polyfit(own[:, 0], own[:, 1], 1), (slope, bias))


def test_the_routed_regressions_are_each_clients_alone(monkeypatch):
    """As App. C.1 has them (erratum padpaf-e05), and beside them those that share a slope, which say so."""
    points = simpson(random_key(5, "simpson"), reading="paper")
    x, (slopes, biases) = points.reshape(-1, 2)[:, :1], own_regressions(points)
    routed = []
    monkeypatch.setattr(
        "diptych.simpson.router", lambda points, said, seed, sees_target: routed.append((said, sees_target)) or 0.0
    )
    errors, _ = case("paper-data", 5)
    assert [sees for _, sees in routed] == [True, False, True]
    for said, _ in routed[:2]:
        np.testing.assert_allclose(said, slopes * x + biases)
    shared, own = private_biases(points, 5)
    np.testing.assert_allclose(routed[2][0], shared * x + own)
    assert [key for key in errors if key[0] == "linear-regression-routed"] == [
        ("linear-regression-routed", variant, "mse")
        for variant in ("paper-data", "paper-data;x-only", "paper-data;federated")
    ]
    assert _differs("linear-regression-routed", "cluttered;x-only") == "data.clutter router.input"
    assert _differs("linear-regression-routed", "") == ""


def test_a_router_needs_the_target_to_be_nearly_right():
    """App. C.1's error is that of a router that is given y; without it, x says little of the client."""
    points = simpson(1)
    everyone = points.reshape(-1, 2)
    slopes, biases = own_regressions(points)
    said = slopes * everyone[:, :1] + biases
    with_target, without = (router(everyone, said, 1, sees_target=sees) for sees in (True, False))
    assert with_target < 0.02
    assert without > 5 * with_target


def test_more_seeds_than_a_scale_has_go_on_from_its_first(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("diptych.simpson.measure", lambda scale, seeds, *files: asked.append(seeds))
    files = "--out", str(tmp_path / "records.csv"), "--points", str(tmp_path / "points.csv")
    first = load_study("tiny").scale.seeds
    for more in ([], ["--seeds", "3"]):
        assert main(["simpson", "--scale", "tiny", *files, *more]) == 0
    assert asked == [first, [first[0], first[0] + 1, first[0] + 2]]
    assert main(["simpson", "--scale", "tiny", *files, "--seeds", "0"]) == 2
