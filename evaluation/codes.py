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

Arrays = dict[str, np.ndarray]
PROTOCOLS = ("published", "sound")
"""`published`: fitted to the very images it is scored on. `sound`: fitted on training images, scored on test images."""


def _record(setting: str, protocol: str, value: float, **more: str) -> dict[str, Any]:
    return {
        "kind": "result",
        "style": "all",
        "setting": setting,
        "protocol": protocol,
        "metric": "accuracy",
        "unit": "fraction",
        "aggregate": "none",
        "value": value,
        **more,
    }


def _tensor(arrays: Arrays, key: str) -> Tensor:
    return torch.from_numpy(arrays[key])


def _accuracies(
    codes: dict[str, tuple[Tensor, Tensor]],
    targets: tuple[Tensor, Tensor],
    protocol: str,
    settings: ProbeSettings,
    seed: int,
) -> dict[str, float]:
    """Accuracy of one probe per name; codes and targets are (training, test). All codes of a call are equally wide."""
    first = 0 if protocol == "sound" else 1
    train, test = (torch.stack([code[part] for code in codes.values()]) for part in (first, 1))
    y, y_test = targets[first], targets[1]
    classes = int(max(t.max() for t in targets)) + 1
    labels = (y.expand(len(codes), -1), y_test.expand(len(codes), -1))
    found = probe_accuracy((train, labels[0]), (test, labels[1]), classes, settings, seed)
    return dict(zip(codes, found.tolist(), strict=True))


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
    targets = _tensor(arrays, "plain/train/label"), _tensor(arrays, "plain/test/label")
    setting = f"probe=linear;features={{}};target=label{suffix}"
    for kind, control in (("content", ""), ("untrained", "untrained")):
        codes = {"": (_tensor(arrays, f"plain/train/{kind}"), _tensor(arrays, f"plain/test/{kind}"))}
        value = _accuracies(codes, targets, protocol, settings, random_key(seed, "label probe"))[""]
        yield _record(setting.format("content"), protocol, value, control=control)
    generator = torch.Generator().manual_seed(random_key(seed, "shuffled labels"))
    shuffled = tuple(t[torch.randperm(len(t), generator=generator)] for t in targets)
    codes = {"": (_tensor(arrays, "plain/train/content"), _tensor(arrays, "plain/test/content"))}
    value = _accuracies(codes, shuffled, protocol, settings, random_key(seed, "label probe"))[""]  # type: ignore[arg-type]
    yield _record(setting.format("content"), protocol, value, control="shuffled-labels")
    train, test = _tensor(arrays, "plain/train/style"), _tensor(arrays, "plain/test/style")
    by_client = {str(k): (train[:, k], test[:, k]) for k in range(train.shape[1])}
    accuracy = _accuracies(by_client, targets, protocol, settings, random_key(seed, "label probe"))
    yield _record(setting.format("style"), protocol, float(np.mean(list(accuracy.values()))))
    for k, value in accuracy.items():
        yield _record(setting.format("style"), protocol, value, client=f"client-{int(k) + 1}")


def identity_probe(
    run: RunFolder, *, epochs: PositiveInt = 50, batch_size: PositiveInt = 256, lr: PositiveFloat = 1e-1
) -> Iterator[dict[str, Any]]:
    """Whose face is it (Fig. 18)? Top-1, 10 and 50 accuracy from content and from style features, on CelebA alone.

    Fitted and scored on the same images, as published: the official test faces are of other people. Style features are
    the first client's.
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
    yield _record("", "published", len(known)) | {"metric": "identities", "unit": "count"}


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
    targets = tuple(_tensor(arrays, f"{source}/{part}/client") for part in ("train", "test"))
    generator = torch.Generator().manual_seed(random_key(seed, "shuffled clients"))
    shuffled = tuple(t[torch.randperm(len(t), generator=generator)] for t in targets)
    for features in ("content", "style"):
        codes = {"": tuple(_tensor(arrays, f"{source}/{part}/{features}") for part in ("train", "test"))}
        one_number = replace(settings, one_number_each=features == "style")
        for control, y in (("", targets), ("shuffled-labels", shuffled)):
            found = _accuracies(codes, y, protocol, one_number, random_key(seed, "client probe"))  # type: ignore[arg-type]
            yield features, control, found[""]


def disentanglement(
    run: RunFolder, *, epochs: PositiveInt = 50, batch_size: PositiveInt = 32, lr: PositiveFloat = 1e-2
) -> Iterator[dict[str, Any]]:
    """Content and style told apart, as one number (ours; the paper has none).

    Let I(code; target) be (accuracy - chance) / (1 - chance) of a linear probe, fitted on training and scored on test
    images as clients see them. The number is half of
    [I(content; label) - I(style; label)] + [I(style; client) - I(content; client)]:
    1 if content says all about the label and nothing about the client, and style the reverse; 0 if both codes say the
    same; -1 if they are exchanged. Its four parts are given as well.
    """
    arrays = run.features
    if "pool/test/content" not in arrays:
        return
    settings = ProbeSettings(epochs, batch_size, lr, decay=0.95)
    said: dict[tuple[str, str], float] = {}
    for target in ("label", "client"):
        targets = tuple(_tensor(arrays, f"pool/{part}/{target}") for part in ("train", "test"))
        chance = float(torch.bincount(targets[1]).max()) / len(targets[1])
        for features in ("content", "style"):
            codes = {"": tuple(_tensor(arrays, f"pool/{part}/{features}").flatten(1) for part in ("train", "test"))}
            seed = random_key(run.spec.seed, "disentanglement")
            accuracy = _accuracies(codes, targets, "sound", settings, seed)[""]  # type: ignore[arg-type]
            said[features, target] = (accuracy - chance) / (1 - chance)
    for (features, target), value in said.items():
        yield _score(f"features={features};target={target}", "information", value)
    by_label = said["content", "label"] - said["style", "label"]
    by_client = said["style", "client"] - said["content", "client"]
    yield _score("", "disentanglement", (by_label + by_client) / 2)


def _score(setting: str, metric: str, value: float) -> dict[str, Any]:
    return {
        "kind": "result",
        "style": "all",
        "setting": setting,
        "metric": metric,
        "unit": "score",
        "aggregate": "none",
        "value": value,
    }
