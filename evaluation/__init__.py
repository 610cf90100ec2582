"""Arrays in, records out. An evaluation reads a run's folder, and so works on the runs of any program.

Each is a generator that takes the folder and its settings and yields records: the columns it knows, the rest is the
run's.
"""

from collections.abc import Callable, Iterator
from typing import Any

from common.run_folder import RunFolder
from evaluation.clusters import style_clusters, style_map
from evaluation.codes import client_probe, disentanglement, identity_probe, label_probe
from evaluation.costs import budget, communication, transmission
from evaluation.curves import curves
from evaluation.data import class_counts, class_entropy, sources
from evaluation.dual import code_map, divergences, dual_probe, swaps
from evaluation.eavesdropped import attacks, generator_losses
from evaluation.frechet import fid
from evaluation.generalisation import generalisation
from evaluation.grids import samples
from evaluation.judged import judge_quality, restyling, unseen_labels
from evaluation.linear import linear_probe
from evaluation.privacy import inversion, membership
from evaluation.translated import exchanged, iterations, searches, translation

Record = dict[str, Any]

EVALUATIONS: dict[str, Callable[..., Iterator[Record]]] = {
    "linear-probe": linear_probe,
    "style-clusters": style_clusters,
    "fid": fid,
    "label-probe": label_probe,
    "client-probe": client_probe,
    "identity-probe": identity_probe,
    "disentanglement": disentanglement,
    "unseen-labels": unseen_labels,
    "restyling": restyling,
    "judge": judge_quality,
    "dual-probe": dual_probe,
    "divergences": divergences,
    "swaps": swaps,
    "curves": curves,
    "generalisation": generalisation,
    "attacks": attacks,
    "generator-losses": generator_losses,
    "membership": membership,
    "inversion": inversion,
    "transmission": transmission,
    "translation": translation,
    "exchanged": exchanged,
    "iterations": iterations,
    "class-entropy": class_entropy,
    "communication": communication,
    "budget": budget,
    "sources": sources,
}

EXTRACTS: dict[str, tuple[Callable[[RunFolder], list[Record]], list[str]]] = {
    "style-map": (style_map, ["silhouette", "client", "style", "x", "y"]),
    "code-map": (code_map, ["code", "silhouette", "client", "style", "x", "y"]),
    "class-counts": (class_counts, ["client", "style", "class", "images"]),
    "searches": (searches, ["round", "class", "iteration", "objective"]),
}
"""What figures are drawn from besides records: a function of a run, and the columns of what it returns."""

IMAGES = {"samples": samples}
"""The same for figures made of images: a function of a run that returns arrays."""

__all__ = ["EVALUATIONS", "EXTRACTS", "IMAGES", "Record"]
