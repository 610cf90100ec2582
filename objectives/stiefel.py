"""Steps on matrices with orthonormal columns, which stay such: the Cayley transform with backtracking."""

import torch
from torch import Tensor


def random(classes: int, d: int, k: int, draw: torch.Generator) -> Tensor:
    """(classes, d, k), columns orthonormal, evenly over all such matrices."""
    q, r = torch.linalg.qr(torch.randn(classes, d, k, generator=draw, dtype=torch.float64))
    return q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def cayley(theta: Tensor, gradient: Tensor, tau: Tensor) -> Tensor:
    """theta - tau u (I + tau / 2 v^T u)^-1 v^T theta with u = [g, theta], v = [theta, -g] (Algorithm 1).

    Args:
        theta, gradient: (classes, d, K), 64-bit floats.
        tau: step sizes (classes,).
    """
    u, v = torch.cat([gradient, theta], dim=-1), torch.cat([theta, -gradient], dim=-1)
    tau = tau[:, None, None]
    eye = torch.eye(u.shape[-1], dtype=u.dtype, device=u.device)
    return theta - tau * u @ torch.linalg.solve(eye + tau / 2 * v.mT @ u, v.mT @ theta)


def slope(theta: Tensor, gradient: Tensor) -> Tensor:
    """How fast a function with this gradient changes at tau = 0 of `cayley`: -1/2 |g theta^T - theta g^T|^2, (classes,)."""
    inner, overlap = gradient.mT @ gradient, theta.mT @ gradient
    return -(inner.diagonal(dim1=-2, dim2=-1).sum(-1) - (overlap * overlap.mT).sum(dim=(-1, -2)))
