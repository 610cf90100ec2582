"""Gradient inversion: images from one update of federated averaging (Zhu et al. 2019, Deep leakage from gradients)."""

from typing import Any

import torch
from torch import Tensor

from common.errors import InputError
from common.keys import random_key
from common.spec import OptimiserSettings, Spec
from federation import Message, Objective


class Inversion:
    """Hears the model that the server sends in the first round and what each client makes of it. It is a listener.

    What it knows beside: the objective and its network, that a client takes one plain gradient step, its learning rate,
    and on how many images.

    Attributes:
        before: the tensors that the server has sent. after: client -> those that came back.
    """

    def __init__(self, objective: Objective, optimiser: OptimiserSettings, seed: int) -> None:
        self.objective, self.lr, self.seed = objective, optimiser.lr, seed
        self.before: dict[str, Tensor] = {}
        self.after: dict[int, dict[str, Tensor]] = {}

    def __call__(self, message: Message) -> None:
        """Keep what crosses in the first round."""
        if message.round == 1 and message.direction == "down":
            self.before = message.tensors
        elif message.round == 1:
            for row, client in enumerate(message.clients):
                self.after[client] = {name: rows[row] for name, rows in message.tensors.items()}

    def gradients(self, client: int) -> dict[str, Tensor]:
        """(w - w_k) / lr, of a step of plain gradient descent."""
        return {name: (tensor - self.after[client][name]) / self.lr for name, tensor in self.before.items()}

    def invert(self, client: int, shape: tuple[int, ...], iterations: int) -> tuple[Tensor, Tensor]:
        """Images in [0, 1] of this shape (n, channels, height, width) that explain a client's gradients, and labels."""
        model = self.objective.model()
        model.load_state_dict(self.before, strict=False)
        model.eval()
        gradients = self.gradients(client)
        labels = labels_of(gradients["head.bias"], shape[0])
        draw = torch.Generator().manual_seed(random_key(self.seed, "inversion", client))
        return inverted(self.objective, model, gradients, labels, shape, iterations, draw), labels


def listener(spec: Spec, objective: Objective) -> Inversion:
    """Who inverts the first update of each client.

    Raises:
        InputError: that update is not one plain gradient step on all that a client has.
    """
    training = spec.training
    plain = training.optimiser.name == "sgd" and not training.optimiser.momentum and not training.optimiser.weight_decay
    whole = (spec.data.at_most or training.batch_size + 1) <= training.batch_size
    once = training.local_steps == 1 or (training.local_steps is None and training.local_epochs == 1)
    if not (plain and whole and once and spec.objective.get("name") == "classification"):
        raise InputError(
            "inversion: needs a classifier, plain sgd, local_epochs 1, and data.at_most up to training.batch_size"
        )
    return Inversion(objective, training.optimiser, spec.seed)


def labels_of(bias: Tensor, images: int) -> Tensor:
    """The labels of a batch from the gradient of the last layer's bias, the mean of p - 1[y = c] over images.

    Each label lowers its entry by 1 / images; p is taken for even, as that of an untrained model about is.
    """
    left, labels = bias.clone() - 1 / len(bias), []
    for _ in range(images):
        labels.append(int(left.argmin()))
        left[labels[-1]] += 1 / images
    return torch.tensor(sorted(labels))


def inverted(
    objective: Any,
    model: Any,
    gradients: dict[str, Tensor],
    labels: Tensor,
    shape: tuple[int, ...],
    iterations: int,
    draw: torch.Generator,
) -> Tensor:
    """Images (n, channels, height, width) in [0, 1] with about these gradients (Zhu et al., Eq. 4), by L-BFGS as there.

    The squared distance is taken relative to that of no gradient, so that its size does not depend on the model.
    """
    images = (0.5 + 0.1 * torch.randn(shape, generator=draw)).requires_grad_()
    parameters = dict(model.named_parameters())
    size = torch.stack([gradients[name].square().sum() for name in parameters]).sum()

    def distance() -> Tensor:
        loss = objective.loss(model, {"x": images, "y": labels})
        ours = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
        apart = [(a - gradients[name]).square().sum() for name, a in zip(parameters, ours, strict=True)]
        return torch.stack(apart).sum() / size

    def closure() -> Tensor:
        loss = distance()
        (images.grad,) = torch.autograd.grad(loss, [images])
        return loss

    optimiser = torch.optim.LBFGS(
        [images],
        max_iter=iterations,
        history_size=50,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-12,
        tolerance_change=1e-14,
    )
    optimiser.step(closure)
    return images.detach().nan_to_num(0.5).clamp(0, 1)
