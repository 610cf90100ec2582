"""StarGAN (Choi et al. 2018): one generator that translates images between all domains, here the styles.

Equations are the paper's. Where it leaves something open, this is DIRT's version for rotated MNIST (Nguyen et al.
2021), which FedINB federates: images stay in [0, 1] though the generator ends in a tanh, the generator sees the source
beside the target, and the rate is constant, for what the code calls a linear decay takes off a thousandth.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat
from torch import Tensor

from common.errors import InputError
from common.settings import Count, Layers, Units, Width, settings
from federation import Update, names
from networks.stargan import StarGANFeatures, StarGANGenerator, classifier, critic
from objectives.objective import Model, Objective

DISCRIMINATOR = names("encoder", "critic", "classifier")
GENERATOR = names("generator")


def gradient_penalty(score: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """E[(|grad_x D_src(x)|_2 - 1)^2], the last term of Eq. 8.

    Args:
        score: images -> (batch, patches); the gradient is that of the sum over patches, as in both authors' code.
        x: (batch, channels, height, width).
    """
    slopes = torch.func.grad(lambda images: score(images).sum())(x)  # which, unlike autograd's, vmap can map
    return (slopes.flatten(1).norm(dim=1) - 1).square().mean()


@settings
class StarGAN(Objective):
    """min_D and min_G of Eq. 5 and 6, on images whose domain the engine tells as `style`.

    Attributes:
        domains: how many there are, at whichever client.
        targets: `permuted` shuffles the domains of the batch, as both authors' code does, so that a client that has one
            domain never asks for another; `uniform` draws from all.
        width, blocks: of the generator.
        lambda_cls, lambda_rec, lambda_gp: of Eq. 5, 6 and 8.
        discriminator_steps: n_critic, the discriminator's steps for one of the generator.
    """

    domains: Units
    targets: Literal["permuted", "uniform"] = "permuted"
    width: Width = 64
    blocks: Layers = 6
    lambda_cls: NonNegativeFloat = 1.0
    lambda_rec: NonNegativeFloat = 10.0
    lambda_gp: NonNegativeFloat = 10.0
    discriminator_steps: Count = 5

    def model(self) -> Any:
        """Parts: encoder, which is the discriminator below its heads; critic D_src, classifier D_cls, generator G.

        The generator has an encoder of its own, but what it codes depends on the target, and features should not.

        Raises:
            InputError: the network is not StarGAN's.
        """
        encoder = self.encoder()
        if not isinstance(encoder, StarGANFeatures):
            raise InputError(f"network.name: the objective 'stargan' needs 'stargan', got {type(encoder).__name__}")
        return Model(
            encoder=encoder,
            critic=critic(encoder),
            classifier=classifier(encoder, self.domains),
            generator=StarGANGenerator(self.channels, self.image_size, self.domains, self.width, self.blocks),
        )

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> dict[str, Any]:
        """Images in [0, 1]; `epsilon`, where between real and fake the penalty is taken; and `target`, the domain or
        a random rank: a batch may be split after it is drawn, and is permuted only when it is used.
        """
        n = len(x)
        if self.targets == "uniform":
            target = torch.randint(self.domains, (n,), generator=generator)
        else:
            target = torch.rand(n, generator=generator)
        return {"x": x, "target": target, "epsilon": torch.rand(n, generator=generator)}

    def updates(self) -> list[Update]:
        """n_critic steps on D, then one on G."""
        return [
            Update(DISCRIMINATOR, self.discriminator_loss),
            Update(GENERATOR, self.generator_loss, every=self.discriminator_steps),
        ]

    def pairs(self, batch: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """Each image's own domain and the one it is translated to, (batch,) each.

        Raises:
            InputError: nobody knows the images' domains.
        """
        if "style" not in batch:
            raise InputError("data.pool: StarGAN learns from the style of each image; with 'together' images have none")
        source, drawn = batch["style"], batch["target"]
        return source, drawn if self.targets == "uniform" else source[drawn.argsort()]

    def one_hot(self, domains: Tensor) -> Tensor:
        """Domains (batch,) as the generator sees them, (batch, domains).

        Raises:
            InputError: one of them is not in 0..domains-1.
        """
        try:
            return torch.eye(self.domains, device=domains.device)[domains]
        except IndexError as error:
            raise InputError(f"objective.domains: an image shows a style beyond these {self.domains}") from error

    def discriminator_loss(self, m: Any, batch: dict[str, Any]) -> Tensor:
        """L_D = -L_adv + lambda_cls L_cls^r (Eq. 5, with Eq. 2 and 8)."""
        real, (source, target) = batch["x"], self.pairs(batch)
        with torch.no_grad():
            fake = m.generator(real, self.one_hot(source), self.one_hot(target))
        features, epsilon = m.encoder(real), batch["epsilon"][:, None, None, None]
        between = epsilon * real + (1 - epsilon) * fake
        penalty = gradient_penalty(lambda x: m.critic(m.encoder(x)), between)
        adversarial = m.critic(features).mean() - m.critic(m.encoder(fake)).mean() - self.lambda_gp * penalty  # Eq. 8
        return -adversarial + self.lambda_cls * F.cross_entropy(m.classifier(features), source)  # Eq. 2

    def generator_loss(self, m: Any, batch: dict[str, Any]) -> Tensor:
        """L_G = L_adv + lambda_cls L_cls^f + lambda_rec L_rec (Eq. 6, with Eq. 3 and 4)."""
        real, (source, target) = batch["x"], self.pairs(batch)
        here, there = self.one_hot(source), self.one_hot(target)
        fake = m.generator(real, here, there)
        features = m.encoder(fake)
        classification = F.cross_entropy(m.classifier(features), target)  # Eq. 3
        reconstruction = F.l1_loss(m.generator(fake, there, here), real)  # Eq. 4
        return -m.critic(features).mean() + self.lambda_cls * classification + self.lambda_rec * reconstruction

    @torch.no_grad()
    def translate(self, model: Any, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """Images in the target domains, clamped to [0, 1], for a tanh may be below.

        In evaluation mode norms use the running statistics, as in DIRT's code; in training mode each image's own, as in
        StarGAN's.

        Args:
            x: (images, channels, height, width) in [0, 1].
            source, target: domains, (images,) each.

        Raises:
            InputError: the images have another size, or a domain is none.
        """
        if x.shape[1:] != (self.channels, self.image_size, self.image_size):
            wanted = f"{self.channels} x {self.image_size} x {self.image_size}"
            raise InputError(f"images must be {wanted}, got {' x '.join(map(str, x.shape[1:]))}")
        for name, domains in (("source", source), ("target", target)):
            if domains.shape != x.shape[:1]:
                raise InputError(f"{name}: must be ({len(x)},), got {tuple(domains.shape)}")
            if len(x) and not 0 <= int(domains.min()) <= int(domains.max()) < self.domains:
                found = f"{int(domains.min())}..{int(domains.max())}"
                raise InputError(f"{name}: domains are in 0..{self.domains - 1}, got {found}")
        return model.generator(x, self.one_hot(source), self.one_hot(target)).clamp(0, 1)
