"""Finding a source by an expression `name[/style][start:stop:step]`.

    mnist                  all of MNIST
    mnist-m[1::2]          every second image (of the training and of the test images each)
    office-home/Art        one style of a source that has several

A name is one of the embedded digits, a data set that torchvision knows, a file `<name>.npz` or a folder of images
below the data root; docs/data.md describes them.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from common.errors import InputError, nearest
from common.sources import DATA_SETTING, EXPRESSION, KNOWN, how_to_get
from partitions import embedded
from partitions.celeba import read_celeba
from partitions.files import read_folder, read_npz
from partitions.published import TORCHVISION
from partitions.source import Source

EMBEDDED: dict[str, Callable[[], Source]] = {
    "digits-plain": embedded.plain,
    "digits-bold": embedded.bold,
    "digits-photo": embedded.photo,
}

SOURCES: dict[str, str] = {name: known.about for name, known in KNOWN.items()}
"""Every source with a name of its own, and what it is."""


def load(expression: str, size: int, root: str) -> Source:
    """Read the source that `expression` names.

    Args:
        size: pixels to which the pictures of a folder are brought; other sources come as they are stored.
        root: the data root, where files are looked for and downloaded to.

    Raises:
        InputError: the expression cannot be parsed, or the source cannot be found, downloaded or read; the sentence
            says what to put where.
    """
    match = EXPRESSION.fullmatch(expression)
    if match is None:
        raise InputError(f"source '{expression}': write it as name, name/style, or either with [start:stop:step]")
    source = _whole(match["name"], match["style"], size, Path(root).expanduser())
    return source if match["slice"] is None else _sliced(source, expression, match["slice"])


def _sliced(source: Source, expression: str, text: str) -> Source:
    piece = slice(*(int(part) if part else None for part in text.split(":")))
    if piece.step == 0:
        raise InputError(f"source '{expression}': a step of 0 takes nothing")
    parts = (
        [np.arange(len(source.labels))]
        if source.test is None
        else [np.flatnonzero(~source.test), np.flatnonzero(source.test)]
    )
    return source.taken(np.concatenate([part[piece] for part in parts]), expression)


def _whole(name: str, style: str | None, size: int, root: Path) -> Source:
    if name in EMBEDDED and style is None:
        return EMBEDDED[name]()
    if name in TORCHVISION and style is None and KNOWN[name].there(root):
        return _read_published(name, root, download=False)
    if name == "celeba" and style is None and (root / KNOWN[name].files[0]).is_file():
        return read_celeba(root / "celeba", size)
    if (root / f"{name}.npz").is_file():
        source = read_npz(name, root / f"{name}.npz", style)
        return source if style or name not in TORCHVISION else _as_published(source, root, f"{name}.npz")
    folder = root / name / style if style else root / name
    if folder.is_dir() and (style or name not in KNOWN):  # of a known source it may be a part
        return read_folder(f"{name}/{style}" if style else name, folder, size)
    if name in TORCHVISION and style is None:
        return _read_published(name, root, download=True)
    raise InputError(_absent(name, style, root))


def _read_published(name: str, root: Path, *, download: bool) -> Source:
    known = TORCHVISION[name]
    try:
        source = known.read(name, root, download=download)
    except Exception as error:  # torchvision raises whatever its parsers and the network raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if download:
            raise InputError(
                f"source '{name}': not found below '{root}' and it could not be downloaded ({reason}); put "
                f"{', '.join(KNOWN[name].files)} there, or name the folder that has them: {DATA_SETTING}"
            ) from error
        raise InputError(
            f"source '{name}': its files below '{root}' cannot be read ({reason}); delete "
            f"{', '.join(KNOWN[name].files)} to have them downloaded again"
        ) from error
    return _as_published(source, root, ", ".join(KNOWN[name].files))


def _as_published(source: Source, root: Path, files: str) -> Source:
    """The source; InputError if its digest is known and another."""
    expected = TORCHVISION[source.name].sha256
    if expected and source.sha256 != expected:
        raise InputError(
            f"source '{source.name}': the files below '{root}' are not the published data (sha256 "
            f"{source.sha256[:12]}..., expected {expected[:12]}...); delete {files} to have them downloaded again"
        )
    return source


def _absent(name: str, style: str | None, root: Path) -> str:
    place = f"{name}/{style}" if style else name
    if name in EMBEDDED or name in TORCHVISION or (name == "celeba" and style):
        return f"source '{place}': '{name}' has no styles to choose from; write '{name}'"
    if name in KNOWN and style is None and KNOWN[name].there(root):
        return f"source '{name}': has several styles; write one, such as '{KNOWN[name].files[0]}'"
    if name in KNOWN:
        return (
            f"source '{place}': not found below '{root}'; put there {how_to_get(name)} "
            f"(or name another folder: {DATA_SETTING})"
        )
    return (
        f"source '{place}': neither {name}.npz nor a folder {place}/ with one folder per class is below '{root}'; "
        f"{nearest(name, KNOWN)}"
    )
