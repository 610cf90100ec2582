"""FedDVA: Yan and Long 2023, Personalization disentanglement for federated learning. Two encoders are federated, one
for what is general (z) and one for what is a client's own (c); each client decodes with its private decoder."""

import math
from functools import cached_property
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor

from common.errors import InputError
from federation import Algorithm, Batch, Names, Phase, Update, names, require, settings
from networks.feddva import Decoder, DualEncoder
from objectives.classification import Classification
from objectives.gaussian import Posterior, kl_divergence, kl_to_mixture, sample, standard_like

SLACK = 0.01
"""What the authors' code adds to variances that it divides by."""


@settings
class FedDVA(Algorithm):
    """Algorithm 1, with Eq. 4: -E[log p_k(x|z, c)] + alpha R_z + beta R_c, and a classifier's cross-entropy.

    Read with these corrections: beta R_c is added (in Eq. 4 it stands inside the negated expectation, so that it would
    be maximised); weights are normalised over the clients that were sampled (Algorithm 1 sums over all); L_k is a mean
    (a sum would count a client's size twice); decoders persist (Algorithm 1 leaves it open). The mixture of a client's
    posteriors, over all of its images in Eq. 26, is that of the batch, for which Jensen's bound holds as well.

    Attributes:
        alpha, beta: weights of R_z (Eq. 6) and R_c (Eq. 7).
        xi: the threshold xi_k of Eq. 5 for each dimension of c (App. H: 8).
        focal: gamma; a pixel of density p counts (1 - p)^gamma times. The text has none, the code 5.
        reconstruction_pixels: the reconstruction, a sum over pixels, counts as a sum over so many; null for as many as
            there are. An image of another size keeps the balance of the paper's with it.
        classify: weight of the cross-entropy of a head on [z; c]; 0 leaves the head alone. Neither text nor code has
            one.
        classify_on: what the head is trained on, `samples` from the posteriors, as the decoder is, or their `means`, as
            it is used afterwards.
        head: whether the head is federated with the encoders or stays with each client; the paper does not say.
        reading: `paper` trains the decoder, then both encoders, on the same loss. `released` is what the authors' code
            does: decoder on a random c, general encoder on a random c, then personal encoder and decoder; R_c is the
            divergence from a Gaussian around the batch's mean, and a hinge of its own.
    """

    alpha: NonNegativeFloat = 1.0
    beta: NonNegativeFloat = 0.75
    xi: NonNegativeFloat = 8.0
    focal: NonNegativeFloat = 0.0
    reconstruction_pixels: PositiveInt | None = None
    classify: NonNegativeFloat = 1.0
    classify_on: Literal["samples", "means"] = "samples"
    head: Literal["shared", "private"] = "shared"
    reading: Literal["paper", "released"] = "paper"
    objective: Classification

    @property
    def shared(self) -> Names:  # type: ignore[override]
        """θ, the encoders; the decoders φ_k stay."""
        return ~names("decoder") if self.head == "shared" else names("encoder")

    def model(self) -> Any:
        """Parts: encoder (general, personal), head, decoder."""
        model = self.objective.model()
        if not isinstance(model.encoder, DualEncoder):
            raise InputError(f"network.name: FedDVA needs 'dual-encoder', got {type(model.encoder).__name__}")
        require(not self.objective.frozen, "objective.frozen: must be false for FedDVA, which trains its encoders")
        require(
            self.classify_on == "samples" or self.reading == "paper",
            "algorithm.classify_on: must be 'samples' with reading 'released', whose decoder and general encoder are "
            f"trained on a c that no posterior belongs to, got '{self.classify_on}'",
        )
        model.decoder = Decoder(model.encoder)
        return model

    def draw(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Batch:
        """Images, labels, and a normal draw for each posterior."""
        noise = tuple(torch.randn(len(x), self.latent, generator=generator) for _ in range(2))
        return {"x": x, "y": y, "noise": noise}

    @cached_property
    def latent(self) -> int:
        """Dimensions of z, and of c."""
        return self.objective.encoder().latent

    def phases(self) -> list[Phase]:
        """ClientUpdate: φ_k first, because a client that was not sampled has a decoder of older encoders."""
        head = ["head"] if self.classify else []
        if self.reading == "paper":
            return [
                Phase([Update(names("decoder"), self.decoder_loss)]),  # Eq. 9
                Phase([Update(names("encoder", *head), self.loss)]),  # Eq. 11
            ]
        return [
            Phase([Update(names("decoder", *head), self.released_decoder_loss)]),
            Phase([Update(names("encoder.general"), self.released_general_loss)]),
            Phase([Update(names("encoder.personal", "decoder", *head), self.released_personal_loss)]),
        ]

    # ---- the paper's loss

    def loss(self, m: Any, batch: Batch) -> Tensor:
        """Eq. 4, the mean over the batch."""
        q_z, z, q_c, c = self.codes(m, batch)
        r_z = kl_divergence(q_z, standard_like(q_z))  # Eq. 6
        told = (z, c) if self.classify_on == "samples" else (q_z[0], q_c[0])
        fit = self.fit(m, z, c, batch, told)
        return fit + (self.alpha * r_z + self.beta * self.regulariser(q_c)).mean()

    def decoder_loss(self, m: Any, batch: Batch) -> Tensor:
        """What of Eq. 4 depends on the decoder."""
        with torch.no_grad():
            _, z, _, c = self.codes(m, batch)
        return self.reconstruction(m.decoder(z, c), batch["x"]).mean()

    def codes(self, m: Any, batch: Batch) -> tuple[Posterior, Tensor, Posterior, Tensor]:
        """q(z|x), a draw from it, q(c|x, z), and a draw from that."""
        q_z = m.encoder.z(batch["x"])
        z = sample(q_z, batch["noise"][0])
        q_c = m.encoder.c(batch["x"], z)
        return q_z, z, q_c, sample(q_c, batch["noise"][1])

    def regulariser(self, q_c: Posterior) -> Tensor:
        """R_c (Eq. 7), (batch,); the divergence from the client's mixture by its bound, Eq. 26."""
        return torch.maximum(self.threshold(q_c) + kl_to_mixture(q_c, q_c), kl_divergence(q_c, standard_like(q_c)))

    def threshold(self, q_c: Posterior) -> float:
        """xi_k in nats."""
        return self.xi * q_c[0].shape[-1]

    def fit(self, m: Any, z: Tensor, c: Tensor, batch: Batch, told: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """-log p_k(x|z, c), and the cross-entropy of the head on what it is told: z and c, or others in their place."""
        loss = self.reconstruction(m.decoder(z, c), batch["x"]).mean()
        if not self.classify:
            return loss
        return loss + self.classify * F.cross_entropy(m.head(torch.cat(told or (z, c), dim=1)), batch["y"])

    def reconstruction(self, decoded: Tensor, x: Tensor) -> Tensor:
        """-log p_k(x|z, c), (batch,): of pixels in [-1, 1] with unit variance, summed, the mean over channels.

        Of images that are not of the paper's size, it is brought to the paper's number of pixels: R_z, R_c and the
        cross-entropy do not grow with an image, and would weigh the more, the smaller it is.

        Args:
            decoded: (batch, channels, height, width) in [-1, 1].
            x: likewise, in [0, 1].
        """
        log_p = -0.5 * ((2 * x - 1 - decoded).square() + math.log(2 * math.pi))
        if self.focal:
            log_p = (1 - log_p.exp()) ** self.focal * log_p
        share = (self.reconstruction_pixels or log_p[0, 0].numel()) / log_p[0, 0].numel()
        return -share * log_p.mean(dim=1).sum(dim=(1, 2))

    # ---- the authors' code

    def released_decoder_loss(self, m: Any, batch: Batch) -> Tensor:
        """Decoding z and a c that has not been encoded."""
        return self.fit(m, sample(m.encoder.z(batch["x"]), batch["noise"][0]), batch["noise"][1], batch)

    def released_general_loss(self, m: Any, batch: Batch) -> Tensor:
        """The same, and R_z."""
        q_z = m.encoder.z(batch["x"])
        r_z = kl_divergence(q_z, standard_like(q_z), SLACK).mean()
        return self.fit(m, sample(q_z, batch["noise"][0]), batch["noise"][1], batch) + self.alpha * r_z

    def released_personal_loss(self, m: Any, batch: Batch) -> Tensor:
        """Decoding both; the batch's other posteriors are constants in the bound, and beta weighs both terms."""
        z = sample(m.encoder.z(batch["x"]), batch["noise"][0])
        q_c = m.encoder.c(batch["x"], z.detach())
        local = q_c[0].mean(dim=0, keepdim=True), torch.zeros_like(q_c[0][:1])
        others = q_c[0].detach(), q_c[1].detach()
        bound = kl_to_mixture(q_c, others, SLACK)
        hinge = F.relu(self.threshold(q_c) + bound - kl_divergence(q_c, standard_like(q_c), SLACK))
        r_c = kl_divergence(q_c, local, SLACK) + hinge
        return self.fit(m, z, sample(q_c, batch["noise"][1]), batch) + self.beta * r_c.mean()

    # ---- what is looked at

    def scores(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Of posterior means: right or wrong, squared error of a pixel in [0, 1]; and the divergences, in nats.

        The constraint, Eq. 5, asks for kl_c - kl_c_mixture >= xi_k. The mixture is of the images that are scored at a
        time, some hundreds in their order, which may be by class.
        """
        q_z = model.encoder.z(x)
        q_c = model.encoder.c(x, q_z[0])
        decoded = (model.decoder(q_z[0], q_c[0]) + 1) / 2
        found = super().scores(model, x, y) if self.classify else {}
        return found | {
            "reconstruction_error": (decoded - x).square().mean(dim=(1, 2, 3)),
            "kl_z": kl_divergence(q_z, standard_like(q_z)),
            "kl_c": kl_divergence(q_c, standard_like(q_c)),
            "kl_c_mixture": kl_to_mixture(q_c, q_c),
        }
