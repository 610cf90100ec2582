"""What the arrays of a run's folder must be, as docs/run-folder.md has it: types, shapes that fit each other, finite
numbers."""

import re
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from common.arrays import read_arrays
from common.errors import InputError
from common.spec import DataSettings

Kind = Literal["numbers", "integers", "classes", "bytes", "style"]
IMAGE = ("channels", "side", "side")


class Rule(NamedTuple):
    """What an array must be.

    Attributes:
        shape: a word for each axis, `*` for any length; arrays whose words are the same are of the same length.
            `<own>` in it is the style of client `<k>`.
    """

    pattern: str
    kind: Kind
    shape: tuple[str, ...]


RULES = [
    Rule("labels/<style>/<part>", "classes", ("<style>/<part>",)),
    Rule("shared/<style>/<part>/features", "numbers", ("<style>/<part>", "shared features")),
    Rule("initial/<style>/<part>/features", "numbers", ("<style>/<part>", "initial features")),
    Rule("client/<k>/style", "style", ()),
    Rule("client/<k>/positions", "integers", ("client <k>",)),
    Rule("client/<k>/train/<what>", "numbers", ("client <k>", "clients' <what>")),
    Rule("client/<k>/test/<what>", "numbers", ("<own>/test", "clients' <what>")),
    Rule("<source>/<part>/<everyones>", "numbers", ("shown <source>/<part>", "clients", "<everyones>")),
    Rule("<source>/<part>/<code>", "numbers", ("shown <source>/<part>", "<code>")),
    Rule("<source>/<part>/<target>", "integers", ("shown <source>/<part>",)),
    Rule("codes/<part>/pixels", "bytes", ("shown codes/<part>", "pixels")),
    Rule("<by>codes/<part>/<z>", "numbers", ("shown codes/<part>", "latent of z")),
    Rule("<by>codes/<part>/<c>", "numbers", ("shown codes/<part>", "latent of c")),
    Rule("<by>crossed/z", "numbers", ("shown codes/test", "clients", "latent of z")),
    Rule("<by>crossed/c", "numbers", ("shown codes/test", "clients", "latent of c")),
    Rule("crossed/style", "numbers", ("crossed", "clients", "clients' style")),
    Rule("crossed/client", "integers", ("crossed",)),
    Rule("codes/<part>/<untrained>", "numbers", ("shown codes/<part>", "<untrained>")),
    Rule("answers/client", "integers", ("answers",)),
    Rule("answers/<whose>", "numbers", ("answers",)),
    Rule("answers/<style>/<whose>", "numbers", ("answers of <style>",)),
    Rule("asked/<k>/<real>", "bytes", ("<real> for <k>", *IMAGE)),
    Rule("asked/<k>/<real>-labels", "integers", ("<real> for <k>",)),
    Rule("asked/<k>/made", "bytes", ("made for <k>", *IMAGE)),
    Rule("asked/<k>/labels", "integers", ("made for <k>",)),
    Rule("client/<k>/<images>/labels", "integers", ("client <k> <images>",)),
    Rule("<by>client/<k>/reconstructed", "bytes", ("client <k> real", *IMAGE)),
    Rule("<by>client/<k>/<images>", "bytes", ("client <k> <images>", *IMAGE)),
    Rule("grid/<k>/<what>", "bytes", ("*", "*", *IMAGE)),
    Rule("restyle/test-restyled", "bytes", ("clients", "tests", *IMAGE)),
    Rule("restyle/test-labels", "integers", ("tests",)),
    Rule("restyle/test", "bytes", ("tests", *IMAGE)),
    Rule("restyle/clients", "integers", ("pairs", "two")),
    Rule("restyle/labels", "integers", ("pairs", "of a pair")),
    Rule("restyle/<what>", "bytes", ("pairs", "of a pair", *IMAGE)),
    Rule("<by>swap/<k>/<other>/<what>", "bytes", ("exchanged of <k> with <other>", *IMAGE)),
    Rule("manifold/<k>", "bytes", ("*", "*", *IMAGE)),
    Rule("made/<k>/labels", "classes", ("made by <k>",)),
    Rule("made/<k>/<who>/loss", "numbers", ("*",)),
    Rule("made/<k>/<who>/<what>", "numbers", ()),
    Rule("made/<k>/<who>", "bytes", ("made by <k>", *IMAGE)),
    Rule("membership/<k>/<what>", "numbers", ("*",)),
    Rule("inverted/<k>/<pictures>", "bytes", ("inverted of <k>", *IMAGE)),
    Rule("inverted/<k>/<what>", "integers", ("inverted of <k>",)),
    Rule("real/<style>", "bytes", ("tests of <style>", *IMAGE)),
    Rule("label/<style>", "classes", ("tests of <style>",)),
    Rule("translated/<style>/<to>", "bytes", ("tests of <style>", *IMAGE)),
    Rule("instance-normed/<style>/<to>", "bytes", ("tests of <style>", *IMAGE)),
    Rule("counterpart/<style>/<to>", "bytes", ("tests of <style>", *IMAGE)),
    Rule("rotated/<style>/<to>", "bytes", ("tests of <style>", *IMAGE)),
    Rule("other/<style>", "bytes", ("others of <style>", *IMAGE)),
    Rule("other-label/<style>", "classes", ("others of <style>",)),
]
"""The first one that a key matches holds; keys that match none may be anything finite."""
WORDS = {
    "part": "train|test",
    "k": r"\d+",
    "other": r"\d+",
    "by": "(?:own/)?",
    "source": "plain|codes|generated",
    "code": "content|untrained-content",
    "everyones": "style|own-content",
    "target": "label|client|domain",
    "whose": "own|shared",
    "real": "real|other|own",
    "z": "z|z-log-variance",
    "c": "c|c-log-variance",
    "images": r"real|held-out|held-out-unseen|unseen|generated(?:/[^/]+)?",
    "pictures": "found|true",
}
"""What stands in angle brackets; anything without a slash if it is not here."""


class Arrays(dict[str, np.ndarray]):
    """The arrays of a file; one that is asked for and not there is an InputError."""

    def __init__(self, file: Path, arrays: dict[str, np.ndarray]) -> None:
        super().__init__(arrays)
        self.file = file

    def __missing__(self, key: str) -> np.ndarray:
        raise InputError(f"{self.file}: there is no array '{key}', which is needed")


def read(file: Path, data: DataSettings, classes: int | None) -> Arrays:
    """The arrays of a run's .npz file.

    Args:
        classes: in the run's data, if known.

    Raises:
        InputError: the file is damaged, or an array is not what it must be.
    """
    try:
        arrays = Arrays(file, read_arrays(file))
    except InputError as error:
        raise InputError(f"{error}; run the training again") from error
    styles = {key.split("/")[1]: str(x) for key, x in arrays.items() if _match("client/<k>/style", key)}
    lengths = {"two": 2}
    for key, array in arrays.items():
        for rule in RULES:
            if words := _match(rule.pattern, key):
                _check_names(f"{file}: {key}", words.groupdict(), data)
                found = words.groupdict() | {"own": styles.get(words.groupdict().get("k", ""), "?")}
                _check_values(f"{file}: {key}", array, rule.kind, data, classes)
                _check_shape(f"{file}: {key}", array, [_filled(word, found) for word in rule.shape], lengths)
                break
        else:
            _check_finite(f"{file}: {key}", array)
    for k, style in styles.items():
        images = lengths.get(f"{style}/train")
        positions = arrays.get(f"client/{k}/positions", np.zeros(0))
        if images is not None and len(positions) and not 0 <= positions.min() <= positions.max() < images:
            raise InputError(
                f"{file}: client/{k}/positions: must be in 0..{images - 1}, got {positions.min()}..{positions.max()}"
            )
    return arrays


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<(\w+)>", lambda m: f"(?P<{m[1]}>{WORDS.get(m[1], '[^/]+')})", pattern))


def _match(pattern: str, key: str) -> re.Match[str] | None:
    return _expression(pattern).fullmatch(key)


def _filled(word: str, found: dict[str, str]) -> str:
    return re.sub(r"<(\w+)>", lambda m: found[m[1]], word)


def _check_names(where: str, words: dict[str, str], data: DataSettings) -> None:
    """Styles that the specification names, and clients that it has."""
    for style in {words[key] for key in ("style", "to") if key in words} - set(data.styles):
        raise InputError(f"{where}: '{style}' is none of the styles {', '.join(data.styles)}")
    for client in {words[key] for key in ("k", "other") if key in words}:
        if int(client) >= data.clients:
            raise InputError(f"{where}: there are {data.clients} clients, numbered from 0, got {client}")


def _check_values(where: str, array: np.ndarray, kind: Kind, data: DataSettings, classes: int | None) -> None:
    wanted = {"bytes": "u", "integers": "iu", "classes": "iu", "numbers": "fiub", "style": "U"}[kind]
    if array.dtype.kind not in wanted or (kind == "bytes" and array.dtype != np.uint8):
        raise InputError(f"{where}: must be {'the name of a style' if kind == 'style' else kind}, got {array.dtype}")
    if kind == "style" and str(array) not in data.styles:
        raise InputError(f"{where}: must be one of {', '.join(data.styles)}, got '{array}'")
    if kind == "numbers":
        _check_finite(where, array)
    if kind == "classes" and not array.size:
        raise InputError(f"{where}: there is no image")
    if kind == "classes" and (array.min() < 0 or (classes is not None and array.max() >= classes)):
        last = "" if classes is None else f"..{classes - 1}"
        raise InputError(f"{where}: classes are numbered 0{last}, got {array.min()}..{array.max()}")


def _check_finite(where: str, array: np.ndarray) -> None:
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        raise InputError(f"{where}: {int((~np.isfinite(array)).sum())} of {array.size} numbers are not finite")


def _check_shape(where: str, array: np.ndarray, axes: list[str], lengths: dict[str, int]) -> None:
    """As many axes as there should be, each as long as where it was seen before."""
    if array.ndim != len(axes):
        raise InputError(
            f"{where}: must have {len(axes)} axes ({', '.join(axes) or 'a single value'}), got {array.shape}"
        )
    for axis, length in zip(axes, array.shape, strict=True):
        wanted = length if axis == "*" else lengths.setdefault(axis, length)
        if length != wanted:
            raise InputError(f"{where}: must have {wanted} along '{axis}', got shape {array.shape}")
