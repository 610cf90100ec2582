"""FedStyle: Yang et al. 2022, More generalized and personalized unsupervised representation learning in a distributed
system. A content model is federated; a style model, and a generator that puts style into content, stay local."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import torch
from kornia.color import rgb_to_grayscale
from kornia.filters import sobel
from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import Tensor, nn

from common.keys import random_key
from common.settings import Units
from common.spec import TrainingSettings
from federation import Algorithm, Batch, Phase, Update, names, require, settings
from networks import mlp
from objectives.contrastive import Contrastive, info_nce
from objectives.objective import Model


def sobel_images(x: Tensor) -> Tensor:
    """Sobel(x): gradient magnitude of the grey image, the strongest edge of each image at 1, in as many channels.

    The paper does not say how its Sobel images are scaled or what becomes of colour.

    Args:
        x: (batch, channels, height, width) in [0, 1].
    """
    edges = sobel(rgb_to_grayscale(x) if x.shape[1] == 3 else x, eps=1e-12)
    return (edges / edges.amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-3)).expand_as(x)


@settings
class FedStyle(Algorithm):
    """Algorithm 4, with Algorithm 2 (style extraction) as prologue and Algorithm 3 (style infusion) as local work.

    Attributes:
        lam: lambda of Eq. 3, the weight of the style-infused loss.
        style_epochs: E_s, the epochs of style extraction.
        temperature: tau of Eq. 2.
        hidden: hidden units of the generator. Its output is as wide as a content feature, because it is added to one
            in Eq. 4; the "output dimension 128" of the text can only be the projectors'.
        reading: `corrected` takes Eq. 2 as the supervised InfoNCE that the text names (mean over anchors and over
            their B - 1 positives) and trains the generator with the local loss, as the analysis of large lambda
            presupposes. `literal` takes the sum over anchors and 1/(2B - 1) of Eq. 2, some B times the gradient, and
            leaves the generator as it is initialised, as line 10 of Algorithm 3 does.
        initial: what stays at a client, its style model and its generator, begins with the same tensors at all of them
            (`shared`), or each client draws its `own`. Algorithm 4 says "Initialize" of w_{s,k} and w_{g,k} and no
            more; how far apart the style features of clients are hangs on it.
    """

    lam: NonNegativeFloat = Field(default=1.0, alias="lambda")
    style_epochs: Annotated[float, Field(ge=0, le=1_000_000)] = 10.0
    temperature: PositiveFloat = 0.07
    hidden: Units = 256
    reading: Literal["corrected", "literal"] = "corrected"
    initial: Literal["shared", "own"] = "shared"
    objective: Contrastive

    shared = names("content")  # "clients only transmit local content models": f_c and g_c

    def model(self) -> nn.Module:
        """Parts: content {f_c, g_c} and style {f_s, g_s}, each encoder and projector, and generator G."""
        content, style = self.objective.model(), self.objective.model()
        width = content.encoder.features
        return Model(content=content, style=style, generator=mlp(2 * width, self.hidden, width))

    def prepare(self, members: Sequence[Any], seed: int) -> None:
        """Line 1 of Algorithm 4."""
        for client, member in enumerate(members) if self.initial == "own" else ():
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(random_key(seed, "initial style", client))
                drawn: Any = self.model()
            member.style.load_state_dict(drawn.style.state_dict())
            member.generator.load_state_dict(drawn.generator.state_dict())

    def check(self, training: TrainingSettings, rounds: Iterable[list[Tensor]]) -> None:
        """Refuses a client of one image, where others of its style are what Eq. 2 compares with."""
        alone = self.style_epochs and any(len(labels) < 2 for clients in rounds for labels in clients)
        require(not alone, "algorithm.style_epochs: must be 0 where a client has one image, for Eq. 2 compares several")

    def prologue(self) -> list[Phase]:
        """Algorithm 2."""
        return [
            Phase(
                [Update(names("style.encoder", "style.projector"), self.style_loss)], self.style_epochs, draw=originals
            )
        ]

    def style_loss(self, m: Any, batch: Batch) -> Tensor:
        """Eq. 2: images of one style, original or Sobel, are each other's positives."""
        x = batch["x"]
        z = m.style.projector(m.style.encoder(torch.cat([x, sobel_images(x)])))  # lines 4 and 5
        style = torch.arange(2, device=x.device).repeat_interleave(len(x))
        positive = (style[:, None] == style) & ~torch.eye(len(z), dtype=torch.bool, device=x.device)
        loss = info_nce(z, positive, self.temperature)
        return loss if self.reading == "corrected" else loss * len(z) * (len(x) - 1) / (len(z) - 1)

    def constants(self, model: Any, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """h_s and h_sobel of Algorithm 3, line 4: the style model is frozen and the images are not augmented."""
        return {"h_s": styled(model, x), "h_sobel": styled(model, sobel_images(x))}

    def updates(self) -> list[Update]:
        """Algorithm 3, line 10."""
        trained = names("content", "generator") if self.reading == "corrected" else names("content")
        return [Update(trained, self.infusion_loss)]

    def infusion_loss(self, m: Any, batch: Batch) -> Tensor:
        """Eq. 3. Figure 3(b) has other superscripts; Algorithm 3 agrees with the equation."""
        h1, h2 = (m.content.encoder(view) for view in batch["views"])  # line 6
        h1_styled = m.generator(torch.cat([h1, batch["h_s"]], dim=1))  # line 7
        h2_styled = m.generator(torch.cat([h2, batch["h_sobel"]], dim=1))  # line 8
        return self.unsupervised(m.content, h1, h2, batch) + self.lam * self.unsupervised(
            m.content, h1_styled, h2_styled, batch
        )

    def unsupervised(self, content: Any, h1: Tensor, h2: Tensor, batch: Batch) -> Tensor:
        """L_unsup(g_c(h1), g_c(h2))."""
        return self.objective.criterion(content, [content.projector(h1), content.projector(h2)], batch)

    def global_model(self, model: Any) -> Any:
        """The content model."""
        return model.content

    def personal_features(self, model: Any, x: Tensor) -> dict[str, Tensor]:
        """h_c and h_s, which Eq. 4 combines: h = h_c + G([h_c, h_s])."""
        return {**self.global_features(model, x), "style": styled(model, x)}


def originals(x: Tensor, y: Tensor, generator: torch.Generator) -> Batch:
    """Algorithm 2 augments nothing."""
    return {"x": x}


def styled(m: Any, x: Tensor) -> Tensor:
    """Features h_s of the frozen style encoder (in evaluation mode)."""
    encoder = m.style.encoder
    training = encoder.training
    try:
        return encoder.eval()(x)
    finally:
        encoder.train(training)
