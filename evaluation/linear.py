"""FedStyle's linear evaluation: what the shared model's features are worth for every style, a client's own for it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from common.errors import InputError
from common.keys import random_key
from common.run_folder import RunFolder
from evaluation.probe import ProbeSettings, Stylised, probe_accuracy
from evaluation.rows import result

Arrays = dict[str, np.ndarray]


def linear_probe(
    run: RunFolder, *, epochs: PositiveInt = 200, batch_size: PositiveInt = 2048, lr: PositiveFloat = 3e-3
) -> Iterator[dict[str, Any]]:
    """Top-1 accuracy of linear classifiers on frozen features (FedStyle, Sec. Evaluations).

    Generalisation: one classifier per style on the shared model's features of all its training images. Personalisation:
    one per client on its own model's features of its own images, tested on all test images of its style; the mean over
    a style's clients is the cell of the table. Where there are style features, Eq. 4 is used: with the generator
    trained along (as published), with it frozen (`frozen-generator`), and without it (`content-only`). A generator that
    is trained makes the linear classifier a network with a hidden layer: `mean-style` trains it on the mean style
    feature of a client's images in the place of each, `shuffled-style` on those of other images, so that what they gain
    over `content-only` is not gained from style.

    Beside each: the same on the untrained model and on shuffled labels, as floors.
    """
    if not any(key.startswith(("shared/", "client/")) for key in run.features):
        raise InputError(f"{run.path}/features.npz: there are no features to probe, neither shared/... nor client/...")
    settings = ProbeSettings(epochs, batch_size, lr)
    yield from _generalisation(run, settings)
    yield from _personalisation(run, settings)


def longer_probe(
    run: RunFolder, *, epochs: PositiveInt, batch_size: PositiveInt = 2048, lr: PositiveFloat = 3e-3
) -> Iterator[dict[str, Any]]:
    """Personalisation as in `linear_probe` by the same probes, trained for longer (the variant `longer-probe`): as
    published, and where there are style features with their mean and on content features alone as well; and the floors.

    A number of epochs is few steps where a client has few images, and a linear classifier and one with a generator need
    not be equally far by then. What a lead loses by a longer probe was that of the faster learner.
    """
    for record in _personalisation(run, ProbeSettings(epochs, batch_size, lr), ("shuffled-style", "frozen-generator")):
        yield record | {"variant": ";".join(filter(None, [record["variant"], "longer-probe"]))}


def _record(protocol: str, style: str, value: float, **more: str) -> dict[str, Any]:
    return result("accuracy", "fraction", value, style=style, protocol=protocol, **more)


def _seed(run: RunFolder, what: str) -> int:
    return random_key(run.spec.seed, "probe", what)


def _shuffled(rows: Tensor, seed: int) -> Tensor:
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]


def _classes(arrays: Arrays) -> int:
    return 1 + max(int(rows.max()) for key, rows in arrays.items() if key.startswith("labels/"))


def _tensors(arrays: Arrays, *keys: str) -> Tensor:
    return torch.stack([torch.from_numpy(arrays[key]) for key in keys])


def _generalisation(run: RunFolder, settings: ProbeSettings) -> Iterator[dict[str, Any]]:
    arrays = run.features
    for style in (key.split("/")[1] for key in arrays if key.startswith("shared/") and key.endswith("/test/features")):
        y, y_test = (torch.from_numpy(arrays[f"labels/{style}/{part}"]) for part in ("train", "test"))
        probes = {"": ("shared", y), "shuffled-labels": ("shared", _shuffled(y, _seed(run, style)))}
        if f"initial/{style}/test/features" in arrays:
            probes["untrained"] = ("initial", y)
        accuracy = probe_accuracy(
            (
                _tensors(arrays, *(f"{which}/{style}/train/features" for which, _ in probes.values())),
                torch.stack([labels for _, labels in probes.values()]),
            ),
            (
                _tensors(arrays, *(f"{which}/{style}/test/features" for which, _ in probes.values())),
                y_test.expand(len(probes), -1),
            ),
            _classes(arrays),
            settings,
            _seed(run, style),
        )
        for control, value in zip(probes, accuracy.tolist(), strict=True):
            yield _record("generalization", style, value, control=control)


def _personalisation(run: RunFolder, settings: ProbeSettings, without: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    arrays = run.features
    clients = sorted(
        int(key.split("/")[1]) for key in arrays if key.startswith("client/") and key.endswith("/positions")
    )
    for style in dict.fromkeys(str(arrays[f"client/{k}/style"]) for k in clients):
        members = [k for k in clients if str(arrays[f"client/{k}/style"]) == style]
        for (variant, control), accuracy in _style_probes(run, style, members, settings, without).items():
            more = {"variant": variant, "control": control}
            yield _record("personalization", style, float(accuracy.mean()), **more)
            for k, value in zip(members, accuracy.tolist(), strict=True):
                yield _record("personalization", style, value, client=f"client-{k + 1}", **more)


def _style_probes(
    run: RunFolder, style: str, members: list[int], settings: ProbeSettings, without: Sequence[str]
) -> dict[tuple[str, str], Tensor]:
    """Accuracy of the style's clients (clients,) by (variant, control), `without` some variants of Eq. 4."""
    arrays, seed = run.features, _seed(run, f"clients of {style}")
    y_style, y_test = (torch.from_numpy(arrays[f"labels/{style}/{part}"]) for part in ("train", "test"))
    positions = [torch.from_numpy(arrays[f"client/{k}/positions"]) for k in members]
    if len({len(p) for p in positions}) > 1:
        raise InputError(
            f"{run.path}/features.npz: clients of {style} have {min(map(len, positions))} to "
            f"{max(map(len, positions))} images; linear probes need equally many, as FedStyle's clients have"
        )
    y = torch.stack([y_style[p] for p in positions])
    x, x_test = (_tensors(arrays, *(f"client/{k}/{part}/features" for k in members)) for part in ("train", "test"))

    def fit(x: Tensor, x_test: Tensor, labels: Tensor, *, eq4: Stylised | None = None) -> Tensor:
        """Accuracy (groups, clients) for groups of as many probes as there are clients."""
        train, test = (x, labels), (x_test, y_test.expand(len(x), -1))
        return probe_accuracy(train, test, _classes(arrays), settings, seed, eq4).unflatten(0, (-1, len(members)))

    groups = {"": (x, x_test, y), "shuffled-labels": (x, x_test, torch.stack([_shuffled(row, seed) for row in y]))}
    if f"initial/{style}/train/features" in arrays:
        initial, test = (torch.from_numpy(arrays[f"initial/{style}/{part}/features"]) for part in ("train", "test"))
        groups["untrained"] = (initial[torch.stack(positions)], test.expand_as(x_test), y)
    together = [torch.cat(parts) for parts in zip(*groups.values(), strict=True)]
    plain = dict(zip(groups, fit(*together), strict=True))
    if f"client/{members[0]}/train/style" not in arrays:
        return {("", control): accuracy for control, accuracy in plain.items()}
    variants = {name: eq4 for name, eq4 in _variants_of_eq4(run, members, seed).items() if name not in without}
    return {
        **{(name, ""): fit(x, x_test, y, eq4=eq4)[0] for name, eq4 in variants.items()},
        ("content-only", ""): plain.pop(""),
        **{("", control): accuracy for control, accuracy in plain.items()},
    }


def _variants_of_eq4(run: RunFolder, members: list[int], seed: int) -> dict[str, Stylised]:
    """What a probe gets beside content features: G trained along; the same with a client's mean style, or with styles
    of other images; G frozen."""
    keys = ([f"client/{k}/{part}/style" for k in members] for part in ("train", "test"))
    h_s, h_s_test = (_tensors(run.features, *part) for part in keys)
    others, others_test = (_shuffled(torch.arange(h.shape[1]), seed) for h in (h_s, h_s_test))
    generator, mean = _generator(run, members), h_s.mean(dim=1, keepdim=True)
    return {
        "": Stylised(h_s, h_s_test, generator, trained=True),
        "mean-style": Stylised(mean.expand_as(h_s), mean.expand_as(h_s_test), generator, trained=True),
        "shuffled-style": Stylised(h_s[:, others], h_s_test[:, others_test], generator, trained=True),
        "frozen-generator": Stylised(h_s, h_s_test, generator, trained=False),
    }


def _generator(run: RunFolder, members: list[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """G of these clients, from the run's model: `clients/generator.{0,2}.{weight,bias}`."""
    weights = run.weights("clients/generator.")
    w1, b1, w2, b2 = (
        torch.from_numpy(weights[f"clients/generator.{layer}.{kind}"][members])
        for layer in (0, 2)
        for kind in ("weight", "bias")
    )
    return w1, b1, w2, b2
