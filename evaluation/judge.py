"""The judge: a classifier of real images, which says of generated ones whose they are and what they show."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from common.errors import InputError
from common.files import written
from common.optimisers import State, step
from common.spec import OptimiserSettings
from networks import Conv3

Batches = Iterable[tuple[Tensor, Tensor, Tensor]]
"""Images (batch, channels, size, size) in [0, 1], their labels and their clients."""


class JudgeNetwork(nn.Module):
    """A small CNN, a linear layer of `features`, on which the Fréchet distance is taken, and a head for each question.

    No activation follows the features, so that none of them dies and their covariance has full rank.
    """

    def __init__(self, channels: int, size: int, width: int, features: int, classes: int, clients: int) -> None:
        super().__init__()
        self.encoder = Conv3(channels=channels, image_size=size, width=width)
        self.features = nn.Linear(self.encoder.features, features)
        self.label, self.client = nn.Linear(features, classes), nn.Linear(features, clients)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features, and logits of label and client."""
        h = self.features(F.relu(self.encoder(x)))
        return h, self.label(F.relu(h)), self.client(F.relu(h))


def fit(network: JudgeNetwork, batches: Batches, lr: float = 2e-3) -> None:
    """Train on both questions at once, by Adam."""
    parameters: list[Tensor] = list(network.parameters())
    state = State()
    for x, label, client in batches:
        _, says_label, says_client = network.train()(x)
        loss = F.cross_entropy(says_label, label) + F.cross_entropy(says_client, client)
        step(OptimiserSettings(name="adam", lr=lr), parameters, list(torch.autograd.grad(loss, parameters)), state)


def save(network: JudgeNetwork, shape: dict[str, int], accuracy: dict[str, float], file: Path) -> None:
    """Write weights, the arguments to build the network, and how well it does on real test images."""
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    about = json.dumps({"shape": shape, "accuracy": accuracy})  # one entry: the order of several is not fixed
    with written(file) as part:
        save_file(tensors, part, {"judge": about})


@dataclass(frozen=True)
class Judge:
    """A trained judge.

    Attributes:
        sha256: of its file.
        accuracy: on real test images as clients see them: `label`, `client`.
    """

    network: JudgeNetwork
    sha256: str
    accuracy: dict[str, float]

    def logits(self, images: np.ndarray) -> np.ndarray:
        """Scores of each label (n, classes) of images as `__call__` takes them."""
        return self._seen(images)[1]

    def __call__(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features (n, d), labels (n,) and clients (n,) of images (n, channels, size, size), bytes.

        Raises:
            InputError: the images have another size, or are not bytes.
        """
        h, label, client = self._seen(images)
        return h, label.argmax(axis=1), client.argmax(axis=1)

    @torch.no_grad()
    def _seen(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        wanted = (self.network.encoder.channels, self.network.encoder.image_size, self.network.encoder.image_size)
        if images.dtype != np.uint8 or images.shape[1:] != wanted:
            raise InputError(f"judge: images must be bytes {wanted}, got {images.dtype} {images.shape[1:]}")
        parts = [
            self.network(torch.from_numpy(part).float().div(255)) for part in np.array_split(images, _parts(images))
        ]
        h, label, client = (torch.cat(column) for column in zip(*parts, strict=True))
        return h.numpy(), label.numpy(), client.numpy()


def _parts(images: np.ndarray) -> int:
    return max(1, len(images) // 256)


def load(file: Path | None) -> Judge:
    """Read a judge.

    Raises:
        InputError: there is no such file, or it is not a judge.
    """
    if file is None or not file.is_file():
        raise InputError(f"judge: there is no file {file}; `diptych judge SPEC --out FILE` trains one")
    try:
        with safe_open(file, "pt") as held:
            about = json.loads(held.metadata()["judge"])
            network = JudgeNetwork(**about["shape"])
            network.load_state_dict({key: held.get_tensor(key) for key in held.keys()})  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"judge: {file} is not a judge ({error}); train it again") from error
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Judge(network.eval(), digest, about["accuracy"])
