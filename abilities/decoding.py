"""Images decoded from codes of images: the same again, with codes exchanged between clients, and along a grid."""

from typing import Any

import torch
from torch import Tensor

from abilities.codes import chosen_of, places, posteriors
from abilities.trained import Arrays, Trained, as_bytes, looked_at
from networks.feddva import Decoder

STEPS = 8
"""Rows and columns of a manifold."""
REACH = 2.0
"""How far a manifold goes to either side, in standard deviations of the codes."""
Codes = dict[str, Tensor]


def decoded(trained: Trained) -> Arrays:
    """Test images, `real` and `reconstructed`; `swap/...`, with codes exchanged; and `manifold/...`."""
    share = max(2, trained.spec.samples.images // len(trained.clients))
    indices = [chosen_of(trained, k, "test", share) for k in trained.clients]
    images = [trained.seen(k, own, "test") for k, own in enumerate(indices)]
    arrays: Arrays = {}
    for k in trained.clients:
        arrays |= {
            f"client/{k}/style": trained.style_of(k),
            f"client/{k}/real": as_bytes(images[k]),
            f"client/{k}/real/labels": trained.dealt.labels[indices[k]].numpy(),
        }
    for place, models in places(trained).items():
        codes = [looked_at(posteriors, model, x) for model, x in zip(models, images, strict=True)]
        for k, model in enumerate(models):
            arrays[f"{place}client/{k}/reconstructed"] = as_bytes(images_from(model, codes[k]["z"], codes[k]["c"]))
        arrays |= {f"{place}swap/{pair}": x for pair, x in _swaps(models, codes).items()}
        if place == "own/":
            arrays |= _manifolds(models, codes)
    return arrays


def has_decoder(trained: Trained) -> bool:
    """Whether there are codes of content and of style, and images from both (FedDVA, Fig. 2)."""
    return any(isinstance(part, Decoder) for part in trained.simulation.template.children())


def images_from(model: Any, z: Tensor, c: Tensor) -> Tensor:
    """Images of codes (images, latent), in [0, 1]."""
    return looked_at(lambda model, z, c: {"images": (model.decoder(z, c) + 1) / 2}, model, z, c)["images"]


def _swaps(models: list[Any], codes: list[Codes]) -> Arrays:
    """z of one client's images with c of another's, decoded by either: `a/b/z` by a's decoder, `a/b/c` by b's.

    Image n of a pair has z of image n of client a, and c of image n of client b. Every client is paired with the next.
    """
    arrays: Arrays = {}
    for a in range(len(models)):
        b = (a + 1) % len(models)
        if a == b:
            continue
        n = min(len(codes[a]["z"]), len(codes[b]["z"]))
        exchanged = codes[a]["z"][:n], codes[b]["c"][:n]
        arrays |= {f"{a}/{b}/{by}": as_bytes(images_from(models[k], *exchanged)) for by, k in (("z", a), ("c", b))}
    return arrays


def _manifolds(models: list[Any], codes: list[Codes]) -> Arrays:
    """`manifold/k` (rows, columns, channels, height, width): z down and c across, by client k's decoder.

    Each follows the direction in which the codes of all clients vary most, by each client's own encoders: by the shared
    ones c hardly varies, and a grid over what does not vary shows nothing. The paper does not say which were drawn.
    """
    down, across = (_line(torch.cat([own[name] for own in codes])) for name in ("z", "c"))
    z, c = down.repeat_interleave(STEPS, 0), across.repeat(STEPS, 1)
    grids = (images_from(model, z, c).unflatten(0, (STEPS, STEPS)) for model in models)
    return {f"manifold/{k}": as_bytes(grid) for k, grid in enumerate(grids)}


def _line(codes: Tensor) -> Tensor:
    """Points (steps, latent) through the mean along the first principal direction, whose sign is made positive."""
    mean = codes.mean(dim=0)
    _, spread, directions = torch.linalg.svd(codes - mean, full_matrices=False)
    direction = directions[0] * directions[0][directions[0].abs().argmax()].sign()
    deviation = spread[0] / max(1, len(codes) - 1) ** 0.5
    return mean + torch.linspace(-REACH, REACH, STEPS, device=codes.device)[:, None] * deviation * direction
