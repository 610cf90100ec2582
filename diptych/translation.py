"""Translation between domains: images of one client's as they would be in another's, now or from a saved run."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from common.errors import InputError, choose
from common.run_folder import RunFolder
from common.spec import SampleSettings
from diptych.assembly import build_algorithm
from diptych.generation import Arrays, as_bytes
from federation import Algorithm, Simulation
from federation.data import as_float
from federation.population import Population
from partitions import Partition
from partitions.rotations import rotated

BATCH = 1000
Translate = Callable[[Tensor, Tensor, int, Sequence[int]], list[Tensor]]
"""(images (n, channels, height, width) in [0, 1], labels (n,), source, targets) -> images of each target domain."""


def translate_of(algorithm: Algorithm, members: list[nn.Module]) -> Translate | None:
    """What translates between the domains of clients, if the algorithm or its objective does.

    Args:
        members: a model for each domain.
    """
    members = [member.eval() for member in members]
    if hasattr(algorithm, "translate"):
        return lambda x, y, a, targets: algorithm.translate(members[a], [members[b] for b in targets], x, y)
    if hasattr(algorithm.objective, "translate"):
        model = algorithm.general(members[0])
        return lambda x, y, a, targets: [
            algorithm.objective.translate(model, x, *(torch.full_like(y, d) for d in (a, b))) for b in targets
        ]
    return None


def translator(simulation: Simulation) -> Translate | None:
    """The same of a simulation as it stands."""
    clients = range(len(simulation.population.members))
    return translate_of(simulation.algorithm, [simulation.synchronised(k) for k in clients])


class Translation:
    """Translation by a finished run.

    Args:
        folder: of the run.

    Attributes:
        domains: the names of the domains.

    Raises:
        InputError: the folder is incomplete, or the run does not translate.
    """

    def __init__(self, folder: Path | str) -> None:
        run = RunFolder(Path(folder))
        spec, file = run.spec, run.path / "model.safetensors"
        self.classes = next(iter(run.provenance["sources"].values()))["classes"]
        algorithm = build_algorithm(spec, self.classes)
        try:
            held = load_file(file)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{file}: cannot be read ({error}); run the training again") from error
        stored = {key.removeprefix("clients/"): rows for key, rows in held.items() if key.startswith("clients/")}
        population = Population(algorithm.model(), len(next(iter(stored.values()))))
        population.load(stored)
        shared = {key.removeprefix("shared/"): rows for key, rows in held.items() if key.startswith("shared/")}
        population.install(list(range(len(population.members))), shared)
        found = translate_of(algorithm, population.members[:: spec.data.clients_per_style])
        if found is None:
            raise InputError(f"{run.path}: the algorithm '{spec.algorithm['name']}' does not translate images")
        self.domains, self._translate = spec.data.seen, found
        self._shape = (spec.data.channels, spec.data.image_size, spec.data.image_size)

    @torch.no_grad()
    def translate(self, x: Tensor, label: Tensor, source: str, target: str) -> Tensor:
        """Images x (n, channels, height, width) in [0, 1] of the domain `source` as those of `target`.

        Args:
            label: (n,) class indices.

        Raises:
            InputError: there is no such domain or class, or an image has another size or is not in [0, 1].
        """
        if x.shape[1:] != self._shape:
            wanted, got = (" x ".join(map(str, shape)) for shape in (self._shape, x.shape[1:]))
            raise InputError(f"x: must be images of {wanted}, got {got}")
        if not x.numel() or not torch.isfinite(x).all() or x.min() < 0 or x.max() > 1:
            raise InputError("x: pixels must be numbers in [0, 1]")
        if label.is_floating_point() or label.shape != x.shape[:1] or label.min() < 0 or label.max() >= self.classes:
            raise InputError(f"label: must be a class from 0 to {self.classes - 1} for each of {len(x)} images")
        a, b = (
            self.domains.index(choose(key, name, self.domains))
            for key, name in (("source", source), ("target", target))
        )
        return self._translate(x, label, a, [b])[0]


@torch.no_grad()
def translations(
    translate: Translate, dealt: Partition, settings: SampleSettings, rotations: dict[str, float], *, at_the_end: bool
) -> Arrays:
    """Test images of every domain as those of every other: the arrays of samples.npz, as docs/run-folder.md lists them.

    At the end there are controls beside them: `other/<domain>`, training images of the same classes, and, where domains
    are rotations, `rotated/<source>/<target>`, test images turned by the angle in between.
    """
    names = [dealt.styles[style] for style in dealt.seen]
    tests = {
        name: _of_each_class(dealt, dealt.test[s], settings.images) for name, s in zip(names, dealt.seen, strict=True)
    }
    arrays: Arrays = {f"label/{name}": dealt.labels[rows].numpy() for name, rows in tests.items()}
    arrays |= {f"real/{name}": dealt.images[rows].numpy() for name, rows in tests.items()}
    for a, source in enumerate(names):
        given = ((as_float(dealt.images[rows]), dealt.labels[rows]) for rows in tests[source].split(BATCH))
        made = [list(map(as_bytes, translate(*case, a, range(len(names))))) for case in given]
        for target, parts in zip(names, zip(*made, strict=True), strict=True):
            arrays[f"translated/{source}/{target}"] = np.concatenate(parts)
            if at_the_end and rotations:
                angle = rotations.get(target, 0.0) - rotations.get(source, 0.0)
                arrays[f"rotated/{source}/{target}"] = rotated(dealt.images[tests[source]], angle).numpy()
    for style, name in zip(dealt.seen, names, strict=True) if at_the_end else []:
        others = _of_each_class(dealt, dealt.train[style], settings.images)
        arrays |= {f"other/{name}": dealt.images[others].numpy(), f"other-label/{name}": dealt.labels[others].numpy()}
    return arrays


def _of_each_class(dealt: Partition, indices: Tensor, images: int) -> Tensor:
    """The first of each class, `images` in all if there are as many."""
    labels = dealt.labels[indices]
    most = -(-images // dealt.classes) if images < len(indices) else len(indices)
    return indices[torch.cat([torch.nonzero(labels == c)[:most, 0] for c in range(dealt.classes)]).sort().values]
