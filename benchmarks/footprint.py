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


def memory(call: str) -> float:
    """Peak resident memory in MiB of a process that runs one round of `engine(...)` or `bare(...)`."""
    return float(_python(f"{STEP}{call}.run(); {PEAK}"))


def round_of(clients: int, workers: int = 1) -> str:
    """The engine with so many clients, of whom up to 100 take part; they have up to 60,000 images, as MNIST has."""
    sampled = min(clients, 100)
    return f"engine({clients}, {min(6400 // sampled, 60_000 // clients)}, {workers}, sampled={sampled})"


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="*", default=[10, 100, 1000, 10_000])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print("| clients | in a round | engine, MiB | two threads | bare | torch alone |\n|---|---|---|---|---|---|")
    alone = float(_python(f"import torch, torch.optim; {PEAK}"))
    for clients in options.clients:
        ours = (f"{memory(round_of(clients, workers)):.0f}" for workers in (1, 2))
        bare = f"{memory(f'bare({clients}, {6400 // clients})'):.0f}" if clients <= 100 else ""
        print("|", " | ".join([f"{clients:,}", f"{min(clients, 100)}", *ours, bare, f"{alone:.0f}"]), "|", flush=True)
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
