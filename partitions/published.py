"""Published data sets in the layout in which torchvision stores them, downloaded and verified by torchvision."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from partitions.source import Source, joined

Arrays = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class TorchvisionSet:
    """How to read one of torchvision's data sets.

    Attributes:
        about: one line for `diptych list`.
        kind: the class in `torchvision.datasets`.
        files: below the data root; all must be there to count as found.
        parts: the arguments that choose the training and the test part.
        arrays: (images, labels) of a part.
        sha256: of the source as published, if it is known here; files that give another digest are refused.
    """

    about: str
    kind: str
    files: tuple[str, ...]
    parts: tuple[dict[str, Any], dict[str, Any]]
    arrays: Callable[[Any], Arrays]
    sha256: str = ""

    def found(self, root: Path) -> bool:
        """Whether all files are below `root`."""
        return all((root / file).is_file() for file in self.files)

    def read(self, name: str, root: Path, *, download: bool) -> Source:
        """The source; whatever torchvision raises passes through."""
        import torchvision.datasets  # two seconds, which runs on other data need not pay

        kind = getattr(torchvision.datasets, self.kind)
        train, test = (self.arrays(kind(str(root), download=download, **part)) for part in self.parts)
        return joined(name, train, test)


_TRAIN_TEST = ({"train": True}, {"train": False})


def _mnist(part: Any) -> Arrays:
    return part.data.numpy(), part.targets.numpy()


def _lists(part: Any) -> Arrays:
    return np.asarray(part.data, dtype=np.uint8), np.asarray(part.targets)


def _svhn(part: Any) -> Arrays:
    return np.ascontiguousarray(part.data.transpose(0, 2, 3, 1)), np.asarray(part.labels)


def _idx(folder: str) -> tuple[str, ...]:
    return tuple(
        f"{folder}/raw/{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
    )


TORCHVISION: dict[str, TorchvisionSet] = {
    "mnist": TorchvisionSet(
        "handwritten digits, 28 px, grey",
        "MNIST",
        _idx("MNIST"),
        _TRAIN_TEST,
        _mnist,
        sha256="a5dc66e2c5824df37e0a84c8c3cc1ab0e62b0110d7fd26a2c106086fb0dac593",
    ),
    "fashion-mnist": TorchvisionSet(
        "clothes, 28 px, grey",
        "FashionMNIST",
        _idx("FashionMNIST"),
        _TRAIN_TEST,
        _mnist,
        sha256="00b2efb2de26df05b0c8f05be50ef5b060b7e18487fb4f6af8c7232cd00dea42",
    ),
    "usps": TorchvisionSet(
        "digits from envelopes, 16 px, grey",
        "USPS",
        ("usps.bz2", "usps.t.bz2"),
        _TRAIN_TEST,
        _lists,
        sha256="c758a734b49d6de605addb1fd62b1883c5fe834f42f4f8f7aac5ceb85e63e75f",
    ),
    "svhn": TorchvisionSet(
        "house numbers, 32 px, colour",
        "SVHN",
        ("train_32x32.mat", "test_32x32.mat"),
        ({"split": "train"}, {"split": "test"}),
        _svhn,
    ),
    "cifar10": TorchvisionSet(
        "ten kinds of things, 32 px, colour",
        "CIFAR10",
        tuple(f"cifar-10-batches-py/{batch}" for batch in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")),
        _TRAIN_TEST,
        _lists,
    ),
}
