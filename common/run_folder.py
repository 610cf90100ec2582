"""The folder that a run leaves behind; docs/run-folder.md is its contract with programs outside this project."""

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveInt
from safetensors import SafetensorError, safe_open

from common import run_arrays, run_tables
from common.errors import InputError
from common.files import written
from common.run_arrays import Arrays
from common.settings import STRICT, checked
from common.spec import Spec, read_spec

FILES = (
    "spec.yaml",
    "provenance.json",
    "features.npz",
    "model.safetensors",
    "history.csv",
    "traffic.csv",
    "partition.csv",
)
CHECKPOINT, LOCK = "checkpoint.pt", ".training.lock"


class _Played(BaseModel):
    """The source that plays a style."""

    model_config = STRICT
    name: str
    sha256: str
    images: PositiveInt
    classes: PositiveInt


class _Provenance(BaseModel):
    """What is read of provenance.json; more may be in it."""

    model_config = STRICT | ConfigDict(extra="allow")
    status: Literal["ok", "diverged"]
    sources: dict[str, _Played] = {}
    spec: str = ""
    packages: dict[str, str] = {}
    train_s: NonNegativeFloat = 0.0
    wall_s: NonNegativeFloat = 0.0
    peak_memory_mb: NonNegativeFloat = 0.0
    bytes_up: NonNegativeInt = 0
    bytes_down: NonNegativeInt = 0


@dataclass(frozen=True)
class RunFolder:
    """Reads and writes the files of one run. What is read is checked, once; docs/run-folder.md says for what.

    Attributes:
        path: the folder.
        judge: the file of the classifier that judges the run's images, if there is one.
        renamed: the labels that the run has today, if they are others than when it was trained.
    """

    path: Path
    judge: Path | None = None
    renamed: dict[str, str] | None = None

    def judged(self, judges: Path | None) -> "RunFolder":
        """The same folder with the judge of its condition and seed, `<judges>/<paper>/<condition>/<seed>.safetensors`.

        Not of all seeds: which images a source without an official split tests on is drawn by the seed.

        Raises:
            InputError: there are judges, and the run's name has no condition.
        """
        if judges is None:
            return self
        if self.spec.run.count("/") < 2:
            raise InputError(
                f"{self.path}/spec.yaml: run: judges are those of a paper, a condition and a seed, "
                f"such as padpaf/mnist_two/padpaf/default/1, got '{self.spec.run}'; leave out --judges, or rename it"
            )
        paper, condition, *_, seed = self.spec.run.split("/")
        return replace(self, judge=judges / paper / condition / f"{seed}.safetensors")

    @cached_property
    def before(self) -> "RunFolder | None":
        """The folder of the run that this one went on from, if there is one, and if it is there."""
        if not self.spec.start:
            return None
        other = RunFolder(self.path_of(self.spec.start, self.spec.run, self.path))
        return other if (other.path / "provenance.json").is_file() else None

    @staticmethod
    def path_of(other: str, run: str, folder: Path) -> Path:
        """Where another run of the same scale has its folder, by that of `run`."""
        above = [folder.resolve(), *folder.resolve().parents]
        return above[min(run.count("/") + 1, len(above) - 1)] / other

    def check(self) -> None:
        """Whether the files fit each other and nothing is missing; arrays and weights are checked when they are read.

        Raises:
            InputError: the folder is incomplete, or a file is not what it must be.
        """
        if odd := set(self.snapshots) - set(self.spec.snapshots):
            raise InputError(f"{self.path}/after-{min(odd)}.npz: is none of the snapshots that spec.yaml asks for")
        if self.provenance["status"] == "ok":
            for name, rows in self._tables.items():
                run_tables.check(self.path / name, rows, self.spec, self.provenance)

    @cached_property
    def spec(self) -> Spec:
        """What was asked for."""
        return read_spec(self.path / "spec.yaml")

    @property
    def labels(self) -> dict[str, str]:
        """Which cell of a paper the run is for: columns of its records."""
        return self.spec.labels if self.renamed is None else self.renamed

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """What happened: `status` (ok or diverged), code, versions, hardware, time, memory, bytes, sources."""
        file = self.path / "provenance.json"
        try:
            content = json.loads(file.read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{file}: cannot be read ({error}); run the training again") from error
        if not isinstance(content, dict):
            raise InputError(f"{file}: must hold keys and values, got {type(content).__name__}")
        given = checked(_Provenance, str(file), content).model_dump(exclude_unset=True)
        if odd := given.get("sources", {}).keys() - self.spec.data.styles.keys():
            raise InputError(f"{file}: sources: '{min(odd)}' is none of the styles of spec.yaml")
        if given.get("spec") not in (None, self.spec.digest):
            raise InputError(f"{file}: spec.yaml has changed since the training ({given['spec']}); train the run again")
        return {"sources": {}} | given

    @cached_property
    def features(self) -> Arrays:
        """The arrays that evaluations need; empty if the run diverged."""
        return self._arrays("features.npz")

    @cached_property
    def samples(self) -> Arrays:
        """Images that a generative model made, and real ones; empty if there are none."""
        file = self.path / "samples.npz"
        return self._arrays(file.name) if file.exists() else Arrays(file, {})

    @property
    def snapshots(self) -> list[int]:
        """The rounds, in order, after which arrays were kept besides those of the end."""
        names = [file.stem.removeprefix("after-") for file in self.path.glob("after-*.npz")]
        if odd := [name for name in names if not name.isdecimal()]:
            raise InputError(f"{self.path}/after-{odd[0]}.npz: must be named after a round, such as after-10.npz")
        return sorted(map(int, names))

    def after(self, round: int) -> Arrays:
        """Features and samples as they were after a round."""
        return self._arrays(f"after-{round}.npz")

    def _arrays(self, name: str) -> Arrays:
        classes = {source["classes"] for source in self.provenance["sources"].values()}
        return run_arrays.read(self.path / name, self.spec.data, max(classes, default=None))

    def weights(self, *prefixes: str) -> Arrays:
        """The tensors of model.safetensors whose names start with one of these.

        Raises:
            InputError: the file is missing or damaged, or a number is not finite.
        """
        with self._model() as model:
            file, names = self.path / "model.safetensors", _starting(model, prefixes)
            tensors = Arrays(file, {name: model.get_tensor(name) for name in names})
        for name, tensor in tensors.items():
            if not np.isfinite(tensor).all():
                raise InputError(f"{file}: {name}: has numbers that are not finite")
        return tensors

    def shapes(self, *prefixes: str) -> dict[str, tuple[int, ...]]:
        """Those of the same tensors, whose numbers are not read: after a run that diverged some are not finite.

        Raises:
            InputError: the file is missing or damaged.
        """
        with self._model() as model:
            return {name: tuple(model.get_slice(name).get_shape()) for name in _starting(model, prefixes)}

    @contextmanager
    def _model(self) -> Iterator[Any]:
        """model.safetensors, opened; InputError if it cannot be read."""
        file = self.path / "model.safetensors"
        try:
            with safe_open(file, framework="np") as model:
                yield model
        except (OSError, SafetensorError, TypeError) as error:
            raise InputError(f"{file}: cannot be read ({error}); run the training again") from error

    def table(self, name: str) -> list[dict[str, Any]]:
        """The rows of one of the CSV files, with numbers as such; none if the run has left no such file."""
        return self._tables.get(name, [])

    def has(self, name: str) -> bool:
        """Whether the run has left this CSV file: what would be counted in one that is not there is no 0."""
        return name in self._tables

    @cached_property
    def _tables(self) -> dict[str, list[dict[str, Any]]]:
        files = (self.path / name for name in run_tables.ROWS)
        return {file.name: run_tables.read(file) for file in files if file.exists()}

    def begin(self, *, anew: bool) -> None:
        """A training begins, or goes on: until its end nothing vouches for the folder.

        Args:
            anew: begins, so that nothing stays of an earlier one, nor its checkpoint, which would vouch for snapshots;
                `spec.yaml` does, which may be in the user's own words.
        """
        left = {*FILES, *run_tables.ROWS, "samples.npz", "after-*.npz", CHECKPOINT} - {"spec.yaml"}
        for pattern in left if anew else ("provenance.json",):
            for file in self.path.glob(pattern):
                file.unlink()

    def write_table(self, name: str, rows: list[dict[str, Any]], columns: list[str]) -> None:
        """Write rows as a CSV file."""
        write_csv(self.path / name, rows, columns)

    def write_spec(self, spec: Spec) -> None:
        """Write `spec.yaml`, unless it says the same already, perhaps in the user's own words."""
        file = self.path / "spec.yaml"
        if not file.exists() or read_spec(file) != spec:
            with written(file) as part:
                part.write_text(spec.to_yaml())

    def write_features(self, arrays: dict[str, np.ndarray]) -> None:
        """Write `features.npz`."""
        self.write_arrays("features.npz", arrays)

    def write_arrays(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        """Write an .npz file in the folder."""
        write_arrays(self.path / name, arrays)

    def write_provenance(self, content: dict[str, Any]) -> None:
        """Write `provenance.json`; it comes last, so a folder that has it is complete."""
        with written(self.path / "provenance.json") as part:
            part.write_text(json.dumps(content, indent=1) + "\n")


def _starting(model: Any, prefixes: tuple[str, ...]) -> list[str]:
    return [name for name in model.keys() if name.startswith(prefixes)]  # noqa: SIM118


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write an .npz file; images compress well, features do not."""
    save = np.savez_compressed if any(array.dtype == np.uint8 for array in arrays.values()) else np.savez
    with written(path) as part, open(part, "wb") as out:
        save(out, **cast(Any, arrays))


def write_csv(path: Path, rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Write rows as a CSV file with these columns; a key beyond them is an error."""
    with written(path) as part, open(part, "w", newline="") as out:
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
