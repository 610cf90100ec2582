"""Translation by a finished run, as a library call: images of one domain as they would be in another."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from abilities.translation import translate_of
from common.errors import InputError, choose
from common.run_folder import RunFolder
from diptych.assembly import build_algorithm
from federation.hooks import pooled
from federation.population import Population


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
        clients = 1 if pooled(algorithm) else spec.data.clients
        population = Population(algorithm.model(), clients, own=stored.keys())
        population.load(stored)
        shared = {key.removeprefix("shared/"): rows for key, rows in held.items() if key.startswith("shared/")}
        population.install(list(range(clients)), shared)
        found = translate_of(algorithm)
        if found is None:
            raise InputError(f"{run.path}: the algorithm '{spec.algorithm['name']}' does not translate images")
        self.domains, self._translate = spec.data.seen, found
        self._members = [member.eval() for member in population.members[:: spec.data.clients_per_style]]
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
        return self._translate(self._members, x, label, a, [b])[0]
