"""Scores on test images, against the model asked image by image; equal models are asked once."""

from unittest import mock

import pytest
import torch

from baselines.ditto import Ditto
from baselines.fedavg import FedAvg
from baselines.fedavg_server import FedAvgServer
from common.spec import DataSettings
from diptych import scoring
from diptych.scoring import scores
from diptych.training import client_data
from federation import Simulation
from partitions import partition
from tests.digits import objective, training
from tests.mutation import mutated


def _dealt(**settings):
    data = {
        "image_size": 8,
        "clients_per_style": 3,
        "server_share": 0.1,
        "styles": {"all": "digits-plain[::6]"},
        **settings,
    }
    return partition(DataSettings(dataset="mnist", **data), "", seed=3)


def _trained(kind, dealt) -> Simulation:
    simulation = Simulation(kind(objective=objective("classification")), client_data(dealt, ""), training(rounds=1), 7)
    simulation.run()
    for name, rows in simulation.population.storage.items():
        if name.endswith("head.bias"):  # what clients keep says a class of its own to all images
            rows += 100 * torch.eye(10)[[0, 1, 8]]
    return simulation


def _by_hand(simulation, dealt, client: int) -> float:
    model = simulation.algorithm.personal(simulation.synchronised(client)).eval()
    right = []
    for index in dealt.tests[client].tolist():
        image = dealt.images[index : index + 1].float() / 255
        right.append(int(model.head(model.encoder(image)).argmax()) == int(dealt.labels[index]))
    return sum(right) / len(right)


def check_scores(kind, ask=scores, **settings) -> int:
    """Every client's accuracy is what its own model says of its own test images; returns how many were asked."""
    dealt = _dealt(**settings)
    simulation = _trained(kind, dealt)
    with mock.patch.object(scoring, "_means", wraps=scoring._means) as asked, torch.no_grad():
        rows = [row for row in ask(simulation, dealt) if row["client"] >= 0]
        assert [row["value"] for row in rows] == pytest.approx([_by_hand(simulation, dealt, k) for k in range(3)])
    return asked.call_count


def test_equal_models_on_equal_images_are_asked_once():
    assert check_scores(FedAvg) == 1


def test_models_or_images_that_differ_are_asked_each():
    assert check_scores(Ditto) == 3
    assert check_scores(FedAvg, test_images="dealt") == 3


@pytest.mark.parametrize(("right", "wrong"), [("torch.equal(i, j) and", ""), ("torch.equal(t, b[name])", "True")])
def test_asking_too_little_is_caught(right, wrong):
    def ask() -> None:
        check_scores(Ditto)
        check_scores(FedAvg, test_images="dealt")

    ask()
    with mutated("diptych.scoring", "_alike", right, wrong), pytest.raises(AssertionError):
        ask()


def test_a_server_without_a_model_of_its_own_has_no_scores():
    dealt = _dealt()
    simulation = _trained(FedAvgServer, dealt)
    assert {row["client"] for row in scores(simulation, dealt)} == {0, 1, 2}
