"""PaDPaF's generative adversarial game: two discriminators, content and style, against one generator."""

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from common.settings import Count, settings
from federation import Update, names
from networks.padpaf import ProjectionHead, projector
from objectives.generative import NOISE, Generative, barlow_twins, of_one_style
from objectives.objective import Model

Score = Callable[[Tensor], Tensor]
LOSSES: dict[str, tuple[Score, Score, Score]] = {
    "hinge": (lambda real: F.relu(1 - real), lambda fake: F.relu(1 + fake), lambda fake: -fake),
    "non-saturating": (lambda real: F.softplus(-real), F.softplus, lambda fake: F.softplus(-fake)),
    "wasserstein": (lambda real: -real, lambda fake: fake, lambda fake: -fake),
}
"""What the discriminator pays for its scores of real and of fake images, and the generator for those of its own."""

DISCRIMINATORS = names("encoder", "head", "projector", "style.encoder", "style.head", "style.projector")
GENERATORS = names("generator", "style.vectoriser")


@settings
class GAN(Generative):
    """min_G max_D of f_i (Eq. 9), with the regulariser Γ_i (Eq. 14) for the discriminators (Eq. 15).

    D^c = head(encoder(x), y) and D^s = style.head(style.encoder(x)): ψ ∘ φ of Sec. 3.2.

    Attributes:
        loss_name: Eq. 9 is written with logarithms (`non-saturating`), the text speaks of the Wasserstein distance,
            which without a penalty was never run, and the authors' code uses the hinge.
        discriminator_steps: T_D.
    """

    loss_name: Literal["hinge", "non-saturating", "wasserstein"] = "hinge"
    discriminator_steps: Count = 3

    def model(self) -> Any:
        """Parts: encoder φ^c, head ψ^c, projector g^c, generator G^c; style: encoder φ^s, head ψ^s, projector g^s,
        vectoriser G^s.
        """
        content, style = self.encoder(), self.encoder(**self.style_network)
        return Model(
            encoder=content,
            head=ProjectionHead(content.features, self.label_size),
            projector=projector(content.features),
            generator=self.generator(),
            style=Model(
                encoder=style,
                head=ProjectionHead(style.features),
                projector=projector(style.features),
                vectoriser=self.vectoriser(),
            ),
        )

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> dict[str, Any]:
        """Real images, two content and two style latents for each, and all noise; fake labels ỹ ~ Unif(Y).

        Images of the latents (1, 1), (1, 2) and (2, 1) are for the discriminators, those of (2, 2) for the generator.
        """
        n = len(x)
        batch: dict[str, Any] = {
            "x": self.scaled(x),
            "z_c": (self.latents(n, generator), self.latents(n, generator)),
            "z_s": (self.latents(n, generator), self.latents(n, generator)),
            "image_noise": tuple(NOISE * torch.randn(x.shape, generator=generator) for _ in range(5)),
            "noise": tuple(part for _ in range(4) for part in self.noise(n, generator)),
        }
        if self.conditional:
            fakes = torch.randint(self.classes, (n,), generator=generator)
            batch |= {"y": self.one_hot(y), "y_fake": self.one_hot(fakes)}
        return batch

    def updates(self) -> list[Update]:
        """GANOPT (Algorithm 1, lines 20-27): T_D steps on D, at twice the rate, then one on G.

        Line 8 as printed, (t mod T_D) + 1 = 0, would never train G.
        """
        trained = DISCRIMINATORS if self.contrast == "both" else DISCRIMINATORS & ~names("style.projector")
        return [
            Update(trained, self.discriminator_loss, lr_factor=2.0),  # line 25
            Update(GENERATORS, self.generator_loss, every=self.discriminator_steps),  # line 22
        ]

    def fake(self, m: Any, batch: dict[str, Any], content: int, style: int) -> Tensor:
        """Generated images from the content and the style latent of these numbers, with their noise."""
        which = 2 * content + style
        layers = len(batch["noise"]) // 4
        noise = batch["noise"][which * layers : (which + 1) * layers]
        images = of_one_style(m, batch["z_c"][content], batch["z_s"][style], batch.get("y_fake"), noise)
        return images + batch["image_noise"][which]

    def discriminator_loss(self, m: Any, batch: dict[str, Any]) -> Tensor:
        """-f_i + λ Γ_i: Eq. 9 for both discriminators, and Eq. 14 on images through which no gradient flows."""
        real, y, y_fake = batch["x"] + batch["image_noise"][4], batch.get("y"), batch.get("y_fake")
        both = self.contrast == "both"
        with torch.no_grad():  # sg in Eq. 14
            fake, other_style = self.fake(m, batch, 0, 0), self.fake(m, batch, 0, 1)
            other_content = [self.fake(m, batch, 1, 0)] if both else []
        n, on_real, on_fake = len(real), *LOSSES[self.loss_name][:2]
        # one pass over all images, and so one power iteration per step, as in Miyato et al. 2018, Algorithm 1
        h_real, h_fake, h_other = m.encoder(torch.cat([real, fake, other_style])).split(n)
        s_real, s_fake, *s_other = m.style.encoder(torch.cat([real, fake, *other_content])).split(n)
        content = on_real(m.head(h_real, y)) + on_fake(m.head(h_fake, y_fake))
        style = on_real(m.style.head(s_real)) + on_fake(m.style.head(s_fake))
        gamma = barlow_twins(m.projector(h_fake), m.projector(h_other), self.off_diagonal)
        if both:
            views = m.style.projector(s_fake), m.style.projector(s_other[0])
            gamma = gamma + barlow_twins(*views, self.off_diagonal)
        return (content + style).mean() + self.lam * gamma

    def generator_loss(self, m: Any, batch: dict[str, Any]) -> Tensor:
        """What G pays for the scores of its images, under both discriminators."""
        fake, pays = self.fake(m, batch, 1, 1), LOSSES[self.loss_name][2]
        scores = m.head(m.encoder(fake), batch.get("y_fake")), m.style.head(m.style.encoder(fake))
        return sum(pays(score).mean() for score in scores)  # type: ignore[return-value]
