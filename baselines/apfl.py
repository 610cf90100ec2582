"""APFL: Deng et al. 2020, Adaptive personalized federated learning (with a fixed mixture, as FedStyle runs it)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import Tensor, nn

from federation import Algorithm, Batch, Update, call_with, copied, names, require, settings, twins


@settings
class APFL(Algorithm):
    """Algorithm 1: a shared model w, and a local v that is trained and used as a mixture with w.

    Attributes:
        alpha: weight of the local model in the mixture (0: the shared model alone; 1: the local model alone).
        reading: `canonical` mixes weights; `fedstyle` (its App. C, but for two slips) projections, with alpha on the
            shared side and no gradient through it.
        features: a client's own in that reading: of the `local` model (FedStyle's text), or the `mixture` of both.
    """

    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5
    reading: Literal["canonical", "fedstyle"] = "canonical"
    features: Literal["local", "mixture"] = "local"

    shared = names("w")

    def __post_init__(self) -> None:
        trained = self.reading == "canonical" or self.alpha < 1
        require(trained, "algorithm.alpha: must be less than 1 with reading 'fedstyle', or v is never trained")

    def model(self) -> nn.Module:
        """Both models, equal at first."""
        return twins(self.objective.model(), "w", "v")

    def updates(self) -> list[Update]:
        """Both steps use the models as they were before the batch (Algorithm 1), so v goes first."""
        w = [update.on("w") for update in self.objective.updates()]
        if self.reading == "fedstyle":
            return [Update(self.objective.updates()[0].which.below("v"), self.mixed_outputs_loss), *w]
        return [replace(u, which=u.which.below("v"), loss=self.mixed_weights(u)) for u in self.objective.updates()] + w

    def mixture(self, m: Any) -> dict[str, Tensor]:
        """v-bar = alpha * v + (1 - alpha) * w, by parameter name."""
        w = dict(m.w.named_parameters())
        return {name: self.alpha * v + (1 - self.alpha) * w[name].detach() for name, v in m.v.named_parameters()}

    def mixed_weights(self, update: Update) -> Callable[[Any, Batch], Tensor]:
        """F(v-bar); its gradient with respect to v carries the factor alpha."""
        return lambda m, batch: call_with(self.mixture(m), update.loss, m.v, batch)

    def mixed_outputs_loss(self, m: Any, batch: Batch) -> Tensor:
        """FedStyle App. C, APFL, lines 9, 10, 13. Put right: 9 mixes view 1 with view 2; 12's loss lacks w_{k,g}."""
        shared, local = self.objective.outputs(m.w, batch), self.objective.outputs(m.v, batch)
        mixed = [self.alpha * g.detach() + (1 - self.alpha) * z for g, z in zip(shared, local, strict=True)]
        return self.objective.criterion(m.v, mixed, batch)

    def started(self, model: Any) -> list[Any]:
        """Both."""
        return [model.w, model.v]

    def global_model(self, model: Any) -> Any:
        """The shared w."""
        return model.w

    def personal_model(self, model: Any) -> Any:
        """v; with the mixture's weights in place of its own, where weights are mixed."""
        mixed = copied(model.v)
        mixed.load_state_dict(self.mixture(model) if self.reading == "canonical" else {}, strict=False)
        return mixed

    def personal_features(self, model: Any, x: Tensor) -> dict[str, Tensor]:
        """Features of this model, or the mixture of both models'."""
        if self.reading == "canonical" or self.features == "local":
            return super().personal_features(model, x)
        return {"features": self.alpha * model.w.encoder(x) + (1 - self.alpha) * model.v.encoder(x)}
