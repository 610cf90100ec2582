"""Where images come from: which files of the data root each known source is read from, and who puts them there.

Imports no torch, so that a workflow can say what will be missing before anything runs.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

EXPRESSION = re.compile(r"(?P<name>[\w.-]+)(?:/(?P<style>[^\[\]/]+))?(?:\[(?P<slice>-?\d*:-?\d*(?::-?\d+)?)\])?")
"""How a source is named: `name[/style][start:stop:step]`."""
DATA_SETTING = "--config data=FOLDER, or the environment variable DIPTYCH_DATA"
"""How to name the data root."""


class State(StrEnum):
    """Whether a source can be used."""

    THERE = "there"
    DOWNLOADED = "to download"
    MISSING = "missing"


@dataclass(frozen=True)
class Known:
    """A source with a name of its own.

    Attributes:
        about: what it is, in a line.
        files: below the data root; a folder stands for what is in it. None for what comes with a library.
        layout: how they lie there, where their names do not say it.
        origin: where to get them; empty for what is downloaded, or comes with a library.
        images: about how many there are for training, in each of its styles.
        classes: how many there are.
    """

    about: str
    images: int
    files: tuple[str, ...] = ()
    layout: str = ""
    origin: str = ""
    classes: int = 10

    def there(self, root: Path) -> bool:
        """Whether all its files are below `root`."""
        return all((root / file).exists() for file in self.files)


def _idx(folder: str) -> tuple[str, ...]:
    return tuple(
        f"{folder}/raw/{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
    )


KNOWN: dict[str, Known] = {
    "digits-plain": Known("Digits as they are: light strokes on black.", 1257),
    "digits-bold": Known("Digits written with a thick soft pen: strokes widened by one pixel, then blurred.", 1257),
    "digits-photo": Known("Digits in colour on crops of two photographs: |photograph - stroke|, as in MNIST-M.", 1257),
    "mnist": Known("handwritten digits, 28 px, grey", 60_000, _idx("MNIST")),
    "fashion-mnist": Known("clothes, 28 px, grey", 60_000, _idx("FashionMNIST")),
    "usps": Known("digits from envelopes, 16 px, grey", 7_291, ("usps.bz2", "usps.t.bz2")),
    "svhn": Known("house numbers, 32 px, colour", 73_257, ("train_32x32.mat", "test_32x32.mat")),
    "cifar10": Known(
        "ten kinds of things, 32 px, colour",
        50_000,
        tuple(f"cifar-10-batches-py/{batch}" for batch in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")),
    ),
    "celeba": Known(
        "faces with 40 attributes and identities",
        182_637,
        tuple(
            f"celeba/{file}"
            for file in ("list_attr_celeba.txt", "identity_CelebA.txt", "list_eval_partition.txt", "img_align_celeba")
        ),
        layout="celeba/list_attr_celeba.txt, identity_CelebA.txt, list_eval_partition.txt, img_align_celeba/*.jpg",
        origin="mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
        classes=10_177,
    ),
    "office-home": Known(
        "65 kinds of objects in 4 styles",
        2_700,
        tuple(f"office-home/{style}" for style in ("Art", "Clipart", "Product", "Real World")),
        layout="office-home/<style>/<class>/*.jpg",
        origin="hemanthdv.org/officeHomeDataset.html",
        classes=65,
    ),
    "adaptiope": Known(
        "123 kinds of objects in 3 styles",
        8_600,
        tuple(f"adaptiope/{style}" for style in ("synthetic", "product_images", "real_life")),
        layout="adaptiope/<style>/<class>/*.jpg",
        origin="gitlab.com/tringwald/adaptiope",
        classes=123,
    ),
    "pacs": Known(
        "seven kinds of things in 4 styles",
        1_750,
        tuple(f"pacs/{style}" for style in ("photo", "art_painting", "cartoon", "sketch")),
        layout="pacs/<style>/<class>/*.jpg",
        origin="domaingeneralization.github.io",
        classes=7,
    ),
    "mnist-m": Known(
        "MNIST on photographs",
        60_000,
        ("mnist-m.npz",),
        layout="mnist-m.npz with train_images, train_labels, test_images, test_labels (docs/data.md)",
        origin="yaroslav.ganin.net, in another layout",
    ),
}
"""Every source with a name of its own."""


def state(expression: str, root: Path) -> State:
    """Whether the source that `expression` names can be read from `root`, without reading it."""
    match = EXPRESSION.fullmatch(expression)
    name, style = (match["name"], match["style"]) if match else (expression, None)
    known = KNOWN.get(name)
    if (root / f"{name}.npz").is_file():
        return State.THERE
    if style is None and known:  # a folder of this name may be a part of it
        return State.THERE if known.there(root) else State.MISSING if known.origin else State.DOWNLOADED
    return State.THERE if (root / name / (style or "")).is_dir() else State.MISSING


def dated(place: str, root: Path) -> list[str]:
    """The user's own files behind a source `name` or `name/style`, which no slice follows, each with its size and date,
    which change when it is corrected.

    Files of a known source are not looked at, unless an .npz file stands in for them: they are what was published.
    """
    name = place.partition("/")[0]
    own = root / f"{name}.npz"
    files = [own] if own.is_file() else [] if name in KNOWN else sorted((root / place).rglob("[!.]*"))
    found = ((file, file.stat()) for file in files if file.is_file())  # what was decoded is kept in files with a dot
    return [f"{file.relative_to(root)} {stat.st_size} {stat.st_mtime_ns}" for file, stat in found]


def how_to_get(name: str) -> str:
    """What to put where, from where, for a source that is missing."""
    known = KNOWN.get(name.partition("/")[0])
    if known is None or not known.origin:
        return f"{name}.npz, or {name}/<class>/<picture> (docs/data.md)"
    return f"{known.layout}, from {known.origin}"
