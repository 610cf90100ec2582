"""What membership inference finds where there is nothing to find: training images that a model has not seen, told from
test images, which are others' handwriting and photographs.

python -m benchmarks.membership 20 mnist usps mnist-m fashion-mnist cifar10
"""

import os
import sys

import numpy as np
from sklearn.neural_network import MLPClassifier

from evaluation.privacy import auc
from partitions.source import Source
from partitions.sources import load

SEEN, ASKED = 500, 200
"""Images that a model is trained on, and others of either part that it is asked of: a client's of common ground."""


def null(source: Source, seed: int) -> float:
    """The area under the curve of a perceptron of 100 units: how often it has the lower loss on an image of the
    training part that it was not trained on than on a test image, as many of each label.

    Raises:
        ValueError: the source has no official split, so that its parts are alike.
    """
    if source.test is None:
        raise ValueError(f"{source.name}: has no official split")
    rng = np.random.default_rng(seed)
    train, test = (rng.permutation(np.flatnonzero(part)) for part in (~source.test, source.test))
    points = source.images.reshape(len(source.images), -1) / np.float32(255)
    model = MLPClassifier(random_state=seed, max_iter=300).fit(points[train[:SEEN]], source.labels[train[:SEEN]])
    pairs = _alike(source.labels, train[SEEN:], test)
    unseen, others = (_log_likelihood(model, points[rows], source.labels[rows]) for rows in pairs)
    return auc(unseen, others)[0]


def _alike(labels: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`ASKED` of `ours` and as many of `theirs`, label by label."""
    chosen = ours[:ASKED]
    counts = np.bincount(labels[chosen])
    return chosen, np.concatenate([theirs[labels[theirs] == label][:n] for label, n in enumerate(counts)])


def _log_likelihood(model: MLPClassifier, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return model.predict_log_proba(x)[np.arange(len(y)), np.searchsorted(model.classes_, y)]


def main(seeds: int, names: list[str]) -> None:
    """Mean, standard deviation and standard error over seeds, of each source."""
    for name in names:
        source = load(name, 32, os.environ.get("DIPTYCH_DATA", "data"))
        found = np.array([null(source, seed) for seed in range(seeds)])
        print(f"{name:16}{found.mean():.3f} ± {found.std(ddof=1):.3f} (error {found.std(ddof=1) / seeds**0.5:.3f})")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
