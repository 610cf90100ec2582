"""Inversion of whatever weights a client sends, through the algorithm's own updates (Zhu et al. 2019, Deep leakage from
gradients, with any objective and any number of steps in the place of a classifier's gradient)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from attacks.inversion import Found, Inversion, apart, as_images, begun_images, minimise
from attacks.wiretap import as_heard, batch_of
from common.keys import random_key
from common.spec import TrainingSettings
from federation import Algorithm, Batch, Phase, Update, call_with
from federation.local import steps_in, updates_of
from federation.names import entries, selected
from objectives.classification import Classification

LABELS = ("y", "labels", "y_fake")
"""What batches call classes: those of the images, and those of made ones that are drawn."""
Slot = tuple[int, int, str, int]
"""A tensor of a batch: phase, step, key, and the place in a tuple."""
OWN: Slot = (-1, -1, "y", 0)
"""The labels of the client's images."""


class Weights(Inversion):
    """Images whose rehearsal, with the algorithm's phases and updates, moves the weights as the client did."""

    def invert(self, client: int, begun: Any, shape: tuple[int, ...], styles: Tensor | None = None) -> Found:
        """As the base says."""
        model = as_heard(self.algorithm, begun, self, client)
        draw = self.draw(client)
        rehearsal = Rehearsal(self.algorithm, self.training, model, shape[0], styles, random_key(self.seed, client))
        heard = rehearsal.pulls(self.back[client])
        labels, heard = labels_read_off(rehearsal, heard, shape[0], self.algorithm.objective.classes)
        images = begun_images(shape, draw)
        unknown = rehearsal.unknown(images, labels)

        def distance() -> Tensor:
            ours = rehearsal.run(images, labels, unknown)
            return apart([ours[name] for name in heard], list(heard.values()))

        depends = labels is not None or _depends(distance(), unknown)
        minimise(distance, [images, *unknown.values()], self.iterations)
        if labels is None and depends:
            labels = unknown[OWN].argmax(dim=1)
        return as_images(rehearsal.pixels(images)), labels


def _depends(distance: Tensor, unknown: dict[Slot, Tensor]) -> bool:
    """Whether labels make a difference."""
    return OWN in unknown and torch.autograd.grad(distance, unknown[OWN], allow_unused=True)[0] is not None


# ---- local work, gone through again


@dataclass(frozen=True)
class Step:
    """A batch of a client's round.

    Attributes:
        stage, number: of the phase, from 0, and of the step in it, from 1.
        updates: those that are taken on the batch, each with the names of what it moves.
    """

    stage: int
    number: int
    phase: Phase
    updates: list[tuple[Update, list[str]]]

    def slot(self, key: str, place: int) -> Slot:
        """A tensor of its batch; labels of the client's images are the same in each."""
        return OWN if key == "y" else (self.stage, self.number, key, place)


def _steps(algorithm: Algorithm, training: TrainingSettings, model: Any, images: int) -> Iterator[Step]:
    for stage, phase in enumerate(algorithm.phases()):
        updates = [
            (update, [e.name for e in selected(model, update.which & phase.only) if e.is_parameter])
            for update in updates_of(phase, model)
        ]
        for number in range(1, steps_in(phase, training, images) + 1):
            yield Step(stage, number, phase, [taken for taken in updates if number % taken[0].every == 0])


class Rehearsal:
    """A client's first round as a function of its images.

    What the client draws is not known. It is drawn anew, once for all; of that, numbers that continuous distributions
    give and labels, as shares of the classes, are solved for beside the images. What a loss takes as constant, such as
    the images that a GAN's discriminator is shown, or augmentations, stays as it was drawn.

    Args:
        model: what the client holds as its round begins, see `as_heard`.
        images: on how many it works, in each step on all of them.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        training: TrainingSettings,
        model: Any,
        images: int,
        styles: Tensor | None,
        seed: int,
    ) -> None:
        self.algorithm, self.model, self.images, self.styles, self.seed = algorithm, model, images, styles, seed
        self.lr = training.optimiser.lr
        for module in model.modules():
            if isinstance(module, _NormBase):
                module.forward = partial(normalised, module)
        self.begun = {entry.name: entry.tensor.detach().clone() for entry in entries(model)}
        self.steps = list(_steps(algorithm, training, model, images))
        self.rates: dict[str, float] = {}
        for step in self.steps:
            for update, moving in step.updates:
                for name in moving:
                    self.rates[name] = self.rates.get(name, 0.0) + update.lr_factor

    def pulls(self, after: dict[str, Tensor]) -> dict[str, Tensor]:
        """What the client's steps pulled its weights by, in learning rates: of one step, the gradient.

        Statistics of batch norms are left aside: they come back as well, but no gradient leads from them to images.
        """
        return {name: (self.begun[name] - after[name]) / self.lr for name in self.rates if name in after}

    def run(self, images: Tensor, labels: Tensor | None, unknown: dict[Slot, Tensor]) -> dict[str, Tensor]:
        """The same had it these images; differentiable. What follows a phase's last step says nothing more."""
        tensors = {name: tensor.clone() for name, tensor in self.begun.items()}
        for name in self.rates:
            tensors[name].requires_grad_()
        pulled: dict[str, Tensor] = {}
        for step in self.steps:
            if step.number == 1 and step.phase.begin is not None:
                with torch.no_grad():
                    call_with(tensors, step.phase.begin, self.model)
            batch = self._batch(step, images, labels, unknown)
            for update, moving in step.updates:
                if update.publish is not None:  # beside what it says, it counts the client's steps
                    call_with(tensors, update.publish, self.model, batch)
                self._pull(update, moving, batch, tensors, pulled)
        return pulled

    def _pull(
        self, update: Update, moving: list[str], batch: Batch, tensors: dict[str, Tensor], pulled: dict[str, Tensor]
    ) -> None:
        leaves = {name: tensors[name].view_as(tensors[name]) for name in moving}  # not what earlier steps made of them
        loss = call_with(tensors | leaves, update.loss, self.model, batch)
        slopes = torch.autograd.grad(
            loss, list(leaves.values()), create_graph=True, allow_unused=True, materialize_grads=True
        )
        for name, slope in zip(moving, slopes, strict=True):
            pulled[name] = update.lr_factor * slope + pulled.get(name, 0)
            tensors[name] = self.begun[name] - self.lr * pulled[name]

    # ---- batches

    def unknown(self, images: Tensor, labels: Tensor | None) -> dict[Slot, Tensor]:
        """What is solved for beside the images, and where the search starts. Labels are logits of the classes."""
        found: dict[Slot, Tensor] = {}
        for step in self.steps:
            once, again = (_parts(self._drawn(step, images, labels, trial)) for trial in (0, 1))
            for (key, place), tensor in once.items():
                slot = step.slot(key, place)
                if key in LABELS and (labels is None or key != "y"):
                    found[slot] = torch.zeros(self.images, self.algorithm.objective.classes)
                elif tensor.is_floating_point() and not tensor.requires_grad and (tensor != again[key, place]).any():
                    found[slot] = tensor.clone()
        return {slot: tensor.requires_grad_() for slot, tensor in found.items()}

    def pixels(self, images: Tensor) -> Tensor:
        """Images as a batch has them: any pixel for a classifier, as in Zhu et al.; else mirrored into [0, 1]."""
        return images if isinstance(self.algorithm.objective, Classification) else 1 - (images.remainder(2) - 1).abs()

    def _drawn(self, step: Step, images: Tensor, labels: Tensor | None, trial: int = 0) -> Batch:
        y = torch.zeros(self.images, dtype=torch.long) if labels is None else labels
        draw = torch.Generator().manual_seed(random_key(self.seed, step.stage, step.number, trial))
        return batch_of(self.algorithm, step.phase, self.model, self.pixels(images), y, self.styles, draw)

    def _batch(self, step: Step, images: Tensor, labels: Tensor | None, unknown: dict[Slot, Tensor]) -> Batch:
        def solved(key: str, place: int, tensor: Tensor) -> Tensor:
            value = unknown.get(step.slot(key, place))
            if value is None:
                return tensor
            return value.softmax(dim=1) if key in LABELS else value

        return {
            key: tuple(solved(key, place, tensor) for place, tensor in enumerate(value))
            if isinstance(value, tuple)
            else solved(key, 0, value)
            for key, value in self._drawn(step, images, labels).items()
        }


def normalised(norm: _NormBase, x: Tensor) -> Tensor:
    """A batch or an instance norm, of sums and products: torch's own has no third derivative, which two steps need.

    Statistics do not follow the images: nothing reads them while a client trains.
    """
    over = [n for n in range(x.dim()) if n != 1 and (n or isinstance(norm, _BatchNorm))]
    if norm.training or norm.running_mean is None or norm.running_var is None:
        mean, variance = x.mean(over, keepdim=True), x.var(over, unbiased=False, keepdim=True)
    else:
        mean, variance = (_by_channel(t, x) for t in (norm.running_mean, norm.running_var))
    z = (x - mean) * (variance + norm.eps).rsqrt()
    return z * _by_channel(norm.weight, x) + _by_channel(norm.bias, x) if norm.affine else z


def _by_channel(numbers: Tensor, x: Tensor) -> Tensor:
    return numbers.view(1, -1, *[1] * (x.dim() - 2))


def _parts(batch: Batch) -> dict[tuple[str, int], Tensor]:
    return {
        (key, place): tensor
        for key, value in batch.items()
        for place, tensor in enumerate(value if isinstance(value, tuple) else (value,))
    }


# ---- labels


def labels_read_off(
    rehearsal: Rehearsal, heard: dict[str, Tensor], images: int, classes: int
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """From the bias of a classifier's last layer, if it was sent; and what then is left to be matched.

    That layer is not, unless it is all there is: it has said what it has to say, and with it in the distance the search
    ends far from the images. Of two digits of a client one in ten came back with it, and nine in ten without.
    """
    for name, pull in heard.items():
        if f".{name}".endswith(".head.bias") and pull.shape == (classes,):
            layer = name.removesuffix("bias")
            others = {other: tensor for other, tensor in heard.items() if not other.startswith(layer)}
            return labels_of(pull / rehearsal.rates[name], images), others or heard
    return None, heard


def labels_of(bias: Tensor, images: int) -> Tensor:
    """The labels of a batch from the gradient of the last layer's bias, the mean of p - 1[y = c] over images.

    Each label lowers its entry by 1 / images; p is taken for even, as that of an untrained model about is.
    """
    left, labels = bias.clone() - 1 / len(bias), []
    for _ in range(images):
        labels.append(int(left.argmin()))
        left[labels[-1]] += 1 / images
    return torch.tensor(sorted(labels))
