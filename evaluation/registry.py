"""Every evaluation. Importing them takes seconds; importing the package, or one of its modules, no more than it needs.

Each is a generator that takes a run's folder and its settings and yields records: the columns it knows, the rest is
the run's.
"""

from collections.abc import Callable, Iterator
from typing import Any

from evaluation.answers import answers
from evaluation.asked import asked
from evaluation.clusters import clusters
from evaluation.codes import disentanglement, identity_probe, probe
from evaluation.costs import budget, communication, transmission, work
from evaluation.curves import curves
from evaluation.data import class_entropy, sources
from evaluation.divergences import divergences
from evaluation.eavesdropped import attacks, generator_losses
from evaluation.encoders import code_variance
from evaluation.frechet import fid
from evaluation.generalisation import generalisation
from evaluation.judge import judge_quality
from evaluation.linear import linear_probe, longer_probe
from evaluation.moved import moved
from evaluation.privacy import inversion, membership
from evaluation.translated import exchanged, iterations, translation

Record = dict[str, Any]

EVALUATIONS: dict[str, Callable[..., Iterator[Record]]] = {
    "linear-probe": linear_probe,
    "longer-probe": longer_probe,
    "probe": probe,
    "identity-probe": identity_probe,
    "disentanglement": disentanglement,
    "clusters": clusters,
    "code-variance": code_variance,
    "fid": fid,
    "asked": asked,
    "moved": moved,
    "judge": judge_quality,
    "divergences": divergences,
    "answers": answers,
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
    "work": work,
    "sources": sources,
}
