"""Published data sets in the layout in which torchvision stores them, downloaded and verified by torchvision.

`common.sources` says which files these are.
"""

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
        kind: the class in `torchvision.datasets`.
        parts: the arguments that choose the training and the test part.
        arrays: (images, labels) of a part.
        sha256: of the source as published, if it is known here; files that give another digest are refused.
    """

    kind: str
    parts: tuple[dict[str, Any], dict[str, Any]]
    arrays: Callable[[Any], Arrays]
    sha256: str = ""

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


TORCHVISION: dict[str, TorchvisionSet] = {
    "mnist": TorchvisionSet(
        "MNIST",
        _TRAIN_TEST,
        _mnist,
        sha256="a5dc66e2c5824df37e0a84c8c3cc1ab0e62b0110d7fd26a2c106086fb0dac593",
    ),
    "fashion-mnist": TorchvisionSet(
        "FashionMNIST",
        _TRAIN_TEST,
        _mnist,
        sha256="00b2efb2de26df05b0c8f05be50ef5b060b7e18487fb4f6af8c7232cd00dea42",
    ),
    "usps": TorchvisionSet(
        "USPS",
        _TRAIN_TEST,
        _lists,
        sha256="c758a734b49d6de605addb1fd62b1883c5fe834f42f4f8f7aac5ceb85e63e75f",
    ),
    "svhn": TorchvisionSet("SVHN", ({"split": "train"}, {"split": "test"}), _svhn),
    "cifar10": TorchvisionSet("CIFAR10", _TRAIN_TEST, _lists),
}
