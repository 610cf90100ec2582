"""A source: one set of labelled images, whole in memory."""

import dataclasses
import hashlib

import numpy as np

from common.errors import InputError


@dataclasses.dataclass(frozen=True)
class Source:
    """One set of labelled images.

    Attributes:
        images: (n, height, width) or (n, height, width, 3) bytes.
        labels: (n,) class indices, int64.
        test: (n,) bool, the official test images; None if there is no official split.
        classes: the number of classes.
        extra: further arrays (n, ...), such as attributes and identities.
        class_names: of each class, in their order, where the source says them; otherwise empty.

    Raises:
        InputError: the arrays do not fit together.
    """

    name: str
    images: np.ndarray
    labels: np.ndarray
    test: np.ndarray | None
    classes: int
    extra: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape, dtype = self.images.shape, self.images.dtype
        if dtype != np.uint8 or len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] != 3):
            raise InputError(
                f"source '{self.name}': images must be bytes of shape (n, height, width) or (n, height, width, 3), "
                f"got {dtype} {shape}"
            )
        if min(shape[1:3]) < 4:
            raise InputError(f"source '{self.name}': images must have 4 pixels or more to a side, got {shape}")
        beside = {"labels": self.labels, **({} if self.test is None else {"test": self.test}), **self.extra}
        for key, array in beside.items():
            if len(array) != len(self.images):
                raise InputError(f"source '{self.name}': {len(self.images)} images but {len(array)} {key}")
        if not len(self.images):
            raise InputError(f"source '{self.name}': there is no image")
        if self.labels.min() < 0 or self.labels.max() >= self.classes:
            raise InputError(
                f"source '{self.name}': labels must be in 0..{self.classes - 1}, "
                f"got {self.labels.min()}..{self.labels.max()}"
            )

    @property
    def sha256(self) -> str:
        """A digest of images, labels and split."""
        digest = hashlib.sha256()
        for array in (self.images, self.labels, self.test if self.test is not None else np.zeros(0, bool)):
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def taken(self, indices: np.ndarray, name: str) -> "Source":
        """The source of these images alone, in this order."""
        return dataclasses.replace(
            self,
            name=name,
            images=self.images[indices],
            labels=self.labels[indices],
            test=None if self.test is None else self.test[indices],
            extra={key: array[indices] for key, array in self.extra.items()},
        )


def joined(name: str, train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> Source:
    """A source with an official split from (images, labels) of both parts."""
    for part, (images, of_these) in (("training", train), ("test", test)):
        if len(images) != len(of_these) or images.shape[1:] != train[0].shape[1:]:
            raise InputError(
                f"source '{name}': {part} images {images.shape} do not fit their {len(of_these)} labels, "
                f"or training images {train[0].shape}"
            )
    labels = np.concatenate([train[1], test[1]]).astype(np.int64)
    return Source(
        name=name,
        images=np.concatenate([train[0], test[0]]),
        labels=labels,
        test=np.repeat([False, True], [len(train[0]), len(test[0])]),
        classes=int(labels.max(initial=0)) + 1,
    )
