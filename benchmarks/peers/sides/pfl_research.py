"""pfl-research: its federated averaging on one process, whose operators have as many threads as they are given."""

from typing import Any

import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from benchmarks.peers.problem import AfterRound, Problem, network


class _Trained(nn.Module):
    """The network with what pfl asks of one."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.network = network()
        self.network.load_state_dict(problem.initial)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.network(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        return {}


class _Rounds(TrainingProcessCallback):
    def __init__(self, after_round: AfterRound) -> None:
        self.after_round = after_round

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        self.after_round(model.pytorch_model.network.state_dict())
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.after_round(model.pytorch_model.network.state_dict())
        return False, Metrics()


def run(problem: Problem, workers: int, rounds: int, after_round: AfterRound) -> None:
    """One client after the other, torch with `workers` threads."""
    torch.set_num_threads(workers)
    trained = _Trained(problem)
    model = PyTorchModel(trained, torch.optim.SGD, torch.optim.SGD(trained.parameters(), lr=1.0))
    sampler = get_user_sampler("minimize_reuse", list(range(problem.clients)))
    users = FederatedDataset(lambda client: PyTorchTensorDataset(problem.of(client)), sampler)
    backend = SimulatedBackend(training_data=users, val_data=users, postprocessors=[WeightByDatapoints()])
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=rounds + 1,
            train_cohort_size=problem.sampled,
            val_cohort_size=0,
        ),
        backend,
        model,
        NNTrainHyperParams(
            local_num_epochs=1,
            local_learning_rate=problem.rate,
            local_batch_size=problem.batch,
        ),
        NNEvalHyperParams(local_batch_size=problem.batch),
        callbacks=[_Rounds(after_round)],
        send_metrics_to_platform=False,
    )
