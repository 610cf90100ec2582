"""Two codes of an image, of its content and of its style: features of two discriminators, or what two encoders infer.

Either way they are taken by what all share, by what is every client's own, and, as a floor, by what nobody has trained.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from abilities.features import with_statistics
from abilities.generation import classes_of, images
from abilities.trained import Arrays, Trained, as_bytes, looked_at, settled
from federation import copied


def _owned(trained: Trained) -> Mapping[str, tuple[Tensor, ...]]:
    """The indices of every client's training and test images."""
    return {"train": trained.dealt.clients, "test": trained.dealt.tests}


def _share(trained: Trained) -> int:
    """How many images of each client are coded."""
    return max(2, trained.spec.samples.probed // len(trained.clients))


# ---- by two discriminators


def discriminated(trained: Trained) -> Arrays:
    """Features of images as they are (`plain`), of images as clients see them (`codes`), and of `generated` ones.

    `content` (images, d) are the shared φ^c's, `untrained-content` those that it started with, and `style` (images,
    clients, d) those of every client's own φ^s.
    """
    dealt, share = trained.dealt, _share(trained)
    template = copied(trained.simulation.template)
    encoders = {
        "content": settled(trained.algorithm.global_model(trained.simulation.shared_model())).encoder,
        "untrained-content": settled(trained.algorithm.global_model(template)).encoder,
    }

    def coded(kind: str, x: Tensor, labels: Tensor) -> Arrays:
        found = {key: _features(trained, encoder, x) for key, encoder in encoders.items()}
        found["style"] = torch.stack([_features(trained, m.style.encoder, x) for m in trained.personal_models], dim=1)
        return {f"{kind}/{key}": rows.numpy() for key, rows in (found | {"label": labels}).items()}

    arrays: Arrays = {}
    for part, everyones in {"train": dealt.all_train.unique(), "test": dealt.all_test}.items():
        chosen = trained.some(everyones, trained.spec.samples.probed, "samples", "some", f"plain {part}")
        arrays |= coded(f"plain/{part}", trained.plain(chosen), dealt.labels[chosen])
    for part, of_clients in _owned(trained).items():
        rows = [trained.some(i, share, "samples", "some", f"pool {part} {k}") for k, i in enumerate(of_clients)]
        x = torch.cat([trained.seen(k, chosen, f"pool {part}") for k, chosen in enumerate(rows)])
        arrays |= coded(f"codes/{part}", x, dealt.labels[torch.cat(rows)])
        arrays[f"codes/{part}/client"] = np.repeat(trained.clients, [len(chosen) for chosen in rows])
    for part in ("train", "test"):
        made = [_generated(trained, k, part, share) for k in trained.clients]
        arrays |= coded(f"generated/{part}", *(torch.cat(column) for column in zip(*made, strict=True)))
        arrays[f"generated/{part}/client"] = np.repeat(trained.clients, share)
    return arrays


def _features(trained: Trained, encoder: Any, x: Tensor) -> Tensor:
    scaled = trained.objective.scaled
    return looked_at(lambda encoder, x: {"features": encoder(scaled(x))}, encoder, x)["features"]


def _generated(trained: Trained, client: int, part: str, count: int) -> tuple[Tensor, Tensor]:
    """Images by a client's own model, and the labels that they were asked for, all of its labels alike."""
    draw, classes = trained.stream("samples", "pool generated", part, client), classes_of(trained, client)
    asked = classes[torch.randint(len(classes), (count,), generator=draw)]
    return torch.cat(list(images(trained, trained.personal_models[client], asked, draw))), asked


# ---- by two encoders


def places(trained: Trained) -> dict[str, list[Any]]:
    """The clients' models by the place of their arrays: with the encoders that all share, as the next round would start
    (``), and with those of their own that its last local training left each, which FedDVA's notebook looks at (`own/`).
    """
    return {"": trained.global_models, "own/": trained.personal_models}


def posteriors(model: Any, x: Tensor) -> dict[str, Tensor]:
    """q(z|x), and q(c|x, z) at the mean of the former: means and log variances."""
    z, z_spread = model.encoder.z(x)
    c, c_spread = model.encoder.c(x, z)
    return {"z": z, "z-log-variance": z_spread, "c": c, "c-log-variance": c_spread}


def chosen_of(trained: Trained, client: int, part: str, count: int) -> Tensor:
    """The indices of some of a client's images."""
    return trained.some(_owned(trained)[part][client], count, "codes", part, client)


def inferred(trained: Trained) -> Arrays:
    """`codes/...`, of every client's images by its model, and `crossed/...`, of its test images by everybody's."""
    rows: dict[str, list[np.ndarray]] = {}
    for k, untrained in zip(trained.clients, _untrained(trained), strict=True):
        for part in ("train", "test"):
            for key, value in _of_client(trained, k, part, untrained).items():
                rows.setdefault(key, []).append(value)
    return {key: np.concatenate(values) for key, values in rows.items()}


def _untrained(trained: Trained) -> Iterator[Any]:
    """For each client what training starts from, with batch-norm statistics of the images that a trained model has them
    of: where they stay with clients they take out what the images of one have in common, and everybody's would leave it
    in."""
    dealt = trained.dealt

    def of(images: Tensor) -> Any:
        template = copied(trained.simulation.template)
        return with_statistics(template, lambda model, x: {"features": model.encoder(x)}, images)

    if trained.simulation.settings.buffers == "local":
        yield from (of(trained.seen(k, dealt.clients[k], "train")) for k in trained.clients)
    else:
        everybodys = of(trained.trained_on if dealt.style_views else dealt.images[dealt.all_train.unique()])
        yield from (everybodys for _ in trained.clients)


def _of_client(trained: Trained, client: int, part: str, untrained: Any) -> Arrays:
    indices = chosen_of(trained, client, part, _share(trained))
    x = trained.seen(client, indices, part)
    floor = looked_at(posteriors, untrained, x)
    arrays = {f"codes/{part}/untrained-{name}": floor[name].numpy() for name in ("z", "c")}
    arrays[f"codes/{part}/pixels"] = as_bytes(x).reshape(len(x), -1)
    arrays[f"codes/{part}/label"] = trained.dealt.labels[indices].numpy()
    arrays[f"codes/{part}/client"] = np.full(len(indices), client)
    for place, models in places(trained).items():
        own = looked_at(posteriors, models[client], x)
        arrays |= {f"{place}codes/{part}/{name}": rows.numpy() for name, rows in own.items()}
        if part == "test":
            everyones = [looked_at(posteriors, model, x) for model in models]
            for name in ("z", "c"):
                arrays[f"{place}crossed/{name}"] = torch.stack([by[name] for by in everyones], dim=1).numpy()
    return arrays
