"""What content and style codes say of label and client: PaDPaF's probes (Fig. 4, 5, 14), and one number from them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from common.keys import random_key
from common.run_folder import RunFolder
from evaluation.probe import ProbeSettings, probe_accuracy
from evaluation.rows import result

Arrays = dict[str, np.ndarray]
PROTOCOLS = ("published", "sound")
"""`published`: fitted to the very images it is scored on. `sound`: fitted on training images, scored on test images."""


def _record(setting: str, protocol: str, value: float, **more: str) -> dict[str, Any]:
    return result("accuracy", "fraction", value, setting=setting, protocol=protocol, **more)


Pair = tuple[Tensor, ...]
"""Of training and of test images."""


def accuracies(
    cases: dict[str, tuple[Pair, Pair]], protocol: str, settings: ProbeSettings, seed: int
) -> dict[str, float]:
    """Accuracy of a probe for each case of codes and targets; those of equal size are trained side by side.

    Args:
        cases: name -> (codes, targets), each of training and of test images.
        protocol: one of PROTOCOLS.
    """
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


def _pair(arrays: Arrays, source: str, key: str) -> Pair:
    return tuple(torch.from_numpy(arrays[f"{source}/{part}/{key}"]) for part in ("train", "test"))


def _styles(arrays: Arrays, source: str) -> dict[str, Pair]:
    """Style features by client."""
    train, test = _pair(arrays, source, "style")
    return {f"client-{k + 1}": (train[:, k], test[:, k]) for k in range(train.shape[1])}


def label_probe(
    run: RunFolder, *, epochs: PositiveInt = 50, batch_size: PositiveInt = 32, lr: PositiveFloat = 1e-2
) -> Iterator[dict[str, Any]]:
    """How well a linear classifier reads the label from content and from style features of images as they are.

    Content features are the shared model's, style features each client's own: their cell is the mean over clients. The
    protocol is the authors' (Adam, a rate that falls by 0.95 per epoch), on the test images alone as published, and on
    training and test images. Floors: an untrained encoder, and shuffled labels.
    """
    settings = ProbeSettings(epochs, batch_size, lr, decay=0.95)
    if run.spec.data.dataset == "celeba":  # its labels are identities; see identity_probe
        return
    for round in [*run.snapshots, None]:
        arrays = run.features if round is None else run.after(round)
        if "plain/test/content" not in arrays:
            return
        setting = "" if round is None else f";round={round}"
        for protocol in PROTOCOLS if round is None else PROTOCOLS[:1]:
            yield from _label_probe(arrays, protocol, settings, run.spec.seed, setting)


def _label_probe(
    arrays: Arrays, protocol: str, settings: ProbeSettings, seed: int, suffix: str
) -> Iterator[dict[str, Any]]:
    y = _pair(arrays, "plain", "label")
    content, styles = _pair(arrays, "plain", "content"), _styles(arrays, "plain")
    cases = {"": (content, y), "untrained": (_pair(arrays, "plain", "untrained"), y)}
    cases |= {"shuffled-labels": (content, shuffled(y, seed)), **{k: (codes, y) for k, codes in styles.items()}}
    accuracy = accuracies(cases, protocol, settings, random_key(seed, "label probe"))
    setting = f"probe=linear;features={{}};target=label{suffix}"
    for control in ("", "untrained", "shuffled-labels"):
        yield _record(setting.format("content"), protocol, accuracy[control], control=control)
    yield _record(setting.format("style"), protocol, float(np.mean([accuracy[k] for k in styles])))
    for k in styles:
        yield _record(setting.format("style"), protocol, accuracy[k], client=k)


def identity_probe(
    run: RunFolder, *, epochs: PositiveInt = 50, batch_size: PositiveInt = 256, lr: PositiveFloat = 1e-1
) -> Iterator[dict[str, Any]]:
    """Whose face is it (Fig. 18)? Top-1, 10 and 50 accuracy from content and from style features, on CelebA alone.

    Fitted and scored on the same images, as published: the official test faces are of other people. They are as many as
    the run has probed, where the paper takes all. Style features are the first client's.
    """
    if run.spec.data.dataset != "celeba" or "plain/train/content" not in run.features:
        return
    arrays, settings = run.features, ProbeSettings(epochs, batch_size, lr, decay=0.95)
    known, y = np.unique(arrays["plain/train/label"], return_inverse=True)
    labels = torch.from_numpy(y).unsqueeze(0)
    seed = random_key(run.spec.seed, "identity probe")
    for features, codes in (
        ("content", arrays["plain/train/content"]),
        ("style", arrays["plain/train/style"][:, 0]),
        ("untrained", arrays["plain/train/untrained"]),
    ):
        data = torch.from_numpy(codes).unsqueeze(0), labels
        control = "untrained" if features == "untrained" else ""
        setting = f"probe=linear;features={'content' if control else features};target=identity"
        for top in (1, 10, 50):
            value = float(probe_accuracy(data, data, len(known), settings, seed, top=top))
            yield _record(f"{setting};top_k={top}", "published", value, control=control)
    identities = max(source["classes"] for source in run.provenance["sources"].values())
    yield result("identities", "count", identities)


def client_probe(
    run: RunFolder, *, epochs: PositiveInt = 50, batch_size: PositiveInt = 32, lr: PositiveFloat = 1e-2
) -> Iterator[dict[str, Any]]:
    """How well a linear classifier says whose image it is, from content and from style features (Fig. 14).

    Style features are those of all clients' style discriminators, each first mapped to one number (App. C.2.2).
    `role` says which images: generated ones, as published, or real ones as clients see them. The control shuffles the
    clients.
    """
    settings = ProbeSettings(epochs, batch_size, lr, decay=0.95)
    for role, source in (("generated", "generated"), ("real", "pool")):
        if f"{source}/test/content" not in run.features:
            return
        for protocol in PROTOCOLS:
            for features, control, value in _client_accuracies(run.features, source, protocol, settings, run.spec.seed):
                setting = f"probe=linear;features={features};target=client"
                yield _record(setting, protocol, value, role=role, control=control)


def _client_accuracies(
    arrays: Arrays, source: str, protocol: str, settings: ProbeSettings, seed: int
) -> Iterator[tuple[str, str, float]]:
    y = _pair(arrays, source, "client")
    for features in ("content", "style"):
        codes = _pair(arrays, source, features)
        one_number = replace(settings, one_number_each=features == "style")
        cases = {"": (codes, y), "shuffled-labels": (codes, shuffled(y, seed))}
        accuracy = accuracies(cases, protocol, one_number, random_key(seed, "client probe"))
        yield from ((features, control, value) for control, value in accuracy.items())


def disentanglement(
    run: RunFolder, *, epochs: PositiveInt = 50, batch_size: PositiveInt = 32, lr: PositiveFloat = 1e-2
) -> Iterator[dict[str, Any]]:
    """Content and style told apart, as one number (ours; the paper has none).

    Let I(code; target) be (accuracy - chance) / (1 - chance) of a linear probe, fitted on training and scored on test
    images as clients see them. The number is half of
    [I(content; label) - I(style; label)] + [I(style; client) - I(content; client)]:
    1 if content says all about the label and nothing about the client, and style the reverse; 0 if both codes say the
    same; -1 if they are exchanged. Its four parts are given as well. What style says of the label is the mean over the
    clients' encoders, of the client a number from each of them, as in Fig. 4 and 14.
    """
    arrays, seed = run.features, random_key(run.spec.seed, "disentanglement")
    if "pool/test/content" not in arrays:
        return
    settings = ProbeSettings(epochs, batch_size, lr, decay=0.95)
    label, client = (_pair(arrays, "pool", target) for target in ("label", "client"))
    content, styles = _pair(arrays, "pool", "content"), _styles(arrays, "pool")
    cases = {"label": (content, label), "client": (content, client), **{k: (c, label) for k, c in styles.items()}}
    accuracy = accuracies(cases, "sound", settings, seed)
    all_styles = {"": (_pair(arrays, "pool", "style"), client)}
    by_style = accuracies(all_styles, "sound", replace(settings, one_number_each=True), seed)[""]
    scored = {
        ("content", "label"): accuracy["label"],
        ("style", "label"): float(np.mean([accuracy[k] for k in styles])),
        ("content", "client"): accuracy["client"],
        ("style", "client"): by_style,
    }
    yield from told_apart(scored, {"label": label[1], "client": client[1]})


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
