"""PaDPaF's β-VAE (App. C.2.4): the discriminators' features become encoders, the generator the decoder."""

from typing import Any

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat
from torch import Tensor, nn

from common.settings import settings
from networks.padpaf import projector
from objectives.gaussian import Posterior, kl_divergence, sample, standard_like
from objectives.generative import Generative, Noise, barlow_twins, of_one_style
from objectives.objective import Model


def kl_to_prior(of: Posterior) -> Tensor:
    """D_KL(N(mean, variance) || N(0, I)), the mean over the batch."""
    return kl_divergence(of, standard_like(of)).mean()


def posterior(part: Any, x: Tensor) -> Posterior:
    """p(z | x) of the content's or the style's encoder."""
    mean, log_variance = part.posterior(part.encoder(x)).chunk(2, dim=1)
    return mean, log_variance


@settings
class BetaVAE(Generative):
    """Eq. 16, and the regulariser of Eq. 14 between codes of an image and of its decoding with one latent exchanged.

    The paper asks for low values of both weights; these are the authors' code's. That code decodes with a style drawn
    from the prior, so that its style encoder never sees a reconstruction; here both latents come from the posterior, as
    in Eq. 16. Images are scored by mean squared error, which makes the weight of the divergence relative to the number
    of pixels: beta * latent / (channels * height * width).

    Attributes:
        beta: of Eq. 16.
    """

    lam: NonNegativeFloat = 0.001
    beta: NonNegativeFloat = 0.01

    def model(self) -> Any:
        """Parts: encoder, posterior, projector, generator; style: encoder, posterior, projector, vectoriser."""

        def part(encoder: Any, **more: nn.Module) -> Model:
            heads = nn.Linear(encoder.features, 2 * self.latent)
            return Model(encoder=encoder, posterior=heads, projector=projector(2 * self.latent), **more)

        style = part(self.encoder(**self.style_network), vectoriser=self.vectoriser())
        return part(self.encoder(), generator=self.generator(), style=style)

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> dict[str, Any]:
        """Images, a draw for each posterior, a fresh latent of each kind, and all noise."""
        n = len(x)
        batch: dict[str, Any] = {
            "x": self.scaled(x),
            "epsilon": (self.latents(n, generator), self.latents(n, generator)),
            "prior": (self.latents(n, generator), self.latents(n, generator)),
            "noise": tuple(part for _ in range(3) for part in self.noise(n, generator)),
        }
        return batch | ({"y": self.one_hot(y)} if self.conditional else {})

    def loss(self, m: Any, batch: dict[str, Any]) -> Tensor:
        """Reconstruction, divergence (Eq. 16) and regulariser (Eq. 14)."""
        x, y = batch["x"], batch.get("y")
        layers = len(batch["noise"]) // 3
        noise: list[Noise] = [batch["noise"][n * layers : (n + 1) * layers] for n in range(3)]
        content, style = posterior(m, x), posterior(m.style, x)
        z_c, z_s = sample(content, batch["epsilon"][0]), sample(style, batch["epsilon"][1])
        error = F.mse_loss(of_one_style(m, z_c, z_s, y, noise[0]), x)
        divergence = kl_to_prior(content) + kl_to_prior(style)
        with torch.no_grad():  # sg in Eq. 14
            other_style = of_one_style(m, z_c, batch["prior"][1], y, noise[1])
            other_content = of_one_style(m, batch["prior"][0], z_s, y, noise[2])
        gamma = self._twins(m, content, other_style)
        if self.contrast == "both":
            gamma = gamma + self._twins(m.style, style, other_content)
        return error + self.beta * self.latent / x[0].numel() * divergence + self.lam * gamma

    def _twins(self, part: Any, of: Posterior, image: Tensor) -> Tensor:
        """The Barlow Twins loss between a code and that of an image made with it."""
        ours, theirs = (part.projector(torch.cat(code, dim=1)) for code in (of, posterior(part, image)))
        return barlow_twins(ours, theirs, self.off_diagonal)
