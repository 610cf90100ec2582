"""What evaluations need of a generative model: its images, real ones, and the features of both, as arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from common.keys import random_key
from common.spec import SampleSettings
from federation import Simulation, copied
from federation.data import as_float
from federation.hooks import Showing
from networks.spectral import settle
from objectives import Generative
from partitions import Partition
from partitions.views import resized

Arrays = dict[str, np.ndarray]
ROWS, COLUMNS = 6, 10
"""Of a grid of samples."""
RESTYLED = 32
"""Test images that are shown in every client's style."""


def as_bytes(x: Tensor) -> np.ndarray:
    """Images in [0, 1] as they would be saved."""
    return x.detach().clamp(0, 1).mul(255).round().byte().cpu().numpy()


class Sampler:
    """Takes images and features from the models of a simulation as it stands; nothing in it changes.

    What is random depends on the run's seed and on what it is for, so a snapshot and the end see the same latents.
    """

    def __init__(self, simulation: Simulation, dealt: Partition, settings: SampleSettings) -> None:
        self.simulation, self.dealt, self.settings = simulation, dealt, settings
        self.algorithm = simulation.algorithm
        self.objective: Generative = self.algorithm.objective
        self.clients = range(len(simulation.population.members))
        self.device = simulation.data.images.device
        self.own = [self._settled(self.algorithm.personal(simulation.own(k))) for k in self.clients]
        """Every client's own complete model, as it left its last local training."""
        self.synchronised = [self._settled(self.algorithm.general(simulation.synchronised(k))) for k in self.clients]
        """Every client's model with the shared tensors as the server last put them together."""
        self.encoders = {
            "content": self._settled(self.algorithm.general(simulation.shared_model())).encoder,
            "untrained": self._settled(self.algorithm.general(copied(simulation.template))).encoder,
        }

    def generator(self, *purpose: int | str) -> torch.Generator:
        """A random stream for one purpose."""
        return torch.Generator().manual_seed(random_key(self.simulation.seed, "samples", *purpose))

    @staticmethod
    def _settled(model: Any) -> Any:
        settle(model)
        return model.train()

    # ---- images

    def images(self, model: Any, labels: Tensor, draw: torch.Generator) -> Iterator[Tensor]:
        """Images (batch, channels, height, width) in [0, 1], batch by batch; `labels` also says how many."""
        for y in labels.split(self.settings.batch):
            z_c, z_s = (self.objective.latents(len(y), draw) for _ in range(2))
            yield self.generated(model, z_c, z_s, y, self.objective.noise(len(y), draw))

    @torch.no_grad()
    def generated(self, model: Any, z_c: Tensor, z_s: Tensor, y: Tensor, noise: tuple[Tensor, ...]) -> Tensor:
        """Images in [0, 1]."""
        one_hot = self.objective.one_hot(y.to(self.device))
        latents = z_c.to(self.device), z_s.to(self.device)
        return self.objective.generate(model, *latents, one_hot, tuple(part.to(self.device) for part in noise))

    def seen(self, client: int, indices: Tensor, purpose: str) -> Tensor:
        """Images as a client sees them, in [0, 1]."""
        draw = self.generator("seen", purpose, client)
        views = self.dealt.views
        parts = [
            as_float(part) if views is None else views[client](as_float(part), draw)
            for part in self.dealt.images[indices].split(1024)
        ]
        return torch.cat(parts)

    def _some(self, indices: Tensor, count: int, purpose: str) -> Tensor:
        order = torch.randperm(len(indices), generator=self.generator("some", purpose))
        return indices[order[:count]]

    def classes_of(self, client: int) -> Tensor:
        """The classes that a client has images of."""
        return self.dealt.labels[self.dealt.clients[client]].unique()

    # ---- what is kept

    def samples(self) -> Arrays:
        """The arrays of samples.npz, as docs/run-folder.md lists them."""
        arrays: Arrays = {}
        for client in self.clients:
            arrays |= {f"client/{client}/{key}": rows for key, rows in self._client(client).items()}
        return arrays | self._grids()

    def _client(self, client: int) -> Arrays:
        mine, labels = self.dealt.clients[client], self.dealt.labels
        count = self.settings.images
        drawn = labels[mine][torch.randint(len(mine), (count,), generator=self.generator("labels", client))]
        real = self._some(mine, count, f"real {client}")
        held_out = self._some(self._tests_like(client), count, f"held out {client}")
        arrays = {
            "style": np.array(self.dealt.styles[self.dealt.client_styles[client]]),
            "real": as_bytes(self.seen(client, real, "real")),
            "real/labels": labels[real].numpy(),
            "held-out": as_bytes(self.seen(client, held_out, "held out")),
            "held-out/labels": labels[held_out].numpy(),
            "generated/labels": drawn.numpy() if self.objective.conditional else np.full(count, -1),
        }
        models = {
            "": self.own[client],
            "/bn=eval": self._evaluation_mode(self.own[client], drawn, client),
            "/generator=global": self.synchronised[client],
        }
        for name, model in models.items():
            images = torch.cat(list(self.images(model, drawn, self.generator("generated", client))))
            arrays[f"generated{name}"] = as_bytes(images)
        missing = sorted(set(range(self.dealt.classes)) - set(self.classes_of(client).tolist()))
        if self.objective.conditional and missing:
            unseen = torch.tensor(missing).repeat(-(-count // len(missing)))[: min(count, 100 * len(missing))]
            images = torch.cat(list(self.images(self.own[client], unseen, self.generator("unseen", client))))
            arrays |= {"unseen": as_bytes(images), "unseen/labels": unseen.numpy()}
            tests = self.dealt.test[self.dealt.client_styles[client]]
            others = tests[torch.isin(labels[tests], torch.tensor(missing))]
            shown = self._some(others, len(unseen), f"held out unseen {client}")
            arrays["held-out-unseen"] = as_bytes(self.seen(client, shown, "held out unseen"))
            arrays["held-out-unseen/labels"] = labels[shown].numpy()
        return arrays

    def _tests_like(self, client: int) -> Tensor:
        """As many of a client's test images as have its labels in the proportions in which it has them."""
        tests = self.dealt.tests[client]
        labels, classes = self.dealt.labels[tests], self.dealt.classes
        mine = torch.bincount(self.dealt.labels[self.dealt.clients[client]], minlength=classes)
        has = mine > 0
        times = float((torch.bincount(labels, minlength=classes)[has] / mine[has]).min())
        of_each = (mine * times + 1e-6).long()
        return torch.cat([self._some(tests[labels == c], int(n), f"like {client} {c}") for c, n in enumerate(of_each)])

    def _evaluation_mode(self, model: Any, labels: Tensor, client: int) -> Any:
        """The model with batch-norm statistics of its own images, as those of its training lag behind its weights."""
        model = copied(model)
        norms = [m for m in model.generator.modules() if isinstance(m, _BatchNorm)]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the plain mean over batches
        for _ in self.images(model, labels[: 40 * self.settings.batch], self.generator("statistics", client)):
            pass
        return model.eval()

    def _grids(self) -> Arrays:
        """Samples from the same latents for all clients: rows and columns as in Fig. 6, 7, 10, 11 and 13.

        `style-by-row`: z^s down, z^c (and the label) across. `content-by-row`: z^c down, z^s (and the label) across.
        `both`: all latents differ.
        """
        draw = self.generator("grid")
        rows, columns, both = (self.objective.latents(n, draw) for n in (ROWS, COLUMNS, 2 * ROWS * COLUMNS))
        down, across = rows.repeat_interleave(COLUMNS, 0), columns.repeat(ROWS, 1)
        y = (torch.arange(COLUMNS) % self.dealt.classes).repeat(ROWS)
        noise = self.objective.noise(len(y), draw)
        latents = {
            "style-by-row": (across, down),
            "content-by-row": (down, across),
            "both": both.chunk(2),
        }
        arrays = {}
        for client in self.clients:
            model = self.own[client]
            for name, (z_c, z_s) in latents.items():
                grid = self.generated(model, z_c, z_s, y, noise)
                arrays[f"grid/{client}/{name}"] = as_bytes(grid.unflatten(0, (ROWS, COLUMNS)))
        return arrays

    def applications(self) -> Arrays:
        """What the method itself does with its trained models, on test images as they are."""
        indices = self._some(self.dealt.test[self.dealt.seen[0]], RESTYLED, "test")
        x = self._plain(indices)
        labels, draw = self.dealt.labels[indices], self.generator("applications")
        if not isinstance(self.algorithm, Showing):
            return {}
        found = self.algorithm.applications(self.synchronised, draw, x, labels)
        return {
            key: as_bytes(value) if value.is_floating_point() else value.cpu().numpy() for key, value in found.items()
        }

    def _plain(self, indices: Tensor) -> Tensor:
        """Images as they are, at the size that networks see."""
        return resized(as_float(self.dealt.images[indices]), self.objective.image_size)

    # ---- features

    def features(self) -> Arrays:
        """The arrays of features.npz: of images as they are, of images as clients see them, and of generated ones.

        `content` (images, d) are the shared φ^c's, `style` (images, clients, d) those of every client's own φ^s.
        """
        arrays: Arrays = {}
        probed = self.settings.probed
        everyone = {"train": self.dealt.all_train.unique(), "test": self.dealt.all_test}
        for part, indices in everyone.items():
            chosen = self._some(indices, probed, f"plain {part}")
            arrays |= self._coded(f"plain/{part}", self._plain(chosen), self.dealt.labels[chosen])
        share = max(2, probed // len(self.clients))
        mine = {"train": self.dealt.clients, "test": self.dealt.tests}
        for part, of_clients in mine.items():
            chosen_of = [self._some(indices, share, f"pool {part} {k}") for k, indices in enumerate(of_clients)]
            x = torch.cat([self.seen(k, chosen, f"pool {part}") for k, chosen in enumerate(chosen_of)])
            labels = self.dealt.labels[torch.cat(chosen_of)]
            owners = np.repeat(np.arange(len(self.clients)), [len(chosen) for chosen in chosen_of])
            arrays |= self._coded(f"pool/{part}", x, labels) | {f"pool/{part}/client": owners}
        for part in ("train", "test"):
            images: list[Tensor] = []
            asked: list[Tensor] = []
            for k in self.clients:
                draw = self.generator("pool generated", part, k)
                classes = self.classes_of(k)
                asked.append(classes[torch.randint(len(classes), (share,), generator=draw)])
                images += list(self.images(self.own[k], asked[-1], draw))
            arrays |= self._coded(f"generated/{part}", torch.cat(images), torch.cat(asked))
            arrays[f"generated/{part}/client"] = np.repeat(np.arange(len(self.clients)), share)
        return arrays

    @torch.no_grad()
    def _coded(self, name: str, x: Tensor, labels: Tensor) -> Arrays:
        """Content features under the shared model and the untrained one, style features under every client's own."""
        codes = {key: self._encoded(encoder, x).numpy() for key, encoder in self.encoders.items()}
        styles = [self._encoded(model.style.encoder, x) for model in self.own]
        codes["style"] = torch.stack(styles, dim=1).numpy()
        return {f"{name}/{key}": rows for key, rows in codes.items()} | {f"{name}/label": labels.numpy()}

    def _encoded(self, encoder: nn.Module, x: Tensor) -> Tensor:
        encoder.eval()
        codes = torch.cat([encoder(self.objective.scaled(part.to(self.device))).cpu() for part in x.split(256)])
        encoder.train()
        return codes
