"""Arrays in .npz files."""

from pathlib import Path

import numpy as np

from common.errors import InputError


def read_arrays(file: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file.

    Raises:
        InputError: there is no such file, it is damaged, or it holds Python objects.
    """
    try:
        with np.load(file) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except Exception as error:  # whatever zip, zlib and numpy's parser of headers come to on a damaged file
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0] or type(error).__name__
        raise InputError(f"{file}: cannot be read as .npz ({reason})") from error
