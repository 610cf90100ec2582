"""Settings of the whole process: threads, memory, device."""

import ctypes
import os
import re

import torch

from common.errors import InputError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)


def use_threads(threads: int) -> None:
    """Let torch use this many threads per operation, whatever the number of cores, and keep freed memory.

    glibc hands large blocks back to the kernel as soon as they are freed, and a training step, which frees and takes
    the same megabytes over and over, then spends up to a third of its time on page faults.
    """
    torch.set_num_threads(threads)
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_THRESHOLD, 2**30)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**30)
    except (OSError, AttributeError):  # another C library, which has its own ways
        pass


def choose_device(wanted: str) -> str:
    """A torch device: `auto` is the first GPU if there is one. It becomes torch's current one.

    Raises:
        InputError: there is no such device.
    """
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", wanted):
        raise InputError(f"--device: must be auto, cpu, cuda or such as cuda:1, got '{wanted}'")
    try:
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"--device: '{wanted}' cannot be used ({str(error).splitlines()[0]}); allowed: auto, cpu, cuda"
        ) from error
    if wanted.startswith("cuda:"):
        torch.cuda.set_device(wanted)
    return wanted


def repeatable() -> None:
    """Let a GPU give the same numbers each time: no sum in the order in which threads come. torch warns of what has no
    such way.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read at the first product
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # nothing reads it
