"""What there is, with a line each."""

import inspect

from common.algorithms import algorithm_modules
from common.errors import choose
from diptych.assembly import algorithm_class
from diptych.study import load_study, names_in
from evaluation import EVALUATIONS
from networks import ENCODERS
from objectives import OBJECTIVES
from partitions import MARKS, PARTITIONS, SOURCES, VIEWS


def _first_line(thing: object) -> str:
    text = thing if isinstance(thing, str) else inspect.getdoc(thing) or ""
    return text.split("\n")[0]


def catalogue(kind: str | None = None) -> str:
    """All names by kind; with `kind`, only those.

    Raises:
        InputError: there is no such kind.
    """
    scales = {name: load_study(name) for name in names_in("scales")}
    papers = {name: paper for study in scales.values() for name, paper in study.papers.items()}
    kinds: dict[str, dict[str, object]] = {
        "algorithms": {name: inspect.getmodule(algorithm_class(name)) for name in algorithm_modules()},
        "objectives": dict(OBJECTIVES),
        "networks": dict(ENCODERS),
        "sources": dict(SOURCES),
        "partitions": dict(PARTITIONS),
        "views": dict(VIEWS),
        "marks": dict(MARKS),
        "evaluations": dict(EVALUATIONS),
        "scales": {name: study.scale.about for name, study in scales.items()},
        "papers": {name: paper.title for name, paper in papers.items()},
        "tables": {f"{p}-{name}": layout.title for p, paper in papers.items() for name, layout in paper.tables.items()},
        "figures": {
            f"{p}-{name}": figure.shows for p, paper in papers.items() for name, figure in paper.figures.items()
        },
    }
    if kind is not None:
        kinds = {kind: kinds[choose("kind", kind, kinds)]}
    width = max(len(name) for things in kinds.values() for name in things)
    sections = []
    for heading, things in kinds.items():
        lines = (f"  {name:{width}}  {_first_line(thing)}" for name, thing in sorted(things.items()))
        sections.append("\n".join([heading, *lines]))
    return "\n\n".join(sections)
