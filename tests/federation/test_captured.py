"""Steps that are recorded and played; that they are the loop's is in the conformance tests."""

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from common.errors import InputError
from federation.captured import Captured, Graphs, ahead


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
        def capture_begin(self, pool, capture_error_mode):
            assert pool is None
            assert capture_error_mode == "thread_local"

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


def test_batches_are_drawn_ahead_in_order_by_one_thread():
    """The next are there before they are asked for, not more than were allowed, and all in their order."""
    drawn, by, there = [], set(), threading.Semaphore(0)

    def draws():
        for n in range(7):
            drawn.append(n)
            by.add(threading.get_ident())
            there.release()
            yield {"n": n}

    batches = ahead(draws(), 2)
    taken = []
    for n, batch in enumerate(batches):
        taken.append(batch["n"])
        for _ in range(3 if n == 0 else n < 5):  # of the first are asked for: itself and two more
            assert there.acquire(timeout=10)
        assert drawn == list(range(min(n + 3, 7)))
    assert taken == list(range(7))
    assert len(by) == 1
    assert threading.get_ident() not in by


def test_what_stops_the_drawing_stops_the_training():
    def draws():
        yield {"n": 0}
        raise ValueError("no more")

    batches = ahead(draws(), 3)
    assert next(batches) == {"n": 0}
    with pytest.raises(ValueError, match="no more"):
        next(batches)
