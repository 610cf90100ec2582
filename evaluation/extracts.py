"""What figures are drawn from besides records: small tables and images of a run. Imports no torch."""

from collections.abc import Callable
from typing import Any

import numpy as np

from common.keys import random_key
from common.run_folder import RunFolder
from evaluation.clusters import Points, are_clusters, points
from evaluation.grids import samples

Rows = list[dict[str, Any]]


def style_map(run: RunFolder, samples: int = 1200) -> Rows:
    """t-SNE coordinates of the style features of a run: one row per image, with its client and style."""
    return [row for found in points(run, samples) if found.code == "style" for row in _map(run, found, ("t-sne",))]


def code_map(run: RunFolder, samples: int = 2000) -> Rows:
    """t-SNE coordinates of the z and the c of test images (Fig. 5): one row per encoder, image and code."""
    return [
        {"encoder": found.role, "code": found.code} | row
        for found in points(run, samples)
        if found.role
        for row in _map(run, found, ("t-sne", found.code))
    ]


def _map(run: RunFolder, found: Points, purpose: tuple[str, ...]) -> Rows:
    clients, arrays = found.client, run.samples if found.role else run.features
    styles = {k: str(arrays[f"client/{k}/style"]) for k in set(clients.tolist())}
    return _flat_map(found.features, clients, styles, random_key(run.spec.seed, *purpose))


def _flat_map(features: np.ndarray, clients: np.ndarray, styles: dict[int, str], seed: int) -> Rows:
    """t-SNE coordinates of features (images, dimensions): one row per image, with its client and the client's style.

    `silhouette` is the same in all rows: how far the features themselves, not the map, fall into a cluster per client.
    Of a single client, of one image of each and of fewer images than have a neighbour each there is no map.
    """
    from sklearn.manifold import TSNE  # two seconds to import, for the two figures that are maps
    from sklearn.metrics import silhouette_score

    perplexity = min(30, (len(features) - 1) // 3)
    if not are_clusters(clients) or not perplexity:
        return []
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
    "code-map": (code_map, ["encoder", "code", "silhouette", "client", "style", "x", "y"]),
    "class-counts": (class_counts, ["client", "style", "class", "images"]),
    "searches": (searches, ["round", "class", "iteration", "objective"]),
}
"""Functions of a run, and the columns of what they return."""

IMAGES = {"samples": samples}
"""The same for figures made of images: a function of a run that returns arrays."""
