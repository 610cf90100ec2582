"""Flower's simulation: its FedAvg, and clients that Ray's actors play, one core each."""

import os
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.nn.functional as F
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.peers.problem import AfterRound, Problem, network

FILE = "PEERS_PROBLEM"
"""Where actors, which inherit nothing else, find the problem."""
clients = ClientApp()


@cache  # once in each actor
def _problem() -> Problem:
    torch.set_num_threads(1)
    return Problem.load(os.environ[FILE])


@clients.train()
def _train(message: Message, context: Context) -> Message:
    problem, client = _problem(), int(context.node_config["partition-id"])
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(model.parameters(), lr=problem.rate)
    for x, y in problem.batches(client):
        optimiser.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimiser.step()
    metrics = MetricRecord({"num-examples": problem.order.shape[1]})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


def run(problem: Problem, workers: int, rounds: int, after_round: AfterRound) -> None:
    """`workers` actors."""
    server = ServerApp()

    @server.main()
    def _serve(grid: Grid, context: Context) -> None:
        strategy = FedAvg(
            fraction_train=problem.sampled / problem.clients,
            fraction_evaluate=0.0,
            min_train_nodes=problem.sampled,
            min_available_nodes=problem.clients,
        )

        def evaluate(round: int, arrays: ArrayRecord) -> None:
            after_round(arrays.to_torch_state_dict())

        strategy.start(grid, ArrayRecord(problem.initial), num_rounds=rounds, evaluate_fn=evaluate)

    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_worker_niceness": "0",  # actors, otherwise at 15, would wait for whatever else the machine does
    }
    with TemporaryDirectory() as folder:
        os.environ[FILE] = str(Path(folder) / "problem.pt")
        problem.save(Path(os.environ[FILE]))
        resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0}, "init_args": {"num_cpus": workers}}
        run_simulation(server, clients, num_supernodes=problem.clients, backend_config=resources)
    sys.stdout.flush()
