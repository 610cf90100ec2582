"""Views of a batch of images: kornia's augmentations, drawn per sample and applied to the batch on its device."""

import threading
from typing import Annotated

import kornia.augmentation as K
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from common.settings import STRICT

Share = Annotated[float, Field(ge=0, le=1)]


class AugmentationSettings(BaseModel):
    """What is done to an image; the defaults are those of the FedU code, whose protocol FedStyle follows.

    Attributes:
        crop: the smallest share of the area that a random resized crop keeps.
        flip: probability of a horizontal flip. It makes mirrored digits that do not exist; the protocol does it.
        jitter, jitter_probability: strength of brightness, contrast and saturation changes, and how often.
        hue: strength of the hue change, in turns.
        grey: probability of losing all colour.
        blur: probability of a Gaussian blur (used for images of 224 pixels).
    """

    model_config = STRICT | ConfigDict(frozen=True)

    crop: Annotated[float, Field(gt=0, le=1)] = 0.08
    flip: Share = 0.5
    jitter: Annotated[float, Field(ge=0, le=100)] = 0.8
    hue: Annotated[float, Field(ge=0, le=0.5)] = 0.2
    jitter_probability: Share = 0.8
    grey: Share = 0.2
    blur: Share = 0.0


_GLOBAL_RANDOM_STATE = threading.Lock()  # kornia draws from torch's global generator, which all threads share

_THREAD = threading.local()


class Augmentation:
    """A sequence of augmentations for images of one size; all that is random comes from the generator it is given."""

    def __init__(self, settings: AugmentationSettings, size: tuple[int, int]) -> None:
        s = settings
        # cropping_mode: "slice", kornia's default, loops over the samples
        self.steps: list[K.AugmentationBase2D] = [
            K.RandomResizedCrop(size, scale=(s.crop, 1.0), cropping_mode="resample")
        ]
        if s.flip:
            self.steps.append(K.RandomHorizontalFlip(p=s.flip))
        if s.jitter or s.hue:
            self.steps.append(K.ColorJitter(s.jitter, s.jitter, s.jitter, s.hue, p=s.jitter_probability))
        if s.grey:
            self.steps.append(K.RandomGrayscale(p=s.grey))
        if s.blur:
            self.steps.append(K.RandomGaussianBlur((size[0] // 20 * 2 + 1,) * 2, (0.1, 2.0), p=s.blur))

    @staticmethod
    def of(settings: AugmentationSettings, size: tuple[int, int]) -> "Augmentation":
        """The augmentation with these settings, made once per thread: kornia's modules keep what they last drew."""
        made = _THREAD.__dict__.setdefault("augmentations", {})
        if (settings, size) not in made:
            made[settings, size] = Augmentation(settings, size)
        return made[settings, size]

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """One view of x (batch, channels, height, width) in [0, 1], each sample changed on its own.

        Grey images are changed as colour ones that are grey, and stay so.
        """
        channels = x.shape[1]
        x = x.expand(-1, 3, -1, -1) if channels == 1 else x
        with _GLOBAL_RANDOM_STATE, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(torch.randint(2**62, (), generator=generator)))
            drawn = [step.forward_parameters(x.shape) for step in self.steps]
        for step, parameters in zip(self.steps, drawn, strict=True):
            x = step(x, params=parameters)
        return x[:, :channels]
