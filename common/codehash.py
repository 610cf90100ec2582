"""One hash over all project code that a module can reach, so that a result knows when its code has changed.

Imports are followed statically, so nothing is executed. Comments, docstrings and layout do not count.
"""

import ast
import hashlib
import sys
from functools import cache
from pathlib import Path

from common.errors import InputError

ROOT = Path(__file__).resolve().parent.parent


@cache
def module_file(module: str) -> Path | None:
    """The project's file behind a dotted module name; None for a module of another distribution."""
    stem = ROOT.joinpath(*module.split("."))
    return next((f for f in (stem.with_suffix(".py"), stem / "__init__.py") if f.is_file()), None)


def parsed(module: str) -> ast.Module:
    """The syntax tree of a module of this project.

    Raises:
        InputError: it is no Python; the sentence says where.
    """
    file = module_file(module)
    assert file is not None, module
    try:
        return ast.parse(file.read_bytes(), str(file))
    except SyntaxError as error:
        raise InputError(f"{file.relative_to(ROOT)}, line {error.lineno}: {error.msg}") from error


def dumped(tree: ast.AST) -> str:
    """A syntax tree as Python 3.11 writes it: later ones know parameters of types, and leave out what is empty unless
    they are asked for it, of which no hash may hang."""
    shown = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    return ast.dump(tree, **shown).replace(", type_params=[]", "")


def _parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]


@cache
def _read(module: str) -> tuple[frozenset[str], str]:
    """The project modules that `module` imports, with the packages they are in, and the hash of its code.

    Imports here are absolute.
    """
    found: set[str] = set()
    tree = parsed(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(name for alias in node.names for name in _parents(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(_parents(node.module))
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return frozenset(filter(module_file, found)), hashlib.sha256(dumped(tree).encode()).hexdigest()


def reachable(*modules: str) -> list[str]:
    """All project modules that importing `modules` would load, sorted."""
    todo, seen = [parent for module in modules for parent in _parents(module)], set()
    while todo:
        module = todo.pop()
        if module not in seen and module_file(module):
            seen.add(module)
            todo.extend(_read(module)[0])
    return sorted(seen)


@cache
def code_hash(*modules: str) -> str:
    """Twelve hex digits over the code of `modules` and everything of this project they import.

    Raises:
        FileNotFoundError: a module is not part of this project.
    """
    missing = [module for module in modules if module_file(module) is None]
    if missing:
        raise FileNotFoundError(f"no such module in this project: {', '.join(missing)}")
    lines = (f"{module} {_read(module)[1]}" for module in reachable(*modules))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
