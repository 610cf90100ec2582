"""PS-FedGAN: Wijesinghe et al. 2023, Partially shared generative adversarial networks. Users publish discriminators;
the server's generators, which start from a secret that each user shares with it, take the users' steps with them."""

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from attacks.eavesdropper import Attacker, Eavesdropper, knowledge_of
from common.keys import random_key
from common.optimisers import State
from common.settings import Count, Units, Width
from common.spec import OptimiserSettings, TrainingSettings
from federation import (
    Algorithm,
    Batch,
    Listener,
    Phase,
    ServerWorkSettings,
    Update,
    names,
    nothing,
    require,
    settings,
    train_on,
)
from networks.cgan import Generator
from objectives.cgan import Twin, agreed_masks, discriminator_loss, drawn, gan, generator_loss, images_of, tensors_of
from objectives.classification import Classification
from objectives.objective import Model

CLASSIFIER = OptimiserSettings(name="adam", lr=1e-3)


@settings
class PSFedGAN(Algorithm):
    """Algorithm 1, whose lines are counted with every `end for`. A user takes a step on its discriminator D, publishes
    (D, z, l), and takes a step on its generator G with this z and l, as does the server's generator of that user.

    Read with these corrections: D is trained on real images as well (line 10 leaves them out), and on z and labels of
    its own, not on those that are published. Labels are those that the user has images of. D drops hidden units: in the
    step on G both sides drop the same ones, which they draw from the secret and the number of the step, as the text's
    "randomness in D handled deterministically" needs.

    Attributes:
        latent, width: of the networks.
        dropout: the share of a discriminator's hidden units that is dropped.
        share: what a user publishes: the `discriminator`; `all`, its generator as well (full GAN sharing); or its
            generator `once`, at the end of each round, and nothing else.
        synthetic: images that the server generates of each user in a round.
        classifier_epochs: passes over them and the server's own images in a round, and over the latter at the start.
        attackers: who listens; each to every user.
    """

    latent: Units = 100
    width: Width = 256
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.3
    share: Literal["discriminator", "all", "once"] = "discriminator"
    synthetic: Count = 6000
    classifier_epochs: Count = 1  # not said; line 16 trains C_l once in a round, outside of the loops over steps
    attackers: list[Attacker] = Field(default_factory=list)
    objective: Classification
    shared = nothing
    """Nothing is averaged."""

    def model(self) -> Any:
        """Parts: generator G_u and discriminator D_u; buffers: the secret, the number of steps taken on G_u, and which
        labels it was trained on."""
        model: Any = Model(**gan(self, self.objective))
        model.register_buffer("secret", torch.zeros((), dtype=torch.long))
        model.register_buffer("taken", torch.zeros((), dtype=torch.long))
        model.register_buffer("asked", torch.zeros(self.objective.classes, dtype=torch.bool))
        return model

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Batch:
        """What the step on D needs, and z and labels for that on G, which are sent."""
        sent = {"z": torch.randn(len(x), self.latent, generator=generator)}
        sent["labels"] = y[torch.randint(len(x), (len(x),), generator=generator)]
        batch = drawn(x, y, self, generator)
        return batch | {f"sent_{name}": tensor for name, tensor in sent.items()}

    def phases(self) -> list[Phase]:
        """Lines 7-15."""
        steps = [
            Update(names("discriminator"), discriminator_loss),
            Update(names("generator"), self.generator_loss, publish=self.published),
        ]
        return [Phase(steps, publish=None if self.share == "discriminator" else self.published_at_the_end)]

    def generator_loss(self, m: Any, batch: Batch) -> Tensor:
        """-log D(G(z))."""
        dropped = agreed_masks(self.width, self.dropout, batch["sent_labels"], (int(m.secret), int(m.taken)))
        return generator_loss(m, batch["sent_z"], batch["sent_labels"], dropped)

    def published(self, m: Any, batch: Batch) -> dict[str, Tensor]:
        """M_p: (D_u, z_t, l_t) (Sec. 2.2.1); or (G_u, D_u) (Sec. 2.2.1, the method it is compared with)."""
        m.taken += 1
        m.asked[batch["sent_labels"]] = True
        if self.share == "once":
            return {}
        parts = tensors_of(m, "discriminator")
        if self.share == "all":
            return parts | tensors_of(m, "generator")
        return parts | {"z": batch["sent_z"], "labels": batch["sent_labels"]}

    def published_at_the_end(self, m: Any) -> dict[str, Tensor]:
        """G_u, where it is sent as it is, and the labels that it knows."""
        return tensors_of(m, "generator") | {"labels": m.asked.nonzero().flatten()}

    def check(self, training: TrainingSettings, rounds: Iterable[list[Tensor]]) -> None:
        """Refuses what the server's twins cannot follow: they take a user's steps and know nothing of its rounds."""
        if self.share != "discriminator":
            return
        optimiser, one_round = training.optimiser, training.rounds == 1
        stateless = optimiser.name == "sgd" and not optimiser.momentum
        kept = stateless or one_round or training.optimiser_state == "persistent"
        require(kept, "training.optimiser_state: must be 'persistent', as the state of PS-FedGAN's server is")
        require(training.lr_decay == 1 or one_round, "training.lr_decay: must be 1, as for PS-FedGAN's server")

    def scores(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Users have no classifier; the cloud's is scored."""
        return {}

    def prepare(self, members: list[Any], seed: int) -> None:
        """Lines 1-5: every user agrees with the server on a secret, and draws G from it, new to both."""
        for user, member in enumerate(members):
            member.taken.zero_()
            member.asked.zero_()
            member.secret.fill_(random_key(seed, "secret", user) % 2**62)
            member.generator.load_state_dict(self.from_secret(int(member.secret)).state_dict())

    def server_work(self, members: list[Any], images: Tensor, labels: Tensor, work: ServerWorkSettings) -> "Cloud":
        """The server draws the same G; the classifier is trained on its images."""
        return Cloud(self, [int(member.secret) for member in members], images, labels, work)

    def eavesdroppers(self, members: list[Any], work: ServerWorkSettings) -> list[Listener]:
        """Every attacker on every user; those that know the same are one."""
        listeners: list[Listener] = []
        for user, member in enumerate(members):
            known: dict[tuple[Any, ...], Eavesdropper] = {}
            for attacker in self.attackers:
                one = self._eavesdropper(attacker, user, int(member.secret), work)
                same = known.setdefault(knowledge_of(attacker, one.twin.generator), one)
                same.labels[attacker.label] = one.ulps
            listeners += known.values()
        return listeners

    def _eavesdropper(self, attacker: Attacker, user: int, secret: int, work: ServerWorkSettings) -> Eavesdropper:
        seed = random_key(work.seed, attacker.label, user) % 2**62
        twin = self.twin(secret, secret if attacker.masks == "shared" else seed, work)
        true = twin.generator
        if attacker.name == "architecture":
            twin.generator = self.from_secret(seed, max(1, self.width // 2))
        elif attacker.name in ("independent", "fresh"):
            twin.generator = self.from_secret(seed)
        else:
            twin.generator = attacker.perturbed(true)
        twin.generator.to(work.device)
        return Eavesdropper(attacker, user, twin, seed, true)

    def twin(self, secret: int, dropped: int, work: ServerWorkSettings) -> Twin:
        """Who takes a user's steps with it, given the secret of its generator's start and that of what D drops."""
        parts = self.from_secret(secret).to(work.device), self.model().discriminator.to(work.device)
        return Twin(*parts, self.dropout, dropped, work.optimiser)

    def from_secret(self, secret: int, width: int | None = None) -> Generator:
        """The generator that this secret stands for, or one of another width."""
        o = self.objective
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(secret)
            return Generator(o.channels, o.image_size, o.classes, self.latent, width or self.width)


class Cloud:
    """The server: a twin of every user's generator, its own images, and the global classifier C_l."""

    def __init__(
        self, algorithm: PSFedGAN, secrets: list[int], images: Tensor, labels: Tensor, work: ServerWorkSettings
    ) -> None:
        self.algorithm, self.work, self.own = algorithm, work, (images, labels)
        self.twins = [algorithm.twin(secret, secret, work) for secret in secrets]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(random_key(work.seed, "classifier"))
            self.classifier = algorithm.objective.model().to(work.device)
        self.states: list[State] = []
        if len(images):
            self._train(0, images, labels)

    def receive(self, round: int, client: int, message: dict[str, Tensor]) -> None:
        """To the user's twin."""
        self.twins[client].receive(round, message)

    def finish(self, round: int, shared: dict[str, Tensor]) -> None:
        """Line 16: train C_l on cloud data and synthetic data."""
        draw = torch.Generator().manual_seed(random_key(self.work.seed, "synthetic", round))
        made = [self._images(twin, draw) for twin in self.twins if twin.labels]  # of others nothing has come yet
        images, labels = (torch.cat(column) for column in zip(self.own, *made, strict=True))
        self._train(round, images, labels)

    def _images(self, twin: Twin, draw: torch.Generator) -> tuple[Tensor, Tensor]:
        """Synthetic images in [0, 1] and their labels, evenly over those of the user."""
        known = torch.tensor(sorted(twin.labels), device=self.work.device)
        count = self.algorithm.synthetic
        labels = known.repeat(-(-count // len(known)))[:count]
        return images_of(twin.generator, torch.randn(count, self.algorithm.latent, generator=draw), labels), labels

    def _train(self, round: int, images: Tensor, labels: Tensor) -> None:
        """Passes over these images."""
        algorithm, draw = self.algorithm, torch.Generator().manual_seed(random_key(self.work.seed, "C_l", round))
        work = replace(self.work, optimiser=CLASSIFIER)
        given = images, labels, work, self.states, draw, algorithm.classifier_epochs
        train_on(algorithm.objective, self.classifier, *given, round=round)

    def scores(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Of the global classifier."""
        device = self.work.device
        return self.algorithm.objective.scores(self.classifier.eval(), x.to(device), y.to(device))

    def state(self) -> dict[str, Any]:
        """Twins, the classifier, its optimiser."""
        kept = {"classifier": self.classifier.state_dict(), "optimiser": self.states}
        return kept | {"twins": [twin.state() for twin in self.twins]}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        for twin, kept in zip(self.twins, state["twins"], strict=True):
            twin.load(kept)
        self.classifier.load_state_dict(state["classifier"])
        self.states = copy.deepcopy(state["optimiser"])
