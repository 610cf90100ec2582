"""What figures are drawn from besides records: small tables and images of a run. Imports no torch."""

from collections.abc import Callable
from typing import Any

import numpy as np

from common.keys import random_key
from common.run_folder import RunFolder
from evaluation.clusters import style_features
from evaluation.grids import samples

Rows = list[dict[str, Any]]


def style_map(run: RunFolder, samples: int = 1200) -> Rows:
    """t-SNE coordinates of the style features of a run: one row per image, with its client and style."""
    features, clients = style_features(run, samples)
    if not len(features):
        return []
    styles = {k: str(run.features[f"client/{k}/style"]) for k in set(clients.tolist())}
    return _flat_map(features, clients, styles, random_key(run.spec.seed, "t-sne"))


def code_map(run: RunFolder, samples: int = 2000) -> Rows:
    """t-SNE coordinates of the z and the c of test images (Fig. 5): one row per image and code."""
    if "codes/test/z" not in run.features:
        return []
    owner = run.features["codes/test/client"]
    kept = np.random.default_rng(random_key(run.spec.seed, "code map")).permutation(len(owner))[:samples]
    styles = {k: str(run.samples[f"client/{k}/style"]) for k in set(owner.tolist())}
    return [
        {"code": code} | row
        for code in ("z", "c")
        for row in _flat_map(
            run.features[f"codes/test/{code}"][kept], owner[kept], styles, random_key(run.spec.seed, "t-sne", code)
        )
    ]


def _flat_map(features: np.ndarray, clients: np.ndarray, styles: dict[int, str], seed: int) -> Rows:
    """t-SNE coordinates of features (images, dimensions): one row per image, with its client and the client's style.

    `silhouette` is the same in all rows: how far the features themselves, not the map, fall into a cluster per client.
    """
    from sklearn.manifold import TSNE  # two seconds to import, for the two figures that are maps
    from sklearn.metrics import silhouette_score

    perplexity = min(30, (len(features) - 1) // 3)
    points = TSNE(init="pca", perplexity=perplexity, random_state=seed % 2**32).fit_transform(features)
    score = float(silhouette_score(features, clients))
    return [
        {"silhouette": score, "client": int(k), "style": styles[int(k)], "x": float(x), "y": float(y)}
        for k, (x, y) in zip(clients, points, strict=True)
    ]


def class_counts(run: RunFolder) -> Rows:
    """Training images by client, style and class: the run's partition."""
    return [dict(row) for row in run.table("partition.csv")]


def searches(run: RunFolder) -> Rows:
    """The divergence that each iteration came to, of each class and layer (Fig. 15 and 16)."""
    return [{key: row[key] for key in ("round", "class", "iteration", "objective")} for row in run.table("notes.csv")]


EXTRACTS: dict[str, tuple[Callable[[RunFolder], Rows], list[str]]] = {
    "style-map": (style_map, ["silhouette", "client", "style", "x", "y"]),
    "code-map": (code_map, ["code", "silhouette", "client", "style", "x", "y"]),
    "class-counts": (class_counts, ["client", "style", "class", "images"]),
    "searches": (searches, ["round", "class", "iteration", "objective"]),
}
"""Functions of a run, and the columns of what they return."""

IMAGES = {"samples": samples}
"""The same for figures made of images: a function of a run that returns arrays."""
