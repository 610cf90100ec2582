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

    Every client's model is as it would be at the start of the next round: encoders as the server last put them
    together, its own decoder and batch-norm statistics; in evaluation mode.
    """

    def __init__(self, simulation: Simulation, dealt: Partition, settings: SampleSettings) -> None:
        self.simulation, self.dealt, self.settings = simulation, dealt, settings
        self.clients = range(len(simulation.population.members))
        self.models: list[Any] = [simulation.synchronised(k).eval() for k in self.clients]
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
        arrays: Arrays = {}
        for part in ("train", "test"):
            rows: dict[str, list[Tensor]] = {}
            for k in self.clients:
                indices = self._some(k, part, max(2, self.settings.probed // len(self.clients)))
                x = self._shown(indices)
                z, c = self.coded(self.models[k], x)
                floor_z, floor_c = self.coded(untrained, x)
                found = {
                    "z": z[0],
                    "z-log-variance": z[1],
                    "c": c[0],
                    "c-log-variance": c[1],
                    "untrained-z": floor_z[0],
                    "untrained-c": floor_c[0],
                    "pixels": self.simulation.data.images[indices].flatten(1),
                    "label": self.simulation.data.labels[indices],
                    "client": torch.full((len(indices),), k),
                }
                for key, value in found.items():
                    rows.setdefault(key, []).append(value.cpu())
            arrays |= {f"codes/{part}/{key}": torch.cat(values).numpy() for key, values in rows.items()}
        return arrays

    def samples(self) -> Arrays:
        """The arrays of samples.npz, as docs/run-folder.md lists them."""
        share = max(2, self.settings.images // len(self.clients))
        indices = [self._some(k, "test", share) for k in self.clients]
        images = [self._shown(i) for i in indices]
        codes = [tuple(code[0] for code in self.coded(m, x)) for m, x in zip(self.models, images, strict=True)]
        arrays: Arrays = {}
        for k in self.clients:
            style = self.dealt.styles[self.dealt.client_styles[k]]
            arrays |= {
                f"client/{k}/style": np.array(style),
                f"client/{k}/real": as_bytes(images[k]),
                f"client/{k}/real/labels": self.simulation.data.labels[indices[k]].cpu().numpy(),
                f"client/{k}/reconstructed": as_bytes(self.decoded(self.models[k], *codes[k])),
            }
        return arrays | self._swaps(codes) | self._manifolds(codes)

    def _swaps(self, codes: list[tuple[Tensor, ...]]) -> Arrays:
        """z of one client's images with c of another's, decoded by either: `swap/a/b/z` by a's decoder, `.../c` by b's.

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
            arrays[f"swap/{a}/{b}/z"] = as_bytes(self.decoded(self.models[a], z, c))
            arrays[f"swap/{a}/{b}/c"] = as_bytes(self.decoded(self.models[b], z, c))
        return arrays

    def _manifolds(self, codes: list[tuple[Tensor, ...]]) -> Arrays:
        """`manifold/k` (rows, columns, channels, height, width): z down and c across, by client k's decoder.

        Each follows the direction in which the codes of all clients vary most; the paper does not say which were drawn.
        """
        down, across = (_line(torch.cat([code[n] for code in codes])) for n in (0, 1))
        z, c = down.repeat_interleave(STEPS, 0), across.repeat(STEPS, 1)
        grids = (self.decoded(model, z, c).unflatten(0, (STEPS, STEPS)) for model in self.models)
        return {f"manifold/{k}": as_bytes(grid) for k, grid in enumerate(grids)}


def _line(codes: Tensor) -> Tensor:
    """Points (steps, latent) through the mean along the first principal direction, whose sign is made positive."""
    mean = codes.mean(dim=0)
    _, spread, directions = torch.linalg.svd(codes - mean, full_matrices=False)
    direction = directions[0] * directions[0][directions[0].abs().argmax()].sign()
    deviation = spread[0] / max(1, len(codes) - 1) ** 0.5
    return mean + torch.linspace(-REACH, REACH, STEPS, device=codes.device)[:, None] * deviation * direction
