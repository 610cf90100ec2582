"""How long things take on this machine, for the estimates of `snakemake -n` and of the time that is left.

    python -m benchmarks.costs --scale digits --jobs results/digits/logs/jobs.log    what a finished workflow took
    python -m benchmarks.costs --scale paper                                         a step of each kind of training

Adds rows to `config/costs.csv`, or replaces them. From the log of a workflow's jobs come all kinds of jobs; without it
one step of each kind of training that is not in the file yet is taken, on images of noise.
"""

import argparse
import csv
import sys
import time
from collections import defaultdict
from pathlib import Path

import torch

from common.errors import InputError
from common.files import written
from common.spec import Spec
from diptych.assembly import build_algorithm
from diptych.cost import COLUMNS, TIMES, Kind, passes_of
from diptych.process import use_threads
from diptych.study import load_study
from federation import ClientData, Simulation

Rows = dict[tuple[str, ...], str]
"""All columns but the last -> the last."""
BATCH = 16
"""Images of a step at most, so that one of the largest network takes seconds."""


def from_log(specs: dict[str, Spec], log: Path) -> Rows:
    """What each kind of job has taken in a log of `diptych.forkserver`: in all, by the images or runs in all."""
    seconds: dict[tuple[str, ...], float] = defaultdict(float)
    units: dict[tuple[str, ...], float] = defaultdict(float)
    for line in log.read_text().splitlines():
        took, _, status, job, *arguments = line.split("\t")
        if status != "0":
            continue
        spec = specs[arguments[0]] if job == "train" else None
        key = _key(Kind.of(spec) if spec else None, job)
        seconds[key] += float(took)
        units[key] += passes_of(spec) if spec else _runs(job, arguments)
    return {key: f"{seconds[key] / units[key]:.3g}" for key in seconds}


def _runs(job: str, arguments: list[str]) -> int:
    return next(n for n, argument in enumerate(arguments) if argument.startswith("--")) if job == "evaluate" else 1


def _key(kind: Kind | None, job: str = "train") -> tuple[str, ...]:
    if kind is None:
        return job, "", "", "", "", ""
    return job, kind.algorithm, kind.objective, kind.network, str(kind.width), str(kind.image_size)


def of_a_step(spec: Spec) -> float:
    """Processor seconds for an image, of two clients that take one step each, after another for warming up."""
    count, size = min(BATCH, spec.training.batch_size), spec.data.image_size
    images = torch.randint(256, (2 * count, spec.data.channels, size, size), dtype=torch.uint8)
    clients = tuple(torch.arange(2 * count).split(count))
    data = ClientData(images, torch.arange(2 * count) % 2, clients)
    once = spec.training.model_copy(update={"rounds": 2, "local_steps": 1, "batch_size": count, "participation": 1.0})
    ends: list[float] = []
    simulation = Simulation(build_algorithm(spec, classes=2), data, once, spec.seed)
    simulation.run(lambda _: ends.append(time.process_time()))
    return (ends[-1] - ends[-2]) / (2 * count)


def _timed(specs: dict[str, Spec], known: Rows) -> Rows:
    kinds = {Kind.of(spec): spec for spec in specs.values()}
    rows: Rows = {}
    for kind, spec in kinds.items():
        if _key(kind) in known:
            continue
        try:
            rows[_key(kind)] = f"{of_a_step(spec):.3g}"
            print(*_key(kind), rows[_key(kind)], flush=True)
        except (InputError, RuntimeError, ValueError, IndexError) as error:  # cannot be done on noise
            print(*_key(kind), f"not timed: {error}", file=sys.stderr, flush=True)
    return rows


def _read() -> Rows:
    if not TIMES.exists():
        return {}
    with open(TIMES, newline="") as lines:
        return {tuple(row[column] for column in COLUMNS[:-1]): row[COLUMNS[-1]] for row in csv.DictReader(lines)}


def main() -> None:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", required=True)
    parser.add_argument("--jobs", type=Path, help="results/<scale>/logs/jobs.log")
    options = parser.parse_args()
    use_threads(1)
    specs, rows = load_study(options.scale).specs, _read()
    rows |= from_log(specs, options.jobs) if options.jobs else _timed(specs, rows)
    with written(TIMES) as part, open(part, "w", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows([*key, value] for key, value in sorted(rows.items()))


if __name__ == "__main__":
    main()
