"""What all tests share."""

import pytest
import torch
from filelock import FileLock

from tests.checkout import Checkout

# as in every job: more threads would only get in each other's way, and change sums in the last digit
torch.set_num_threads(1)


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


def pytest_collection_modifyitems(items):
    """The file that takes longest comes first."""
    items.sort(key=lambda item: item.path.stem != "test_main_path")
