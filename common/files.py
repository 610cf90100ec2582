"""Files appear whole or not at all."""

import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import InputError

ROOM = 2**20
"""Bytes without which a disk counts as full."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it is moved onto `path` if the block succeeds, and removed if not.

    Raises:
        InputError: the folder cannot be made or written, or the disk is full.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with _said_of(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    try:
        with _said_of(path):
            yield part
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _said_of(path: Path) -> Iterator[None]:
    """What the operating system has against writing `path`, in a sentence.

    Writers in C++ and Rust raise errors of their own on a full disk ("unexpected pos"), which do not say so.
    """
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({_reason(error)})") from error
    except Exception as error:
        if (full := _no_room(path.parent)) is None:
            raise
        raise InputError(f"{path}: cannot be written ({_reason(full)})") from error


def _reason(error: OSError) -> str:
    return f"the disk is full: {error.strerror}" if error.errno in _FULL else str(error.strerror or error)


def _no_room(folder: Path) -> OSError | None:
    """Why nothing more can be written to a folder; None if it can."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(ROOM))
    except OSError as error:
        return error
    return None


@contextmanager
def locked(file: Path, otherwise: str) -> Iterator[None]:
    """Keep other processes out by a lock on a file, which is there for as long; the lock goes with the process, however
    it ends.

    Raises:
        InputError: another process has the lock, with this sentence; or the file cannot be made.
    """
    with _said_of(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _lock(file, otherwise)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)  # while nobody else can have it
        os.close(descriptor)


def _lock(file: Path, otherwise: str) -> int:
    """A descriptor of the file, which is locked."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise InputError(otherwise) from error
    except OSError:  # some file systems have no locks, and keep nobody out
        return descriptor
    if file.exists() and os.path.samestat(file.stat(), os.fstat(descriptor)):
        return descriptor
    os.close(descriptor)  # whoever had it has removed it in between, and another one may have made it anew
    return _lock(file, otherwise)


def check_writable(file: Path) -> None:
    """Find out before the work that its result cannot be written. A folder that is missing is not made.

    Raises:
        InputError: there is a folder in the file's place, its folder cannot be made or written, or the disk is full.
    """
    if file.is_dir():
        raise InputError(f"{file}: cannot be written, it is a folder")
    folder = next(parent for parent in file.absolute().parents if parent.exists())
    if error := _no_room(folder):
        raise InputError(f"{file}: cannot be written ({_reason(error)})")


def data_root() -> str:
    """The folder of real data sets: $DIPTYCH_DATA, or ./data."""
    return os.path.expanduser(os.environ.get("DIPTYCH_DATA") or "data")


def data_folder(where: str, named: str) -> str:
    """A data root that a user has named.

    Raises:
        InputError: there is no such folder.
    """
    if not Path(named).expanduser().is_dir():
        raise InputError(f"{where}: there is no folder '{named}'; make it, or leave this out for ./data")
    return named
