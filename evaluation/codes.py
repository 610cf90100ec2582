"""What codes of images say of label and client, by linear probes: one evaluation, of which each paper's protocol is a
setting (PaDPaF, Fig. 4, 5 and 14; FedDVA, Fig. 5 in numbers); one number from several probes; and faces."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from common.keys import random_key
from common.run_folder import RunFolder
from evaluation.probe import ProbeSettings, probe_accuracy
from evaluation.rows import result

Arrays = dict[str, np.ndarray]
Pair = tuple[Tensor, ...]
"""Of training and of test images."""
Cases = dict[str, tuple[Pair, Pair]]
"""Name -> codes and targets."""
Target = Literal["label", "client"]
Protocol = Literal["published", "sound"]
"""`published`: fitted to the very images it is scored on. `sound`: fitted on training images, scored on test images."""
Control = Literal["untrained", "shuffled-labels", "pixels"]
FLOORS = ("untrained", "pixels")
DECAY = 0.95
"""Of the rate, per epoch: PaDPaF's code."""


@dataclass(frozen=True)
class Codes:
    """Codes of some images, as a run has left them.

    Attributes:
        place: `<place>/<part>/<code>` are the arrays, (images, d), or (images, encoders, d) by several encoders.
            `own/codes` are those of `codes` by each client's own encoders; what does not depend on encoders is there.
        standardised: whether the training images' mean and deviation are taken out: a small code is no poor one.
    """

    arrays: Arrays
    place: str
    standardised: bool = False

    def there(self, code: str) -> bool:
        """Whether there is such a code."""
        return f"{self.place}/test/{code}" in self.arrays

    def target(self, name: str) -> Pair:
        """What is read from codes."""
        return self._pair(self.place.removeprefix("own/"), name)

    def of(self, code: str) -> Pair:
        """A code."""
        return self._scaled(self._pair(self.place, code))

    def each(self, code: str) -> dict[str, Pair]:
        """A code by encoder: one, called '', or all clients'."""
        pair = self.of(code)
        if pair[0].ndim == 2:
            return {"": pair}
        return {f"client-{k + 1}": tuple(part[:, k] for part in pair) for k in range(pair[0].shape[1])}

    def controls(self, wanted: list[Control]) -> list[Control]:
        """Those that there are: floors, which depend on nobody's encoders, stand beside the codes by shared ones."""
        return [control for control in wanted if control not in FLOORS or not self.place.startswith("own/")]

    def controlled(self, code: str, target: Target, control: Control, seed: int) -> tuple[Pair, Pair]:
        """What a control of a code is fitted to, and scored on."""
        y = self.target(target)
        if control == "shuffled-labels":
            return self.of(code), shuffled(y, seed)
        if control == "pixels":
            return tuple(part.float() / 255 for part in self._pair(self.place, control)), y
        return self._scaled(self._pair(self.place, f"untrained-{code}")), y

    def _pair(self, place: str, key: str) -> Pair:
        return tuple(torch.from_numpy(self.arrays[f"{place}/{part}/{key}"]).contiguous() for part in ("train", "test"))

    def _scaled(self, pair: Pair) -> Pair:
        if not self.standardised:
            return pair
        mean, deviation = pair[0].mean(dim=0), pair[0].std(dim=0).clamp_min(1e-6)
        return tuple((part - mean) / deviation for part in pair)


def accuracies(cases: Cases, protocol: Protocol, settings: ProbeSettings, seed: int) -> dict[str, float]:
    """Accuracy of a probe for each case; those of equal size are trained side by side."""
    first = 0 if protocol == "sound" else 1
    found: dict[str, float] = {}
    for shape in dict.fromkeys(codes[1].shape[1:] for codes, _ in cases.values()):
        names = [name for name, (codes, _) in cases.items() if codes[1].shape[1:] == shape]
        train, test = (
            tuple(torch.stack([pair[part] for pair in (cases[name][n] for name in names)]) for n in (0, 1))
            for part in (first, 1)
        )
        classes = 1 + int(max(t.max() for name in names for t in cases[name][1]))
        accuracy = probe_accuracy((train[0], train[1]), (test[0], test[1]), classes, settings, seed)
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
        codes: what it is read from -> its controls: codes of an untrained encoder, pixels, shuffled targets.
        protocols: the sound one, if none is given.
        standardised: see `Codes`.
        one_number_each: codes by several encoders are probed at once, each first mapped to a number (PaDPaF,
            App. C.2.2).
        snapshots: whether the published protocol is repeated after each snapshot.
    """
    settings, asked = ProbeSettings(epochs, batch_size, lr, DECAY), [t for t in targets if _is_read(run, t)]
    moments = {f";round={round}": run.after(round) for round in run.snapshots} if snapshots else {}
    for when, arrays in (moments | {"": run.features}).items():
        for role, place in images.items():
            shown = Codes(arrays, place, standardised)
            if not all(map(shown.there, codes)):
                continue
            controls = {code: shown.controls(wanted) for code, wanted in codes.items()}
            for target in asked:
                for protocol in (protocols or ["sound"]) if not when else ["published"]:
                    for row in _probed(shown, target, controls, protocol, settings, run.spec.seed, one_number_each):
                        own = "" if row.get("control") in FLOORS else role
                        yield row | {"setting": row["setting"] + when, "role": own}


def _is_read(run: RunFolder, target: Target) -> bool:
    return target == "client" or run.spec.data.dataset != "celeba"


def _probed(
    shown: Codes,
    target: Target,
    codes: dict[str, list[Control]],
    protocol: Protocol,
    settings: ProbeSettings,
    seed: int,
    one_number_each: bool,
) -> Iterator[dict[str, Any]]:
    y, key = shown.target(target), random_key(seed, f"{target} probe")
    found: dict[str, float] = {}
    many = {code for code in codes if one_number_each and shown.of(code)[0].ndim == 3}
    for together in (set(codes) - many, many):
        cases: Cases = {}
        for code, controls in codes.items():
            if code in together:
                each = {"": shown.of(code)} if code in many else shown.each(code)
                cases |= {f"{code} {by}": (pair, y) for by, pair in each.items()}
                cases |= {f"{code} {control}": shown.controlled(code, target, control, seed) for control in controls}
        found |= accuracies(cases, protocol, replace(settings, one_number_each=together is many), key)
    for code, controls in codes.items():
        setting = f"probe=linear;features={code};target={target}"
        by = {encoder: found[f"{code} {encoder}"] for encoder in ([""] if code in many else shown.each(code))}
        yield _record(setting, protocol, float(np.mean(list(by.values()))))
        for encoder, value in by.items() if len(by) > 1 else ():
            yield _record(setting, protocol, value, client=encoder)
        for control in controls:
            yield _record(setting, protocol, found[f"{code} {control}"], control=control)


def _record(setting: str, protocol: str, value: float, **more: str) -> dict[str, Any]:
    return result("accuracy", "fraction", value, setting=setting, protocol=protocol, **more)


def identity_probe(
    run: RunFolder, *, epochs: PositiveInt = 50, batch_size: PositiveInt = 256, lr: PositiveFloat = 1e-1
) -> Iterator[dict[str, Any]]:
    """Whose face is it (PaDPaF, Fig. 18)? Top-1, 10 and 50 accuracy from content and from style, on CelebA alone.

    Fitted and scored on the same images, as published: the official test faces are of other people. They are as many as
    the run has probed, where the paper takes all. Style features are the first client's.
    """
    if run.spec.data.dataset != "celeba" or "plain/train/content" not in run.features:
        return
    arrays, settings = run.features, ProbeSettings(epochs, batch_size, lr, DECAY)
    known, y = np.unique(arrays["plain/train/label"], return_inverse=True)
    labels = torch.from_numpy(y).unsqueeze(0)
    seed = random_key(run.spec.seed, "identity probe")
    for features, control, codes in (
        ("content", "", arrays["plain/train/content"]),
        ("style", "", arrays["plain/train/style"][:, 0]),
        ("content", "untrained", arrays["plain/train/untrained-content"]),
    ):
        data = torch.from_numpy(codes).unsqueeze(0), labels
        for top in (1, 10, 50):
            value = float(probe_accuracy(data, data, len(known), settings, seed, top=top))
            setting = f"probe=linear;features={features};target=identity;top_k={top}"
            yield _record(setting, "published", value, control=control)
    identities = max(source["classes"] for source in run.provenance["sources"].values())
    yield result("identities", "count", identities)


def disentanglement(
    run: RunFolder,
    *,
    images: dict[str, str],
    codes: dict[Literal["content", "style"], str] | None = None,
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
    """
    names = {"content": "content", "style": "style"} | dict(codes or {})
    settings, seed = ProbeSettings(epochs, batch_size, lr, DECAY), random_key(run.spec.seed, "disentanglement")
    for role, place in images.items():
        shown = Codes(run.features, place, standardised)
        if not all(map(shown.there, names.values())) or not _is_read(run, "label"):
            continue
        y = {target: shown.target(target) for target in ("label", "client")}
        cases = {f"{kind} {t} {by}": (pair, y[t]) for kind, t in _ASKED for by, pair in shown.each(names[kind]).items()}
        at_once = one_number_each and shown.of(names["style"])[0].ndim == 3
        if at_once:
            cases = {name: case for name, case in cases.items() if not name.startswith("style client")}
        found = accuracies(cases, "sound", settings, seed)
        if at_once:
            together = {"style client ": (shown.of(names["style"]), y["client"])}
            found |= accuracies(together, "sound", replace(settings, one_number_each=True), seed)
        scored = {
            (kind, t): float(np.mean([value for name, value in found.items() if name.startswith(f"{kind} {t} ")]))
            for kind, t in _ASKED
        }
        yield from (row | {"role": role} for row in told_apart(scored, {t: pair[1] for t, pair in y.items()}))


_ASKED = (("content", "label"), ("content", "client"), ("style", "label"), ("style", "client"))


def told_apart(scored: dict[tuple[str, str], float], targets: dict[str, Tensor]) -> Iterator[dict[str, Any]]:
    """The number of `disentanglement` and its four parts.

    Args:
        scored: (content or style, target) -> accuracy of the probe.
        targets: target -> what the probe was scored on.
    """
    said = {case: _information(accuracy, targets[case[1]]) for case, accuracy in scored.items()}
    for (features, target), value in said.items():
        yield result("information", "score", value, setting=f"features={features};target={target}")
    by_label = said["content", "label"] - said["style", "label"]
    by_client = said["style", "client"] - said["content", "client"]
    yield result("disentanglement", "score", (by_label + by_client) / 2, setting="")


def _information(accuracy: float, target: Tensor) -> float:
    """Accuracy between that of naming the commonest target, 0, and 1."""
    chance = float(torch.bincount(target).max()) / len(target)
    return (accuracy - chance) / (1 - chance)
