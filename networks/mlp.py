"""The two-layer perceptron used as projector, predictor and generator."""

from torch import nn


def mlp(inputs: int, hidden: int, outputs: int, *, batch_norm: bool = False) -> nn.Sequential:
    """Linear, ReLU, Linear, with batch norm before the ReLU if asked."""
    norm = [nn.BatchNorm1d(hidden)] if batch_norm else []
    return nn.Sequential(nn.Linear(inputs, hidden), *norm, nn.ReLU(), nn.Linear(hidden, outputs))
