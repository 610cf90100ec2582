"""What a job will take, from what jobs like it have taken: `config/costs.csv`, measured by `benchmarks/costs.py`.

A guess within a factor of two where a run's networks were timed at its image size, and rougher elsewhere. No torch.
"""

import csv
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from common.codehash import ROOT
from common.sources import EXPRESSION, KNOWN
from common.spec import DataSettings, Spec
from diptych.study import load_study

TIMES = ROOT / "config" / "costs.csv"
COLUMNS = ("job", "algorithm", "objective", "network", "width", "image_size", "seconds")
"""`seconds` of one processor: of the job `train` for each image that passes, of others for each run they are about."""
COMMANDS = {"claim": "claims"}
"""Rule -> the command that it calls, where that is called otherwise."""
UNKNOWN_IMAGES = 10_000
"""Of a source that only its user knows."""


@dataclass(frozen=True)
class Kind:
    """What a training's time for an image depends on."""

    algorithm: str
    objective: str
    network: str
    width: int
    image_size: int

    @classmethod
    def of(cls, spec: Spec) -> "Kind":
        """The kind of a run. Its width is that of its network, or of its generator."""
        algorithm, objective, network = (str(x["name"]) for x in (spec.algorithm, spec.objective, spec.network))
        sized = (section for section in (spec.network, spec.objective, spec.algorithm) if "width" in section)
        width = next((int(section["width"]) for section in sized), 1)
        inverted = " inverted" if spec.inversion else ""  # which takes longer than the training
        return cls(f"{algorithm}{inverted}", objective, network, width, spec.data.image_size)

    def likeness(self, other: "Kind") -> tuple[bool, ...]:
        """How much alike two kinds are: the larger, the more."""
        return (
            self.network == other.network,
            self.image_size == other.image_size,
            self.objective == other.objective,
            self.algorithm == other.algorithm,
            self.width == other.width,
        )

    def times(self, other: "Kind") -> float:
        """How many times as long as of the other an image takes; networks of another design count as alike.

        In proportion to the pixels and to the width: calls of operators, and not arithmetic, are what narrow ones take.
        """
        width = self.width / other.width if self.network == other.network else 1
        return width * (self.image_size / other.image_size) ** 2


def of_a_job(rule: str, inputs: Sequence[str], outputs: Sequence[str]) -> float:
    """Seconds of one processor that a job of the workflow should take, by its rule and files."""
    if rule.startswith("train_"):
        _, scale, _, *run, _ = Path(outputs[0]).parts
        return of_training(load_study(scale).trained["/".join(run)])
    runs = sum(file.endswith("provenance.json") for file in inputs) if rule == "evaluate" else 1
    return runs * of_command(COMMANDS.get(rule, rule))


def images_of(data: DataSettings) -> float:
    """About how many training images all clients have together."""
    sizes = [_size(source) for style, source in data.styles.items() if style in data.seen]
    total = max(sizes) if data.pool == "together" or data.attributes else sum(sizes)
    if data.per_class:
        total = min(total, data.per_class * 10.0 * len(data.seen))
    total *= (1 - data.server_share) * (1 - data.validation_share) * data.classes_per_client
    return min(total, (data.at_most or total) * len(data.seen) * data.clients_per_style)


def _size(expression: str) -> float:
    match = EXPRESSION.fullmatch(expression)
    known = KNOWN.get(match["name"]) if match else None
    size = known.images if known else UNKNOWN_IMAGES
    if match is None or match["slice"] is None:
        return size
    return len(range(size)[slice(*(int(part) if part else None for part in match["slice"].split(":")))])


def passes_of(spec: Spec) -> float:
    """About how many images pass through a training, all clients and rounds together."""
    training, clients = spec.training, len(spec.data.seen) * spec.data.clients_per_style
    if training.local_steps:
        in_a_round = float(training.local_steps * training.batch_size * clients)
    else:
        in_a_round = training.local_epochs * images_of(spec.data)
    return training.rounds * training.participation * in_a_round


def of_training(spec: Spec) -> float:
    """Seconds of one processor that a run should take."""
    return _for_an_image(Kind.of(spec)) * passes_of(spec)


@cache
def _for_an_image(kind: Kind) -> float:
    times = _trainings()
    if not times:
        return 0.0
    nearest = max(times, key=kind.likeness)
    return times[nearest] * kind.times(nearest)


def of_command(command: str) -> float:
    """Seconds of one processor that a `diptych` command other than `train` should take, for each run it is about."""
    times = [float(row["seconds"]) for row in _rows() if row["job"] == command]
    return statistics.fmean(times) if times else 1.0


@cache
def _rows() -> tuple[dict[str, str], ...]:
    if not TIMES.exists():
        return ()
    with open(TIMES, newline="") as lines:
        return tuple(csv.DictReader(lines))


@cache
def _trainings() -> dict[Kind, float]:
    return {
        Kind(row["algorithm"], row["objective"], row["network"], int(row["width"]), int(row["image_size"])): float(
            row["seconds"]
        )
        for row in _rows()
        if row["job"] == "train"
    }
