"""Whole runs of each paper in other precisions and memory layouts: what they take, and what comes of them.

    python -m benchmarks.whole --out whole.csv
    python -m benchmarks.whole --out whole.csv --papers fedinb --seeds 1 2

Every run is a process of its own, and all ways of a seed follow each other. A line is written as soon as it is there,
and one that is there is not measured again. The table that is printed has processor time to that of 32-bit floats in
the plain layout, below 1 is faster, and what the run came to, both as means and standard deviations over seeds.
"""

import argparse
import csv
import resource
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common.errors import InputError
from common.run_folder import RunFolder
from common.spec import Spec
from diptych.measurement import prepared
from diptych.study import load_study

COLUMNS = ["paper", "precision", "layout", "seed", "processor_s", "quantity", "value"]
DIPTYCH = "import sys; from diptych.cli import main; sys.exit(main())"
WAYS = [("fp32", "plain"), ("fp32", "channels-last"), ("bf16", "plain"), ("bf16", "channels-last")]
Line = dict[str, Any]


def recorded(entry: str, **where: str) -> Callable[[RunFolder], float]:
    """The mean of those records that an evaluation of the run's paper makes of it which have these values."""

    def of(run: RunFolder) -> float:
        settings = load_study(run.spec.scale).papers[run.spec.labels["paper"]].evaluation[entry]
        rows = [row for row in prepared(entry, settings, run) if where.items() <= row.items()]
        return statistics.fmean(row["value"] for row in rows)

    return of


def last_loss(run: RunFolder) -> float:
    """The mean of all clients' losses in the last round."""
    rows = run.table("history.csv")
    return statistics.fmean(row["loss"] for row in rows if row["round"] == run.spec.training.rounds)


CONTENT = "probe=linear;features=content;target=label"
RUNS: dict[str, tuple[str, str, Callable[[RunFolder], float]]] = {
    "fedstyle": (
        "fedstyle/digit_1_iid_simclr/fedstyle/default",
        "personalisation",
        recorded("linear-probe", protocol="personalization", metric="accuracy"),
    ),
    "padpaf": (
        "padpaf/mnist_eight-clients/padpaf/default",
        "label read from content",
        recorded("label-probe", setting=CONTENT, metric="accuracy", protocol="sound", control=""),
    ),
    "feddva": (
        "feddva/mnist_client-marks/feddva/default",
        "accuracy",
        recorded("curves", metric="accuracy", setting="rounds=all"),
    ),
    "psfedgan": (
        "psfedgan/mnist_split-1/ps-fedgan/default",
        "accuracy of the cloud",
        recorded("curves", metric="accuracy", setting="rounds=all"),
    ),
    "fedinb": ("fedinb/rotated-mnist_translation/local/autoencoder", "loss of auto-encoders", last_loss),
}
"""Paper -> a run without its seed, and what it is asked for."""


def spec_of(paper: str, scale: str, precision: str, layout: str, seed: int) -> Spec:
    """The paper's run in a way."""
    run = RUNS[paper][0]
    spec = next(spec for name, spec in load_study(scale).trained.items() if name.startswith(f"{run}/"))
    training = spec.training.model_copy(update={"precision": precision, "channels_last": layout == "channels-last"})
    return spec.model_copy(update={"run": f"{run}/{seed}", "seed": seed, "training": training})


def measured(paper: str, scale: str, precision: str, layout: str, seed: int) -> Line:
    """A line of the file: a run is trained, in processor seconds, and measured.

    Raises:
        InputError: the algorithm refuses this way, or the run came to no end.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "spec.yaml"
        file.write_text(spec_of(paper, scale, precision, layout, seed).to_yaml())
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", DIPTYCH, "train", str(file), "--threads", "1"]
        said = subprocess.run(command, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if said.returncode:
            raise InputError(f"{paper}, {precision}, {layout}: {(said.stderr.splitlines() or ['killed'])[-1]}")
        _, quantity, measure = RUNS[paper]
        value = measure(RunFolder(Path(folder)))
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return dict(zip(COLUMNS, (paper, precision, layout, seed, seconds, quantity, value), strict=True))


def table(lines: list[Line]) -> Iterator[str]:
    """Rows of Markdown, by paper and way."""
    yield "| paper | precision | layout | processor / plain fp32 | what | came to |\n|---|---|---|---|---|---|"
    by_way: dict[str, dict[tuple[str, str], dict[int, Line]]] = defaultdict(lambda: defaultdict(dict))
    for line in lines:
        by_way[line["paper"]][line["precision"], line["layout"]][line["seed"]] = line
    for paper, ways in by_way.items():
        for way, seeds in ways.items():
            ratios = [line["processor_s"] / ways[WAYS[0]][seed]["processor_s"] for seed, line in seeds.items()]
            values = [line["value"] for line in seeds.values()]
            yield f"| {' | '.join((paper, *way, _told(ratios, 2), RUNS[paper][1], _told(values, 4)))} |"


def _told(numbers: list[float], digits: int) -> str:
    spread = f" ± {statistics.stdev(numbers):.{digits}f}" if len(numbers) > 1 else ""
    return f"{statistics.fmean(numbers):.{digits}f}{spread}"


def read(file: Path) -> list[Line]:
    """What has been measured."""
    if not file.exists():
        return []
    with open(file, newline="") as rows:
        numbers = {"seed": int, "processor_s": float, "value": float}
        return [{key: numbers.get(key, str)(value) for key, value in row.items()} for row in csv.DictReader(rows)]


def main() -> None:
    """Measure what is not there yet, and print a table of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a .csv file")
    parser.add_argument("--scale", default="digits")
    parser.add_argument("--papers", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    options = parser.parse_args()
    lines = read(options.out)
    there = {(line["paper"], line["precision"], line["layout"], line["seed"]) for line in lines}
    if not lines:
        options.out.write_text(",".join(COLUMNS) + "\n")
    for paper in options.papers:
        for seed in options.seeds:
            for way in WAYS:
                if (paper, *way, seed) in there:
                    continue
                try:
                    lines.append(measured(paper, options.scale, *way, seed))
                except InputError as error:
                    print(f"not measured: {error}", file=sys.stderr, flush=True)
                    continue
                with open(options.out, "a", newline="") as out:
                    csv.DictWriter(out, COLUMNS, lineterminator="\n").writerow(lines[-1])
    print(*table(lines), sep="\n")


if __name__ == "__main__":
    main()
