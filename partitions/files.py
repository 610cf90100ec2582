"""Sources in files of plain arrays, and in folders of images. docs/data.md describes both for users."""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from PIL import Image, UnidentifiedImageError

from common.errors import InputError, nearest
from common.files import written
from partitions.source import Source, joined

PICTURES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}
_NPZ_KEYS = "either train_images, train_labels, test_images and test_labels, or images and labels"


def read_npz(name: str, file: Path, style: str | None) -> Source:
    """A source from `<name>.npz`.

    Keys: `train_images, train_labels, test_images, test_labels`, or `images, labels` (no official split); with the
    latter also `styles` (n,) with `style_names`, to choose one style from, and any further arrays (n, ...).

    Raises:
        InputError: the file cannot be read, a key is missing, or there is no such style.
    """
    try:
        with np.load(file) as arrays:
            held = {key: arrays[key] for key in arrays.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"source '{name}': {file} is not a readable .npz file ({error}); replace it") from error
    if {"train_images", "train_labels", "test_images", "test_labels"} <= held.keys():
        if style is not None:
            raise InputError(f"source '{name}/{style}': {file} has an official split and no styles")
        return joined(name, (held["train_images"], held["train_labels"]), (held["test_images"], held["test_labels"]))
    images = held.pop("images", None)
    labels = held.pop("labels", held.get("identities"))
    if images is None or labels is None:
        raise InputError(f"source '{name}': {file} must hold {_NPZ_KEYS}; it holds {', '.join(sorted(held))}")
    labels = labels.astype(np.int64)
    style_names = [str(s) for s in held.pop("style_names", np.unique(held.get("styles", [])))]
    extra = {key: array for key, array in held.items() if array.ndim and len(array) == len(images)}
    source = Source(name, images, labels, None, int(labels.max(initial=0)) + 1, extra)
    return source if style is None else _one_style(source, style, style_names)


def _one_style(source: Source, style: str, style_names: list[str]) -> Source:
    if style not in style_names:
        raise InputError(f"source '{source.name}/{style}': no such style; {nearest(style, style_names)}")
    chosen = np.flatnonzero(source.extra["styles"] == style_names.index(style))
    return source.taken(chosen, f"{source.name}/{style}")


def read_folder(name: str, folder: Path, size: int) -> Source:
    """A source from `folder/<class>/<picture>`: shorter side resized to size * 8/7, then the centre (256 -> 224).

    What was decoded is kept in `<folder>.<size>.cache.npz` and read from there as long as the folder's files do not
    change.

    Raises:
        InputError: there is no class folder, no picture, or a picture cannot be read.
    """
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
    pictures = [
        (path, label)
        for label, kind in enumerate(classes)
        for path in sorted((folder / kind).iterdir())
        if path.suffix.lower() in PICTURES
    ]
    if not pictures:
        raise InputError(f"source '{name}': {folder} must hold one folder per class with pictures in it")
    listing = "\n".join(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path, _ in pictures)
    key = hashlib.sha256(listing.encode()).hexdigest()
    labels = np.array([label for _, label in pictures], dtype=np.int64)
    cache = folder.with_name(f".{folder.name}.{size}.cache.npz")
    images = _cached(cache, key)
    if images is None:
        images = np.stack([_decoded(name, path, size) for path, _ in pictures])
        keep(cache, key=key, images=images)
    return Source(name, images, labels, None, len(classes))


def keep(cache: Path, **arrays: Any) -> None:
    """Write arrays to a cache file; in a folder that cannot be written the pictures are decoded again next time."""
    with suppress(InputError), written(cache) as part, open(part, "wb") as out:
        np.savez(out, **arrays)


def _cached(file: Path, key: str) -> np.ndarray | None:
    if not file.is_file():
        return None
    with np.load(file) as held:
        return held["images"] if str(held["key"]) == key else None


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
