"""What tests of evaluations share."""

import sys
from collections.abc import Callable
from numbers import Real
from typing import Any

import pytest

from evaluation import images
from tests.evaluation.pictures import Reader


@pytest.fixture
def reader(monkeypatch) -> None:
    """In the place of the judge stands one who reads what images say of themselves."""
    monkeypatch.setattr(images, "load", lambda file: Reader())


@pytest.fixture(autouse=True)
def whole_records(monkeypatch) -> None:
    """Every record that an evaluation makes has a number as its value, and text in all other columns."""

    def whole(make: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def made(*arguments: Any, **columns: Any) -> dict[str, Any]:
            row = make(*arguments, **columns)
            kinds = {name: Real if name == "value" else str for name in row}
            assert not {name: row[name] for name, kind in kinds.items() if not isinstance(row[name], kind)}
            return row

        return made

    modules = [module for name, module in sys.modules.items() if name.startswith("evaluation.")]
    for module in modules:
        if hasattr(module, "result"):
            monkeypatch.setattr(module, "result", whole(module.result))
