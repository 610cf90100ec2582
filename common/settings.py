"""Settings as typed, checked and frozen dataclasses, and validation errors as sentences."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from common.errors import InputError, nearest

settings = dataclass(
    frozen=True, kw_only=True, config=ConfigDict(extra="forbid", arbitrary_types_allowed=True, populate_by_name=True)
)
"""Decorates algorithms and objectives. Frozen, so that nothing but parameters can change during a run, and nothing can
pass from a client to the server beside the channel."""


def _fields_at(kind: Any, path: tuple[int | str, ...]) -> list[str]:
    """The keys that are allowed at `path` below a settings class."""
    for key in path:
        field = getattr(kind, "__pydantic_fields__", {}).get(key)
        kind = getattr(field, "annotation", None)
        arguments = [a for a in getattr(kind, "__args__", ()) if hasattr(a, "__pydantic_fields__")]
        kind = arguments[0] if arguments else kind
    return [field.alias or name for name, field in getattr(kind, "__pydantic_fields__", {}).items()]


def _sentences(error: ValidationError, kind: Any, where: str) -> Iterator[str]:
    for problem in error.errors():
        path = problem["loc"]
        key = ".".join(filter(None, [where, *map(str, path)]))
        if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            yield f"{key}: unknown key; {nearest(str(path[-1]), _fields_at(kind, path[:-1]))}"
        elif problem["type"] in ("missing", "missing_keyword_only_argument", "missing_argument"):
            yield f"{key}: this key is needed and not given"
        else:
            message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
            yield f"{key}: {message[:1].lower() + message[1:]}, got {problem['input']!r}"


def checked(kind: Any, where: str, values: dict[str, Any], **others: Any) -> Any:
    """`kind(**values, **others)`; what is wrong with `values` becomes an InputError that names the keys below `where`.

    Args:
        kind: a pydantic model, or a class made with `settings`, or a function decorated with `validate_call`.
    """
    try:
        return kind(**values, **others)
    except ValidationError as error:
        fields = kind if isinstance(kind, type) and (issubclass(kind, BaseModel) or hasattr(kind, "__pydantic_fields__")) else None
        raise InputError("; ".join(_sentences(error, fields, where))) from error
