"""How long FedINB's translation of all ten classes takes, and what takes it: HistIndAEINB-L10-K10-J100.

    python -m benchmarks.translation
    python -m benchmarks.translation --images 50 --layers 2 --iterations 10

Five clients with so many images of each of ten classes, of MNIST's size, random and darker from client to client: what
is done does not depend on them, save the number of trials of the line search, as long as domains are not alike. The
auto-encoders are not trained here.
"""

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.engine import SEED
from common.settings import checked
from common.spec import TrainingSettings
from diptych.process import use_threads
from federation import ClientData, Simulation
from methods import fedinb
from networks import INBDigits
from objectives import Autoencoder, monotone, slices, stiefel

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
    "codes": [fedinb.FedINB.constants],
    "the layers so far": [fedinb._by_class],
}


def simulation(images: int, layers: int, iterations: int) -> Simulation:
    """All layers, ready to run."""
    objective = checked(Autoencoder, "objective", {}, encoder=partial(INBDigits, **IMAGES), classes=CLASSES, **IMAGES)
    content = {"layers": layers, "iterations": iterations, "bins": images // 2, "autoencoder_epochs": 0}
    algorithm = checked(fedinb.FedINB, "algorithm", content, objective=objective)
    draw = torch.Generator().manual_seed(0)
    count = DOMAINS * CLASSES * images
    light = torch.linspace(1, 0.2, DOMAINS).repeat_interleave(CLASSES * images)[:, None, None, None]
    pixels = (torch.randint(0, 256, (count, 1, 28, 28), generator=draw) * light).byte()
    labels = torch.arange(CLASSES).repeat_interleave(images).repeat(DOMAINS)
    data = ClientData(pixels, labels, torch.arange(count).split(CLASSES * images))
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
    started, profile = time.perf_counter(), cProfile.Profile()
    whole = simulation(options.images, options.layers, options.iterations)
    profile.runcall(whole.run)
    print(f"{time.perf_counter() - started:.0f} s in all\n\n| what | share |\n|---|---|")
    spent = {key[0:3]: row[3] for key, row in pstats.Stats(profile).stats.items()}  # type: ignore[attr-defined]
    total = max(spent.values())
    for part, functions in PARTS.items():
        codes = [function.__code__ for function in functions]
        times = (spent.get((code.co_filename, code.co_firstlineno, code.co_name), 0.0) for code in codes)
        print(f"| {part} | {sum(times) / total:.0%} |")


if __name__ == "__main__":
    main()
