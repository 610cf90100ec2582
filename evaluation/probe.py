"""Linear probes, trained side by side: the first axis of every array is the probe."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from common.optimisers import State, step
from common.spec import OptimiserSettings


@dataclass(frozen=True)
class ProbeSettings:
    """The protocol of FedU's public code, which FedStyle follows: Adam, and a fixed number of epochs over batches that
    are put together once, at random.

    Nothing is chosen by looking at test accuracy; the last epoch counts.

    Attributes:
        decay: what the rate is multiplied by after each epoch.
        one_number_each: features (probes, images, parts, dimensions) are first mapped to a number for each part, by a
            linear map of its own (PaDPaF, App. C.2.2).
    """

    epochs: int = 200
    batch_size: int = 2048
    lr: float = 3e-3
    decay: float = 1.0
    one_number_each: bool = False


@dataclass(frozen=True)
class Stylised:
    """What Eq. 4 of FedStyle adds to a probe: h = h_c + G([h_c, h_s]).

    Attributes:
        train, test: style features h_s (probes, images, dimensions).
        generator: G's two layers, weights and biases with a leading probe axis: W1, b1, W2, b2.
        trained: whether G is optimised along with the classifier, as in the paper, or frozen.
    """

    train: Tensor
    test: Tensor
    generator: tuple[Tensor, Tensor, Tensor, Tensor]
    trained: bool


def _combined(content: Tensor, style: Tensor, generator: list[Tensor]) -> Tensor:
    w1, b1, w2, b2 = generator
    hidden = F.relu(torch.baddbmm(b1[:, None], torch.cat([content, style], dim=2), w1.mT))
    return content + torch.baddbmm(b2[:, None], hidden, w2.mT)


def _linear(probes: int, inputs: int, outputs: int, generator: torch.Generator) -> list[Tensor]:
    """Weight (probes, outputs, inputs) and bias (probes, 1, outputs), initialised as torch.nn.Linear, all probes alike:
    what one finds does not hang on which others are fitted beside it, and a code and its control begin as one."""
    bound = inputs**-0.5
    drawn = (
        torch.empty(shape).uniform_(-bound, bound, generator=generator) for shape in ((outputs, inputs), (1, outputs))
    )
    return [start.repeat(probes, 1, 1).requires_grad_() for start in drawn]


def probe_accuracy(
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    classes: int,
    settings: ProbeSettings,
    seed: int,
    stylised: Stylised | None = None,
) -> Tensor:
    """Accuracy on the test images, (probes,), in [0, 1]; see `accuracies_in`."""
    return accuracies_in((1,), train, test, classes, settings, seed, stylised)[0]


def accuracies_in(
    tops: Sequence[int],
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    classes: int,
    settings: ProbeSettings,
    seed: int,
    stylised: Stylised | None = None,
) -> Tensor:
    """Fit a linear classifier per probe on frozen features, and score it.

    Args:
        tops: an answer is right if the label is among so many of the likeliest.
        train, test: features (probes, images, dimensions), see also `one_number_each`, and labels (probes, images).
        seed: of the order of the images, as a client's come sorted by class, and of the weights that all begin with.

    Returns:
        Accuracy on the test images, (tops, probes), in [0, 1].
    """
    (x, y), (x_test, y_test) = train, test
    if stylised and not stylised.trained:  # what a frozen G adds is the same in every epoch
        frozen = list(stylised.generator)
        x, x_test = _combined(x, stylised.train, frozen), _combined(x_test, stylised.test, frozen)
        stylised = None
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(x.shape[1], generator=generator)
    head = _linear(len(x), x.shape[2], classes, generator)
    numbers = _linear(len(x) * x.shape[2], x.shape[3], 1, generator) if settings.one_number_each else []
    style_map = [t.clone().requires_grad_() for t in stylised.generator] if stylised else []

    def logits(features: Tensor, style: Tensor | None) -> Tensor:
        if settings.one_number_each:  # (probes, images, parts, dimensions) -> (probes, images, parts)
            parts = features.transpose(1, 2).flatten(0, 1)
            features = torch.baddbmm(numbers[1], parts, numbers[0].mT).unflatten(0, (len(features), -1))
            features = features.squeeze(3).transpose(1, 2)
        if style is not None:
            features = _combined(features, style, style_map)
        return torch.baddbmm(head[1], features, head[0].mT)

    x, y, h_s = x[:, order], y[:, order], stylised.train[:, order] if stylised else None
    optimiser, state = OptimiserSettings(name="adam", lr=settings.lr), State()
    trained = head + numbers + style_map
    for epoch in range(settings.epochs):
        for start in range(0, x.shape[1], settings.batch_size):
            rows = slice(start, start + settings.batch_size)
            out = logits(x[:, rows], None if h_s is None else h_s[:, rows])
            # the sum over probes of each probe's mean loss, so that no probe feels another
            loss = F.cross_entropy(out.flatten(0, 1), y[:, rows].flatten(), reduction="sum") / out.shape[1]
            step(optimiser, trained, list(torch.autograd.grad(loss, trained)), state, settings.decay**epoch)
    with torch.no_grad():
        said = logits(x_test, stylised.test if stylised else None)
        right = said.topk(min(max(tops), classes), dim=2).indices == y_test[:, :, None]
    return torch.stack([right[:, :, :top].any(dim=2).double().mean(dim=1) for top in tops])
