"""Images of rotated domains (Ghifary et al. 2015; FedINB, Sec. 4): the same pictures, each turned by one angle."""

import numpy as np
import torch
from PIL import Image
from torch import Tensor


def rotated(images: Tensor, degrees: float) -> Tensor:
    """Images turned counter-clockwise about their centre: nearest pixel, black outside, as `PIL.Image.rotate` does it.

    An image of pixel numbers is turned by PIL, once for all images, and says where each pixel comes from.

    Args:
        images: bytes (n, channels, size, size).
    """
    size = images.shape[-1]
    numbers = np.arange(1, size * size + 1, dtype=np.int32).reshape(size, size)
    origins = np.asarray(Image.fromarray(numbers).rotate(degrees)).flatten()  # 0 outside
    turned = images.flatten(2).numpy().take(origins - 1, axis=2, mode="clip") * (origins > 0)
    return torch.from_numpy(turned).unflatten(2, (size, size))
