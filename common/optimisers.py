"""Optimisers as functions of (parameters, gradients, state).

torch's own functional forms are used: they step one client's tensors and tensors stacked over clients alike, their
state is plain tensors that a checkpoint can hold, and they spare each process the two seconds in which
`torch.optim.Optimizer` loads the compiler.
"""

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from common.spec import OptimiserSettings

State = dict[str, list[Tensor]]


def decay(lr_decay: float, round: int) -> float:
    """What learning rates are multiplied by in a round; the first has the full ones."""
    return lr_decay ** max(0, round - 1)


@torch.no_grad()
def step(
    settings: OptimiserSettings,
    parameters: list[Tensor],
    gradients: list[Tensor],
    state: State,
    lr_factor: float = 1.0,
) -> None:
    """One step in place. `state` starts as {} and is filled and updated here; it belongs to these parameters."""
    lr = settings.lr * lr_factor
    if settings.name == "sgd":
        if settings.momentum and not state:
            state["momentum"] = [torch.zeros_like(p) for p in parameters]
        sgd(
            parameters,
            gradients,
            list(state.get("momentum", [None] * len(parameters))),
            lr=lr,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
    else:
        if not state:
            state["mean"] = [torch.zeros_like(p) for p in parameters]
            state["square"] = [torch.zeros_like(p) for p in parameters]
            state["step"] = [torch.zeros((), device=p.device) for p in parameters]  # where the fused step reads it
        adam(
            parameters,
            [_laid_out_as(p, g) for p, g in zip(parameters, gradients, strict=True)],
            state["mean"],
            state["square"],
            [],
            state["step"],
            lr=lr,
            beta1=settings.betas[0],
            beta2=settings.betas[1],
            eps=1e-8,
            weight_decay=settings.weight_decay,
            amsgrad=False,
            maximize=False,
            fused=True,  # a ninth of the time on perceptrons of a million weights
        )


def _laid_out_as(parameter: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with the parameter's strides: the fused step pairs numbers by where they lie in memory."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
