"""What can befall an image without changing what it shows: noise, a shift, blur.

Images are (n, channels, size, size) in [0, 1], and stay there. Judges are trained on these and measured under them.
"""

import torch
from torch import Tensor


def noisy(x: Tensor, sigma: Tensor, draw: torch.Generator) -> Tensor:
    """Gaussian noise of standard deviation sigma (n,)."""
    noise = torch.randn(x.shape, generator=draw)
    return (x + sigma[:, None, None, None] * noise).clamp(0, 1)


def shifted(x: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Moved by whole pixels (n,) each; what comes in repeats the border."""
    places = torch.arange(x.shape[-1])
    rows, columns = ((places - by[:, None]).clamp(0, x.shape[-1] - 1) for by in (down, right))
    image = torch.arange(len(x))[:, None, None]
    return x[image, :, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)


def blurred(x: Tensor, sigma: Tensor) -> Tensor:
    """By a Gaussian of standard deviation sigma (n,) pixels, within 5 x 5."""
    from kornia.filters import gaussian_blur2d  # half a second, which only judges need pay

    return gaussian_blur2d(x, (5, 5), sigma[:, None].expand(-1, 2))


def augmented(x: Tensor, draw: torch.Generator) -> Tensor:
    """Two images of three shifted by up to 2 pixels either way, half of these blurred by up to 1.2, noise of up to 0.3.

    These reach a little beyond `CORRUPTIONS`, so that these lie within what a judge has seen. The third that stays as
    it is costs a little of the robustness; without it, whose images they are is learnt much more slowly.
    """

    def uniform(low: float, high: float) -> Tensor:
        return torch.empty(len(x)).uniform_(low, high, generator=draw)

    moved = shifted(x, *torch.randint(-2, 3, (2, len(x)), generator=draw))
    soft = (uniform(0, 1) < 0.5)[:, None, None, None]
    moved = torch.where(soft, blurred(moved, uniform(0.1, 1.2)), moved)
    kept = (uniform(0, 1) < 1 / 3)[:, None, None, None]
    return torch.where(kept, x, noisy(moved, uniform(0, 0.3), draw))


def corrupted(x: Tensor, how: str, strength: float, draw: torch.Generator) -> Tensor:
    """All images by the same strength: `noise`, `blur`, `brightness`, or `shift` to a side that is drawn for each.

    Args:
        strength: sigma in [0, 1] of noise, what is added to all pixels, sigma of blur and shift in pixels.
    """
    everywhere = torch.full((len(x),), float(strength))
    if how == "noise":
        return noisy(x, everywhere, draw)
    if how == "blur":
        return blurred(x, everywhere)
    if how == "brightness":
        return (x + strength).clamp(0, 1)
    sides = torch.tensor([[1, 0], [-1, 0], [0, 1], [0, -1]])[torch.randint(4, (len(x),), generator=draw)]
    return shifted(x, *(int(strength) * sides).T)


CORRUPTIONS = (("noise", 0.1), ("noise", 0.2), ("shift", 1), ("shift", 2), ("blur", 0.5), ("blur", 1.0))
"""Under which a judge's accuracy is measured: what, and how strong."""
