"""The engine; it makes the same data itself, and draws its batches in each round anew."""

from typing import Any

from benchmarks.engine import engine
from benchmarks.peers.problem import AfterRound, Problem
from diptych.process import use_threads


def run(problem: Problem, workers: int, rounds: int, after_round: AfterRound, **settings: Any) -> None:
    """`workers` clients at once, in threads."""
    use_threads(1)
    clients, size = problem.order.shape
    simulation = engine(clients, size, workers, sampled=problem.sampled, rounds=rounds, **settings)
    simulation.run(lambda simulation: after_round(simulation.server.tensors))
