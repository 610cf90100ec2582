"""Images of one domain as those of another, and of one client's style in another's."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.instancenorm import _InstanceNorm

from abilities.trained import Arrays, Trained, as_bytes, looked_at
from federation import Algorithm, copied
from federation.hooks import Restyling
from partitions import Partition
from partitions.rotations import rotated

BATCH = 1000
RESTYLED = 32
"""Test images that are shown in every client's style."""
Translate = Callable[[Sequence[Any], Tensor, Tensor, int, Sequence[int]], list[Tensor]]
"""(models, images (n, channels, height, width) in [0, 1], labels (n,), source, targets) -> images of each target; a
model for each domain."""


def translate_of(algorithm: Algorithm) -> Translate | None:
    """What translates between the domains of clients, if the algorithm or its objective does."""
    objective = algorithm.objective
    if hasattr(algorithm, "translate"):
        return lambda members, x, y, a, targets: algorithm.translate(members[a], [members[b] for b in targets], x, y)
    if hasattr(objective, "translate"):
        return lambda members, x, y, a, targets: [
            objective.translate(algorithm.global_model(members[0]), x, *(torch.full_like(y, d) for d in (a, b)))
            for b in targets
        ]
    return None


def by_norms(members: nn.ModuleList) -> dict[str, nn.ModuleList]:
    """`translated`: the models as evaluation mode has them, whose instance norms use the statistics that they kept; and
    `instance-normed`, where they keep any: copies whose norms use each image's own, as in training.

    DIRT's code translates in the former way, StarGAN's authors' in the latter: it never leaves training mode.
    """
    norms = [m for m in members.modules() if isinstance(m, _InstanceNorm) and m.track_running_stats]
    return {"translated": members, **({"instance-normed": _forgotten(members)} if norms else {})}


def _forgotten(members: nn.ModuleList) -> nn.ModuleList:
    members = copied(members)
    for norm in members.modules():
        if isinstance(norm, _InstanceNorm):
            norm.track_running_stats = False
    return members


def translated(trained: Trained) -> Arrays:
    """`real/<source>`, test images of every domain, and `translated/<source>/<target>`, the same as those of all; the
    latter also as `instance-normed/<source>/<target>`, see `by_norms`."""
    dealt, domains, translate = trained.dealt, domains_of(trained.dealt), translate_of(trained.algorithm)
    assert translate is not None, "asked of an algorithm that does"
    kinds = by_norms(nn.ModuleList(trained.with_shared[:: trained.spec.data.clients_per_style]))

    def look(a: int, members: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return dict(zip(domains, translate(members, x, y, a, range(len(domains))), strict=True))

    arrays: Arrays = {}
    for a, (source, style) in enumerate(domains.items()):
        rows = of_each_class(dealt, dealt.test[style], trained.spec.samples.images)
        x, labels = trained.as_stored(style, rows), dealt.labels[rows]
        arrays |= {f"label/{source}": labels.numpy(), f"real/{source}": as_bytes(x)}
        for kind, members in kinds.items():
            made = looked_at(partial(look, a), members, x, labels, size=BATCH)
            arrays |= {f"{kind}/{source}/{target}": as_bytes(images) for target, images in made.items()}
    return arrays


def controls(trained: Trained) -> Arrays:
    """`other/<domain>`, training images of the same classes, and, where domains are rotations,
    `rotated/<source>/<target>`, test images turned by the angle in between: what translated ones are held against."""
    dealt, domains, angles = trained.dealt, domains_of(trained.dealt), trained.spec.data.rotations
    arrays: Arrays = {}
    for source, style in domains.items():
        others, tests = (
            of_each_class(dealt, part[style], trained.spec.samples.images) for part in (dealt.train, dealt.test)
        )
        arrays |= {
            f"other/{source}": as_bytes(trained.as_stored(style, others)),
            f"other-label/{source}": dealt.labels[others].numpy(),
        }
        for target in domains if angles else ():
            angle = angles.get(target, 0.0) - angles.get(source, 0.0)
            arrays[f"rotated/{source}/{target}"] = as_bytes(rotated(trained.as_stored(style, tests), angle))
    return arrays


def restyled(trained: Trained) -> Arrays:
    """What the method itself makes of its trained models and of test images as they are: PaDPaF's Algorithm 2."""
    dealt = trained.dealt
    assert isinstance(trained.algorithm, Restyling)
    indices = trained.some(dealt.test[dealt.seen[0]], RESTYLED, "samples", "some", "test")
    draw, x = trained.stream("samples", "applications"), trained.plain(indices)
    found = trained.algorithm.restyled(trained.global_models, draw, x, dealt.labels[indices])
    return {key: as_bytes(value) if value.is_floating_point() else value.cpu().numpy() for key, value in found.items()}


def domains_of(dealt: Partition) -> dict[str, int]:
    """The names of the styles that clients have, and their indices."""
    return {dealt.styles[style]: style for style in dealt.seen}


def of_each_class(dealt: Partition, indices: Tensor, images: int) -> Tensor:
    """The first of each class, as many of each; `images` in all, rounded up to a multiple of the classes, or all there
    are."""
    labels = dealt.labels[indices]
    most = -(-images // dealt.classes) if images < len(indices) else len(indices)
    return indices[torch.cat([torch.nonzero(labels == c)[:most, 0] for c in range(dealt.classes)]).sort().values]
