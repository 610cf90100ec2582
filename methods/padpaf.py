"""PaDPaF: Almansoori et al. 2024, Partial disentanglement with partially-federated GANs."""

from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from common.optimisers import State, step
from common.spec import OptimiserSettings
from federation import Algorithm, Batch, Names, Update, anywhere, everything, names, settings
from networks.padpaf import latent_map
from objectives.gan import GAN
from objectives.generative import Generative, barlow_twins, of_one_style

STYLE = names("style")
"""Style discriminator φ^s, ψ^s, its projector g^s and the style vectoriser G^s: red and dashed in Fig. 1."""
STYLE_MAPS = anywhere("by_style")
"""The conditional norms of the generator that the style vector steers."""


@settings
class PaDPaF(Algorithm):
    """Algorithm 1: FedAvg on a generative model whose style stays with the clients.

    The server's step (line 17, OPT_0 on the mean of the clients' differences) is Adam on pseudo-gradients, a setting of
    the server.

    Attributes:
        reading: `paper` keeps style private. `released` is what the authors' code does: its mask of private parameters
            never matches, so everything is averaged and overwritten.
        fake_labels: of `all`, Unif(Y) as the paper says; or the client's `own`, as in the code.
        conditional_norm: Sec. 4.1 keeps the conditional batch norms local, the code federates them. Private are the
            maps from the style vector; those from the label are content, and must be shared if a client is to
            generate labels that it never saw.
        restyle_steps: of Algorithm 2 on the trained model; 0 leaves it out. The authors take 16,000.
    """

    reading: Literal["paper", "released"] = "paper"
    fake_labels: Literal["all", "own"] = "all"
    conditional_norm: Literal["private", "federated"] = "private"
    restyle_steps: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    objective: Generative

    @property
    def shared(self) -> Names:  # type: ignore[override]
        """θ^fed (Fig. 1, green). Line 12 sets the server's update of the rest, θ^pvt, to 0: it never leaves."""
        if self.reading == "released":
            return everything
        return ~STYLE if self.conditional_norm == "federated" else ~(STYLE | STYLE_MAPS)

    def updates(self) -> list[Update]:
        """Line 9: GANOPT, or one descent step on Eq. 16 for the VAE."""
        return self.objective.updates()

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Batch:
        """Line 24: ξ ~ q(.|i)."""
        batch = self.objective.draw(x, y, generator)
        if self.fake_labels == "own" and "y_fake" in batch:
            own = y[torch.randint(len(y), y.shape, generator=generator)]
            batch["y_fake"] = self.objective.one_hot(own)
        return batch

    def restyled(self, members: list[Any], draw: torch.Generator, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Re-styling: Algorithm 2, and the test images of Fig. 16 in every client's style."""
        if not (self.restyle_steps and isinstance(self.objective, GAN)):
            return {}
        return Restyling(self.objective, members, draw).run(self.restyle_steps, x, y)


class Restyling:
    """Algorithm 2: maps from discriminator features to latents, and content transferred to another client's style.

    Everything but the maps is frozen. Images are generated for one client at a time, in training mode as in the
    authors' code; the maps, which that leaves there, too, are in evaluation mode once they are trained, so that what
    becomes of an image does not hang on which others are beside it. Every member holds the server's φ^c_0, g^c_0 and
    G^c_0 beside its own style.
    """

    def __init__(self, objective: GAN, members: list[Any], draw: torch.Generator) -> None:
        self.objective, self.members, self.draw = objective, members, draw
        first, self.device = members[0], next(members[0].parameters()).device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (), generator=draw)))
            self.content_map = latent_map(first.encoder.features, objective.latent).to(self.device)
            width = first.style.encoder.features
            self.style_maps = [latent_map(width, objective.latent).to(self.device) for _ in members]

    def run(self, steps: int, x: Tensor, y: Tensor, batch: int = 32) -> dict[str, Tensor]:
        """Train the maps (lines 3-10), then transfer (line 11).

        Returns:
            For pairs of a source and a target client: `source`, `reconstructed` and `restyled` images (pairs, batch,
            channels, height, width) in [0, 1] with their `labels` and `clients` (pairs, 2); for test images `test`
            (images, ...) the same in every client's style, `test-restyled` (clients, images, ...).
        """
        modules = [self.content_map, *self.style_maps]
        states: list[State] = [{} for _ in modules]
        adam = OptimiserSettings(name="adam", lr=1e-3)
        for t in range(steps):
            i = int(torch.randint(len(self.members), (), generator=self.draw))  # line 4
            m, y_fake = self.members[i], self.labels(batch)
            x_i = self.sample(m, self.latents(batch), self.latents(batch), y_fake)  # lines 5 and 6
            loss = self.loss(m, i, x_i, y_fake)
            maps: list[list[Tensor]] = [list(modules[n].parameters()) for n in (0, 1 + i)]
            gradients = list(torch.autograd.grad(loss, [*maps[0], *maps[1]]))
            for n, leaves in zip((0, 1 + i), maps, strict=True):
                own, gradients = gradients[: len(leaves)], gradients[len(leaves) :]
                step(adam, leaves, own, states[n], 0.95 ** (50 * t // steps))
        for module in modules:
            module.eval()
        return {f"restyle/{key}": value.detach() for key, value in self.transfers(batch, x, y).items()}

    def loss(self, m: Any, i: int, x: Tensor, y: Tensor | None) -> Tensor:
        """Lines 7-9: the Barlow Twins loss between content features of an image and of its reconstruction."""
        again = self.sample(m, *self.codes(m, i, x), y)
        before, after = (m.projector(m.encoder(image)) for image in (x, again))
        return barlow_twins(before, after, self.objective.off_diagonal)

    def codes(self, m: Any, i: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """Line 7: z^c and z^s from the features of x."""
        return self.content_map(m.encoder(x)), self.style_maps[i](m.style.encoder(x))

    def latents(self, n: int) -> Tensor:
        """z ~ N(0, I)."""
        return self.objective.latents(n, self.draw).to(self.device)

    def labels(self, n: int) -> Tensor | None:
        """ỹ ~ Unif(Y), one-hot; None without labels."""
        return self.one_hot(torch.randint(self.objective.classes, (n,), generator=self.draw))

    def one_hot(self, y: Tensor) -> Tensor | None:
        """Labels as the networks see them."""
        return self.objective.one_hot(y.to(self.device))

    def sample(self, m: Any, z_c: Tensor, z_s: Tensor, y: Tensor | None) -> Tensor:
        """An image of p_i in [-1, 1]."""
        noise = (part.to(self.device) for part in self.objective.noise(len(z_c), self.draw))
        return of_one_style(m, z_c, z_s, y, tuple(noise))

    @torch.no_grad()
    def transfers(self, n: int, x_test: Tensor, y_test: Tensor) -> dict[str, Tensor]:
        """Line 11 for every client and the next ones, and for test images to every client."""
        clients = len(self.members)
        away = 3 if clients > 3 else 1  # from client 8 to client 3, as in Fig. 15
        pairs = [(a, b) for a in range(clients) for b in (a, (a + away) % clients)]
        rows = [self.transfer(a, b, n) for a, b in pairs]
        found = {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
        y = self.one_hot(y_test)
        test = 2 * x_test.to(self.device) - 1
        restyled = [self.sample(m, self.content_map(m.encoder(test)), self.latents(len(test)), y) for m in self.members]
        return found | {
            "clients": torch.tensor(pairs),
            "test": x_test,
            "test-labels": y_test,
            "test-restyled": torch.stack(restyled).add(1).div(2),
        }

    def transfer(self, a: int, b: int, n: int) -> dict[str, Tensor]:
        """Images of client a, their reconstructions, and their content in a style drawn from client b."""
        source, target = self.members[a], self.members[b]
        classes = torch.randint(self.objective.classes, (n,), generator=self.draw)
        y = self.one_hot(classes)
        x = self.sample(source, self.latents(n), self.latents(n), y)
        z_c, z_s = self.codes(source, a, x)
        images = x, self.sample(source, z_c, z_s, y), self.sample(target, z_c, self.latents(n), y)
        found = dict(zip(("source", "reconstructed", "restyled"), (i.add(1).div(2) for i in images), strict=True))
        return found | {"labels": classes if y is not None else torch.full((n,), -1)}
