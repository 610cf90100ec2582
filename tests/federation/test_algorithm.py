"""How an algorithm is written down: whose data it has, and distances between models."""

import pytest
import torch
from torch import nn

from baselines.centralized import Centralized
from baselines.fedavg import FedAvg
from baselines.server_only import ServerOnly
from federation.algorithm import sq_distance
from federation.hooks import pooled
from tests.quadratic import Quadratic


def test_on_whose_data_one_client_is_trained():
    made = (Centralized, ServerOnly, FedAvg)
    assert [pooled(algorithm(objective=Quadratic())) for algorithm in made] == ["clients", "server", ""]


def test_a_distance_is_the_sum_of_squares_over_all_parameters_and_pulls_one_side_alone():
    ours, theirs = nn.Linear(2, 2), nn.Linear(2, 2)
    with torch.no_grad():
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            q.copy_(p + 0.5)
    distance = sq_distance(ours, theirs)
    assert distance.item() == pytest.approx(6 * 0.25)
    distance.backward()
    assert all(torch.allclose(p.grad, torch.full_like(p, -1)) for p in ours.parameters())
    assert all(q.grad is None for q in theirs.parameters())


@pytest.mark.parametrize("bias", [(True, False), (False, True)])
def test_a_distance_between_models_of_other_parameters_is_refused(bias):
    ours, theirs = (nn.Linear(2, 2, bias=with_bias) for with_bias in bias)
    with pytest.raises(ValueError, match=r"these parameters have no partner: \['bias'\]"):
        sq_distance(ours, theirs)


def test_a_distance_of_nothing_is_refused():
    with pytest.raises(ValueError, match="these parameters have no partner: all"):
        sq_distance(nn.Identity(), nn.Identity())
