"""What measurements of one kind have in common, as columns of a record."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

Columns = dict[str, str]
Number = tuple[str, str, float]
"""Metric, unit and value."""


class Part(NamedTuple):
    """Numbers of one of those that a mean is over, such as a client.

    Attributes:
        columns: of its records; there is a mean of all that agree in them.
        who: the other columns of records of its own; without them, only the mean is recorded.
    """

    columns: Columns
    numbers: Iterable[Number]
    who: Columns | None = None


def result(metric: str, unit: str, value: float, **more: str) -> dict[str, Any]:
    """A number over all styles, unless `more` says otherwise."""
    common = {"kind": "result", "style": "all", "metric": metric, "unit": unit, "aggregate": "none", "value": value}
    return common | more


def diverged(metric: str, unit: str, **more: str) -> dict[str, Any]:
    """A number that a run was to have, and diverged before it did."""
    return result(metric, unit, 0.0, **more) | {"value": "", "status": "diverged"}


def averaged(parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
    """The numbers of each, then the means. What could not be measured is not a number, and has no mean either."""
    found: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for columns, numbers, who in parts:
        for metric, unit, value in numbers:
            found[metric, unit, *columns.items()].append(value)
            if who and not math.isnan(value):
                yield result(metric, unit, value, **columns, **who)
    for (metric, unit, *shared), values in found.items():
        if math.isnan(sum(values)):
            continue
        yield result(metric, unit, float(np.mean(values)), **dict(shared))
