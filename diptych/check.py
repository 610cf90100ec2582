"""Finding out what is wrong with a scale before anything is trained."""

from pathlib import Path

from common.algorithms import algorithm_modules
from common.errors import choose
from common.run_folder import RunFolder
from diptych.assembly import build_algorithm
from diptych.configuration import Paper
from diptych.measurement import prepared
from diptych.study import load_study
from federation.hooks import check as check_algorithm
from partitions import partition
from reporting.figures import FIGURES


def check_evaluation(paper: Paper) -> None:
    """Check what is measured on a paper's runs, before any is trained.

    Raises:
        InputError: there is no such evaluation, or its settings are wrong.
    """
    for entry, settings in paper.evaluation.items():
        prepared(entry, settings, RunFolder(Path()))


def check_figures(name: str, paper: Paper) -> None:
    """InputError where a paper has a figure that nothing draws."""
    for figure in paper.figures:
        choose(f"{name}: figures", f"{name}-{figure}", FIGURES)


def check(scale: str, data_root: str) -> None:
    """Check evaluations and figures, build the model of every run of a scale, and deal out every data set asked for.

    Raises:
        InputError: something in the configuration or the data cannot be used.
    """
    study = load_study(scale)
    for name, paper in study.papers.items():
        check_evaluation(paper)
        check_figures(name, paper)
    specs = list(study.trained.values())
    for spec in specs:
        if spec.algorithm["name"] in algorithm_modules():  # others are trained by programs that are not ours
            algorithm = build_algorithm(spec, classes=2)
            check_algorithm(algorithm, spec.training, [])
            algorithm.model()
    for data in {spec.data.model_dump_json(): spec for spec in specs}.values():
        partition(data.data, data_root, data.seed)
    print(f"{len(specs)} runs can be trained")
