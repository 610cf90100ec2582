"""Listening on the channel: what crossed first, or last, and what a client's model is to whoever heard it."""

from typing import Any

import torch
from torch import Tensor

from federation import Algorithm, Batch, Message, Phase, copied
from federation.hooks import Precomputing, Transfers


class Wiretap:
    """Keeps what crosses the channel in the first round or, if `last`, in the last one that a client took part in.

    Attributes:
        told: what clients told each other before, name -> (clients, *shape).
        sent: the tensors that the server has sent.
        back: client -> what the client has sent, or has first published, by the names of its model's tensors.
    """

    last = False

    def __init__(self) -> None:
        self.told: dict[str, Tensor] = {}
        self.sent: dict[str, Tensor] = {}
        self.back: dict[int, dict[str, Tensor]] = {}

    def __call__(self, message: Message) -> None:
        """Keep it, unless it came too late; on the CPU, for whoever listens has a machine of its own."""
        named = {name.split(".", 1)[-1] if _of_its_own(name) else name: t for name, t in message.tensors.items()}
        tensors = {name: tensor.cpu() for name, tensor in named.items()}
        if message.round == 0:
            self.told = tensors
        elif message.round > 1 and not self.last:
            return
        elif message.direction == "down":
            self.sent = tensors
        else:
            for row, client in enumerate(message.clients):
                if self.last or client not in self.back:
                    self.back[client] = {name: rows[row] for name, rows in tensors.items()}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {name: vars(self)[name] for name in _KEPT}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        vars(self).update(state)


_KEPT = ("told", "sent", "back")


def _of_its_own(name: str) -> bool:
    return name.startswith(("announced.", "published."))


def as_heard(algorithm: Algorithm, begun: Any, wiretap: Wiretap, client: int) -> Any:
    """A client's model as its round begins, to whoever has heard what it was sent.

    Tensors that never cross are as all clients begin, which whoever knows the algorithm and its seed knows: in the
    first round they are the client's own, but for what a prologue has trained. They are not solved for, since an update
    says little of them. What clients agree on beforehand, such as the secrets of PS-FedGAN, is known as well, so that
    an attack that fails does not fail for that.

    Args:
        begun: the model that the client has begun with.
    """
    model = copied(begun)
    model.load_state_dict(wiretap.sent, strict=False)
    model.__dict__["received"] = copied(model)  # past nn.Module's registry, as in the engine
    if wiretap.told:
        model.__dict__["announced"] = wiretap.told
        if isinstance(algorithm, Transfers):  # FedDIRT's translators, which clients tell each other
            for part in algorithm.started(model):
                part.load_state_dict({name: rows[client] for name, rows in wiretap.told.items()}, strict=False)
    return model


def batch_of(
    algorithm: Algorithm, phase: Phase, model: Any, x: Tensor, y: Tensor, styles: Tensor | None, draw: torch.Generator
) -> Batch:
    """A batch of images x in [0, 1] and labels y, as a client with this model makes it in a phase.

    Args:
        styles: of the images, which a client's are known to have; None if images show none.
    """
    batch = (phase.draw or algorithm.draw)(x, y, draw)
    if isinstance(algorithm, Precomputing):
        batch |= algorithm.constants(model, x, y)
    return batch if styles is None else batch | {"style": styles}
