"""The judge: a classifier of real images, which says of generated ones whose they are and what they show."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from common.errors import InputError
from common.files import written
from common.optimisers import State, step
from common.run_folder import RunFolder
from common.spec import OptimiserSettings
from evaluation.corruption import CORRUPTIONS, augmented, corrupted
from evaluation.rows import result

Views = tuple[Tensor, Tensor, Tensor]
Batches = Iterable[Views]
"""Images (batch, channels, size, size) in [0, 1], their labels and their clients."""
Quality = list[dict[str, str | float]]
"""What a judge says of images of which the truth is known, as columns of records."""


def _block(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]


class JudgeNetwork(nn.Module):
    """A small CNN, a linear layer of `features`, on which the Fréchet distance is taken, and a head for each question.

    No activation follows the features, so that none of them dies and their covariance has full rank. Batch norm is
    there for speed: without it, a judge of a thousand images takes several times the steps.
    """

    def __init__(self, channels: int, size: int, width: int, features: int, classes: int, clients: int) -> None:
        super().__init__()
        self.channels, self.size = channels, size
        flat, hidden = 2 * width * (size // 4) ** 2, 8 * width
        self.encoder = nn.Sequential(*_block(channels, width), *_block(width, 2 * width), nn.Flatten())
        self.hidden = nn.Sequential(nn.Linear(flat, hidden), nn.BatchNorm1d(hidden), nn.ReLU())
        self.features = nn.Linear(hidden, features)
        self.label, self.client = nn.Linear(features, classes), nn.Linear(features, clients)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features, and logits of label and client."""
        h = self.features(self.hidden(self.encoder(x)))
        return h, self.label(F.relu(h)), self.client(F.relu(h))


def fit(network: JudgeNetwork, passes: Sequence[Batches], draw: torch.Generator, lr: float = 5e-3) -> None:
    """Train on both questions at once, by Adam whose rate falls to a share of itself in each pass, linearly.

    Images are corrupted at random. Otherwise a judge of clean images takes all that is noisy, as what a young
    generator makes is, for one label.
    """
    parameters: list[Tensor] = list(network.parameters())
    state = State()
    for number, batches in enumerate(passes):
        rate = OptimiserSettings(name="adam", lr=lr * (1 - number / len(passes)))
        for x, label, client in batches:
            _, says_label, says_client = network.train()(augmented(x, draw))
            loss = F.cross_entropy(says_label, label) + F.cross_entropy(says_client, client)
            step(rate, parameters, list(torch.autograd.grad(loss, parameters)), state)
    network.eval()


def examined(network: JudgeNetwork, seen: Views, again: Tensor | None, draw: torch.Generator) -> Quality:
    """What a network says of real test images, of the same corrupted, and of uniform noise.

    `accuracy`, for the `target` label and client; `confidence`, the mean of the largest probability of a label;
    `label_agreement`, how often the same label is read from an image in two clients' eyes: the most that a perfect
    transfer of style could get. Of noise, which shows nothing: the largest share of images given one label, and where
    labels are no more than images, that of each.

    Args:
        seen: images as clients see them, labels and clients.
        again: the same images in the eyes of clients of another style each, if every image has several.
    """
    x, label, client = seen
    found: Quality = []

    def note(metric: str, setting: str, value: float) -> None:
        found.append({"metric": metric, "setting": f"judge;{setting}", "value": value})

    def examine(case: str, images: Tensor) -> Tensor:
        _, says_label, says_client = logits(network, images)
        note("accuracy", f"target=label{case}", _share(says_label.argmax(1) == label))
        note("accuracy", f"target=client{case}", _share(says_client.argmax(1) == client))
        note("confidence", f"target=label{case}", float(says_label.softmax(1).amax(1).mean()))
        return says_label.argmax(1)

    labels = examine("", x)
    for how, strength in CORRUPTIONS:
        examine(f";images={how}-{strength:g}", corrupted(x, how, strength, draw))
    if again is not None:
        note("label_agreement", "views=two", _share(labels == logits(network, again)[1].argmax(1)))
    of_noise = logits(network, torch.rand(x.shape, generator=draw))[1]
    shares = torch.bincount(of_noise.argmax(1), minlength=of_noise.shape[1]) / len(x)
    note("confidence", "target=label;images=only-noise", float(of_noise.softmax(1).amax(1).mean()))
    note("one_label", "target=label;images=only-noise", float(shares.max()))
    for c, share in enumerate(shares.tolist() if len(shares) <= len(x) else []):  # of thousands of people hardly one
        note("label_share", f"label={c};images=only-noise", share)
    return found


def _share(right: Tensor) -> float:
    return float(right.float().mean())


@torch.no_grad()
def logits(network: JudgeNetwork, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features, and logits of label and client, of any number of images."""
    parts = [network(part) for part in x.tensor_split(max(1, len(x) // 256))]
    h, label, client = (torch.cat(column) for column in zip(*parts, strict=True))
    return h, label, client


def save(network: JudgeNetwork, shape: dict[str, int], quality: Quality, file: Path) -> None:
    """Write weights, the arguments to build the network, and what it says of real test images."""
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    about = json.dumps({"shape": shape, "quality": quality})  # one entry: the order of several is not fixed
    with written(file) as part:
        save_file(tensors, part, {"judge": about})


@dataclass(frozen=True)
class Judge:
    """A trained judge.

    Attributes:
        sha256: of its file.
        quality: what it says of real test images; see `examined`.
    """

    network: JudgeNetwork
    sha256: str
    quality: Quality

    def ceiling(self, metric: str, target: str, of: str = "", **columns: str) -> Iterator[dict[str, Any]]:
        """What it says of real test images, as the ceiling of what it says of generated ones.

        Args:
            metric, target: of its quality; the latter is the setting after `judge;`.
            of: the metric to which this is the ceiling, if that has another name.
            columns: of the record.
        """
        for row in self.quality:
            if (row["metric"], row["setting"]) == (metric, f"judge;{target}"):
                yield result(of or metric, "fraction", float(row["value"]), control="ceiling", **columns)

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

    def _seen(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        wanted = (self.network.channels, self.network.size, self.network.size)
        if images.dtype != np.uint8 or images.shape[1:] != wanted:
            raise InputError(f"judge: images must be bytes {wanted}, got {images.dtype} {images.shape[1:]}")
        h, label, client = logits(self.network, torch.from_numpy(images).float().div(255))
        return h.numpy(), label.numpy(), client.numpy()


def load(file: Path | None) -> Judge:
    """Read a judge.

    Raises:
        InputError: there is no such file, or it is not a judge.
    """
    if file is None:
        raise InputError("judge: name the folder of judges, --judges; `diptych explain` says how to train them")
    if not file.is_file():
        raise InputError(f"judge: there is no file {file}; `diptych judge RUN --scale SCALE --out {file}` trains one")
    try:
        with safe_open(file, "pt") as held:
            about = json.loads(held.metadata()["judge"])
            network = JudgeNetwork(**about["shape"])
            network.load_state_dict({key: held.get_tensor(key) for key in held.keys()})  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"judge: {file} is not a judge ({error}); train it again") from error
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Judge(network.eval(), digest, about["quality"])


def judge_quality(run: RunFolder) -> Iterator[dict[str, Any]]:
    """How far the judge can be trusted: what it says of real test images as clients see them, of the same with noise,
    shifted and blurred, and of nothing but noise (`examined`)."""
    if run.samples and run.judge is not None and run.judge.is_file():
        for row in load(run.judge).quality:
            metric, setting, value = str(row["metric"]), str(row["setting"]), float(row["value"])
            yield result(metric, "fraction", value, setting=setting, kind="judge", role="real")
