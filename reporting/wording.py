"""Numbers and names as a reader sees them, wherever they stand: in tables, claims, the board, the report.

A name is looked up by its column: first what the paper's configuration calls it (`words`), then NAMES; else it is put
into words as it is, `first_step=0.02` as `first step = 0.02`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

COUNTS = ("count", "rounds")
"""Units in which there is nothing between two whole numbers."""
ROUNDING = 1e-9
"""A spread of less than this share of its mean is no spread, and a difference of less than this none: so much computing
leaves, as between means of one number that were taken in other orders."""


@dataclass(frozen=True)
class Name:
    """What something is called in a table, and below it in full, if that is too long to stand there."""

    short: str
    long: str = ""


Words = Mapping[str, Mapping[str, Name]]
"""By column and value."""


def names(words: Mapping[str, Mapping[str, str | Sequence[str]]]) -> dict[str, dict[str, Name]]:
    """Words as a configuration has them: a name, or a short and a long one."""
    return {
        column: {value: Name(said) if isinstance(said, str) else Name(*said) for value, said in of.items()}
        for column, of in words.items()
    }


NAMES = names(
    {
        "dataset": {
            "digit": "digits",
            "mnist": "MNIST",
            "fmnist": "FashionMNIST",
            "svhn": "SVHN",
            "cifar10": "CIFAR-10",
            "celeba": "CelebA",
            "office-home": "Office-Home",
            "adaptiope": "Adaptiope",
            "rotated-mnist": "Rotated MNIST",
            "rotated-fmnist": "Rotated FashionMNIST",
        },
        "style": {"mnist": "MNIST", "svhn": "SVHN", "usps": "USPS", "all": "mean"},
        "client": {"all": "mean"},
        "digit": {"all": "mean"},
        "ssl": {"simclr": "SimCLR", "simsiam": "SimSiam"},
        "method": {
            "fedavg": "FedAvg",
            "fedavg-ft": ("FedAvg-FT", "FedAvg, then fine-tuned by every client"),
            "fedavg-server": ("FedAvg-server", "FedAvg, with images at the server"),
            "fedprox": "FedProx",
            "scaffold": "SCAFFOLD",
            "ditto": "Ditto",
            "ditto-fedprox": "Ditto+FedProx",
            "fedrep": "FedRep",
            "fedper": "FedPer",
            "apfl": "APFL",
            "centralized": "centralised",
            "local": ("local", "every client alone"),
            "server-only": ("server only", "the server's images alone"),
            "naivemix": "NaiveMix",
            "fedmix": "FedMix",
            "sda-fl": "SDA-FL",
            "full-gan": "full GAN",
            "fedstyle": "FedStyle",
            "padpaf": "PaDPaF",
            "feddva": "FedDVA",
            "ps-fedgan": "PS-FedGAN",
            "feddirt": "FedDIRT",
            "fedinb": "INB",
            "fedinb-hist": "HistINB",
            "fedinb-ae": "AEINB",
            "fedinb-indae": "IndAEINB",
            "fedinb-hist-ae": "HistAEINB",
            "fedinb-hist-indae": "HistIndAEINB",
            "fedstargan": "FedStarGAN",
            "stargan": ("StarGAN", "StarGAN with the images of all domains in one place"),
        },
        "metric": {
            "fid": ("FID", "Fréchet distance"),
            "mse": ("MSE", "mean squared error"),
            "nmse": ("NMSE", "mean squared error, normalised, for pixels in [-1, 1]"),
            "nmse_0_1": ("NMSE on [0, 1]", "the same for pixels in [0, 1]"),
            "ssim": ("SSIM", "structural similarity"),
            "psnr": ("PSNR", "peak signal-to-noise ratio, decibel"),
            "label_agreement": ("label kept", "the judge sees the label that was asked for, or that was there before"),
            "client_accuracy": ("client seen", "the judge sees the client in whose style it should be"),
            "one_label": ("one label", "share of the images that the judge gives its commonest label"),
        },
        "setting": {
            "judge": "",
            "target=label": "labels",
            "target=client": "clients",
            "images=noise-0.1": "noise of 0.1",
            "images=noise-0.2": "noise of 0.2",
            "images=shift-1": "shifted by a pixel",
            "images=shift-2": "shifted by 2 pixels",
            "images=blur-0.5": "blurred by half a pixel",
            "images=blur-1": "blurred by a pixel",
            "images=only-noise": "only noise",
            "views=two": "two views of an image",
        },
        "control": {
            "untrained": ("floor: untrained", "the same by an encoder that was not trained"),
            "shuffled-labels": ("floor: shuffled labels", "the same with labels, or pairs of images, shuffled"),
            "floor": ("floor: held-out images", "real images that were held out"),
            "own-images": ("control: own images", "a client's own training images, its labels as often as it has them"),
            "brighter": ("floor: brighter", "the same images, brighter by 13 of 255"),
            "noisy": ("floor: noisy", "the same images with noise of 0.1"),
            "shifted": ("floor: shifted", "the same images, shifted by a pixel"),
            "copy": ("control: copy", "the real images themselves"),
            "other-client": ("control: another client", "another client's real images"),
            "noise": "control: noise",
            "one-encoder": ("control: one encoder", "all images by one client's encoder, the mean over clients"),
            "same-images": ("control: same images", "the same images of a style by each of its clients' encoders"),
            "pixels": "control: pixels",
            "reconstruction": ("control: alone", "reconstructed, with nothing exchanged"),
            "identity": "control: not translated",
            "rotation": ("control: turned", "turned by the angle in between"),
            "other": ("control: others", "other images of the target"),
            "blur-0.5": ("control: others, blur 0.5", "other images of the target, blurred by half a pixel"),
            "blur-1": ("control: others, blur 1", "other images of the target, blurred by 1 pixel"),
            "blur-2": ("control: others, blur 2", "other images of the target, blurred by 2 pixels, within five"),
            "ceiling": "ceiling: real images",
            "even-classes": ("ceiling: even", "as many images of each class"),
            "supervised": "ceiling: trained with labels",
            "counterpart": ("ceiling: counterpart", "what the image ought to look like"),
            "pooled": ("ceiling: pooled", "trained on the images of all clients in one place"),
        },
    }
)  # fmt: skip
"""What several papers or tables speak of."""
AXES = {
    "ssl": "self-supervision",
    "dataset": "data set",
    "clients_per_style": "clients per style",
    "sync_steps": "steps between syncs",
}
"""Columns of records in words, where the name is none."""


# ---- names


def name_of(column: str, value: str, words: Words) -> Name:
    """What a value of a record's column is called. A number says what it is of; a method without a name is as typed."""
    for known in (words, NAMES):
        if value in known.get(column, {}):
            return known[column][value]
    if value.isdigit():
        return Name(f"{axis(column)} {value}")
    if column == "method":
        return Name(value)
    parts = value.split(";")
    if len(parts) == 1:
        return Name(_plain(value))
    several = [name_of(column, part, words) for part in parts]
    return Name(
        ", ".join(part.short for part in several if part.short), "; ".join(part.long for part in several if part.long)
    )


def called(columns: Iterable[str], values: Iterable[str], words: Words) -> tuple[str, ...]:
    """The values of some columns in words, those that are not empty or are called something all the same."""
    said = zip(columns, values, strict=True)
    short = (name_of(column, value, words).short for column, value in said if value or value in words.get(column, {}))
    return tuple(filter(None, short))


def axis(column: str) -> str:
    """A column of records in words."""
    return AXES.get(column, column.replace("_", " "))


def plain(value: str) -> str:
    """A value in words, whatever its column: `features=content;target=label` is `features content, target label`."""
    return ", ".join(map(_plain, value.split(";")))


def _plain(part: str) -> str:
    """`k=v` is `k = v` of symbols and numbers, else `k v`; a line between words is a space."""
    key, sets, value = part.partition("=")
    between = " = " if len(key) == 1 or re.match(r"[\d.]", value) else " "
    return re.sub(r"(?<=[^\W\d])-(?=[^\W\d])|_", " ", f"{key}{between}{value}" if sets else part)


def capital(text: str) -> str:
    """With a capital letter at the beginning."""
    return text[:1].upper() + text[1:]


def table_name(table: str) -> str:
    """As the paper calls it, or what it is about: `table2-last` is `Table 2, last`."""
    number = re.fullmatch(r"table(\d+)(?:-(.*))?", table)
    words = [f"Table {number[1]}", number[2]] if number else [capital(table)]
    return ", ".join(word.replace("-", " ") for word in words if word)


# ---- numbers


def shown(value: float, digits: int | None = None, unit: str = "") -> str:
    """A number with so many digits after its point, or as `decimals` has it; a minus as printers have it."""
    if not isfinite(value):
        return "diverged"
    return f"{value:z,.{decimals(value, unit=unit) if digits is None else digits}f}".replace("-", "−")


def decimals(value: float, spread: float | None = None, unit: str = "") -> int:
    """Digits after the point: as many as two of the spread reach. Where that is not known, three of a fraction, and of
    other numbers so many that there are three in all. None of a count, but of a small mean of counts."""
    if not isfinite(value):
        return 0
    whole = value == round(value)
    if unit in COUNTS and (whole or abs(value) >= 10):
        return 0
    if spread and isfinite(spread) and spread > ROUNDING * abs(value):
        places = ceil(1 - log10(spread))
    elif unit == "fraction":
        return 3
    elif whole or abs(value) < 0.5e-6:
        return 0
    else:
        places = 2 - floor(log10(abs(value)))
    return min(max(places, 0 if abs(value) >= 100 else 1), 6)


def with_spread(mean: float, std: float | None, unit: str = "") -> str:
    """A number and its spread, if that is known, to the same digit."""
    if std is None or not isfinite(mean + std):
        return shown(mean, unit=unit)
    digits = decimals(mean, std, unit)
    return f"{shown(mean, digits)} ± {shown(std, digits)}"


def plural(number: int, noun: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tallied(counts: Mapping[str, int], kinds: Iterable[str]) -> str:
    """`3 agrees, 1 undecided`: of these kinds, in this order, those that there are."""
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in kinds if counts[kind])


def duration(seconds: float) -> str:
    """In the unit that one would say it in."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{seconds / 3600:.1f} h"


def size(number: float) -> str:
    """Bytes in the unit that one would say them in."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 999.5:  # of which three digits say 1e+03
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def percent(share: float) -> str:
    """A share in per cent; empty if it is not known."""
    return f"{100 * share:.3g} %" if isfinite(share) else ""
