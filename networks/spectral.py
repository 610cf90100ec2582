"""Spectral normalisation (Miyato et al. 2018) that can be mapped over clients."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _unit(x: Tensor) -> Tensor:
    """x / |x|: the numbers of F.normalize, whose overhead would be most of what a power iteration costs."""
    return x / torch.linalg.vector_norm(x).clamp_min(1e-12)


class _SpectralNorm(nn.Module):
    """Divides a weight by its largest singular value, which power iteration follows from step to step.

    torch's own parametrisation writes its vectors through `out=`, which `torch.func.vmap` cannot map; here the vector u
    is a plain buffer. As there, a forward in training mode takes one step of the iteration first.
    """

    weight: Tensor
    u: Tensor

    def _start(self, steps: int = 15) -> None:
        self.register_buffer("u", F.normalize(torch.randn(self.weight.shape[0]), dim=0))
        self.settle(steps)

    @torch.no_grad()
    def settle(self, steps: int = 20) -> None:
        """Take many steps: what a weight needs that did not grow with its u, such as an average of clients'."""
        for _ in range(steps):
            self.u.copy_(self._iterated()[0])

    def _iterated(self) -> tuple[Tensor, Tensor]:
        matrix = self.weight.flatten(1)
        v = _unit(matrix.T @ self.u)
        return _unit(matrix @ v), v

    def normalised(self) -> Tensor:
        """The weight over its spectral norm (Miyato et al. 2018, Eq. 8; Algorithm 1)."""
        with torch.no_grad():
            u, v = self._iterated()
            if self.training:
                self.u.copy_(u)
        return self.weight / (u @ (self.weight.flatten(1) @ v))


class SNConv2d(nn.Conv2d, _SpectralNorm):
    """A convolution with a spectrally normalised kernel."""

    def __init__(self, inputs: int, outputs: int, size: int, padding: int = 0) -> None:
        super().__init__(inputs, outputs, size, padding=padding)
        self._start()

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, inputs, height, width) -> (batch, outputs, ...)."""
        return F.conv2d(x, self.normalised(), self.bias, padding=self.padding)


class SNLinear(nn.Linear, _SpectralNorm):
    """A linear layer with a spectrally normalised matrix."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self._start()

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, inputs) -> (batch, outputs)."""
        return F.linear(x, self.normalised(), self.bias)


def settle(model: nn.Module) -> None:
    """Let every spectral norm of `model` find its singular value anew."""
    for module in model.modules():
        if isinstance(module, _SpectralNorm):
            module.settle()
