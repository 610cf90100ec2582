"""Images moved to another client's style or another domain, in the eyes of the judge: one evaluation, of which PaDPaF's
re-styling, FedDVA's exchange of codes, and translation, which common ground asks of all methods, are settings."""

from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal

import numpy as np

from common.errors import InputError
from common.run_arrays import Arrays
from common.run_folder import RunFolder
from evaluation.encoders import ENCODERS
from evaluation.images import Judged, agreement
from evaluation.judge import Judge
from evaluation.rows import Part, averaged
from evaluation.translated import NORMS

Rows = Iterator[dict[str, Any]]
LEFT = {"re-styling": "restyle/", "exchange": "swap/", "translation": "translated/"}
"""How images were moved, and how the names of their arrays begin."""
TRANSLATED = {
    "": ["translated/<a>/<b>", "label/<a>"],
    "identity": ["real/<a>", "label/<a>"],
    "counterpart": ["counterpart/<a>/<b>", "label/<a>"],
    "floor": ["other/<b>", "other-label/<b>"],
    "ceiling": ["real/<b>", "label/<b>"],
}
"""Control -> arrays of images, and of the labels that they ought to show, of a style a in style b."""
READS = "style_agreement", "label_agreement"


def moved(run: RunFolder, *, by: Literal["re-styling", "exchange", "translation"]) -> Rows:
    """Whether moved images still show their label, and whose the judge takes them for.

    Args:
        by: how they were moved: `re-styling`, see `_restyled`; `exchange`, `_exchanged`; `translation`, `_translated`.
    """
    shown = Judged(run, run.samples)
    if any(key.startswith(LEFT[by]) for key in shown.arrays):
        yield from {"re-styling": _restyled, "exchange": _exchanged, "translation": _translated}[by](shown)


def _restyled(shown: Judged) -> Rows:
    """PaDPaF's Algorithm 2 in numbers, which the paper lacks.

    `label_agreement`: the judge reads the same label before and after the transfer to another client; the control
    pairs images at random. `client_accuracy`: it takes the image for one of the target. `pixel_error`: mean absolute
    difference, in [0, 1], of an image and its reconstruction; the control compares it with another one's. Ceilings are
    of real images: the same digit in two clients' eyes, and clients' own. `images=test` (Fig. 16), by client as well:
    test images, which no client saw as they are, in every client's style, held against their true label. Labels of
    faces are people, and are not read.
    """
    arrays, judge = shown.arrays, shown.judge()
    rows = chain(
        averaged(_between_clients(arrays, judge)),
        judge.ceiling("label_agreement", "views=two"),
        judge.ceiling("accuracy", "target=client", of="client_accuracy"),
        averaged(_of_tests(arrays, judge)),
        judge.ceiling("accuracy", "target=label", of="label_agreement", setting="images=test"),
        judge.ceiling("accuracy", "target=client", of="client_accuracy", setting="images=test"),
    )
    yield from (row for row in rows if row["metric"] != "label_agreement" or not shown.run.spec.data.people)


def _between_clients(arrays: Arrays, judge: Judge) -> Iterator[Part]:
    moved = np.not_equal(*arrays["restyle/clients"].T)
    if not moved.any():  # there is one client alone
        return
    source, again, restyled = (arrays[f"restyle/{key}"] for key in ("source", "reconstructed", "restyled"))
    target = np.repeat(arrays["restyle/clients"][moved, 1], source.shape[1])
    before, (features, after, client) = judge(np.concatenate(source[moved]))[1], judge(np.concatenate(restyled[moved]))
    ours, theirs = (np.concatenate(images[~moved]) / 255 for images in (source, again))
    for control, order in (("", np.asarray), ("shuffled-labels", np.random.default_rng(0).permutation)):
        said, ought = (features, order(after), client), {"label_agreement": before, "client_accuracy": order(target)}
        error = float(np.abs(ours - order(theirs)).mean())
        numbers = [*agreement(said, ought), ("pixel_error", "fraction", error)]
        yield Part({"setting": "", "control": control}, numbers)


def _of_tests(arrays: Arrays, judge: Judge) -> Iterator[Part]:
    labels = arrays["restyle/test-labels"]
    shuffled = {"label_agreement": np.random.default_rng(0).permutation(labels)}
    for k, images in enumerate(arrays["restyle/test-restyled"]):
        said, who = judge(images), {"client": f"client-{k + 1}"}
        ought = {"label_agreement": labels, "client_accuracy": k}
        yield Part({"setting": "images=test", "control": ""}, agreement(said, ought), who)
        yield Part({"setting": "images=test", "control": "shuffled-labels"}, agreement(said, shuffled), who)


def _exchanged(shown: Judged) -> Rows:
    """FedDVA's images with one code exchanged for that of the next client's image, of which the paper shows pictures
    (Fig. 3, 4, 10, 11). `role` says by whose encoders codes are.

    An image is edited by its own client's decoder: `swap=c` puts in another's c, `swap=z` another's z.
    `label_agreement` and `mark_agreement`: the judge reads the label, the client's mark, of the image that was edited;
    on faces, whose labels are identities, `attribute_change` instead: another hairstyle is read than before, of which
    the ceiling is how often it is read off a test image of the client whose code was put in.
    `decoder=other`: the same by the decoder of the client whose code was put in. `client_accuracy`: the client read
    from the image is the one whose c it has. The control is the reconstruction, with nothing exchanged, and
    `reconstruction_error` its mean squared difference of a pixel in [0, 1]; ceilings are of real test images.
    """
    arrays, judge, faces = shown.arrays, shown.judge(), shown.run.spec.data.people
    pairs = sorted({tuple(map(int, key.split("/")[1:3])) for key in arrays if key.startswith("swap/")})
    for role, place in ENCODERS.items():
        if any(key.startswith(f"{place}swap/") for key in arrays):
            parts = (part for a, b in pairs for part in _swapped(shown, place, a, b, faces=faces))
            yield from (row | {"role": role} for row in averaged(parts))
    of = {"client_accuracy": "client"} | ({} if faces else {"label_agreement": "label", "mark_agreement": "client"})
    for metric, target in of.items():
        yield from judge.ceiling("accuracy", f"target={target}", of=metric)


def _swapped(shown: Judged, place: str, a: int, b: int, *, faces: bool) -> Iterator[Part]:
    """Numbers of client a's images with codes of client b's; none if not an image was edited.

    Raises:
        InputError: more were edited than there are images of either.
    """
    arrays, judge = shown.arrays, shown.judge()
    z, c = (arrays[f"{place}swap/{a}/{b}/{code}"] for code in "zc")
    again, n = arrays[f"{place}client/{a}/reconstructed"], len(z)
    most = min(len(arrays[f"client/{k}/real"]) for k in (a, b))
    if n > most:
        raise InputError(
            f"{arrays.file}: {place}swap/{a}/{b}: must be at most {most} images, as there are of either, got {n}"
        )
    if not n:
        return
    error = float(np.square(arrays[f"client/{a}/real"] / 255 - again / 255).mean())
    yield Part({"setting": ""}, [("reconstruction_error", "score", error)])

    def edited(client: int) -> dict[str, Any]:
        """What ought to be read off images of this client's."""
        if faces:
            return {"attribute_change": shown.read(f"client/{client}/real")[2][:n]}
        return {"label_agreement": arrays[f"client/{client}/real/labels"][:n], "mark_agreement": client}

    ought = edited(a) | {"client_accuracy": a}
    yield Part({"setting": "", "control": "reconstruction"}, agreement(judge(again[:n]), ought))
    if faces:
        features, labels, clients = shown.read(f"client/{b}/real")
        real = features[:n], labels[:n], clients[:n]
        yield Part({"setting": "", "control": "ceiling"}, agreement(real, edited(a)))
    for code, images, decoder in (("z", z, a), ("c", c, b)):
        said = judge(images)
        yield Part({"setting": f"decoder of {code}"}, agreement(said, {"client_accuracy": b}))
        for swap, client in (("swap=c", a), ("swap=z", b)):
            more = ("" if decoder == client else ";decoder=other") + (";attribute=hair" if faces else "")
            yield Part({"setting": swap + more}, agreement(said, edited(client)))


def _translated(shown: Judged) -> Rows:
    """Images of each style in every other, the mean over ordered pairs; floor and ceiling, the mean over styles.

    Held against the label of the image that was translated, the target's style and the target's test images (see
    `Judged.numbers`), and where that is known, against what an image ought to look like. Controls: `identity`, nothing
    was translated; `floor`, training images of the target's own, of which the judge has seen some; `ceiling`, its test
    images; `counterpart`, what the images ought to look like, at no distance where styles show the same pictures.
    `...;norms=instance`: what was translated by each image's own statistics, where instance norms keep others.
    """
    arrays = shown.arrays
    keys = [key.split("/") for key in arrays if key.startswith("translated/")]
    pairs = [(a, b) for _, a, b in keys if a != b and b in shown.styles.values()]
    known = all(f"counterpart/{a}/{b}" in arrays for a, b in pairs)
    controls = [control for control in TRANSLATED if known or control != "counterpart"]
    yield from averaged(part for control in controls for part in _of_pairs(shown, control, TRANSLATED[control], pairs))
    for kind, norms in NORMS.items():
        if norms and any(key.startswith(f"{kind}/") for key in arrays):
            yield from averaged(_of_pairs(shown, "", [f"{kind}/<a>/<b>", "label/<a>"], pairs, norms))


def _of_pairs(
    shown: Judged, control: str, names: list[str], pairs: list[tuple[str, str]], norms: str = ""
) -> Iterator[Part]:
    """Of each pair of styles; of each target where the source does not matter."""
    for a, b in pairs if "<a>" in names[0] else dict.fromkeys(("", b) for _, b in pairs):
        own = [name.replace("<a>", a).replace("<b>", b) for name in names]
        numbers = shown.numbers(READS, control, own, b, f"real/{b}", f"counterpart/{a}/{b}")
        yield Part({"setting": f"images=translated{norms}", "control": control}, numbers)
