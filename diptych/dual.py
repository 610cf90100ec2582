"""What evaluations need of a dual auto-encoder: codes of images, and images decoded from exchanged codes, as arrays."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from common.keys import random_key
from common.spec import SampleSettings
from diptych.extraction import with_statistics
from diptych.generation import as_bytes
from federation import Simulation, copied
from federation.data import as_float
from networks.feddva import Decoder, Gaussian
from partitions import Partition

Arrays = dict[str, np.ndarray]
STEPS = 8
"""Rows and columns of a manifold."""
REACH = 2.0
"""How far a manifold goes to either side, in standard deviations of the codes."""
BATCH = 256


def is_dual(simulation: Simulation) -> bool:
    """Whether clients have what Fig. 2 of FedDVA shows: two encoders and a decoder."""
    return any(isinstance(part, Decoder) for part in simulation.template.children())


class Codes:
    """Takes codes and images from the models of a simulation as it stands; nothing in it changes.

    Every client's model is taken twice, in evaluation mode and with its own decoder and batch-norm statistics: with the
    encoders as the server last put them together, with which the next round would start; and (`own/`) with those that
    its last local training left it, which the authors' notebook looks at.
    """

    def __init__(self, simulation: Simulation, dealt: Partition, settings: SampleSettings) -> None:
        self.simulation, self.dealt, self.settings = simulation, dealt, settings
        self.clients = range(len(simulation.population.members))
        self.models: dict[str, list[Any]] = {
            "": [simulation.synchronised(k).eval() for k in self.clients],
            "own/": [simulation.own(k).eval() for k in self.clients],
        }
        self.images = {"train": dealt.clients, "test": dealt.tests}

    def _some(self, client: int, part: str, count: int) -> Tensor:
        """Indices of a client's images, drawn at random."""
        indices = self.images[part][client]
        generator = torch.Generator().manual_seed(random_key(self.simulation.seed, "codes", part, client))
        return indices[torch.randperm(len(indices), generator=generator)[:count]]

    def _shown(self, indices: Tensor) -> Tensor:
        return as_float(self.simulation.data.images[indices])

    @staticmethod
    @torch.no_grad()
    def coded(model: Any, x: Tensor) -> tuple[Gaussian, Gaussian]:
        """q(z|x) and q(c|x, z) at the mean of the former."""
        parts = []
        for batch in x.split(BATCH):
            z = model.encoder.z(batch)
            parts.append((*z, *model.encoder.c(batch, z[0])))
        z_mean, z_spread, c_mean, c_spread = (torch.cat(column) for column in zip(*parts, strict=True))
        return (z_mean, z_spread), (c_mean, c_spread)

    @staticmethod
    @torch.no_grad()
    def decoded(model: Any, z: Tensor, c: Tensor) -> Tensor:
        """Images in [0, 1]."""
        return torch.cat([(model.decoder(*pair) + 1) / 2 for pair in zip(z.split(BATCH), c.split(BATCH), strict=True)])

    def features(self) -> Arrays:
        """The arrays of features.npz, as docs/run-folder.md lists them."""
        everything = self.simulation.data.images[self.dealt.all_train.unique()]
        untrained: Any = with_statistics(
            copied(self.simulation.template), lambda model, x: {"features": model.encoder(x)}, everything
        ).eval()
        rows: dict[str, list[Tensor]] = {}
        for part in ("train", "test"):
            for k in self.clients:
                indices = self._some(k, part, max(2, self.settings.probed // len(self.clients)))
                for key, value in self._rows(k, part, indices, untrained).items():
                    rows.setdefault(key, []).append(value.cpu())
        return {key: torch.cat(values).numpy() for key, values in rows.items()}

    def _rows(self, client: int, part: str, indices: Tensor, untrained: Any) -> dict[str, Tensor]:
        """What features.npz has of these images of a client."""
        x = self._shown(indices)
        floor_z, floor_c = self.coded(untrained, x)
        found = {
            f"codes/{part}/untrained-z": floor_z[0],
            f"codes/{part}/untrained-c": floor_c[0],
            f"codes/{part}/pixels": self.simulation.data.images[indices].flatten(1),
            f"codes/{part}/label": self.simulation.data.labels[indices],
            f"codes/{part}/client": torch.full((len(indices),), client),
        }
        for by, models in self.models.items():
            z, c = self.coded(models[client], x)
            names = ("z", "z-log-variance", "c", "c-log-variance")
            found |= {f"{by}codes/{part}/{name}": value for name, value in zip(names, (*z, *c), strict=True)}
            if part == "test":
                everyones = [self.coded(model, x) for model in models]
                found |= {
                    f"{by}crossed/{name}": torch.stack([codes[n][0] for codes in everyones], dim=1)
                    for n, name in enumerate(("z", "c"))
                }
        return found

    def samples(self) -> Arrays:
        """The arrays of samples.npz, as docs/run-folder.md lists them."""
        share = max(2, self.settings.images // len(self.clients))
        indices = [self._some(k, "test", share) for k in self.clients]
        images = [self._shown(i) for i in indices]
        arrays: Arrays = {}
        for k in self.clients:
            style = self.dealt.styles[self.dealt.client_styles[k]]
            arrays |= {
                f"client/{k}/style": np.array(style),
                f"client/{k}/real": as_bytes(images[k]),
                f"client/{k}/real/labels": self.simulation.data.labels[indices[k]].cpu().numpy(),
            }
        for by, models in self.models.items():
            codes = self._means(models, images)
            for k in self.clients:
                arrays[f"{by}client/{k}/reconstructed"] = as_bytes(self.decoded(models[k], *codes[k]))
            arrays |= {f"{by}swap/{pair}": x for pair, x in self._swaps(models, codes).items()}
        return arrays | self._manifolds(self._means(self.models["own/"], images))

    def _means(self, models: list[Any], images: list[Tensor]) -> list[tuple[Tensor, ...]]:
        """z and c of every client's images by its model: the posteriors' means."""
        return [tuple(code[0] for code in self.coded(model, x)) for model, x in zip(models, images, strict=True)]

    def _swaps(self, models: list[Any], codes: list[tuple[Tensor, ...]]) -> Arrays:
        """z of one client's images with c of another's, decoded by either: `a/b/z` by a's decoder, `a/b/c` by b's.

        Image n of a pair has z of image n of client a, and c of image n of client b. Every client is paired with the
        next one.
        """
        arrays: Arrays = {}
        for a in self.clients:
            b = (a + 1) % len(self.clients)
            if a == b:
                continue
            n = min(len(codes[a][0]), len(codes[b][0]))
            z, c = codes[a][0][:n], codes[b][1][:n]
            arrays[f"{a}/{b}/z"] = as_bytes(self.decoded(models[a], z, c))
            arrays[f"{a}/{b}/c"] = as_bytes(self.decoded(models[b], z, c))
        return arrays

    def _manifolds(self, codes: list[tuple[Tensor, ...]]) -> Arrays:
        """`manifold/k` (rows, columns, channels, height, width): z down and c across, by client k's decoder.

        Each follows the direction in which the codes of all clients vary most, by each client's own encoders: by the
        shared ones c hardly varies, and a grid over what does not vary shows nothing. The paper does not say which were
        drawn.
        """
        down, across = (_line(torch.cat([code[n] for code in codes])) for n in (0, 1))
        z, c = down.repeat_interleave(STEPS, 0), across.repeat(STEPS, 1)
        grids = (self.decoded(model, z, c).unflatten(0, (STEPS, STEPS)) for model in self.models["own/"])
        return {f"manifold/{k}": as_bytes(grid) for k, grid in enumerate(grids)}


def _line(codes: Tensor) -> Tensor:
    """Points (steps, latent) through the mean along the first principal direction, whose sign is made positive."""
    mean = codes.mean(dim=0)
    _, spread, directions = torch.linalg.svd(codes - mean, full_matrices=False)
    direction = directions[0] * directions[0][directions[0].abs().argmax()].sign()
    deviation = spread[0] / max(1, len(codes) - 1) ** 0.5
    return mean + torch.linspace(-REACH, REACH, STEPS, device=codes.device)[:, None] * deviation * direction
