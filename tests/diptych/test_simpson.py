"""Simpson's paradox: every client's trend, the engine's regression, and what a router needs to be told."""

import numpy as np
import pytest

from common.spec import OptimiserSettings, ServerSettings, TrainingSettings
from diptych.cli import main
from diptych.simpson import _lines, federated, for_points, private_biases, router
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


def test_a_router_needs_the_target_to_be_nearly_right():
    """App. C.1's error is that of a router that is given y; without it, x says little of the client."""
    points = simpson(1)
    everyone = points.reshape(-1, 2)
    slope, biases = private_biases(points, 1)
    said = slope * everyone[:, :1] + biases
    with_target, without = (router(everyone, said, 1, sees_target=sees) for sees in (True, False))
    assert with_target < 0.02
    assert without > 5 * with_target
    line = _lines("", "private biases", points, slope, biases)
    assert len(line) == 16


def test_more_seeds_than_a_scale_has_go_on_from_its_first(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("diptych.simpson.measure", lambda scale, seeds, *files: asked.append(seeds))
    files = "--out", str(tmp_path / "records.csv"), "--points", str(tmp_path / "points.csv")
    first = load_study("tiny").scale.seeds
    for more in ([], ["--seeds", "3"]):
        assert main(["simpson", "--scale", "tiny", *files, *more]) == 0
    assert asked == [first, [first[0], first[0] + 1, first[0] + 2]]
    assert main(["simpson", "--scale", "tiny", *files, "--seeds", "0"]) == 2
