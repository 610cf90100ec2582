"""What there is, with a line each: read from source, since importing all of it takes seconds."""

import ast
import re
from collections.abc import Callable
from functools import cache, partial

from common.algorithms import algorithm_modules
from common.codehash import parsed
from common.errors import choose
from common.sources import KNOWN
from diptych.configuration import Paper, names_in, read_paper, read_scale

_tree = cache(parsed)


def _defined(module: str, name: str) -> tuple[str, ast.stmt]:
    """What defines a name that `module` has at its top level, followed through imports, and in which module."""
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and node.module and name in {alias.name for alias in node.names}:
            return _defined(node.module, name)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            return module, node
    raise KeyError(f"{module}.{name}")


def registry(module: str, name: str) -> dict[str, str]:
    """What the dictionary `name` of `module` has: the name of each function or class, and its first line."""
    module, statement = _defined(module, name)
    assert isinstance(statement, ast.AnnAssign)
    assert isinstance(statement.value, ast.Dict)
    lines = {}
    for key, value in zip(statement.value.keys, statement.value.values, strict=True):
        assert isinstance(value, ast.Name)
        lines[_text(key)] = _said_in(_defined(module, value.id)[1])
    return lines


def _text(key: ast.expr | None) -> str:
    assert isinstance(key, ast.Constant)
    assert isinstance(key.value, str)
    return key.value


def _said_in(definition: ast.AST) -> str:
    assert isinstance(definition, ast.Module | ast.FunctionDef | ast.ClassDef)
    return _first_sentence(ast.get_docstring(definition) or "")


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.])(?<!al\.)(?<!Fig\.)(?<!Sec\.)(?<!App\.)(?<!Eq\.) (?=[A-Z`])", paragraph)[0]


def _papers() -> dict[str, Paper]:
    return {name: read_paper(name) for name in names_in("papers")}


KINDS: dict[str, Callable[[], dict[str, str]]] = {
    "algorithms": lambda: {name: _said_in(_tree(module)) for name, module in algorithm_modules().items()},
    "objectives": partial(registry, "objectives", "OBJECTIVES"),
    "networks": partial(registry, "networks", "ENCODERS"),
    "sources": lambda: {name: known.about for name, known in KNOWN.items()},
    "partitions": partial(registry, "partitions", "PARTITIONS"),
    "views": partial(registry, "partitions", "VIEWS"),
    "marks": partial(registry, "partitions", "MARKS"),
    "evaluations": partial(registry, "evaluation.registry", "EVALUATIONS"),
    "scales": lambda: {name: _first_sentence(read_scale(name).about) for name in names_in("scales")},
    "papers": lambda: {name: paper.title for name, paper in _papers().items()},
    "tables": lambda: {
        f"{p}-{name}": layout.title for p, paper in _papers().items() for name, layout in paper.tables.items()
    },
    "figures": lambda: {
        f"{p}-{name}": figure.shows for p, paper in _papers().items() for name, figure in paper.figures.items()
    },
}
"""What `diptych list` lists, and what finds it: name -> a line about it."""


def catalogue(kind: str | None = None) -> str:
    """All names by kind; with `kind`, only those.

    Raises:
        InputError: there is no such kind.
    """
    kinds = KINDS if kind is None else {choose("kind", kind, KINDS): KINDS[kind]}
    found = {heading: lines() for heading, lines in kinds.items()}
    width = max(len(name) for lines in found.values() for name in lines)
    sections = []
    for heading, lines in found.items():
        rows = (f"  {name:{width}}  {line}" for name, line in sorted(lines.items()))
        sections.append("\n".join([heading, *rows]))
    return "\n\n".join(sections)
