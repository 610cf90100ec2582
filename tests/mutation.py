"""Breaking the code on purpose."""

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


@contextmanager
def mutated(module_name: str, name: str, old: str, new: str, *, where: str | None = None) -> Iterator[Any]:
    """Within the block, `module.name` is what its source says after `old` is replaced by `new`; yields it.

    Args:
        name: a function or class of the module.
        where: the module in which the mutant takes the original's place, if it is used from another one; or
            `module:attribute` where it goes by another name.
    """
    module = importlib.import_module(module_name)
    source = textwrap.dedent(inspect.getsource(getattr(module, name)))
    assert old in source, f"'{old}' is not in {module_name}.{name}: this mutation no longer tests anything"
    scope = dict(vars(module))
    exec(compile(source.replace(old, new), f"<mutant of {module_name}>", "exec"), scope)
    place, _, attribute = (where or module_name).partition(":")
    owner, *path, last = importlib.import_module(place), *(attribute or name).split(".")
    for step in path:
        owner = getattr(owner, step)
    with mock.patch.object(owner, last, scope[name]):
        yield scope[name]
