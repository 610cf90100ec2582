"""Steps that are recorded and played; that they are the loop's is in the conformance tests."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from common.errors import InputError
from federation.captured import Captured, Graphs


def _played(take):
    loss = torch.empty(())
    return lambda: loss.copy_(take()), loss


def test_a_batch_of_another_size_is_refused():
    step = Captured(lambda batch: batch["x"].sum(), _played)
    for _ in range(3):
        assert step({"x": torch.ones(3), "z": (torch.ones(2),)}) == 3
    with pytest.raises(ValueError, match=r"recorded on \(3,\), and is to be played on \(1,\)"):
        step({"x": torch.ones(1), "z": (torch.ones(2),)})


def test_a_step_that_is_more_than_launches_says_so(monkeypatch):
    """A GPU would refuse what reads a number back, and then the end of the recording, too; the first says why."""

    class Graph:
        def capture_begin(self, pool):
            assert pool is None

        def capture_end(self):
            raise RuntimeError("capture invalidated")

    stream = SimpleNamespace(wait_stream=lambda other: None)
    for name, fake in {
        "CUDAGraph": Graph,
        "Stream": lambda: stream,
        "current_stream": lambda: stream,
        "stream": lambda aside: nullcontext(),
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)

    def reads():
        raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.raises(InputError, match="--captured: a step of this method is more than launches") as caught:
        Graphs()(reads)
    assert "not permitted" in str(caught.value.__cause__)
