"""The data of PaDPaF's Simpson's paradox (App. C.1): within each client y rises with x, over all clients it falls."""

from typing import Literal

import numpy as np


def simpson(
    seed: int,
    reading: Literal["code", "paper"] = "code",
    clients: int = 8,
    points: int = 50,
    spacing: float = 4.0,
    clutter: float = 0.2,
) -> np.ndarray:
    """Points (clients, points, 2) of x and y, both standardised over all clients.

    Args:
        reading: `paper`: x uniform on [M - i, M - i + 1], biases uniform on [L (i - 1), L i]. `code`: x from
            N(2 (M - i), 1), b_i = L (i - 1), and noise on y, which is what the figures and the printed errors come
            from; with the paper's x clients could be told apart by x alone.
        spacing: L.
        clutter: the standard deviation of the code's noise on y.
    """
    rng = np.random.default_rng(seed)
    i = np.arange(1, clients + 1)[:, None]
    if reading == "paper":
        x = rng.uniform(clients - i, clients - i + 1, (clients, points))
        y = x + rng.uniform(spacing * (i - 1), spacing * i)
    else:
        x = 2 * (clients - i) + rng.normal(size=(clients, points))
        y = x + spacing * (i - 1) + clutter * rng.normal(size=(clients, points))
    both = np.stack([x, y], axis=2)
    return (both - both.mean(axis=(0, 1))) / both.std(axis=(0, 1))
