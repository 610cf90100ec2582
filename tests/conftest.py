"""What all tests share."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, settings

from diptych import configuration
from tests.checkout import Checkout, read_again

# as in every job: more threads would only get in each other's way, and change sums in the last digit
torch.set_num_threads(1)

# where one of these is set, pytest prints all that two lists differ in: of a thousand numbers that takes it half an
# hour, also where a check is meant to fail
for ci in ("CI", "BUILD_NUMBER"):
    os.environ.pop(ci, None)

# an example takes as long as what else runs lets it
settings.register_profile("at any load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("at any load")


@pytest.fixture(scope="session")
def finished(tmp_path_factory, worker_id) -> Checkout:
    """A checkout in which everything of scale `tiny` has been made, two jobs at a time. Copy it to change it.

    The first of pytest-xdist's workers that asks for it makes it, the others wait.
    """
    folder = tmp_path_factory.getbasetemp()
    shared = folder if worker_id == "master" else folder.parent
    with FileLock(shared / "finished.lock"):
        if not (shared / "finished").exists():
            checkout = Checkout(tmp_path_factory.mktemp("making") / "diptych")
            checkout.snakemake("tables", "figures", "claims", "report")
            checkout.path.rename(shared / "finished")
    return Checkout(shared / "finished", source=None)


@pytest.fixture
def config(tmp_path, monkeypatch) -> Iterator[Path]:
    """A copy of `config` that is read in its place; whoever has changed it says `read_again`."""
    shutil.copytree(configuration.CONFIG, tmp_path / "config")
    monkeypatch.setattr(configuration, "CONFIG", tmp_path / "config")
    read_again()
    yield tmp_path / "config"
    read_again()


def pytest_collection_modifyitems(items):
    """The files that take longest, of all tests and of slow ones, come first."""
    items.sort(key=lambda item: item.path.stem not in {"test_main_path", "test_slurm"})
