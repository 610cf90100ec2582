"""What codes of images say of label and client, by linear probes: one evaluation, of which each paper's protocol is a
setting (PaDPaF, Fig. 4, 5 and 14; FedDVA, Fig. 5 in numbers); one number from several probes; and faces."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import numpy as np
import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from common.keys import random_key
from common.run_folder import RunFolder
from evaluation.probe import ProbeSettings, accuracies_in, probe_accuracy
from evaluation.rows import result

Arrays = dict[str, np.ndarray]
Pair = tuple[Tensor, ...]
"""Of training and of test images."""
Case = tuple[Pair, Pair]
"""Codes, and what is read from them."""
Name = tuple[str, str, str]
"""Of a case: of which code, against what or which control, by which encoder."""
Target = Literal["label", "client", "domain"]
"""What an image shows, whose it is, and, where clients share styles, in which style it is."""
Protocol = Literal["published", "sound"]
"""`published`: fitted to the very images it is scored on. `sound`: fitted on training images, scored on test images."""
Control = Literal["untrained", "shuffled-labels", "pixels"]
FLOORS = {"untrained": "untrained-{}", "pixels": "pixels"}
"""And the arrays that they are fitted to, of a code."""
TOPS = (1, 10, 50)
"""Of the likeliest people, among how many it has to be: PaDPaF, Fig. 18."""
DECAY = 0.95
"""Of the rate, per epoch: PaDPaF's code."""


@dataclass(frozen=True)
class Codes:
    """Codes of some images, as a run has left them.

    Attributes:
        place: `<place>/<part>/<code>` are the arrays, (images, d), or (images, encoders, d) by several encoders.
            `own/codes` are those of `codes` by each client's own encoders; what does not depend on encoders is there.
        standardised: whether the training images' mean and deviation are taken out: a small code is no poor one.
        at_once: whether codes by several encoders are taken together.
    """

    arrays: Arrays
    place: str
    standardised: bool = False
    at_once: bool = False

    def there(self, code: str) -> bool:
        """Whether there is such a code."""
        return f"{self.place}/test/{code}" in self.arrays

    def target(self, name: str) -> Pair:
        """What is read from codes."""
        return self._pair(self.place.removeprefix("own/"), name)

    def each(self, code: str) -> dict[str, Pair]:
        """A code by encoder: one, called '', or all clients'."""
        pair = self._scaled(self._pair(self.place, code))
        if pair[0].ndim == 2 or self.at_once:
            return {"": pair}
        return {f"client-{k + 1}": tuple(part[:, k] for part in pair) for k in range(pair[0].shape[1])}

    def controls(self, code: str, wanted: list[Control]) -> list[Control]:
        """Those that there are. Floors, which depend on nobody's encoders, stand beside the codes by shared ones."""
        return [c for c in wanted if c not in FLOORS or self.there(FLOORS[c].format(code))]

    def controlled(self, code: str, control: Control) -> dict[str, Pair]:
        """What a control is fitted to, by encoder."""
        if control == "shuffled-labels":
            return self.each(code)
        floor = self._pair(self.place, FLOORS[control].format(code))
        return {"": tuple(part.float() / 255 for part in floor) if control == "pixels" else self._scaled(floor)}

    def _pair(self, place: str, key: str) -> Pair:
        return tuple(torch.from_numpy(self.arrays[f"{place}/{part}/{key}"]).contiguous() for part in ("train", "test"))

    def _scaled(self, pair: Pair) -> Pair:
        if not self.standardised:
            return pair
        mean, deviation = pair[0].mean(dim=0), pair[0].std(dim=0)
        # what is the same of all training images stays on its scale: it says nothing, however little it moves in tests
        deviation = deviation.where(deviation > 1e-6, 1.0)
        return tuple((part - mean) / deviation for part in pair)


def accuracies(cases: dict[Name, Case], protocol: Protocol, settings: ProbeSettings, seed: int) -> dict[Name, float]:
    """Accuracy of a probe for each case; those of equal size are trained side by side.

    Codes by several encoders at once (images, encoders, d) are first mapped to a number for each encoder.
    """
    first = 0 if protocol == "sound" else 1
    found: dict[Name, float] = {}
    for shape in dict.fromkeys(codes[1].shape[1:] for codes, _ in cases.values()):
        names = [name for name, (codes, _) in cases.items() if codes[1].shape[1:] == shape]
        train, test = (
            tuple(torch.stack([pair[part] for pair in (cases[name][n] for name in names)]) for n in (0, 1))
            for part in (first, 1)
        )
        classes = 1 + int(max(t.max() for name in names for t in cases[name][1]))
        how = replace(settings, one_number_each=len(shape) == 2)
        accuracy = probe_accuracy((train[0], train[1]), (test[0], test[1]), classes, how, seed)
        found |= dict(zip(names, accuracy.tolist(), strict=True))
    return found


def shuffled(targets: Pair, seed: int) -> Pair:
    """The same targets in another order."""
    generator = torch.Generator().manual_seed(random_key(seed, "shuffled targets"))
    return tuple(t[torch.randperm(len(t), generator=generator)] for t in targets)


def probe(
    run: RunFolder,
    *,
    images: dict[str, str],
    targets: list[Target],
    codes: dict[str, list[Control]],
    protocols: list[Protocol] | None = None,
    standardised: bool = False,
    one_number_each: bool = False,
    snapshots: bool = False,
    epochs: PositiveInt = 50,
    batch_size: PositiveInt = 32,
    lr: PositiveFloat = 1e-2,
) -> Iterator[dict[str, Any]]:
    """How well a linear classifier reads a target from a code.

    Of a code by several encoders, such as every client's style features, each is probed, and the number is the mean
    over them. Labels of faces are identities and are not read here.

    Args:
        images: role of a number -> where the codes are that it is of (`Codes`); nothing where a run has left none.
        targets: what is read.
        codes: what it is read from, if a run has it -> its controls: codes of an untrained encoder, pixels, shuffled
            targets.
        protocols: the sound one, if none is given.
        standardised: see `Codes`.
        one_number_each: codes by several encoders are probed at once, each first mapped to a number (PaDPaF,
            App. C.2.2).
        snapshots: whether the published protocol is repeated after each snapshot; at the end its number then stands
            once more, under the last round, unless there is a snapshot of it.
    """
    settings = ProbeSettings(epochs, batch_size, lr, DECAY)
    asked, end = [target for target in targets if _is_read(run, target)], run.spec.training.rounds
    after: dict[str, Any] = {f";round={round}": run.after(round) for round in run.snapshots} if snapshots else {}
    for (when, arrays), (role, place) in product((after | {"": run.features}).items(), images.items()):
        shown = Codes(arrays, place, standardised, one_number_each)
        controls = {c: shown.controls(c, wanted) for c, wanted in codes.items() if shown.there(c)}
        repeated: list[Protocol] = ["published"] if when else protocols or ["sound"]
        for target, protocol in product(asked, repeated) if controls else ():
            for row in _probed(shown, target, controls, protocol, settings, run.spec.seed):
                row |= {"setting": row["setting"] + when, "role": "" if row.get("control") in FLOORS else role}
                yield row
                if snapshots and not when and protocol == "published" and end not in run.snapshots:
                    yield row | {"setting": f"{row['setting']};round={end}"}


def _is_read(run: RunFolder, target: Target) -> bool:
    return target != "label" or not run.spec.data.people


def _probed(
    shown: Codes,
    target: Target,
    codes: dict[str, list[Control]],
    protocol: Protocol,
    settings: ProbeSettings,
    seed: int,
) -> Iterator[dict[str, Any]]:
    y = shown.target(target)
    wrong = shuffled(y, seed)
    cases: dict[Name, Case] = {}
    for code, controls in codes.items():
        cases |= {(code, "", encoder): (pair, y) for encoder, pair in shown.each(code).items()}
        for control in controls:
            fitted, to = shown.controlled(code, control), wrong if control == "shuffled-labels" else y
            cases |= {(code, control, encoder): (pair, to) for encoder, pair in fitted.items()}
    found = accuracies(cases, protocol, settings, random_key(seed, f"{target} probe"))
    for code, controls in codes.items():
        setting = f"probe=linear;features={code};target={target}"
        for how in ("", *controls):
            by = {encoder: value for (*of, encoder), value in found.items() if of == [code, how]}
            yield _record(setting, protocol, float(np.mean(list(by.values()))), control=how)
            if len(by) > 1 and not how:
                yield from (_record(setting, protocol, value, client=encoder) for encoder, value in by.items())


def _record(setting: str, protocol: str, value: float, **more: str) -> dict[str, Any]:
    return result("accuracy", "fraction", value, setting=setting, protocol=protocol, **more)


def identity_probe(
    run: RunFolder, *, epochs: PositiveInt = 50, batch_size: PositiveInt = 256, lr: PositiveFloat = 1e-1
) -> Iterator[dict[str, Any]]:
    """Whose face is it (PaDPaF, Fig. 18)? Top-1, 10 and 50 accuracy from content and from style, on CelebA alone.

    As published it is fitted and scored on the same images, since the official test faces are of other people; what it
    then remembers is all that it says of shuffled identities. The sound protocol leaves out a face of everybody who has
    another, and is scored on these. Faces are as many as the run has probed, where the paper takes all. Style features
    are the first client's.
    """
    if not run.spec.data.people or "plain/train/content" not in run.features:
        return
    arrays, settings = run.features, ProbeSettings(epochs, batch_size, lr, DECAY)
    known, y = np.unique(arrays["plain/train/label"], return_inverse=True)
    parts = {"published": (np.arange(len(y)),) * 2}
    if len(known) < len(y):
        parts["sound"] = _others_and_one_of_each(y)
    content, style = arrays["plain/train/content"], arrays["plain/train/style"][:, 0]
    seed = random_key(run.spec.seed, "identity probe")
    for features, control, codes in (
        ("content", "", content),
        ("style", "", style),
        ("content", "untrained", arrays["plain/train/untrained-content"]),
        ("content", "shuffled-labels", content),
    ):
        people = torch.from_numpy(y)
        if control == "shuffled-labels":
            (people,) = shuffled((people,), run.spec.seed)
        for protocol, rows in parts.items():
            train, test = ((torch.from_numpy(codes[part])[None], people[None, part]) for part in rows)
            found = accuracies_in(TOPS, train, test, len(known), settings, seed)
            for top, value in zip(TOPS, found, strict=True):
                setting = f"probe=linear;features={features};target=identity;top_k={top}"
                yield _record(setting, protocol, float(value), control=control)
    yield result("identities", "count", len(known))


def _others_and_one_of_each(people: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all faces but these, and those of the last face of everybody who has more than one."""
    reversed_first, counts = np.unique(people[::-1], return_index=True, return_counts=True)[1:]
    last = len(people) - 1 - reversed_first[counts > 1]
    return np.setdiff1d(np.arange(len(people)), last), np.sort(last)


def disentanglement(
    run: RunFolder,
    *,
    images: dict[str, str],
    codes: dict[Literal["content", "style"], str] | None = None,
    whose: Literal["client", "domain"] = "client",
    standardised: bool = False,
    one_number_each: bool = False,
    epochs: PositiveInt = 50,
    batch_size: PositiveInt = 32,
    lr: PositiveFloat = 1e-2,
) -> Iterator[dict[str, Any]]:
    """Content and style told apart, as one number (ours; no paper has one).

    Let I(code; target) be (accuracy - chance) / (1 - chance) of a linear probe, fitted on training and scored on test
    images as clients see them. The number is half of
    [I(content; label) - I(style; label)] + [I(style; client) - I(content; client)]:
    1 if content says all about the label and nothing about the client, and style the reverse; 0 if both codes say the
    same; -1 if they are exchanged. Its four parts are given as well. Settings are those of `probe`; what style says of
    the label is the mean over encoders, of the client likewise, or with `one_number_each` from a number of each.

    Args:
        codes: what a run calls its code of content, and of style.
        whose: what is asked in the place of the client.
    """
    names = {"content": "content", "style": "style"} | dict(codes or {})
    settings, seed = ProbeSettings(epochs, batch_size, lr, DECAY), random_key(run.spec.seed, "disentanglement")
    for role, place in images.items():
        shown = Codes(run.features, place, standardised)
        if not all(map(shown.there, names.values())) or not _is_read(run, "label"):
            continue
        y = {"label": shown.target("label"), whose: shown.target(whose)}
        cases: dict[Name, Case] = {}
        asked = [(kind, target) for kind in ("content", "style") for target in y]
        for kind, target in asked:
            by = replace(shown, at_once=one_number_each and (kind, target) == ("style", whose))
            cases |= {(kind, target, encoder): (pair, y[target]) for encoder, pair in by.each(names[kind]).items()}
        found = accuracies(cases, "sound", settings, seed)
        scored = {
            case: float(np.mean([value for (*of, _), value in found.items() if tuple(of) == case])) for case in asked
        }
        yield from (row | {"role": role} for row in told_apart(scored, {t: pair[1] for t, pair in y.items()}))


def told_apart(scored: dict[tuple[str, str], float], targets: dict[str, Tensor]) -> Iterator[dict[str, Any]]:
    """The number of `disentanglement` and its four parts; nothing where a target is the same of all images.

    Args:
        scored: (content or style, target) -> accuracy of the probe.
        targets: "label", and whose style it is -> what the probe was scored on.
    """
    if any(len(target.unique()) < 2 for target in targets.values()):
        return
    said = {case: _information(accuracy, targets[case[1]]) for case, accuracy in scored.items()}
    for (features, target), value in said.items():
        yield result("information", "score", value, setting=f"features={features};target={target}")
    by_label = said["content", "label"] - said["style", "label"]
    (whose,) = targets.keys() - {"label"}
    by_owner = said["style", whose] - said["content", whose]
    yield result("disentanglement", "score", (by_label + by_owner) / 2, setting="")


def _information(accuracy: float, target: Tensor) -> float:
    """Accuracy between that of naming the commonest target, 0, and 1."""
    chance = float(torch.bincount(target).max()) / len(target)
    return (accuracy - chance) / (1 - chance)
