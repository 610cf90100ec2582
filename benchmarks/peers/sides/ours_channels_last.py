"""The engine in the layout that it is given at most scales: the same images, weights that are rounded otherwise."""

from benchmarks.peers.problem import AfterRound, Problem
from benchmarks.peers.sides import ours


def run(problem: Problem, workers: int, rounds: int, after_round: AfterRound) -> None:
    """`workers` clients at once, in threads."""
    ours.run(problem, workers, rounds, after_round, channels_last=True)
