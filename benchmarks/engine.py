"""The engine's FedAvg against a bare PyTorch loop that takes the same steps, alternating in one run.

    python -m benchmarks.engine                       10 and 100 clients, one thread and two
    python -m benchmarks.engine --clients 10 --threads 1 --repeats 3

A small CNN on images of MNIST's size. With two threads the engine trains clients side by side, and stands against two
bare loops in two processes. Ratios of samples per second, engine to bare: above 1 the engine is faster.
"""

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.synchronize import Barrier
from typing import Any

from baselines.fedavg import FedAvg
from benchmarks.bare import BareFedAvg, mnist_like
from common.settings import checked
from common.spec import OptimiserSettings, TrainingSettings
from diptych.process import use_threads
from federation import Simulation
from networks import McMahanCNN
from objectives import Classification

SEED = 1


def settings(**others: Any) -> TrainingSettings:
    """One round of plain SGD on batches of 32, unless `others` say something else."""
    usual: dict[str, Any] = {"rounds": 1, "local_epochs": 1, "batch_size": 32, "optimiser": OptimiserSettings(lr=0.05)}
    return TrainingSettings(**usual | others)


def engine(clients: int, images: int, workers: int = 1, *, sampled: int | None = None, **others: Any) -> Simulation:
    """A simulation that is ready to run; `sampled` clients take part in a round, or all of them.

    Args:
        others: settings of the training.
    """
    images_are = {"channels": 1, "image_size": 28}
    encoder = partial(McMahanCNN, **images_are)
    objective = checked(Classification, "objective", {}, encoder=encoder, classes=10, **images_are)
    algorithm = checked(FedAvg, "algorithm", {}, objective=objective)
    asked = settings(participation=(sampled or clients) / clients, **others)
    return Simulation(algorithm, mnist_like(clients, images), asked, SEED, workers=workers)


def bare(clients: int, images: int) -> BareFedAvg:
    """The bare loop, from the same initial weights and on the same data."""
    initial = dict(engine(1, images).template.state_dict())
    return BareFedAvg(initial, mnist_like(clients, images), settings(), SEED)


def seconds(work: Callable[[], Any]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def samples(clients: int, images: int) -> int:
    """Images that one round trains on: a client drops its last partial batch, unless it has no other."""
    batch = settings().batch_size
    return clients * (images // batch * batch or images)


def _bare_loops(barrier: Barrier, clients: int, images: int, repeats: int, times: Any) -> None:
    """A process of its own: a bare loop at each signal."""
    use_threads(1)
    bare(clients, images).run()
    for _ in range(repeats):
        loop = bare(clients, images)
        barrier.wait()
        times.put(seconds(loop.run))
        barrier.wait()


def one_thread(clients: int, images: int, repeats: int) -> list[tuple[float, ...]]:
    """Samples per second of engine and bare loop, in turn."""
    engine(clients, images).run()  # warm up
    bare(clients, images).run()
    pairs: list[tuple[float, ...]] = []
    for _ in range(repeats):
        ours, theirs = engine(clients, images), bare(clients, images)
        pairs.append(tuple(samples(clients, images) / seconds(side.run) for side in (ours, theirs)))
    return pairs


def two_threads(clients: int, images: int, repeats: int) -> list[tuple[float, ...]]:
    """Samples per second of the engine with two client threads, and of two bare loops side by side, in turn."""
    context = multiprocessing.get_context("spawn")
    barrier, times = context.Barrier(3), context.Queue()
    arguments = (barrier, clients, images, repeats, times)
    loops = [context.Process(target=_bare_loops, args=arguments, daemon=True) for _ in range(2)]
    for loop in loops:
        loop.start()
    engine(clients, images, workers=2).run()
    pairs: list[tuple[float, ...]] = []
    for _ in range(repeats):
        ours = samples(clients, images) / seconds(engine(clients, images, workers=2).run)
        barrier.wait()  # both start
        barrier.wait()  # both have finished
        pairs.append((ours, 2 * samples(clients, images) / max(times.get() for _ in loops)))
    return pairs


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], choices=[1, 2])
    parser.add_argument("--images", type=int, default=6400, help="over all clients")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    use_threads(1)
    print("| clients | threads | engine, samples/s | bare, samples/s | ratio: median | least | most |")
    print("|---|---|---|---|---|---|---|")
    for clients in options.clients:
        for threads in options.threads:
            measure = one_thread if threads == 1 else two_threads
            pairs = measure(clients, options.images // clients, options.repeats)
            ratios = [ours / theirs for ours, theirs in pairs]
            medians = (statistics.median(side) for side in zip(*pairs, strict=True))
            cells = [*(f"{m:.0f}" for m in medians), *(f"{f(ratios):.2f}" for f in (statistics.median, min, max))]
            print("|", " | ".join([str(clients), str(threads), *cells]), "|", flush=True)


if __name__ == "__main__":
    main()
