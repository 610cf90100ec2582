"""Jobs without start-up: one process that has imported everything, and forks for each command that it is asked for.

A workflow on this machine starts it, and it ends with the workflow, however that ends. `diptych`, called by a rule,
hands its command over to it; where there is none, on a cluster's node or by hand, `diptych` does the command itself,
with the same outcome. No more commands run at once than there are processors, whatever `snakemake --cores` says.
"""

import ctypes
import gc
import importlib
import json
import os
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

ADDRESS = "DIPTYCH_FORKSERVER"
"""The environment variable with the server's socket."""
SINGLE_THREADED = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""A process with threads must not be forked. A job asks torch for its own (`diptych.process.use_threads`)."""
PRELOADED = (
    "diptych.training",
    "diptych.measurement",
    "diptych.judging",
    "diptych.simpson",
    "diptych.gathering",
    "reporting.claims",
    "reporting.figures",
    "reporting.tables",
    "ot",  # what evaluations import where they need it
    "scipy.optimize",
    "scipy.stats",
    "sklearn.manifold",
    "sklearn.metrics",
)
_PR_SET_PDEATHSIG = 1  # of prctl(2)
_held: list[subprocess.Popen[bytes]] = []  # as long as the workflow lives: a pipe that nobody holds is closed


# ---- in the workflow


def start(scale: str, log: Path) -> None:
    """Start the server for a scale's jobs and name it in the environment, which jobs inherit.

    Its log has a line for each job: processor seconds, peak memory in MiB, exit status, and the command, separated by
    tabs. Only where a process with torch in it can be forked, that is on Linux; elsewhere nothing happens.
    """
    if sys.platform != "linux":
        return
    folder = Path(tempfile.mkdtemp(prefix="diptych-"))  # nobody else's: whoever reaches the socket may run commands
    log.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener, open(log, "w") as out:
        listener.bind(str(folder / "socket"))
        listener.listen(128)  # jobs may ask while it is still importing
        server = subprocess.Popen(
            [sys.executable, "-m", "diptych.forkserver", str(folder), scale, str(listener.fileno())],
            stdin=subprocess.PIPE,  # never written to: its end is how the server learns of the workflow's
            stdout=out,
            stderr=out,
            pass_fds=[listener.fileno()],
            start_new_session=True,
            env=os.environ | SINGLE_THREADED,
        )
    _held.append(server)
    os.environ[ADDRESS] = str(folder / "socket")


# ---- in a job


def delegated(arguments: list[str]) -> int | None:
    """The exit status of a `diptych` command that the workflow's server has done; None if there is no server."""
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(os.environ[ADDRESS])
    except (KeyError, OSError):
        return None
    job = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    message = json.dumps(job).encode()
    with connection:
        socket.send_fds(connection, [len(message).to_bytes(4)], [0, 1, 2])
        connection.sendall(message)
        try:
            return connection.recv(1)[0]
        except (OSError, IndexError):
            print("diptych: the workflow's fork server ended before this command did", file=sys.stderr)
            return 1


# ---- the server


@dataclass(eq=False)
class _Job:
    """A command, and who asked for it."""

    connection: socket.socket
    streams: list[int]
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    pid: int = 0

    @classmethod
    def received(cls, connection: socket.socket) -> "_Job":
        size, streams, *_ = socket.recv_fds(connection, 4, 3)
        with connection.makefile("rb") as message:
            return cls(connection, list(streams), **json.loads(message.read(int.from_bytes(size))))

    def run(self) -> NoReturn:
        """In the forked process: do the command as a process of its own would, and end."""
        status = 1
        try:
            os.setpgid(0, 0)
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # nothing half-written stays
            for target, stream in enumerate(self.streams):
                os.dup2(stream, target)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the server's, and other jobs'
            os.chdir(self.folder)
            os.environ.clear()
            os.environ.update(self.environment)
            cli = importlib.import_module("diptych.cli")
            status = cli.main(self.arguments)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


@dataclass
class Server:
    """Runs commands in forked processes, `slots` of them at a time and the others in the order of their asking."""

    listener: socket.socket
    slots: int
    running: set[_Job] = field(default_factory=set)
    waiting: deque[_Job] = field(default_factory=deque)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def serve(self, leash: Any) -> None:
        """Until the other end of `leash` is closed."""
        self._when(leash, self._end)
        self._when(self.listener, self._accept)
        self.ended = False
        while not self.ended:
            for key, _ in self.selector.select():
                key.data()

    def _when(self, readable: Any, react: Callable[[], None]) -> None:
        self.selector.register(readable, selectors.EVENT_READ, react)

    def _end(self) -> None:
        self.ended = True
        for job in self.running:
            os.killpg(job.pid, signal.SIGTERM)

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        try:
            job = _Job.received(connection)
        except (OSError, ValueError):  # killed while it was asking
            connection.close()
            return
        self._when(connection, partial(self._abandoned, job))
        self.waiting.append(job)
        self._fork()

    def _fork(self) -> None:
        while self.waiting and len(self.running) < self.slots:
            job = self.waiting.popleft()
            job.pid = os.fork()
            if job.pid == 0:
                job.run()
            os.setpgid(job.pid, job.pid)  # here and in the job: whoever is first
            self.running.add(job)
            process = os.pidfd_open(job.pid)
            self._when(process, partial(self._finished, job, process))
            self._close(job.streams)
            job.streams = []

    def _finished(self, job: _Job, process: int) -> None:
        self.selector.unregister(process)
        self._close([process])
        _, ended, used = os.wait4(job.pid, 0)
        status = os.waitstatus_to_exitcode(ended)
        self.running.discard(job)
        self._note(job, status, used)
        if job.connection.fileno() >= 0:
            self.selector.unregister(job.connection)
            with job.connection, suppress(OSError):
                job.connection.sendall(bytes([status if status >= 0 else 128 - status]))
        self._fork()

    @staticmethod
    def _note(job: _Job, status: int, used: resource.struct_rusage) -> None:
        """A line of the log: what the job took."""
        row = [f"{used.ru_utime + used.ru_stime:.2f}", f"{used.ru_maxrss / 2**10:.0f}", status, *job.arguments]
        print(*row, sep="\t", flush=True)

    def _abandoned(self, job: _Job) -> None:
        """Whoever asked was killed: nobody waits for the outcome."""
        self.selector.unregister(job.connection)
        job.connection.close()
        if job in self.running:
            os.killpg(job.pid, signal.SIGTERM)
        else:
            self.waiting.remove(job)
            self._close(job.streams)

    @staticmethod
    def _close(descriptors: list[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)


def preload(scale: str) -> None:
    """Import what jobs need, read the scale's study and make the embedded digits, once for all of them."""
    from common.algorithms import algorithm_modules, training_code
    from common.provenance import provenance
    from diptych.study import load_study
    from partitions.sources import EMBEDDED

    for algorithm, module in algorithm_modules().items():
        try:
            importlib.import_module(module)
            training_code(algorithm)
        except Exception:  # a newcomer that is not right yet: its own jobs say so, and no others
            traceback.print_exc()
    for module in PRELOADED:
        importlib.import_module(module)
    for digits in EMBEDDED.values():
        digits()
    provenance()
    _ = load_study(scale).cells
    gc.collect()
    gc.freeze()  # else the first collection of each process would copy all that it shares with this one


def main(folder: Path, scale: str, listener: int) -> None:
    """Serve until the workflow ends."""
    try:
        preload(scale)
        with socket.socket(fileno=listener) as accepting:
            Server(accepting, len(os.sched_getaffinity(0))).serve(sys.stdin)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
