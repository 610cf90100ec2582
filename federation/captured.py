"""Steps whose launches are recorded as a CUDA graph and played again: a GPU waits for those of small networks."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import torch
from torch import Tensor, nn

from common.errors import InputError
from common.optimisers import State
from federation.algorithm import Batch, Phase, Update
from federation.data import changed, tensors_of
from federation.local import LocalWork, Step
from federation.simulation import Simulation

DRAWN_AHEAD = 32
"""Batches that are drawn, or being drawn, while those before them are worked on."""
Play = Callable[[], None]
Record = Callable[[Callable[[], Tensor]], tuple[Play, Tensor]]
"""What takes a step without arguments -> what takes it again, and the tensor in which its loss then stands."""


class Graphs:
    """Records CUDA graphs on the current device, all of them in one memory, since they are played in turn."""

    def __init__(self) -> None:
        self.aside: torch.cuda.Stream | None = None  # one, for what a stream has freed no other takes
        self.first: torch.cuda.CUDAGraph | None = None  # kept, or the memory would be given back with each client

    def __call__(self, take: Callable[[], Tensor]) -> tuple[Play, Tensor]:
        """The launches of a step, which is not taken yet.

        Raises:
            InputError: it is more than launches: it reads a number back from the device, for one.
        """
        self.aside = self.aside or torch.cuda.Stream()
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        self.aside.wait_stream(current)
        with torch.cuda.stream(self.aside):  # not `torch.cuda.graph`, which each time frees all that torch has kept
            # thread_local: batches are drawn beside it, and may copy to the device and take memory there
            graph.capture_begin(None if self.first is None else self.first.pool(), capture_error_mode="thread_local")
            try:
                loss = take()
            except Exception as error:
                with suppress(RuntimeError):  # that the recording is spoilt, which is known
                    graph.capture_end()
                raise InputError("--captured: a step of this method is more than launches; leave it out") from error
            graph.capture_end()
        current.wait_stream(self.aside)
        self.first = self.first or graph
        return graph.replay, loss


class Captured:
    """A step on batches: taken as it is on the first, recorded on the second, and played from then on.

    On the first, libraries choose their kernels and the optimiser makes its state; both have to be there before.
    """

    def __init__(self, step: Step, record: Record) -> None:
        self.step, self.record, self.taken = step, record, 0
        self.batch: Batch
        self.play: Play
        self.loss: Tensor

    def __call__(self, batch: Batch) -> Tensor:
        """The loss on a batch, () without gradient.

        Raises:
            ValueError: the batch has another size than the one that was recorded.
        """
        self.taken += 1
        if self.taken == 1:
            return self.step(batch)
        if self.taken == 2:
            self.batch = changed(batch, torch.empty_like)
            self.play, self.loss = self.record(partial(self.step, self.batch))
        for place, tensor in zip(tensors_of(self.batch), tensors_of(batch), strict=True):
            if place.shape != tensor.shape:
                raise ValueError(
                    f"a step was recorded on {tuple(place.shape)}, and is to be played on {tuple(tensor.shape)}"
                )
            place.copy_(tensor)
        self.play()
        return self.loss.clone()


class CapturedWork(LocalWork):
    """The local work of clients on a GPU, launched as a whole: the same kernels in the same order, and so the same
    numbers. A step is recorded once for each client, phase and round, whose rates and tensors it has in it. What takes
    so little time to launch would wait for its batches: they are drawn beside it.
    """

    def __post_init__(self) -> None:
        if self.workers > 1:
            raise ValueError("steps are recorded and played by one thread")
        super().__post_init__()
        self.record = self.recorder()

    def drawn(self, round: int, client: int, number: int, phase: Phase, stage: str) -> Iterator[Batch]:
        """As there, but by a thread that goes ahead."""
        return ahead(super().drawn(round, client, number, phase, stage), DRAWN_AHEAD)

    def recorder(self) -> Record:
        """Of all of its steps."""
        return Graphs()

    def step_of(self, round: int, update: Update, model: nn.Module, leaves: list[Tensor], state: State) -> Step:
        """As there, but for what is played."""
        return Captured(super().step_of(round, update, model, leaves, state), self.record)


def ahead(batches: Iterator[Batch], most: int) -> Iterator[Batch]:
    """The same batches in the same order, up to `most` of them taken before they are asked for, by one thread."""
    with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) as thread:
        under_way = deque(thread.submit(next, batches, None) for _ in range(most))
        while (batch := under_way.popleft().result()) is not None:
            under_way.append(thread.submit(next, batches, None))
            yield batch


class CapturedSimulation(Simulation):
    """A simulation on a GPU whose clients' steps are played from recordings.

    For steps that are launches and nothing else: all of whose batches have one size, as the engine's have, and whose
    losses are functions of tensors alone. What else they do in Python, they do when they are recorded and never again.
    """

    local_work = CapturedWork
