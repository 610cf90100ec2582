"""What all tests share."""

import pytest
import torch

from tests.checkout import Checkout

# as in every job: more threads would only get in each other's way, and change sums in the last digit
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Checkout:
    """A checkout in which everything of scale `tiny` has been made, two jobs at a time."""
    checkout = Checkout(tmp_path_factory.mktemp("finished") / "diptych")
    checkout.snakemake("tables", "figures", "claims", cores=2)
    return checkout
