"""What a job will take: what it calls for (`common.work`), held against what a machine does in a second. No torch.

`config/costs/machines.csv` says what machines do: this one as measured on finished runs, GPUs as assumed.
docs/costs.md says how good these guesses were.
"""

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from common.errors import InputError, choose, nearest
from common.spec import Spec
from common.work import MB, Extent, Kind, Work, counted_like, images_of, read, whole_size_of, work_of
from diptych.study import Study, load_study

HERE = "core"
"""The machine that jobs of a workflow are guessed for: a core of the one that was measured."""
GPU = "A100"
"""The same where trainings ask for a GPU; nobody knows which it will be."""
COMMANDS = {"claim": "claims"}
"""Rule -> the command that it calls, where that is called otherwise."""
SPARE = 2.0
"""A training asks for so many times the memory, and the square of it times the time, that it should need: a job that is
stopped at its limit has to go on from its last checkpoint."""
LEAST_MB, LEAST_MINUTES = 2500, 30
CAUTION = "Trainings alone, without judges and evaluations; MiB are those of the largest run. See docs/costs.md."
BASE_MB = 540.0
"""Of a process that has loaded everything and trained something tiny."""
LOADED = 1.5
"""A source's images in memory, in floats, to those for training: those for tests are there, and copies of some."""
COPIES = 4
"""Of a client's model, beside those of all clients: the template, the server's, and what travels both ways."""


@dataclass(frozen=True)
class Machine:
    """What one worker of a machine, a core or a GPU, does.

    Attributes:
        call_us: microseconds that a call of an operator takes whatever its size.
        gflops: 10^9 floating-point operations a second. networks: of those that are known to do more, or fewer.
        start_s: seconds that each training takes beside that.
        how: where these come from; who has measured nothing says what is assumed.
        workers: how many trainings it does at once, one on each core or GPU.
    """

    name: str
    call_us: float
    gflops: float
    start_s: float
    how: str
    workers: int = 1
    networks: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, work: Work, network: str = "") -> float:
        """Of one worker, for a training of a network that calls for this."""
        gflops = self.networks.get(network, self.gflops)
        return self.start_s + work.calls * self.call_us / 1e6 + work.flops / gflops / 1e9

    def seconds_of(self, spec: Spec) -> float:
        """Of one worker, for a training."""
        return self.seconds(work_of(spec), spec.network["name"])


@cache
def machine(named: str) -> Machine:
    """The machine of a name such as `core`, `2-cores` or `8xA100`.

    Raises:
        InputError: nothing is known of such a machine.
    """
    rows = read("machines")
    known = {row["machine"]: row for row in rows if not row["network"]}
    match = re.fullmatch(
        r"(?:(?P<cores>[1-9]\d{0,4})-(?P<core>core)s?|(?:(?P<gpus>[1-9]\d{0,4})x)?(?P<gpu>\w+))", named
    )
    name = match["core"] or match["gpu"] if match else named
    if match is None or name not in known:
        raise InputError(f"--on: must be such as 2-cores or 8xA100, got '{named}'; {nearest(name, known)}")
    row = known[name]
    call, gflops, start = (float(row[column] or known[HERE][column]) for column in ("call_us", "gflops", "start_s"))
    networks = {row["network"]: float(row["gflops"]) for row in rows if row["machine"] == name and row["network"]}
    return Machine(name, call, gflops, start, row["how"], int(match["cores"] or match["gpus"] or 1), networks)


# ---- a job


def of_a_job(rule: str, inputs: Sequence[str], outputs: Sequence[str]) -> float:
    """Seconds of one processor that a job of the workflow should take, by its rule and files."""
    if rule.startswith("train_"):
        _, scale, _, *run, _ = Path(outputs[0]).parts
        return of_training(load_study(scale).trained["/".join(run)])
    runs = sum(file.endswith("provenance.json") for file in inputs) if rule == "evaluate" else 1
    return runs * of_command(COMMANDS.get(rule, rule))


def of_training(spec: Spec) -> float:
    """Seconds of one processor that a run should take."""
    return machine(HERE).seconds_of(spec)


@cache
def of_command(command: str) -> float:
    """Seconds of one processor that a `diptych` command other than `train` should take, for each run it is about."""
    times = [float(row["seconds"]) for row in read("jobs") if row["job"] == command]
    return statistics.fmean(times) if times else 1.0


def memory_of(spec: Spec) -> float:
    """MiB that a training should need at its peak: the process, images, every client's model, and a batch."""
    counted, data, training = counted_like(Kind.of(spec)), spec.data, spec.training
    extent = Extent.of(spec, counted.whose)
    pixels = data.channels * data.image_size**2
    largest = LOADED * max(map(whole_size_of, data.styles.values()))
    images = (4 * largest + images_of(data)) * pixels / MB  # a source is brought to size in floats, and kept in bytes
    optimiser = training.optimiser
    moments = 2 if optimiser.name == "adam" else 1 if optimiser.momentum else 0
    holders = extent.clients if training.optimiser_state == "persistent" else 1
    models = counted.model_mb * (extent.clients + COPIES + moments * holders)
    return BASE_MB + images + models + counted.image_mb * extent.batch


def to_ask_for(spec: Spec, on: str = HERE) -> tuple[int, int]:
    """MiB and minutes that a training on a machine should ask a cluster for, with some to spare."""
    minutes = machine(on).seconds_of(spec) / 60
    return (
        max(LEAST_MB, math.ceil(SPARE * memory_of(spec))),
        max(LEAST_MINUTES, math.ceil(SPARE**2 * minutes)),
    )


# ---- a scale


@dataclass(frozen=True)
class Bill:
    """What trainings should take together: hours of one worker, of the longest of them, and MiB of the largest."""

    name: str
    runs: int
    hours: float
    longest: float
    memory_mb: float

    @classmethod
    def of(cls, name: str, specs: Iterable[Spec], machine: Machine) -> "Bill":
        """Of these."""
        specs = list(specs)
        hours = [machine.seconds_of(spec) / 3600 for spec in specs]
        return cls(name, len(specs), sum(hours), max(hours, default=0.0), max(map(memory_of, specs), default=0.0))

    def wall(self, machine: Machine) -> float:
        """Hours on all workers of a machine, none of which is idle while there is something to do."""
        return max(self.hours / machine.workers, self.longest)


def bills(study: Study, on: Machine, paper: str | None = None) -> list[Bill]:
    """Of each paper of a scale, or of one, and of all together.

    Raises:
        InputError: the scale has no such paper.
    """
    papers: dict[str, list[Spec]] = defaultdict(list)
    for spec in study.specs.values():
        papers[spec.labels["paper"]].append(spec)
    if paper is not None:
        papers = {paper: papers[choose("paper", paper, study.papers)]}
    each = [Bill.of(name, specs, on) for name, specs in papers.items()]
    return each if paper else [*each, Bill.of("all", study.specs.values(), on)]


def told(bills: Sequence[Bill], on: Machine) -> str:
    """A table of them, and how much it is to be believed."""
    lines = [f"{'':10}{'runs':>6}{f'hours of one {on.name}':>20}{'longest run':>13}{f'on {on.workers}':>10}{'MiB':>8}"]
    for bill in bills:
        hours = (_hours(x) for x in (bill.hours, bill.longest, bill.wall(on)))
        lines.append("{:10}{:>6}{:>20}{:>13}{:>10}{:>8,.0f}".format(bill.name, bill.runs, *hours, bill.memory_mb))
    return "\n".join([*lines, "", f"{on.name}: {on.how}.", CAUTION])


def _hours(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
