"""Memory and start-up: each figure from processes of its own.

python -m benchmarks.footprint
"""

import argparse
import statistics
import subprocess
import sys
from functools import partial

from benchmarks.engine import seconds

PEAK = "from common.provenance import peak_memory_mb; print(peak_memory_mb())"
STEP = "from diptych.process import use_threads; use_threads(1); from benchmarks.engine import bare, engine; "


def _python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def memory(what: str, clients: int, images: int) -> float:
    """Peak resident memory in MiB of a process that runs one round of `engine` or `bare`."""
    return float(_python(f"{STEP}{what}({clients}, {images}).run(); {PEAK}"))


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=6400, help="over all clients")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print("| clients | engine, MiB | bare, MiB | torch alone, MiB |\n|---|---|---|---|")
    alone = float(_python(f"import torch, torch.optim; {PEAK}"))
    for clients in (10, 100):
        sizes = (memory(what, clients, options.images // clients) for what in ("engine", "bare"))
        print(f"| {clients} | {' | '.join(f'{size:.0f}' for size in sizes)} | {alone:.0f} |", flush=True)
    print("\n| start-up | median of processes, s |\n|---|---|")
    for name, program in (
        ("import torch", "import torch"),
        ("import federation", "import federation"),
        ("the engine's first round", f"{STEP}engine(1, 32).run()"),
        ("the bare loop's first round", f"{STEP}bare(1, 32).run()"),
        ("diptych --help", "from diptych.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"),
    ):
        median = statistics.median(seconds(partial(_python, program)) for _ in range(options.repeats))
        print(f"| {name} | {median:.2f} |", flush=True)


if __name__ == "__main__":
    main()
