"""Names in the configuration that nothing has: misspelt, they would never apply, and nobody would notice.

Whatever a paper has as published counts as there, since a scale may leave it out. Imports no torch.
"""

import csv
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cache

from common.codehash import ROOT
from common.errors import InputError, choose
from common.spec import Spec
from diptych.configuration import Paper

CLAIMS = ROOT / "results" / "paper" / "claims.csv"
Values = dict[str, set[str]]
"""Axis -> what there is on it."""


def refuse_left_out(
    where: str, left_out: Mapping[str, Collection[str]], papers: Iterable[Paper], newcomers: Collection[str]
) -> None:
    """InputError where a scale leaves out what none of these papers has, and is no method that joins them."""
    there = _run(papers)
    _refuse_others(where, left_out, there | {"method": there["method"] | {*newcomers}})


def refuse_misnamed(paper: str, config: Paper, published: Paper, newcomers: Collection[str]) -> None:
    """InputError where a paper's rule or figure is for what it never has, or a claim's settings for none of its claims.

    Args:
        config: what a scale makes of it.
        newcomers: methods that join its experiments.
    """
    where = f"config/papers/{paper}.yaml"
    if "method" not in published.axes:
        raise InputError(f"{where}.axes: must have the axis 'method', got {', '.join(published.axes) or 'none'}")
    there = _asked_for((config, published), newcomers)
    for n, rule in enumerate(config.rules):
        _refuse_others(f"{where}.rules.{n}.when", rule.when, there)
    renamed = _renamed((config, published))
    for name, figure in config.figures.items():  # which may know what other scales call a value
        named = {axis: () if axis in renamed else values for axis, values in figure.where.items()}
        _refuse_others(f"{where}.figures.{name}.where", named, there)
    for key, claims in (("claims", config.claims), ("undecided", config.undecided)):
        for claim in claims:
            choose(f"{where}.{key}", claim, _claims().get(paper, ()))


def refuse_lost(specs: Mapping[str, Spec], scale: str) -> None:
    """InputError where a run starts from one that there is not, or in the end from itself."""
    for run in specs:
        chain = [run]
        while start := specs[chain[-1]].start:
            choose(f"run {chain[-1]}: start", start, specs, f"diptych runs --scale {scale}")
            if start in chain:
                raise InputError(f"run {run}: start: leads round in a circle, {' from '.join([*chain, start])}")
            chain.append(start)


def _refuse_others(where: str, named: Mapping[str, Collection[str]], there: Values) -> None:
    for axis, values in named.items():
        choose(where, axis, there)
        for value in [values] if isinstance(values, str) else values:
            choose(f"{where}.{axis}", value, there[axis])


def _run(papers: Iterable[Paper]) -> Values:
    """What experiments and searches run."""
    there = defaultdict[str, set[str]](set)
    for paper in papers:
        grids = [experiment.axes for experiment in paper.experiments.values()]
        for axes in [*grids, paper.tuning.axes if paper.tuning else {}]:
            for axis, values in axes.items():
                there[axis] |= {*values}
    return there


def _asked_for(papers: Collection[Paper], newcomers: Collection[str]) -> Values:
    """The same and all that has settings, with methods and their variants apart."""
    there = _run(papers)
    for paper in papers:
        for axis, values in paper.axes.items():
            there[axis] |= {*values}
    named = [method.partition(":") for method in {*there["method"], *newcomers}]
    return there | {"method": {method for method, _, _ in named}, "variant": {"", *(variant for *_, variant in named)}}


def _renamed(papers: Iterable[Paper]) -> set[str]:
    """The axes some of whose values tables call otherwise."""
    overlays = (overlay for paper in papers for values in paper.axes.values() for overlay in values.values())
    return {axis for overlay in overlays for axis in overlay.get("labels", {})}


@cache
def _claims() -> dict[str, set[str]]:
    """Paper -> its claims."""
    there = defaultdict[str, set[str]](set)
    with open(CLAIMS, newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            there[row["paper"]] |= {row["claim_id"]}
    return there
