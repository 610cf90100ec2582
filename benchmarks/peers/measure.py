"""What a command costs: when its rounds were over, and the processor time and memory of all of its processes."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psutil

EVERY = 0.2
"""Seconds between two looks at the processes."""


class Failed(RuntimeError):
    """A command did not come to its end."""


@dataclass
class Costs:
    """Of one command.

    Attributes:
        start: when it was started; all times are seconds of one clock.
        rounds: when it was ready, and when each of its rounds was over.
        looks: at its processes: when, and the processor seconds of all of them until then.
        memory: MiB, the most that all had at once: what each has for itself, and once what files and shared memory are
            mapped, of the process that has most of these.
    """

    start: float
    rounds: list[float] = field(default_factory=list)
    looks: list[tuple[float, float]] = field(default_factory=list)
    memory: float = 0.0

    @property
    def times(self) -> list[float]:
        """Seconds of each round but the first, in which a program warms up."""
        return [after - before for before, after in pairwise(self.rounds[1:])]

    @property
    def processor(self) -> list[float]:
        """Processor seconds of the same rounds."""
        return [self._until(after) - self._until(before) for before, after in pairwise(self.rounds[1:])]

    @property
    def warm_up(self) -> float:
        """Seconds until the first round was over."""
        return self.rounds[1] - self.start

    def _until(self, moment: float) -> float:
        """Processor seconds until then, on a line between the looks before and after."""
        (t, used), *_ = (look for look in reversed(self.looks) if look[0] <= moment)
        u, more = next((look for look in self.looks if look[0] > moment), (t, used))
        return used if u == t else used + (more - used) * (moment - t) / (u - t)


def costs_of(command: Sequence[str], environment: dict[str, str], limit: float = 600.0) -> Costs:
    """Run a command that prints `round <seconds>` lines.

    Args:
        limit: seconds.

    Raises:
        Failed: it failed, or took longer.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        costs = Costs(time.monotonic(), looks=[(time.monotonic(), 0.0)])
        root = psutil.Popen(command, stdout=out, stderr=errors, env=environment)
        family = _Family(root)
        try:
            while root.poll() is None:
                costs.looks.append((time.monotonic(), family.used()))
                costs.memory = max(costs.memory, family.memory())
                if costs.looks[-1][0] - costs.start > limit:
                    raise Failed(f"longer than {limit:.0f} s")
                time.sleep(EVERY)
            costs.looks.append((time.monotonic(), family.used()))
        finally:
            family.end()
        if root.returncode:
            errors.seek(0)
            raise Failed((errors.read().strip().splitlines() or ["failed"])[-1])
        out.seek(0)
        costs.rounds = [float(line.split()[1]) for line in out if line.startswith("round ")]
    return costs


class _Family:
    """A process and all that come of it, also those that it has left behind."""

    def __init__(self, root: psutil.Process) -> None:
        self.root, self.known, self.seconds = root, {root}, dict[psutil.Process, float]()

    def used(self) -> float:
        """Processor seconds of all that have ever been there; of those that are gone, as they were last seen."""
        for parent in list(self.known):
            try:
                self.known.update(parent.children(recursive=True) if parent is self.root else [])
                times = parent.cpu_times()
                self.seconds[parent] = times.user + times.system
            except psutil.NoSuchProcess:
                continue
        return sum(self.seconds.values())

    def memory(self) -> float:
        """MiB of those that are there now."""
        own, mapped, shared = 0.0, 0.0, 0.0
        for process in self.known:
            if status := _status(process.pid):
                own += status["RssAnon"]
                mapped, shared = max(mapped, status["RssFile"]), max(shared, status["RssShmem"])
        return own + mapped + shared

    def end(self) -> None:
        """End whoever is still there."""
        for process in self.known:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue


def _status(pid: int) -> dict[str, float]:
    """MiB of a process by kind of memory (proc(5)); nothing if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    fields = (line.split() for line in lines if line.startswith("Rss"))
    return {name.rstrip(":"): int(kibibytes) / 1024 for name, kibibytes, _ in fields}
