"""Settings as typed, checked and frozen dataclasses, and validation errors as sentences."""

import inspect
import re
import typing
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, validate_call
from pydantic.dataclasses import dataclass

from common.errors import InputError, nearest, quoted

Count = Annotated[int, Field(gt=0, le=1_000_000)]
"""How often something is done, or of how many images: a million at most."""
Epochs = Annotated[float, Field(gt=0, le=1_000_000)]
"""Passes over data; fractions of one as well."""
Width = Annotated[int, Field(gt=0, le=1024)]
"""Channels, or units, which deeper layers multiply."""
Units = Annotated[int, Field(gt=0, le=4096)]
"""Of one layer."""
Layers = Annotated[int, Field(gt=0, le=1000)]
"""Or blocks of them, one after the other."""

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
"""Nothing is converted, except an integer where any number will do: `true` is no 1, "3" is no 3, and no number is
infinite."""
_WITH_OBJECTS = STRICT | ConfigDict(arbitrary_types_allowed=True, populate_by_name=True)

strict_call = validate_call(config=ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True))
"""Decorates functions and constructors whose keywords are settings."""
settings = dataclass(frozen=True, kw_only=True, config=_WITH_OBJECTS)
"""Decorates algorithms and objectives. Frozen, so that nothing but parameters can change during a run, and nothing can
pass from a client to the server beside the channel."""


def checked(kind: Any, where: str, values: dict[str, Any], **others: Any) -> Any:
    """`kind(**values, **others)`; what is wrong with `values` becomes an InputError that names the keys below `where`.

    Args:
        kind: a pydantic model, a class made with `settings`, or a function or constructor with `strict_call`.
        others: arguments that are not the user's.
    """
    if taken := sorted(values.keys() & others.keys()):
        raise InputError(f"{where}.{taken[0]}: unknown key; it follows from the rest of the specification")
    try:
        return kind(**values, **others)
    except ValidationError as error:
        raise InputError("; ".join(_sentences(error, kind, where, others))) from error


def _sentences(error: ValidationError, kind: Any, where: str, others: Collection[str]) -> Iterator[str]:
    for problem in error.errors():
        path = problem["loc"]
        key = ".".join([where, *map(str, path)])
        if not path:  # a check of its own, whose sentence names what it is about
            yield problem["msg"].removeprefix("Value error, ")
        elif problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            allowed = [name for name in _keys_at(kind, path[:-1]) if name not in others]
            yield f"{key}: unknown key; {nearest(str(path[-1]), allowed)}"
        elif problem["type"] == "literal_error":
            options = re.split(", | or ", problem["ctx"]["expected"].replace("'", ""))
            yield f"{key}: unknown name '{problem['input']}'; {nearest(str(problem['input']), options)}"
        elif problem["type"].startswith("missing"):
            yield f"{key}: this key is needed and not given"
        elif path[0] in others:
            yield f"{where}: {kind.__name__} cannot be used with {path[0]} '{type(problem['input']).__name__.lower()}'"
        else:
            message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
            got = "" if ", got " in message else f", got {quoted(problem['input'])}{_hint(problem)}"
            yield f"{key}: {message[:1].lower()}{message[1:]}{got}"


def _hint(problem: Any) -> str:
    """What is wrong with text that looks like a number: YAML takes 1e-3 for text, and whatever has quotes."""
    if problem["type"] in ("int_type", "float_type") and isinstance(problem["input"], str):
        with suppress(ValueError):
            float(problem["input"])
            return ", which is text: a number has no quotes, and a point before its exponent, as in 1.0e-3"
    return ""


def _keys_at(kind: Any, path: tuple[int | str, ...]) -> list[str]:
    """The keys that are allowed at `path` below a settings class or function."""
    for key in path:
        if typing.get_origin(kind) in (dict, list):
            kind = typing.get_args(kind)[-1]
        else:
            field = getattr(kind, "__pydantic_fields__", {}).get(key)
            kind = getattr(field, "annotation", None)
    fields = getattr(kind, "__pydantic_fields__", None)
    if fields is not None:
        return [field.alias or name for name, field in fields.items()]
    return list(inspect.signature(kind).parameters) if callable(kind) else []
