"""SCAFFOLD: Karimireddy et al. 2020, Stochastic controlled averaging for federated learning."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from common.spec import TrainingSettings
from federation import Algorithm, Batch, Phase, Work, names, require, settings, zeros_like


@settings
class Scaffold(Algorithm):
    """Algorithm 1 with option II: local steps are corrected by c - c_i, the server's control less the client's own.

    Canonical with plain SGD, uniform weights and a server that takes the mean (eta_g = 1): the controls are mean
    gradients only if every step was the learning rate times a gradient. Public codes clip, add momentum, or change the
    server's control while clients still use it; none of that is here.

    Controls cover parameters only, and all start at 0; whoever goes on from another run begins with that run's c as its
    own, or what others have been would stay in every step, since c is then no mean of the c_i. What travels as `common`
    is a client's proposal for the server's control, c + (|S| / N) (c_i+ - c_i), whose mean over the sampled clients S
    is line 17.
    """

    shared = names("w", "common")

    def model(self) -> nn.Module:
        """The model w, the client's control c_i (`own`), and the server's c (`common`)."""
        w = self.objective.model()
        return nn.ModuleDict({"w": w, "own": zeros_like(w), "common": zeros_like(w)})

    def prepare(self, members: Sequence[Any], seed: int) -> None:
        """c_i = c."""
        for member in members:
            member.own.load_state_dict(member.common.state_dict())

    def phases(self) -> list[Phase]:
        """Lines 7-14."""
        updates = [update.on("w").plus(self.correction) for update in self.objective.updates()]
        return [Phase(updates, end=self.renew_controls)]

    def check(self, training: TrainingSettings, rounds: Iterable[list[Tensor]]) -> None:
        """Refuses steps that are no gradients, and a server that does not take plain means."""
        plain = training.optimiser.name == "sgd" and not training.optimiser.momentum
        require(plain, "training.optimiser: SCAFFOLD's controls are mean gradients only of 'sgd' without momentum")
        mean = training.server.optimiser == "mean" and training.server.weighting == "uniform"
        require(mean, "training.server: SCAFFOLD takes plain means, optimiser 'mean' and weighting 'uniform'")

    def correction(self, m: Any, _: Batch) -> Tensor:
        """<y, c - c_i>, whose gradient turns g into g - c_i + c (line 10)."""
        own, common = dict(m.own.named_parameters()), dict(m.received.common.named_parameters())
        terms = [(y * (common[name] - own[name]).detach()).sum() for name, y in m.w.named_parameters()]
        return torch.stack(terms).sum()

    def renew_controls(self, m: Any, work: Work) -> None:
        """Line 12, option II: c_i+ = c_i - c + (x - y) / (K eta_l); line 13."""
        x, y = dict(m.received.w.named_parameters()), dict(m.w.named_parameters())
        own, common = dict(m.own.named_parameters()), dict(m.common.named_parameters())
        for name, c in m.received.common.named_parameters():
            if rate := work.rates.get(f"w.{name}"):
                renewed = own[name] - c + (x[name] - y[name]) / rate
                common[name].copy_(c + work.participation * (renewed - own[name]))
                own[name].copy_(renewed)

    def global_model(self, model: Any) -> Any:
        """w."""
        return model.w

    personal_model = global_model
