"""Eavesdroppers on PS-FedGAN: each follows one user's generator by what crosses the channel (Sec. 2.3)."""

import copy
import hashlib
import re
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from common.errors import InputError
from common.settings import STRICT
from federation import Message
from networks.cgan import Generator
from objectives.cgan import Twin

Kind = Literal["a1", "a2", "independent", "missed-step", "missed-round", "fresh", "architecture"]


class Attacker(BaseModel):
    """What an attacker knows, and what it does not.

    Attributes:
        name: `a1` and `a2` know the user's initial generator but for a factor r on the weight, or the bias, of its
            first layer; with r = 1 they know all of it. `independent` has a start of its own. `missed-step` and
            `missed-round` know the start and miss the first step, or the first round. `fresh` has its own start and its
            own z, and trains on the published discriminators. `architecture` has another, narrower generator. On full
            GAN sharing any of them takes the generators that are published.
        r: the factor, a number or `1-1e-15`; taken as a 64-bit float and multiplied as such.
        masks: whether it knows what the discriminator drops in each step.
    """

    model_config = STRICT | ConfigDict(frozen=True)

    name: Kind
    r: str = "1"
    masks: Literal["shared", "own"] = "shared"

    @property
    def label(self) -> str:
        """Its name in records."""
        factor = f";r={self.r}" if self.name in ("a1", "a2") else ""
        return f"{self.name}{factor}{'' if self.masks == 'shared' else ';masks=own'}"

    @property
    def factor(self) -> float:
        """r as a number.

        Raises:
            InputError: it is none, or not in [0, 1].
        """
        less = re.fullmatch(r"1-(\d.*)", self.r)
        try:
            value = 1 - float(less[1]) if less else float(self.r)
        except ValueError as error:
            raise InputError(
                f"attackers.r: must be a number in [0, 1] such as 0.9 or 1-1e-7, got '{self.r}'"
            ) from error
        if not 0 <= value <= 1:
            raise InputError(f"attackers.r: must be in [0, 1], got {self.r}")
        return value

    def perturbed(self, generator: Generator) -> Generator:
        """The generator that A1 and A2 start from: its first layer's weight, or bias, times r; others know it all."""
        known = copy.deepcopy(generator)
        if self.name in ("a1", "a2"):
            tensor = getattr(known.layers[0], "weight" if self.name == "a1" else "bias")
            tensor.data = (tensor.data.double() * self.factor).to(tensor.dtype)
        return known


class Eavesdropper:
    """An attacker on one user. It is a listener: it is called with every message, and has nothing else.

    Args:
        settings: what it knows.
        user: whose messages it follows.
        own: its copy of the user's side at the start, as far as it knows it.
        seed: of what it draws itself.
        true: the user's generator at the start, to compare its own with.

    Attributes:
        ulps: by how many units in the last place its start differs from the user's at most; 0 if it is the same, -1 if
            it is of another shape.
        labels: the attackers that it stands for, those that know the same, and the `ulps` of each.
    """

    def __init__(self, settings: Attacker, user: int, own: Twin, seed: int, true: Generator) -> None:
        self.settings, self.user, self.twin = settings, user, own
        self.ulps = -1 if settings.name == "architecture" else units_in_the_last_place(true, own.generator)
        self.labels: dict[str, int] = {}
        self.draw = torch.Generator().manual_seed(seed)
        self.heard = 0

    def __call__(self, message: Message) -> None:
        """Follow the user's step, if it is one."""
        step = all(name.startswith("published.") for name in message.tensors)
        if message.direction != "up" or message.clients != (self.user,) or not step:
            return
        heard = {name.removeprefix("published."): rows[0] for name, rows in message.tensors.items()}
        self.heard += 1
        if self._misses(message.round):
            self.twin.taken += "z" in heard  # it knows that there was one
            return
        if self.settings.name == "fresh" and "z" in heard:
            heard["z"] = torch.randn(heard["z"].shape, generator=self.draw).to(heard["z"])
        if self.settings.name == "architecture":
            heard = {name: tensor for name, tensor in heard.items() if not name.startswith("generator.")}
        self.twin.receive(message.round, heard)

    def _misses(self, round: int) -> bool:
        first = {"missed-step": self.heard == 1, "missed-round": round == 1}
        return first.get(self.settings.name, False)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"twin": self.twin.state(), "heard": self.heard, "draw": self.draw.get_state()}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.twin.load(state["twin"])
        self.heard = state["heard"]
        self.draw.set_state(state["draw"])


def units_in_the_last_place(a: nn.Module, b: nn.Module) -> int:
    """The largest distance of two parameters, counted in floats that lie between them (32-bit floats)."""
    return max(
        int((_ordered(p.detach()) - _ordered(q.detach())).abs().max())
        for p, q in zip(a.parameters(), b.parameters(), strict=True)
    )


def _ordered(floats: Tensor) -> Tensor:
    """32-bit floats as whole numbers in the same order, neighbours one apart; -0 and 0 are the same."""
    bits = floats.contiguous().view(torch.int32).long()
    return torch.where(bits < 0, -(2**31) - bits, bits)


def knowledge_of(settings: Attacker, generator: Generator) -> tuple[str, ...]:
    """The same for attackers who know the same: A1 and A2 are what they start from, others what they are called."""
    if settings.name not in ("a1", "a2"):
        return (settings.label,)
    start = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in generator.parameters())).hexdigest()
    return (settings.masks if settings.masks == "shared" else settings.label, start)
