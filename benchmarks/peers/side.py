"""One side in a process of its own: solves a problem, and says on standard output when each round was over.

    python -m benchmarks.peers.side SIDE PROBLEM --workers 2 --rounds 3 [--weights FILE]

A line is `round <seconds>`, of a clock that all processes share; the first is printed when all is ready.
"""

import argparse
import importlib
import time

import torch

from benchmarks.peers.problem import Problem, Weights


def main() -> None:
    """Solve it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", help="a module of benchmarks.peers.sides")
    parser.add_argument("problem")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--weights", help="where the weights after the first round go")
    options = parser.parse_args()
    rounds = 0

    def after_round(weights: Weights) -> None:
        nonlocal rounds
        if rounds == 1 and options.weights:
            torch.save({name: tensor.detach().clone() for name, tensor in weights.items()}, options.weights)
        print("round", time.monotonic(), flush=True)
        rounds += 1

    side = importlib.import_module(f"benchmarks.peers.sides.{options.side}")
    side.run(Problem.load(options.problem), options.workers, options.rounds, after_round)


if __name__ == "__main__":
    main()
