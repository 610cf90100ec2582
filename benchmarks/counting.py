"""What a training calls for, counted: a round of two clients on a few images of noise, every operator of it."""

import gc
import math
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from common.spec import Spec
from common.work import MB, Counted, Kind, Work
from diptych.assembly import build_algorithm
from diptych.study import load_study
from federation import Algorithm, ClientData, Simulation
from federation.hooks import Exchanging, Precomputing, Transfers, pooled
from federation.names import entries

CLIENTS = 2
CLASSES = 2
SERVED = 40
"""Images that the server has of its own, for the algorithms that use any."""
FEW, SMALL = 4, 3 * 32**2
"""Images of a batch if they have fewer values than these: two of each class. Of larger ones there are two."""
LARGE = 2e7
"""Floating-point operations of a product that is counted, and not worked out: it is taken for zeros."""
AFFORDABLE = 1e10
"""Floating-point operations of a round that is counted: enough for half of the batches of small networks."""


class Counting(TorchDispatchMode):
    """Counts the operators that are called, the multiplications and additions of those that torch has a formula for,
    and the bytes of all tensors that are there at once."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.flops, self.live, self.peak = 0, 0, 0, 0
        self.known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the operator, and count it unless it only looks at a tensor in another way."""
        kwargs = kwargs or {}
        flops, out = 0, None
        if formula := flop_registry.get(func._overloadpacket):
            shapes = func(*tree_map_only(Tensor, lambda t: t.to("meta"), args), **kwargs)
            flops = formula(*args, **kwargs, out_val=shapes)
            if flops > LARGE:
                out = tree_map_only(Tensor, lambda t: torch.empty_like(t, device="cpu").zero_(), shapes)
        if out is None:
            out = func(*args, **kwargs)
        if not func.is_view:
            self.calls += 1
            self.flops += flops
            for tensor in tree_leaves(out):
                if isinstance(tensor, Tensor):
                    self._hold(tensor.untyped_storage())
        return out

    def _hold(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self.known:
            return
        self.known.add(key)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._let_go, key, size)

    def _let_go(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.live -= size

    @property
    def work(self) -> Work:
        """Until now."""
        return Work(self.calls, self.flops)


@dataclass(frozen=True)
class _Round:
    """What a round of `steps` batches at each of two clients came to, and all that is done once, before and after."""

    before: Work
    round: Work
    after: Work
    peak: int

    @property
    def flops(self) -> float:
        """Of all of it."""
        return self.before.flops + self.round.flops + self.after.flops


def counted(spec: Spec) -> Counted:
    """What a training of this kind calls for, for each client, batch and image.

    Whoever trains before the first round, or after the last, passes over a client's images; so a batch is the unit.
    """
    algorithm = build_algorithm(spec, CLASSES)
    least, taken = _least_steps(algorithm), partial(_round, spec, 2 if isinstance(algorithm, Precomputing) else 1)
    aligned = isinstance(algorithm, Exchanging | Transfers)  # these need some images of each class
    batch = FEW if aligned or spec.data.channels * spec.data.image_size**2 < SMALL else 2
    small = taken(least, batch)
    if (affordable := batch * AFFORDABLE / max(1.0, small.flops)) >= 2 * batch:
        batch = max(batch, min(spec.training.batch_size // 2, int(affordable)))
        small = taken(least, batch)
    large, twice = taken(least, 2 * batch), taken(2 * least, batch)
    steps = CLIENTS * least
    image = max(0.0, (large.round.flops - small.round.flops) / (steps * batch))
    step = ((twice.round - small.round) / steps).at_least_none
    per_round = ((small.round - step * steps) / CLIENTS).at_least_none
    outside = twice.before / (2 * steps), twice.after / (2 * steps)
    model = sum(e.tensor.numel() * e.tensor.element_size() for e in entries(algorithm.model()))
    return Counted(
        kind=Kind.of(spec),
        whose=pooled(algorithm),
        batch=batch,
        round=per_round,
        step=(step - Work(0.0, image * batch)).at_least_none,
        image=image,
        before=outside[0],
        after=outside[1],
        model_mb=model / MB,
        image_mb=max(0, large.peak - small.peak) / batch / MB,
    )


def _least_steps(algorithm: Algorithm) -> int:
    """Batches after which every update of every phase has been taken."""
    phases = [*algorithm.prologue(), *algorithm.phases()]
    return max((math.ceil(u.every / phase.share) for phase in phases for u in phase.updates), default=1)


def _round(spec: Spec, rounds: int, steps: int, batch: int) -> _Round:
    """The last of so many rounds. What the first has more than that is done once, such as constants of the images."""
    training, marks = simulation(spec, steps, batch, rounds), [Work()]
    with Counting() as counting:
        training.run(lambda _: marks.append(counting.work))
    del training
    gc.collect()  # members of a population refer to each other in circles
    _, prologue, first, *_ = marks
    each = marks[-1] - marks[-2]
    once = (first - prologue - each).at_least_none
    return _Round(prologue + once, each, counting.work - marks[-1], counting.peak)


def simulation(spec: Spec, steps: int, batch: int, rounds: int = 1) -> Simulation:
    """A training of CLIENTS clients, each of which takes so many batches of noise in a round."""
    algorithm, size = build_algorithm(spec, CLASSES), spec.data.image_size
    own = CLIENTS * batch * steps
    noise = torch.Generator().manual_seed(0)
    images = torch.randint(256, (own + SERVED, spec.data.channels, size, size), dtype=torch.uint8, generator=noise)
    labels = torch.arange(len(images)) % CLASSES
    clients, server = torch.arange(own).split(batch * steps), torch.arange(own, own + SERVED)
    data = ClientData(images, labels, clients, server=server, styles=labels)
    once = {"rounds": rounds, "local_steps": steps, "batch_size": batch, "participation": 1.0}
    training = spec.training.model_copy(update=once)
    start = _left(spec, steps, batch) if isinstance(algorithm, Transfers) and spec.start else None
    return Simulation(algorithm, data, training, spec.seed, start=start)


def _left(spec: Spec, steps: int, batch: int) -> dict[str, Tensor]:
    """What the run that this one starts from leaves each client, after a round like these."""
    before = simulation(load_study(spec.scale).trained[spec.start], steps, batch)
    before.run()
    return before.population.storage
