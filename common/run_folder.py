"""The folder that a run leaves behind; docs/run-folder.md is its contract with programs outside this project."""

import csv
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np

from common.errors import InputError
from common.files import written
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


@dataclass(frozen=True)
class RunFolder:
    """Reads and writes the files of one run.

    Attributes:
        path: the folder.
        judge: the file of the classifier that judges the run's images, if there is one.
    """

    path: Path
    judge: Path | None = None

    def judged(self, judges: Path | None) -> "RunFolder":
        """The same folder with its condition's judge, `<judges>/<paper>/<condition>.safetensors`."""
        if judges is None:
            return self
        paper, condition = self.spec.run.split("/")[:2]
        return RunFolder(self.path, judges / paper / f"{condition}.safetensors")

    @cached_property
    def spec(self) -> Spec:
        """What was asked for."""
        return read_spec(self.path / "spec.yaml")

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """What happened: `status` (ok or diverged), code, versions, hardware, time, memory, bytes, sources."""
        file = self.path / "provenance.json"
        try:
            return json.loads(file.read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"{file}: cannot be read ({error}); run the training again") from error

    @cached_property
    def features(self) -> dict[str, np.ndarray]:
        """The arrays that evaluations need; empty if the run diverged."""
        return self._arrays("features.npz")

    @cached_property
    def samples(self) -> dict[str, np.ndarray]:
        """Images that a generative model made, and real ones; empty if there are none."""
        return self._arrays("samples.npz") if (self.path / "samples.npz").exists() else {}

    @property
    def snapshots(self) -> list[int]:
        """The rounds, in order, after which arrays were kept besides those of the end."""
        return sorted(int(file.stem.removeprefix("after-")) for file in self.path.glob("after-*.npz"))

    def after(self, round: int) -> dict[str, np.ndarray]:
        """Features and samples as they were after a round."""
        return self._arrays(f"after-{round}.npz")

    def _arrays(self, name: str) -> dict[str, np.ndarray]:
        file = self.path / name
        try:
            with np.load(file) as arrays:
                return {key: arrays[key] for key in arrays.files}
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            raise InputError(f"{file}: cannot be read ({error}); run the training again") from error

    def table(self, name: str) -> list[dict[str, str]]:
        """The rows of one of the CSV files; none if the run has left no such file."""
        file = self.path / name
        if not file.exists():
            return []
        with open(file, newline="") as lines:
            return list(csv.DictReader(lines))

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
