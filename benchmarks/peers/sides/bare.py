"""Bare loops, each on one core and by itself: what is written for one experiment."""

import multiprocessing
from multiprocessing.synchronize import Barrier

from benchmarks.bare import BareFedAvg
from benchmarks.engine import bare
from benchmarks.peers.problem import AfterRound, Problem
from diptych.process import use_threads


def run(problem: Problem, workers: int, rounds: int, after_round: AfterRound) -> None:
    """`workers` loops side by side, which begin each round together."""
    clients, size = problem.order.shape
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(workers)
    others = [
        context.Process(target=_loop, args=(clients, size, rounds, together), daemon=True) for _ in range(workers - 1)
    ]
    for other in others:
        other.start()
    loop = _ready(clients, size)
    together.wait()
    after_round(loop.server)
    for _ in range(rounds):
        loop.run()
        together.wait()
        after_round(loop.server)
    for other in others:
        other.join()


def _loop(clients: int, size: int, rounds: int, together: Barrier) -> None:
    loop = _ready(clients, size)
    together.wait()
    for _ in range(rounds):
        loop.run()
        together.wait()


def _ready(clients: int, size: int) -> BareFedAvg:
    use_threads(1)
    return bare(clients, size)
