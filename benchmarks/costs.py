"""What trainings call for, and what this machine does in a second: `config/costs`, from which `diptych cost` guesses.

python -m benchmarks.costs count digits paper                  kinds.csv: counts the kinds that are not there yet
python -m benchmarks.costs took results/digits/logs/jobs.log   jobs.csv, took.csv: what a finished workflow took
python -m benchmarks.costs steps paper resnet18                steps.csv: single steps of a network, timed
python -m benchmarks.costs fit                                 the row `core` of machines.csv, fitted to took.csv
python -m benchmarks.costs check results/reference             how good the guesses are: the table of docs/costs.md
"""

import argparse
import csv
import math
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from benchmarks.counting import CLIENTS, counted, simulation
from common.errors import InputError
from common.files import written
from common.spec import Spec
from common.work import FOLDER, Kind, read, row_of, work_of, work_of_a_step
from diptych.cost import HERE, Machine, machine, memory_of, of_training
from diptych.process import use_threads
from diptych.study import load_study

TIMED = "fitted to steps.csv"
BATCH = 16
"""Images of a step that is timed, so that one of the largest network takes seconds."""
BEGIN = np.log([1e-5, 3e-11, 1.0])
"""Where the fit begins: seconds for a call, for an operation, and for a training."""


def _write(name: str, rows: list[dict[str, str]]) -> None:
    with written(FOLDER / f"{name}.csv") as part, open(part, "w", newline="") as out:
        table = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def count(scales: list[str]) -> None:
    """Count what is not in kinds.csv yet. What cannot be built on noise is named, and left out."""
    rows = {row["settings"]: row for row in read("kinds")}
    asked = {Kind.of(spec): spec for scale in scales for spec in load_study(scale).trained.values()}
    for kind, spec in asked.items():
        if kind.settings in rows:
            continue
        try:
            rows[kind.settings] = row_of(counted(spec))
        except (InputError, RuntimeError, ValueError) as error:
            print(f"not counted: {spec.run}: {error}", file=sys.stderr, flush=True)
    order = ("algorithm", "objective", "network", "image_size", "channels", "settings")
    _write("kinds", sorted(rows.values(), key=lambda row: [row[column] for column in order]))


def took(log: Path) -> None:
    """What trainings have taken, one by one, and other jobs for each run that they are about, by a log of
    `diptych.forkserver` of a workflow that was done in one go."""
    trained: list[dict[str, str]] = []
    seconds, runs = defaultdict[str, float](float), Counter[str]()
    for line in log.read_text().splitlines():
        took, memory, status, job, *arguments = line.split("\t")
        if status != "0":
            continue
        if job == "train":
            scale = arguments[arguments.index("--scale") + 1]
            trained.append({"scale": scale, "run": arguments[0], "seconds": took, "memory_mb": memory})
        else:
            seconds[job] += float(took)
            runs[job] += _runs(job, arguments)
    _write("took", sorted(trained, key=lambda row: row["run"]))
    _write("jobs", [{"job": job, "seconds": f"{seconds[job] / runs[job]:.3g}"} for job in sorted(seconds)])


def _runs(job: str, arguments: list[str]) -> int:
    return next(n for n, argument in enumerate(arguments) if argument.startswith("--")) if job == "evaluate" else 1


def steps(scale: str, network: str) -> None:
    """Time a step of each kind that has this network, which a scale of small networks says nothing of. What cannot be
    built on noise is named, and left out."""
    rows = {(row["scale"], row["run"]): row for row in read("steps")}
    asked = {Kind.of(spec): spec for spec in load_study(scale).specs.values() if spec.network["name"] == network}
    for spec in asked.values():
        try:
            rows[scale, spec.run] = {"scale": scale, "run": spec.run, "seconds": f"{_of_a_step(spec):.3g}"}
        except InputError as error:
            print(f"not timed: {spec.run}: {error}", file=sys.stderr, flush=True)
    _write("steps", [rows[key] for key in sorted(rows)])


def _of_a_step(spec: Spec) -> float:
    """Processor seconds of a round in which each client takes one batch, for a client; after another for warming up."""
    ends: list[float] = []
    simulation(spec, 1, BATCH, rounds=2).run(lambda _: ends.append(time.process_time()))
    return (ends[-1] - ends[-2]) / CLIENTS


def _taken() -> Iterable[tuple[Spec, float, float]]:
    """Specification, seconds and MiB of the trainings in took.csv that are still asked for."""
    for row in read("took"):
        if spec := load_study(row["scale"]).trained.get(row["run"]):
            yield spec, float(row["seconds"]), float(row["memory_mb"])


def fitted(trainings: list[tuple[Spec, float]], steps: list[tuple[Spec, float]]) -> Machine:
    """The machine on which trainings, and clients' steps, took so many seconds.

    Of trainings, least squares of the logarithm of the ratio, large deviations with less weight, and each pair of
    algorithm and objective with the same, however many runs it has; an inversion is in no count. Then the median of the
    operations a second in steps of each network.
    """
    trainings = [(spec, seconds) for spec, seconds in trainings if not spec.inversion]
    families = Counter(_family(spec) for spec, _ in trainings)
    weights = [families[_family(spec)] ** -0.5 for spec, _ in trainings]
    works = [work_of(spec) for spec, _ in trainings]
    called = np.array([[work.calls, work.flops, 1.0] for work in works])
    seconds = np.log([seconds for _, seconds in trainings])
    fit = least_squares(lambda x: weights * (np.log(called @ np.exp(x)) - seconds), BEGIN, loss="soft_l1")
    call, operation, start = np.exp(fit.x)
    of_networks = defaultdict[str, list[float]](list)
    for spec, taken in steps:
        work = work_of_a_step(spec, BATCH)
        of_networks[spec.network["name"]].append(1e-9 * work.flops / (taken - call * work.calls))
    networks = {network: statistics.median(found) for network, found in of_networks.items()}
    return replace(machine(HERE), call_us=1e6 * call, gflops=1e-9 / operation, start_s=start, networks=networks)


def _family(spec: Spec) -> tuple[str, str]:
    return spec.algorithm["name"], spec.objective["name"]


def fit() -> None:
    """Put what was fitted into machines.csv."""
    timed = [(load_study(row["scale"]).trained[row["run"]], float(row["seconds"])) for row in read("steps")]
    found = fitted([(spec, seconds) for spec, seconds, _ in _taken()], timed)
    own, *others = (row for row in read("machines") if row["machine"] != HERE or not row["network"])
    own |= {key: f"{getattr(found, key):.3g}" for key in ("call_us", "gflops", "start_s")}
    networks = [
        {"machine": HERE, "network": network, "call_us": "", "gflops": f"{gflops:.3g}", "start_s": "", "how": TIMED}
        for network, gflops in sorted(found.networks.items())
    ]
    _write("machines", [own, *networks, *others])


# ---- how good it is


def check(folder: Path) -> str:
    """Guessed to measured, of time and of memory: of what the machine was fitted to, and of committed records."""
    seen = defaultdict[tuple[str, str], list[tuple[float, float]]](list)
    for spec, seconds, memory in _taken():
        seen[spec.scale, spec.labels["paper"]].append((of_training(spec) / seconds, memory_of(spec) / memory))
    for spec, seconds, memory in _recorded(folder):
        seen[spec.scale, spec.labels["paper"]].append((of_training(spec) / seconds, memory_of(spec) / memory))
    lines = [
        "| scale | runs of | number | time: median | 5 to 95 % | memory: median | 5 to 95 % |",
        "|---|---|---|---|---|---|---|",
    ]
    for (scale, paper), ratios in sorted(seen.items()):
        told = " | ".join(_told([pair[place] for pair in ratios]) for place in (0, 1))
        lines.append(f"| `{scale}` | {paper} | {len(ratios)} | {told} |")
    return "\n".join(lines)


def _told(ratios: list[float]) -> str:
    low, high = np.quantile(ratios, [0.05, 0.95])
    return f"{statistics.median(ratios):.2f} | {low:.2f} to {high:.2f}"


def _recorded(folder: Path) -> Iterable[tuple[Spec, float, float]]:
    """Specification, seconds by the clock and MiB of each training on a CPU in a folder's records, if asked for."""
    for file in sorted(folder.glob("*/records.csv*")):
        columns = ["scale", "run", "spec", "hardware", "wall_s", "peak_memory_mb"]
        rows = pd.read_csv(file, usecols=columns).drop_duplicates("run")
        for row in rows[~rows["hardware"].str.startswith("NVIDIA", na=False)].to_dict("records"):
            spec = load_study(str(row["scale"])).trained.get(str(row["run"]))
            if spec and spec.digest == row["spec"] and not math.isnan(float(row["peak_memory_mb"])):
                yield spec, float(row["wall_s"]), float(row["peak_memory_mb"])


def main() -> None:
    """Measure, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("count").add_argument("scales", nargs="+")
    commands.add_parser("took").add_argument("log", type=Path)
    timed = commands.add_parser("steps")
    timed.add_argument("scale")
    timed.add_argument("network")
    commands.add_parser("fit")
    commands.add_parser("check").add_argument("folder", type=Path)
    options = parser.parse_args()
    use_threads(1)
    if options.command == "count":
        count(options.scales)
    elif options.command == "took":
        took(options.log)
    elif options.command == "steps":
        steps(options.scale, options.network)
    elif options.command == "fit":
        fit()
    else:
        print(check(options.folder))


if __name__ == "__main__":
    main()
