"""PS-FedGAN: Wijesinghe et al. 2023, Partially shared generative adversarial networks. Users publish discriminators;
the server's generators, which start from a secret that each user shares with it, take the users' steps with them."""

import copy
from dataclasses import replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor

from attacks.eavesdropper import Attacker, Eavesdropper, perturbed, secret_of, units_in_the_last_place
from common.keys import random_key
from common.optimisers import State, step
from common.spec import OptimiserSettings
from federation import Algorithm, Batch, CloudSettings, Listener, Names, Phase, Update, names, nothing, settings
from networks.cgan import Discriminator, Generator, masks
from objectives.classification import Classification
from objectives.objective import Model
from objectives.twin import Twin, agreed_masks, generator_loss, tensors_of

CLASSIFIER = OptimiserSettings(name="adam", lr=1e-3)
BATCH = 64


@settings
class PSFedGAN(Algorithm):
    """Algorithm 1. A user takes a step on its discriminator D, publishes (D, z, l), and takes a step on its generator G
    with this z and l, as does the server's generator of that user.

    Read with these corrections: D is trained on real images as well (line 8 leaves them out), and on z and labels of
    its own, not on those that are published. Labels are those that the user has images of. D drops hidden units: in the
    step on G both sides drop the same ones, which they draw from the secret and the number of the step, as the text's
    "randomness in D handled deterministically" needs.

    Attributes:
        latent, width: of the networks.
        share: what a user publishes: the `discriminator`; `all`, its generator as well (full GAN sharing); or its
            generator `once`, at the end of each round, and nothing else.
        synthetic: images that the server generates of each user in a round.
        classifier_epochs: passes over them and the server's own images in a round.
        attackers: who listens; each to every user.
    """

    latent: PositiveInt = 100
    width: PositiveInt = 256
    share: Literal["discriminator", "all", "once"] = "discriminator"
    synthetic: PositiveInt = 6000
    classifier_epochs: PositiveInt = 5
    attackers: list[Attacker] = Field(default_factory=list)
    objective: Classification

    @property
    def shared(self) -> Names:  # type: ignore[override]
        """Nothing is averaged."""
        return nothing

    def model(self) -> Any:
        """Parts: generator G_u and discriminator D_u; buffers: the secret, and the number of steps taken on G_u."""
        images = {"channels": self.objective.channels, "image_size": self.objective.image_size}
        model: Any = Model(
            generator=Generator(**images, classes=self.objective.classes, latent=self.latent, width=self.width),
            discriminator=Discriminator(**images, classes=self.objective.classes, width=self.width),
        )
        model.register_buffer("secret", torch.zeros((), dtype=torch.long))
        model.register_buffer("taken", torch.zeros((), dtype=torch.long))
        return model

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Batch:
        """Real images in [-1, 1]; z and labels for the step on D and for that on G; what D drops in its own step."""
        n = len(x)
        z = tuple(torch.randn(n, self.latent, generator=generator) for _ in range(2))
        fakes = tuple(y[torch.randint(n, (n,), generator=generator)] for _ in range(2))
        dropped = (*masks(self.width, n, generator), *masks(self.width, n, generator))
        return {"x": 2 * x - 1, "y": y, "z": z, "labels": fakes, "masks": dropped}

    def phases(self) -> list[Phase]:
        """Lines 6-12."""
        steps = [
            Update(names("discriminator"), self.discriminator_loss),
            Update(names("generator"), self.generator_loss, publish=None if self.share == "once" else self.published),
        ]
        return [Phase(steps, publish=None if self.share == "discriminator" else self.published_at_the_end)]

    def discriminator_loss(self, m: Any, batch: Batch) -> Tensor:
        """-log D(x) - log(1 - D(G(z))) (Eq. 4)."""
        with torch.no_grad():
            fake = m.generator(batch["z"][0], batch["labels"][0])
        real = m.discriminator(batch["x"], batch["y"], batch["masks"][:3])
        made = m.discriminator(fake, batch["labels"][0], batch["masks"][3:])
        return (F.softplus(-real) + F.softplus(made)).mean()

    def generator_loss(self, m: Any, batch: Batch) -> Tensor:
        """-log D(G(z)), the non-saturating form."""
        dropped = agreed_masks(self.width, len(batch["y"]), (int(m.secret), int(m.taken)))
        return generator_loss(m, batch["z"][1], batch["labels"][1], dropped)

    def published(self, m: Any, batch: Batch) -> dict[str, Tensor]:
        """M_p: (D_u, z_t, l_t) (Sec. 2.2.1); or (G_u, D_u) (Sec. 2.2.1, the method it is compared with)."""
        m.taken += 1
        parts = tensors_of(m, "discriminator")
        if self.share == "all":
            return parts | tensors_of(m, "generator")
        return parts | {"z": batch["z"][1], "labels": batch["labels"][1]}

    def published_at_the_end(self, m: Any) -> dict[str, Tensor]:
        """G_u, where it is sent as it is."""
        return tensors_of(m, "generator")

    def scores(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Users have no classifier; the cloud's is scored."""
        return {}

    def cloud(self, members: list[Any], images: Tensor, labels: Tensor, work: CloudSettings) -> "Cloud":
        """Lines 1-5: user and server draw G from their secret; the classifier is trained on the server's images."""
        for user, member in enumerate(members):
            member.secret.fill_(random_key(work.seed, "secret", user) % 2**62)
            member.generator.load_state_dict(self.from_secret(int(member.secret)).state_dict())
        return Cloud(self, [int(member.secret) for member in members], images, labels, work)

    def eavesdroppers(self, members: list[Any], work: CloudSettings) -> list[Listener]:
        """Every attacker on every user."""
        return [
            self._eavesdropper(attacker, user, int(member.secret), random_key(work.seed, attacker.label, user), work)
            for attacker in self.attackers
            for user, member in enumerate(members)
        ]

    def _eavesdropper(self, attacker: Attacker, user: int, secret: int, seed: int, work: CloudSettings) -> Eavesdropper:
        twin = self.twin(secret, secret_of(attacker, secret, seed), work.optimiser)
        true = twin.generator
        if attacker.name in ("independent", "fresh"):
            twin.generator = self.from_secret(seed % 2**62)
        elif attacker.name == "architecture":
            twin.generator = replace(self, width=max(1, self.width // 2)).from_secret(seed % 2**62)
        else:
            twin.generator = perturbed(true, attacker)
        alike = attacker.name != "architecture"
        return Eavesdropper(attacker, user, twin, seed, units_in_the_last_place(true, twin.generator) if alike else -1)

    def twin(self, secret: int, dropped: int, optimiser: OptimiserSettings) -> Twin:
        """Who takes a user's steps with it, given the secret of its generator's start and that of what D drops."""
        return Twin(self.from_secret(secret), self.model().discriminator, dropped, optimiser)

    def from_secret(self, secret: int) -> Generator:
        """The generator that this secret stands for."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(secret % 2**63)
            return self.model().generator


class Cloud:
    """The server: a twin of every user's generator, its own images, and the global classifier C_l."""

    def __init__(
        self, algorithm: PSFedGAN, secrets: list[int], images: Tensor, labels: Tensor, work: CloudSettings
    ) -> None:
        self.algorithm, self.work, self.own = algorithm, work, (images, labels)
        self.twins = [algorithm.twin(secret, secret, work.optimiser) for secret in secrets]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(random_key(work.seed, "classifier"))
            self.classifier = algorithm.objective.model()
        self.classifier_state = State()
        if len(images):
            self._train(0, images, labels)

    def receive(self, client: int, message: dict[str, Tensor]) -> None:
        """To the user's twin."""
        self.twins[client].receive(message)

    def finish(self, round: int) -> None:
        """Line 14: train C_l on cloud data and synthetic data."""
        draw = torch.Generator().manual_seed(random_key(self.work.seed, "synthetic", round))
        made = [self._images(twin, draw) for twin in self.twins]
        images, labels = (torch.cat(column) for column in zip(self.own, *made, strict=True))
        self._train(round, images, labels)

    def _images(self, twin: Twin, draw: torch.Generator) -> tuple[Tensor, Tensor]:
        """Synthetic images in [0, 1] and their labels, evenly over those of the user; over all, if it sends none."""
        known = torch.tensor(sorted(twin.labels) or list(range(self.algorithm.objective.classes)))
        count = self.algorithm.synthetic
        labels = known.repeat(-(-count // len(known)))[:count]
        return twin.images(torch.randn(count, self.algorithm.latent, generator=draw), labels), labels

    def _train(self, round: int, images: Tensor, labels: Tensor) -> None:
        order = torch.Generator().manual_seed(random_key(self.work.seed, "classifier batches", round))
        parameters: list[Tensor] = list(self.classifier.train().parameters())
        for _ in range(self.algorithm.classifier_epochs):
            for rows in torch.randperm(len(images), generator=order).split(BATCH):
                if len(rows) > 1:  # batch norm needs two
                    loss = self.algorithm.objective.loss(self.classifier, {"x": images[rows], "y": labels[rows]})
                    gradients = list(torch.autograd.grad(loss, parameters))
                    step(CLASSIFIER, parameters, gradients, self.classifier_state)

    def scores(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Of the global classifier."""
        return self.algorithm.objective.scores(self.classifier.eval(), x, y)

    def state(self) -> dict[str, Any]:
        """Twins, the classifier, its optimiser."""
        kept = {"classifier": self.classifier.state_dict(), "optimiser": self.classifier_state}
        return kept | {"twins": [twin.state() for twin in self.twins]}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        for twin, kept in zip(self.twins, state["twins"], strict=True):
            twin.load(kept)
        self.classifier.load_state_dict(state["classifier"])
        self.classifier_state = copy.deepcopy(state["optimiser"])
