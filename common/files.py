"""Files appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import InputError


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it is moved onto `path` if the block succeeds, and removed if not.

    Raises:
        InputError: the folder cannot be made or written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def data_root() -> str:
    """The folder of real data sets: $DIPTYCH_DATA, or ./data."""
    return os.environ.get("DIPTYCH_DATA") or "data"
