"""CelebA in the layout in which torchvision stores it: aligned faces with attributes and identities."""

from pathlib import Path

import numpy as np
from PIL import Image

from common.errors import InputError
from partitions.files import cached, keep, key_of
from partitions.source import Source

ATTRIBUTES = """
5_o_Clock_Shadow Arched_Eyebrows Attractive Bags_Under_Eyes Bald Bangs Big_Lips Big_Nose Black_Hair Blond_Hair
Blurry Brown_Hair Bushy_Eyebrows Chubby Double_Chin Eyeglasses Goatee Gray_Hair Heavy_Makeup High_Cheekbones
Male Mouth_Slightly_Open Mustache Narrow_Eyes No_Beard Oval_Face Pale_Skin Pointy_Nose Receding_Hairline
Rosy_Cheeks Sideburns Smiling Straight_Hair Wavy_Hair Wearing_Earrings Wearing_Hat Wearing_Lipstick
Wearing_Necklace Wearing_Necktie Young
""".split()  # noqa: SIM905 -- forty lines otherwise
"""The columns of the attribute list."""
LISTS = ("list_attr_celeba.txt", "identity_CelebA.txt", "list_eval_partition.txt")


def _by_face(file: Path, columns: int, titles: list[str] | None = None) -> dict[str, list[str]]:
    """The columns of a list behind that of the faces' files; of one with titles, these are in its second line."""
    try:
        rows = [line.split() for line in file.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"source 'celeba': {file} is missing, or no text") from error
    if titles:
        if rows[1:2] != [titles]:
            raise InputError(f"source 'celeba': {file} must have '{titles[0]} ... {titles[-1]}' in its second line")
        rows = rows[2:]
    if odd := [row for row in rows if len(row) != 1 + columns]:
        raise InputError(f"source 'celeba': {file} must have {1 + columns} columns, got {' '.join(odd[0])[:80]!r}")
    listed = {file: values for file, *values in rows}
    if not listed or len(listed) < len(rows):
        raise InputError(
            f"source 'celeba': {file} must list faces, each once; it has {len(rows)} rows of {len(listed)}"
        )
    return listed


def _number(text: str, file: str) -> int:
    if not text.isdecimal():
        raise InputError(f"source 'celeba': {file} must have numbers in its second column, got {text!r}")
    return int(text)


def read_celeba(folder: Path, size: int) -> Source:
    """All faces: the centre 178x178 brought to `size`; labels are identities, `attributes` (n, 40) beside them.

    The official test part (2 in the evaluation list) is the test split. Decoded faces are kept in a cache file
    as long as the listed pictures do not change.

    Raises:
        InputError: a list or a picture is missing or unreadable.
    """
    listed = _by_face(folder / LISTS[0], len(ATTRIBUTES), ATTRIBUTES)
    identity, part = (_by_face(folder / name, 1) for name in LISTS[1:])
    files = list(listed)
    missing = [file for file in files if file not in identity or file not in part]
    if missing:
        raise InputError(f"source 'celeba': {missing[0]} is in {LISTS[0]} but not in the other lists")
    _, labels = np.unique([_number(identity[file][0], LISTS[1]) for file in files], return_inverse=True)
    return Source(
        name="celeba",
        images=_faces(folder, files, size),
        labels=labels.astype(np.int64),
        test=np.array([part[file] == ["2"] for file in files]),
        classes=int(labels.max()) + 1,
        extra={"attributes": np.array([[value == "1" for value in values] for values in listed.values()])},
    )


def _faces(folder: Path, files: list[str], size: int) -> np.ndarray:
    pictures = [folder / "img_align_celeba" / file for file in files]
    cache, key = folder / f".faces.{size}.cache.npz", key_of(folder, pictures)
    faces = cached(cache, key)
    if faces is None:
        faces = np.stack([_face(picture, size) for picture in pictures])
        keep(cache, key=key, images=faces)
    return faces


def _face(path: Path, size: int) -> np.ndarray:
    try:
        with Image.open(path) as picture:
            rgb = picture.convert("RGB")
    except OSError as error:
        raise InputError(f"source 'celeba': {path} is not a readable picture ({error})") from error
    side = min(178, *rgb.size)
    left, top = (rgb.width - side) // 2, (rgb.height - side) // 2
    return np.asarray(rgb.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BILINEAR))
