"""What a training calls for, from its specification alone: no torch, no images, and no time.

`config/costs/kinds.csv` has what was counted once for each kind of training, by `python -m benchmarks.costs count`.
Here it is taken times the rounds, batches and images that a specification asks for.
"""

import csv
import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from functools import cache

from common.codehash import ROOT
from common.sources import EXPRESSION, KNOWN, Known
from common.spec import DataSettings, Spec

FOLDER = ROOT / "config" / "costs"
MB = 2**20
UNKNOWN = Known("", images=10_000)
"""A source that only its user knows."""
WIDTHS = {
    "conv3": 32, "dual-encoder": 64, "feddva-cnn": 64, "smooth-lenet": 12, "sn-resnet": 64, "stargan": 64, "vgg4": 32
}  # fmt: skip
"""Of networks, where the specification gives none."""
PARTS = ("round", "step", "before", "after")
"""Of a training, as `Counted` has them."""
NUMBERS = (*(f"{part}_{unit}" for part in PARTS for unit in ("calls", "flops")), "image_flops", "model_mb", "image_mb")
"""Columns of kinds.csv, after those of the kind, `whose` and `batch`."""


@dataclass(frozen=True)
class Work:
    """Calls of operators, and floating-point operations in them."""

    calls: float = 0.0
    flops: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.calls + other.calls, self.flops + other.flops)

    def __sub__(self, other: "Work") -> "Work":
        return self + other * -1

    def __mul__(self, times: float) -> "Work":
        return Work(self.calls * times, self.flops * times)

    def __truediv__(self, parts: float) -> "Work":
        return self * (1 / parts)

    @property
    def at_least_none(self) -> "Work":
        """Differences of what depends on the data a little may come out below nothing."""
        return Work(max(0.0, self.calls), max(0.0, self.flops))


@dataclass(frozen=True)
class Kind:
    """What the work on an image depends on.

    Attributes:
        settings: eight hex digits over all of it; rates and weights, which are no whole numbers, change no work.
        width: that of the network, or of the generator; 1 if it has none.
    """

    settings: str
    algorithm: str
    objective: str
    network: str
    width: int
    image_size: int
    channels: int

    @classmethod
    def of(cls, spec: Spec) -> "Kind":
        """The kind of a run."""
        sections = spec.algorithm, spec.objective, spec.network
        default = WIDTHS.get(str(spec.network["name"]), 1)
        width = next((int(section["width"]) for section in sections[::-1] if "width" in section), default)
        size, channels = spec.data.image_size, spec.data.channels
        structural = [{key: x for key, x in section.items() if not isinstance(x, float)} for section in sections]
        told = json.dumps([*structural, size, channels, spec.training.optimiser.name], sort_keys=True)
        settings = hashlib.sha256(told.encode()).hexdigest()[:8]
        algorithm, objective, network = (str(section["name"]) for section in sections)
        return cls(settings, algorithm, objective, network, width, size, channels)

    def likeness(self, other: "Kind") -> tuple[bool, ...]:
        """How much alike two kinds are: the larger, the more."""
        return (
            self.settings == other.settings,
            self.network == other.network,
            self.objective == other.objective,
            self.algorithm == other.algorithm,
            self.image_size == other.image_size,
            self.width == other.width,
            self.channels == other.channels,
        )


@dataclass(frozen=True)
class Counted:
    """What a training of a kind calls for: a row of kinds.csv.

    Attributes:
        whose: on whose images one client is trained, `clients` or `server`; '' if there are several.
        round: of a client, in each round, beside its batches; the server's work on it included.
        step: of a batch, beside its images. image: floating-point operations on an image.
        before, after: of a batch of those that a client's images make up, before the first and after the last round.
        batch: the size of these batches.
        model_mb, image_mb: memory of a client's model, and of an image while its batch is worked on, in MiB.
    """

    kind: Kind
    whose: str
    batch: int
    round: Work
    step: Work
    before: Work
    after: Work
    image: float
    model_mb: float
    image_mb: float

    def like(self, kind: Kind) -> "Counted":
        """What another kind should call for: in proportion to pixels and, as layers have two sides, width squared."""
        width = kind.width / self.kind.width if kind.network == self.kind.network else 1.0
        pixels = (kind.image_size / self.kind.image_size) ** 2

        def scaled(work: Work) -> Work:
            return Work(work.calls, work.flops * width**2 * pixels)

        return dataclasses.replace(
            self,
            kind=kind,
            image=self.image * width**2 * pixels,
            before=scaled(self.before),
            after=scaled(self.after),
            model_mb=self.model_mb * width**2,
            image_mb=self.image_mb * width * pixels,
        )


@dataclass(frozen=True)
class Extent:
    """How much a specification trains.

    Attributes:
        clients: those that train. rounds: over all of them, the rounds in which they take part.
        batches: of a pass over the images of all. steps: batches in all rounds. batch: images in each.
    """

    clients: int
    rounds: int
    batches: int
    steps: int
    batch: float

    @classmethod
    def of(cls, spec: Spec, whose: str) -> "Extent":
        """As the engine counts: a pass drops its last partial batch, unless there is no other."""
        data, training = spec.data, spec.training
        images = server_images_of(data) if whose == "server" else images_of(data)
        clients = 1 if whose else data.clients
        own = max(1.0, images / clients)
        batch = min(training.batch_size, own)
        batches = int(own // batch)
        rounds = training.rounds * max(1, math.floor(training.participation * clients + 1e-9))
        epochs = training.local_epochs
        in_a_round = training.local_steps or (max(1, round(epochs * batches)) if epochs else 0)
        return cls(clients, rounds, clients * batches, rounds * in_a_round, batch)


def work_of(spec: Spec) -> Work:
    """What a training calls for."""
    counted = counted_like(Kind.of(spec))
    extent = Extent.of(spec, counted.whose)
    outside = counted.before + counted.after
    passed = outside.flops * extent.batches * extent.batch / counted.batch + counted.image * extent.steps * extent.batch
    return counted.round * extent.rounds + counted.step * extent.steps + Work(outside.calls * extent.batches, passed)


def work_of_a_step(spec: Spec, images: int) -> Work:
    """What a client calls for in a round of one batch of so many images."""
    counted = counted_like(Kind.of(spec))
    return counted.round + counted.step + Work(0.0, counted.image * images)


@cache
def counted_like(kind: Kind) -> Counted:
    """Of the kind, or of the one that is most like it."""
    nearest = max(kinds().values(), key=lambda counted: kind.likeness(counted.kind))
    return nearest if nearest.kind == kind else nearest.like(kind)


@cache
def kinds() -> dict[Kind, Counted]:
    """What has been counted."""
    return {counted.kind: counted for counted in map(_read, read("kinds"))}


def read(name: str) -> list[dict[str, str]]:
    """The rows of a file of `config/costs`."""
    with open(FOLDER / f"{name}.csv", newline="") as lines:
        return list(csv.DictReader(lines))


def _read(row: dict[str, str]) -> Counted:
    number = {key: float(value) for key, value in row.items() if key in NUMBERS}
    sizes = (int(row[key]) for key in ("width", "image_size", "channels"))
    kind = Kind(row["settings"], row["algorithm"], row["objective"], row["network"], *sizes)
    round, step, before, after = (Work(number[f"{part}_calls"], number[f"{part}_flops"]) for part in PARTS)
    image, model_mb, image_mb = (number[column] for column in ("image_flops", "model_mb", "image_mb"))
    return Counted(kind, row["whose"], int(row["batch"]), round, step, before, after, image, model_mb, image_mb)


def row_of(counted: Counted) -> dict[str, str]:
    """The row that is read as this."""
    told = dataclasses.asdict(counted.kind) | {"whose": counted.whose, "batch": counted.batch}
    works = {part: getattr(counted, part) for part in PARTS}
    numbers = {f"{part}_{key}": x for part, work in works.items() for key, x in dataclasses.asdict(work).items()}
    numbers |= {"image_flops": counted.image, "model_mb": counted.model_mb, "image_mb": counted.image_mb}
    return {key: str(value) for key, value in told.items()} | {key: f"{numbers[key]:.4g}" for key in NUMBERS}


# ---- images


def images_of(data: DataSettings) -> float:
    """About how many training images all clients have together."""
    left = {source: size_of(source) * (1 - data.server_share) for source in data.styles.values()}
    if data.per_class:  # drawn from what the server has left
        left = {source: min(size, data.per_class * known(source).classes) for source, size in left.items()}
    total = _of_seen(data, left) * (1 - data.validation_share) * data.classes_per_client
    return min(total, (data.at_most or total) * len(data.seen) * data.clients_per_style)


def server_images_of(data: DataSettings) -> float:
    """About how many training images the server has: a share of each source, whatever clients have of the rest."""
    return data.server_share * _of_seen(data, {source: size_of(source) for source in data.styles.values()})


def _of_seen(data: DataSettings, sizes: dict[str, float]) -> float:
    """The images of all styles that clients have, of which each has a source of its own, or all the same."""
    seen = [sizes[data.styles[style]] for style in data.seen]
    return max(seen) if data.pool == "together" else sum(seen)


def known(expression: str) -> Known:
    """The source of which an expression names a part or all."""
    match = EXPRESSION.fullmatch(expression)
    return KNOWN.get(match["name"], UNKNOWN) if match else UNKNOWN


def whole_size_of(expression: str) -> int:
    """About how many training images there are in the source of which an expression names a part or all."""
    return known(expression).images


def size_of(expression: str) -> float:
    """About how many training images a source has, named as docs/data.md describes."""
    match, size = EXPRESSION.fullmatch(expression), whole_size_of(expression)
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
