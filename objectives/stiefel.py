"""Steps on matrices with orthonormal columns, which stay such: the Cayley transform."""

import torch
from torch import Tensor


def random(classes: int, d: int, k: int, draw: torch.Generator) -> Tensor:
    """(classes, d, k), columns orthonormal, evenly over all such matrices."""
    return orthonormal(torch.randn(classes, d, k, generator=draw, dtype=torch.float64))


def orthonormal(theta: Tensor) -> Tensor:
    """The Q of a QR factorisation whose R has a positive diagonal."""
    q, r = torch.linalg.qr(theta)
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
    """How fast a function with this gradient changes at tau = 0 of `cayley`: -|g theta^T - theta g^T|^2 / 2."""
    inner, overlap = gradient.mT @ gradient, theta.mT @ gradient
    return -(inner.diagonal(dim1=-2, dim2=-1).sum(-1) - (overlap * overlap.mT).sum(dim=(-1, -2)))


def recovered(theta: Tensor, moved: Tensor, tau: Tensor) -> Tensor:
    """A gradient that takes theta to `moved` by a step of tau, so that who knows both can take any other step.

    That is how clients halve a step without hearing of it (App. C.3, which does not say how). With A = g theta^T -
    theta g^T, moved - theta = -tau / 2 A (theta + moved): what of g is orthogonal to theta follows by a division, and
    so does theta^T g up to a symmetric part, on which the step does not depend.
    """
    middle = theta + moved
    along = theta.mT @ middle
    force = 2 / tau[:, None, None] * (theta - moved)  # A (theta + moved)
    inside = theta.mT @ force
    outside = torch.linalg.solve(along, force - theta @ inside, left=False)
    # inside = (a - a^T) along - outside^T middle with a = theta^T g; the last, divided by along, is symmetric
    antisymmetric = torch.linalg.solve(along, inside, left=False)
    return outside + theta @ antisymmetric / 2
