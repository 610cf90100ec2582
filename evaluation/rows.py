"""What measurements of one kind have in common, as columns of a record."""

from typing import Any


def result(metric: str, unit: str, value: float, **more: str) -> dict[str, Any]:
    """A number over all styles, unless `more` says otherwise."""
    common = {"kind": "result", "style": "all", "metric": metric, "unit": unit, "aggregate": "none", "value": value}
    return common | more
