"""A specification to spoil, and what every command does when it is given something wrong."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from common.errors import InputError
from diptych.cli import main
from tests.digits import STYLES

GOOD: dict[str, Any] = {
    "run": "fedstyle/try/fedavg/default/1",
    "scale": "digits",
    "seed": 1,
    "labels": {"paper": "fedstyle", "method": "fedavg"},
    "data": {"dataset": "digit", "styles": STYLES, "image_size": 8},
    "network": {"name": "conv3", "width": 4},
    "objective": {"name": "simclr", "hidden": 8, "out": 4, "augmentation": {"crop": 0.5}},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 1, "local_epochs": 0.1, "batch_size": 8},
}


@contextmanager
def refused(*words: str) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """The block ends with an InputError of one sentence that has these words in it."""
    with pytest.raises(InputError) as error:
        yield error
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def complains(capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]) -> None:
    """The command ends with status 2 and one sentence that has these words in it."""
    assert main(arguments) == 2
    said = capsys.readouterr()
    lines = said.err.strip().splitlines()
    assert len(lines) == 1, said.err
    assert lines[0].startswith("diptych: ")
    for word in words:
        assert word in lines[0]


def changed(key: str, value: Any, good: dict[str, Any] = GOOD) -> dict[str, Any]:
    """`good` with another value for a key, or, for None, without it."""
    spec = copy.deepcopy(good)
    place = spec
    *path, last = key.split(".")
    for part in path:
        place = place.setdefault(part, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return spec


def written(folder: Path, content: dict[str, Any]) -> str:
    """The file of a specification."""
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump(content))
    return str(file)


def nothing_left(folder: Path) -> bool:
    """Whether a folder is empty, or not there."""
    return not folder.exists() or not list(folder.iterdir())


def training(folder: Path, content: dict[str, Any]) -> list[str]:
    """The command that trains a specification in the folder `run`."""
    return ["train", written(folder, content), "--out", str(folder / "run")]
