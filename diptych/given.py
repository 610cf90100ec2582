"""What a training is given besides its specification: whose images, and what the run that it starts from has left."""

import torch
from torch import Tensor

from common.errors import InputError
from federation import ClientData
from partitions import Partition


def client_data(dealt: Partition, whose: str) -> ClientData:
    """What the engine needs of a partition; pooled, one client has everybody's images, or the server's."""
    if not whose:
        seen = dealt.views, dealt.turns, dealt.server, dealt.server_view, dealt.image_styles
        return ClientData(dealt.images, dealt.labels, dealt.clients, *seen)
    if dealt.views is not None or dealt.turns is not None:
        raise InputError("data.views: clients that see images each in their own way cannot be pooled into one")
    if whose == "server" and not len(dealt.server):
        raise InputError("data.server_share: the server has no image, so there is nothing to train on")
    everything = dealt.server if whose == "server" else torch.cat(dealt.clients)
    return ClientData(dealt.images, dealt.labels, (everything,), styles=dealt.image_styles)


def to_start_from(left: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of the tensors `shared/...` and `clients/...` that a run has left those that another starts from, with a leading
    axis over clients: what it shared is one row for all; if it shared nothing, a row of each client, of a pooled run
    one."""
    shared = {key.removeprefix("shared/"): t.unsqueeze(0) for key, t in left.items() if key.startswith("shared/")}
    return shared or {key.removeprefix("clients/"): rows for key, rows in left.items()}
