"""Sources in files of plain arrays, and in folders of images. docs/data.md describes both for users."""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from common.arrays import read_arrays
from common.errors import InputError, nearest
from common.files import written
from partitions.source import Source, joined

PICTURES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}
_NPZ_KEYS = "either train_images, train_labels, test_images and test_labels, or images and labels"


def read_npz(name: str, file: Path, style: str | None) -> Source:
    """A source from `<name>.npz`.

    Keys: `train_images, train_labels, test_images, test_labels`, or `images, labels` (no official split); with the
    latter also `styles` (n,) with `style_names`, to choose one style from, and any further arrays (n, ...). Faces have
    `identities` in the place of labels.

    Raises:
        InputError: the file cannot be read, a key is missing, or there is no such style.
    """
    try:
        held = read_arrays(file)
    except InputError as error:
        raise InputError(f"source '{name}': {error}; replace it") from error
    if {"train_images", "train_labels", "test_images", "test_labels"} <= held.keys():
        if style is not None:
            raise InputError(f"source '{name}/{style}': {file} has an official split and no styles")
        train, test = ((held[f"{part}_images"], _numbers(name, f"{part}_labels", held)) for part in ("train", "test"))
        return _without_gaps(joined(name, train, test))
    if "images" not in held or not {"labels", "identities"} & held.keys():
        raise InputError(f"source '{name}': {file} must hold {_NPZ_KEYS}; it holds {', '.join(sorted(held))}")
    images, style_names = held.pop("images"), [str(s) for s in held.pop("style_names", np.array([])).flat]
    key = "labels" if "labels" in held else "identities"
    labels = _numbers(name, key, held)
    if "styles" in held and held["styles"].shape != labels.shape:
        raise InputError(f"source '{name}': styles must have the shape {labels.shape}, got {held['styles'].shape}")
    extra = {k: array for k, array in held.items() if k != "labels" and array.ndim and len(array) == len(labels)}
    source = Source(name, images, labels, None, int(labels.max(initial=0)) + 1, extra)
    source = _without_gaps(source) if key == "labels" else source
    return source if style is None else _one_style(source, style, style_names)


def _numbers(name: str, key: str, held: dict[str, np.ndarray]) -> np.ndarray:
    """Labels or styles as int64.

    Raises:
        InputError: they are no whole numbers, one for each image.
    """
    array = held[key]
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"source '{name}': {key} must be integers of shape (n,), got {array.dtype} {array.shape}")
    return array.astype(np.int64)


def _without_gaps(source: Source) -> Source:
    """The source.

    Raises:
        InputError: its labels leave out a class, as where one of them is a slip.
    """
    present = np.unique(source.labels)
    if len(present) < source.classes:
        missing = int(np.flatnonzero(present != np.arange(len(present)))[0])
        raise InputError(
            f"source '{source.name}': labels must number the classes from 0 without gaps, "
            f"got {present[-1]} and no {missing}"
        )
    return source


def _one_style(source: Source, style: str, style_names: list[str]) -> Source:
    if style not in style_names or "styles" not in source.extra:
        raise InputError(f"source '{source.name}/{style}': no such style; {nearest(style, style_names)}")
    styles = _numbers(source.name, "styles", source.extra)
    if styles.min() < 0 or styles.max() >= len(style_names):
        raise InputError(
            f"source '{source.name}': styles must be in 0..{len(style_names) - 1}, got {styles.min()}..{styles.max()}"
        )
    return source.taken(np.flatnonzero(styles == style_names.index(style)), f"{source.name}/{style}")


def read_folder(name: str, folder: Path, size: int) -> Source:
    """A source from `folder/<class>/<picture>`: shorter side resized to size * 8/7, then the centre (256 -> 224).

    What was decoded is kept in `.<folder>.<size>.cache.npz` and read from there as long as the folder's files do not
    change.

    Raises:
        InputError: there is no class folder, one without a picture, or a picture cannot be read.
    """
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
    pictures = [
        (path, label)
        for label, kind in enumerate(classes)
        for path in sorted((folder / kind).iterdir())
        if path.suffix.lower() in PICTURES
    ]
    if not pictures:
        raise InputError(f"source '{name}': {folder} must hold one folder per class with pictures in it")
    if empty := sorted(set(classes) - {path.parent.name for path, _ in pictures}):
        raise InputError(f"source '{name}': there is no picture in {folder / empty[0]}; put some there, or delete it")
    key = key_of(folder, [path for path, _ in pictures])
    labels = np.array([label for _, label in pictures], dtype=np.int64)
    cache = folder.with_name(f".{folder.name}.{size}.cache.npz")
    images = cached(cache, key)
    if images is None:
        images = np.stack([_decoded(name, path, size) for path, _ in pictures])
        keep(cache, key=key, images=images)
    return Source(name, images, labels, None, len(classes), class_names=tuple(classes))


def key_of(folder: Path, pictures: list[Path]) -> str:
    """What pictures below a folder are kept under: another one if a picture is added, replaced or gone, and the same
    however the folder's own path is spelt."""
    listing = "\n".join(f"{path.relative_to(folder)} {_stamp(path)}" for path in pictures)
    return hashlib.sha256(listing.encode()).hexdigest()


def _stamp(path: Path) -> str:
    try:
        stat = path.stat()
    except OSError:  # whoever decodes it says so
        return "gone"
    return f"{stat.st_size} {stat.st_mtime_ns}"


def keep(cache: Path, **arrays: Any) -> None:
    """Write arrays to a cache file; in a folder that cannot be written the pictures are decoded again next time."""
    with suppress(InputError), written(cache) as part, open(part, "wb") as out:
        np.savez(out, **arrays)


def cached(file: Path, key: str) -> np.ndarray | None:
    """The images that `keep` has put into a cache file under this key; None if there are none, or others."""
    with suppress(InputError):  # a file that is damaged is made anew, like one that is not there
        held = read_arrays(file)
        return held["images"] if held.keys() == {"key", "images"} and str(held["key"]) == key else None
    return None


def _decoded(name: str, path: Path, size: int) -> np.ndarray:
    try:
        with Image.open(path) as picture:
            rgb = picture.convert("RGB")
    except (OSError, UnidentifiedImageError) as error:
        raise InputError(f"source '{name}': {path} is not a readable picture ({error})") from error
    scale = size * 8 / 7 / min(rgb.size)
    width, height = (max(size, round(side * scale)) for side in rgb.size)
    left, top = (width - size) // 2, (height - size) // 2
    resized = rgb.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(resized.crop((left, top, left + size, top + size)))
