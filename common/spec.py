"""The specification of a run: all that decides its numbers, in one document, the `spec.yaml` of its folder.

Importing this loads no torch, so that a workflow can be checked before anything runs.
"""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from common.errors import InputError, choose, quoted
from common.records import IDENTITY
from common.settings import STRICT, Count, Epochs, checked

Share = Annotated[float, Field(ge=0, lt=1)]
Betas = Annotated[tuple[Share, Share], Field(strict=False)]  # of a list, as YAML has it
Named = dict[str, Any]
"""A name from a registry, and the settings that it takes."""
StyleName = Annotated[str, Field(pattern=r"^[^/]+$")]


def _whole(value: Any) -> Any:
    if isinstance(value, bool | float):  # which Python takes for equal to 1 and 3
        raise ValueError("must be a whole number")
    return value


def _below_runs(name: str) -> str:
    """The name of a run, which is that of a folder below all others' and nowhere else."""
    if name and {"", ".", ".."} & set(name.split("/")):
        raise ValueError("must be names with single slashes between them, such as <paper>/<condition>/<method>/...")
    return name


RunName = Annotated[str, AfterValidator(_below_runs)]


class _Settings(BaseModel):
    model_config = STRICT | ConfigDict(frozen=True)


class DataSettings(_Settings):
    """Whose images, and how they are dealt.

    Attributes:
        dataset: the data type that the styles make up (`digit`, `office-home`, ...).
        styles: style -> the source that plays it, an expression as docs/data.md describes it.
        image_size, channels: what every image is brought to.
        clients_per_style: each style but the unseen has as many clients, and they have no other.
        deal: the rule that deals a style's images to its clients, a name from `diptych list partitions` with its
            settings.
        pool: `own`: the clients of a style take its source's images; `together`: all styles show one source, whose
            images are dealt over the clients of all of them, so that none has another's.
        views: style -> how its clients see their images, a name from `diptych list views` with its settings.
        classes_per_client: the share of the classes that a client keeps, drawn for each; it drops its other images.
        attributes: style -> attributes of the source. Its client holds, round by round in turn, the images that have
            one of them, whoever else holds them too (PaDPaF's workers on CelebA, App. C.4).
        marks: style -> what is drawn into its images, once and for all, a name from `diptych list marks`.
        rotations: style -> degrees by which its images are turned counter-clockwise, once and for all, after they have
            been brought to size and before they are marked (FedINB's domains).
        per_class: images of each class that a style's training set has, drawn at random; null for all.
        drawn_in: parts in which these are drawn, each without repetition; with several an image may come more than
            once (FedINB's code: 10).
        unseen: styles that no client has, nor the server (FedINB's 75 and 90 degrees).
        label_shift: style -> what is added to its labels, modulo the number of classes (FedDVA's code).
        test_images: a client's are `all` of its style's; or they are `dealt` out as well, so that a client has the
            same part of a class's test as of its training images, or, with attributes, those that have one of its own.
        server_share: of each style's training images, stratified by class, that the server has and no client.
        at_most: images that a client has, drawn at random from its share; null for all.
        validation_share: of each client's training images, in the proportions of their classes, that nobody trains on;
            all that is measured on test images is measured on these, and not on test images, nor on `unseen` styles.
        resample: `mean` brings every style's training images to the mean number over styles (FedStyle, App. A).
        train_fraction: of a source without an official test split.

    With `rotations`, `per_class` or `unseen` domains are paired: styles that show one source show the same images of
    it, in the same order, and are tested on the same others.
    """

    dataset: str
    styles: Annotated[dict[StyleName, str], Field(min_length=1)]
    image_size: Annotated[int, Field(ge=8, le=512)] = 32
    channels: Annotated[Literal[1, 3], BeforeValidator(_whole)] = 3
    clients_per_style: PositiveInt = 1
    deal: Named = {"name": "iid"}
    pool: Literal["own", "together"] = "own"
    views: dict[str, Named] = {}
    classes_per_client: Annotated[float, Field(gt=0, le=1)] = 1.0
    attributes: dict[str, list[str]] = {}
    marks: dict[str, str] = {}
    rotations: dict[str, Annotated[float, Field(ge=-360, le=360)]] = {}
    per_class: PositiveInt | None = None
    drawn_in: PositiveInt = 1
    unseen: list[str] = []
    label_shift: dict[str, Annotated[int, Field(ge=-1_000_000, le=1_000_000)]] = {}
    test_images: Literal["all", "dealt"] = "all"
    server_share: Share = 0.0
    at_most: PositiveInt | None = None
    validation_share: Share = 0.0
    resample: Literal["mean", "none"] = "mean"
    train_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.7

    @property
    def paired(self) -> bool:
        """Whether styles that show one source show the same images of it."""
        return bool(self.rotations or self.per_class or self.unseen)

    @property
    def people(self) -> bool:
        """Whether labels are people: thousands, of whom hardly any is shown twice, so that nobody reads them."""
        return self.dataset == "celeba"

    @property
    def seen(self) -> tuple[str, ...]:
        """The styles that clients have."""
        return tuple(style for style in self.styles if style not in self.unseen)

    @property
    def clients(self) -> int:
        """The number of clients."""
        return len(self.seen) * self.clients_per_style


class OptimiserSettings(_Settings):
    """The clients' optimiser: SGD with momentum, or Adam."""

    name: Literal["sgd", "adam"] = "sgd"
    lr: PositiveFloat = 0.1
    momentum: Share = 0.0
    betas: Betas = (0.9, 0.999)
    weight_decay: Annotated[float, Field(ge=0)] = 0.0


class ServerSettings(_Settings):
    """How the server combines what comes back.

    Attributes:
        weighting: every client equally, or in proportion to its number of training images (McMahan et al. 2017).
        optimiser: take the mean, or let Adam follow the mean as a pseudo-gradient (Reddi et al. 2021).
        lr, betas: of Adam.
    """

    weighting: Literal["uniform", "size"] = "size"
    optimiser: Literal["mean", "adam"] = "mean"
    lr: PositiveFloat = 1e-2
    betas: Betas = (0.9, 0.99)


class TrainingSettings(_Settings):
    """How much is trained, and how.

    Attributes:
        rounds: communication rounds, 100,000 at most.
        local_epochs: passes over a client's data in each phase of a round; may be fractional.
        local_steps: mini-batches in a phase, in the place of `local_epochs`; null for these. Each round shuffles anew.
        participation: the share of clients sampled in each round, rounded down, at least one.
        optimiser_state: made anew in each round, or kept by each client over its rounds.
        lr_decay: what the clients' learning rate, and the server's if it has one, are multiplied by after each round.
        buffers: whether batch-norm statistics travel with the shared parameters or stay with each client.
        precision: fp32, or bf16 autocast of the loss.
        channels_last: memory layout of images and convolution kernels.
    """

    rounds: Annotated[int, Field(gt=0, le=100_000)]
    local_epochs: Epochs = 1.0
    local_steps: Count | None = None
    batch_size: Annotated[int, Field(ge=2, le=1_000_000)] = 64
    participation: Annotated[float, Field(gt=0, le=1)] = 1.0
    optimiser: OptimiserSettings = OptimiserSettings()
    optimiser_state: Literal["round", "persistent"] = "round"
    lr_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    server: ServerSettings = ServerSettings()
    buffers: Literal["shared", "local"] = "shared"
    precision: Literal["fp32", "bf16"] = "fp32"
    channels_last: bool = False


class SampleSettings(_Settings):
    """What is taken from a trained model for its evaluations, all but `members` from a generative one.

    Attributes:
        images: generated by each client.
        batch: images generated together, which batch norm in training mode makes depend on each other.
        probed: images of each kind whose features are kept for probes.
        members: training images of each client, at most, and as many test images, that whoever hears what it sends
            last is asked about; 0 for nobody.
    """

    images: Count = 7520
    batch: Annotated[int, Field(ge=2, le=1_000_000)] = 32
    probed: Count = 10000
    members: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class InversionSettings(_Settings):
    """Somebody who inverts what each client sends first.

    Attributes:
        iterations: of L-BFGS, at most.
    """

    iterations: Count = 300


class Spec(_Settings):
    """One run.

    Attributes:
        run: its name, which is also its folder below `results/<scale>/runs`.
        labels: columns of the records that say which cell of a paper the run is for.
        network: the encoder and its settings. objective, algorithm: likewise.
        start: the run whose shared tensors the objective's model starts from, or, if it shared nothing, whose clients'
            tensors each client's model starts from; empty for a new start.
        seed: below 2^32.
        snapshots: rounds after which the run is evaluated as well, each once; 0 is the state before the first.
        score_every: after every so many rounds, and the last, clients are scored on their test images; 0 for never.
        features: whether arrays are kept for evaluations, such as features for linear probes; those of a generative
            model, of an inversion and of members always are.
        abilities: what the algorithm is asked for as all others are, as far as it is able to (`codes`, `answers`,
            `generation`, `translation`), in the place of the arrays that its paper's evaluations need.
        samples: what is taken from a model for its evaluations, and of an ability.
        inversion: whether somebody listens who inverts what each client sends first, its weights after steps of plain
            gradient descent on all that it has, a discriminator, or projections.
    """

    run: Annotated[RunName, Field(min_length=1)]
    scale: str
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    labels: dict[str, str] = {}
    data: DataSettings
    network: Named
    objective: Named
    algorithm: Named
    training: TrainingSettings
    start: RunName = ""
    snapshots: list[NonNegativeInt] = []
    score_every: NonNegativeInt = 0
    features: bool = True
    abilities: list[Literal["codes", "answers", "generation", "translation"]] = []
    samples: SampleSettings = SampleSettings()
    inversion: InversionSettings | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for label in self.labels:
            choose("labels", label, IDENTITY)
        last, snapshots = self.training.rounds, self.snapshots
        if snapshots and (max(snapshots) > last or len(set(snapshots)) < len(snapshots)):
            raise InputError(f"snapshots: must be different rounds up to training.rounds, {last}, got {snapshots}")
        if self.start == self.run:
            raise InputError(f"start: '{self.run}' cannot start from itself")
        return self

    @property
    def scored_rounds(self) -> list[int]:
        """The rounds after which clients are scored."""
        every, last = self.score_every, self.training.rounds
        return [*range(every, last, every), last] if every else []

    @property
    def overheard(self) -> bool:
        """Whether somebody listens to what clients send."""
        return self.inversion is not None or self.samples.members > 0

    @property
    def digest(self) -> str:
        """Twelve hex digits over everything that decides the numbers; names and labels do not.

        What has its default does not count, so that a new setting leaves the digests of old specifications as they are.
        """
        content = self.model_dump(mode="json", exclude={"run", "scale", "labels"}, exclude_defaults=True)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    def to_yaml(self) -> str:
        """The document that `read_spec` reads."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, width=120)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # ten times as fast in C
    """Refuses keys that are given twice, of which the last would win, and keys that YAML takes for a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node."""
        seen = set()
        for key, _ in node.value:
            where = f"line {key.start_mark.line + 1}"
            if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                raise InputError(f"{where}: the key {quoted(key.value)} is no text; put it in quotes")
            if key.value in seen:
                raise InputError(f"{where}: the key {quoted(key.value)} is there twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        InputError: the file is missing, is not YAML, holds something other than a mapping, or a key twice.
    """
    try:
        content = yaml.load(path.read_text(), _Loader)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # the latter of a date or a number that is none
        raise InputError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: must hold keys and values, got {type(content).__name__}")
    return content


def read_spec(path: Path) -> Spec:
    """The specification in a file; InputError names what is wrong with it."""
    return checked(Spec, str(path), read_yaml(path))
