"""How long FedINB's translation of all ten classes takes, and what takes it: HistIndAEINB-L10-K10-J100.

    python -m benchmarks.translation
    python -m benchmarks.translation --images 50 --layers 2 --iterations 10

Five clients with so many images of each of ten classes: the embedded digits, enlarged to MNIST's size, of another
brightness each time, and turned by 15 degrees more from client to client. What is done depends on them by the number of
objective evaluations alone. Auto-encoders are trained for one pass beforehand, which is not counted.
"""

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.engine import SEED
from common.settings import checked
from common.spec import TrainingSettings
from diptych.process import use_threads
from federation import ClientData, Simulation
from methods import fedinb
from networks import INBDigits
from objectives import Autoencoder, monotone, slices, stiefel
from partitions import embedded
from partitions.images import fitted
from partitions.rotations import rotated

IMAGES = {"channels": 1, "image_size": 28}
DOMAINS, CLASSES = 5, 10
PARTS: dict[str, list[Callable[..., object]]] = {
    "projecting": [slices.slices],
    "sorting": [slices._order],
    "gradients": [slices.gradient],
    "histograms": [slices.histogram, slices.pseudo_samples],
    "losses": [slices.loss],
    "steps of directions": [stiefel.cayley, stiefel.recovered, stiefel.slope],
    "maps to the barycenter": [monotone.estimated, monotone.barycenter],
    "codes, once": [fedinb.FedINB.constants],
    "the layers so far": [fedinb._by_class],
}


def simulation(images: int, layers: int, iterations: int) -> Simulation:
    """All layers, ready to run."""
    objective = checked(Autoencoder, "objective", {}, encoder=partial(INBDigits, **IMAGES), classes=CLASSES, **IMAGES)
    content = {"layers": layers, "iterations": iterations, "bins": images // 2, "autoencoder_epochs": 1}
    algorithm = checked(fedinb.FedINB, "algorithm", content, objective=objective)
    draw = torch.Generator().manual_seed(0)
    count = DOMAINS * CLASSES * images
    labels = torch.arange(CLASSES).repeat_interleave(images).repeat(DOMAINS)
    digits = embedded.plain()
    of_class = [torch.from_numpy(np.flatnonzero(digits.labels == c)) for c in range(CLASSES)] * DOMAINS
    chosen = torch.cat([own[torch.randint(len(own), (images,), generator=draw)] for own in of_class])
    light = 0.5 + torch.rand(count, 1, 1, 1, generator=draw) / 2  # so that none is there twice
    faint = fitted(digits.images, 28, 1)[chosen] * light
    turned = [rotated(part.byte(), 15 * m) for m, part in enumerate(faint.split(CLASSES * images))]
    data = ClientData(torch.cat(turned), labels, torch.arange(count).split(CLASSES * images))
    return Simulation(algorithm, data, TrainingSettings(rounds=layers), SEED)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000, help="of each class at each client")
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    use_threads(options.threads)
    started: list[float] = []
    profile = cProfile.Profile()

    def begin(simulation: Simulation) -> None:
        if simulation.round == 0:
            started.extend((time.perf_counter(), time.process_time()))
            profile.enable()

    whole = simulation(options.images, options.layers, options.iterations)
    whole.run(begin)
    profile.disable()
    trials = sum(row["trials"] for row in whole.notes) / CLASSES
    wall, processor = time.perf_counter() - started[0], time.process_time() - started[1]
    print(f"{wall:.0f} s in all, {processor:.0f} s of processors; {trials:.0f} objective evaluations for each class\n")
    print("| what | share |\n|---|---|")
    stats: Any = pstats.Stats(profile)
    spent = {key[0:3]: row[3] for key, row in stats.stats.items()}
    for part, functions in PARTS.items():
        codes = [function.__code__ for function in functions]
        times = (spent.get((code.co_filename, code.co_firstlineno, code.co_name), 0.0) for code in codes)
        print(f"| {part} | {sum(times) / stats.total_tt:.0%} |")


if __name__ == "__main__":
    main()
