"""How far two sets of images are apart: the cost of moving one onto the other, squared Euclidean."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

EPSILON, ITERATIONS, STILL, CHUNK, LEAST = 1e-4, 100, 0.1, 500, 1e-8
"""Of FedINB's code: regularisation, iterations at most, the sum of the changes of u that ends them, images that are
moved together, and what is added to the logarithm's argument."""


@dataclass(frozen=True)
class Cost:
    """What moving costs, in the mean of the images, and how far the plan was from one.

    Attributes:
        value: the mean squared distance that an image is moved.
        iterations: of Sinkhorn's algorithm; 0 for an exact plan.
        marginal_error: how much mass, in all, the plan takes too much or too little of the first set's images, in
            [0, 2]; 0 if it is a plan.
    """

    value: float
    iterations: float = 0.0
    marginal_error: float = 0.0


def mean(costs: Sequence[Cost], weights: Sequence[float] | None = None) -> Cost:
    """Of each attribute, where no weights are given evenly."""
    return Cost(*np.average([astuple(cost) for cost in costs], axis=0, weights=weights).tolist())


def flat(images: np.ndarray) -> np.ndarray:
    """Images (n, channels, height, width), bytes, as points (n, d) in [0, 1]^d."""
    return images.reshape(len(images), -1).astype(np.float64) / 255


def exact(a: np.ndarray, b: np.ndarray) -> Cost:
    """By POT's network simplex, of points a (n, d) and b (m, d)."""
    import ot  # a second, which only what measures transport need pay

    cost, log = ot.emd2([], [], ot.dist(a, b), log=True, numItermax=10_000_000)
    if log["warning"]:
        raise RuntimeError(f"optimal transport: {log['warning']}")
    return Cost(float(cost))


def sinkhorn(a: np.ndarray, b: np.ndarray) -> Cost:
    """As FedINB measures: in consecutive chunks of 500, by Sinkhorn's algorithm until u hardly changes.

    Of sets that are not of one size the larger is cut to its first images, as many chunks of 500 as the smaller has; a
    translation has as many images as its target. The first set's marginal is the one that is not met.
    It stops long before the plan is one (reference: ours; `marginal_error` says how far it is): with so little
    regularisation u crawls. What it returns is the cost of that unfinished plan.
    """
    import ot

    chunks = [slice(start, start + CHUNK) for start in range(0, min(len(a), len(b)), CHUNK)]
    found = [_chunk(ot.dist(a[chunk], b[chunk])) for chunk in chunks]
    sizes = [len(a[chunk]) for chunk in chunks]
    return mean(found, sizes)


def _chunk(cost: np.ndarray) -> Cost:
    n, m = cost.shape
    mu, nu = np.log(1 / n + LEAST), np.log(1 / m + LEAST)
    u, v, iterations = np.zeros((n, 1)), np.zeros((1, m)), 0
    for _ in range(ITERATIONS):
        iterations += 1
        before = u
        u = EPSILON * (mu - _logsumexp((v - cost) / EPSILON, axis=1))
        v = EPSILON * (nu - _logsumexp((u - cost) / EPSILON, axis=0))
        if np.abs(u - before).sum() < STILL:
            break
    plan = np.exp((u + v - cost) / EPSILON)
    return Cost(float((plan * cost).sum()), iterations, float(np.abs(plan.sum(axis=1) - 1 / n).sum()))


def _logsumexp(x: np.ndarray, axis: int) -> np.ndarray:
    """With the axis kept; several times as fast as SciPy's, which guards against infinities that are not here."""
    top = x.max(axis=axis, keepdims=True)
    return top + np.log(np.exp(x - top).sum(axis=axis, keepdims=True))
