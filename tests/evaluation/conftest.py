"""What tests of evaluations share."""

import pytest

from evaluation import images
from tests.evaluation.pictures import Reader


@pytest.fixture
def reader(monkeypatch) -> None:
    """In the place of the judge stands one who reads what images say of themselves."""
    monkeypatch.setattr(images, "load", lambda file: Reader())
