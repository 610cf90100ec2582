"""What evaluations need of a run with a cloud: what users, the cloud and eavesdroppers make of the same noise."""

import numpy as np
import torch
from torch import Tensor

from common.keys import random_key
from common.spec import SampleSettings
from diptych.generation import as_bytes
from federation import Simulation
from partitions import Partition

Arrays = dict[str, np.ndarray]
SHOWN = 1000
"""Real training images of each user that are kept, for comparison."""


def attacked(simulation: Simulation, dealt: Partition, settings: SampleSettings) -> Arrays:
    """The arrays of samples.npz, as docs/run-folder.md lists them.

    `made/<user>/<who>`: images of the same (z, label), for the user itself, the cloud, and every eavesdropper.
    """
    cloud, arrays = simulation.cloud, {}
    for k, member in enumerate(simulation.population.members):
        draw = torch.Generator().manual_seed(random_key(simulation.seed, "attacked", k))
        own = dealt.clients[k]
        known = dealt.labels[own].unique()
        labels = known.repeat(-(-settings.images // len(known)))[: settings.images]
        z = torch.randn(len(labels), member.generator.latent, generator=draw)
        arrays |= {
            f"made/{k}/labels": labels.numpy(),
            f"made/{k}/user": as_bytes(_made(member.generator, z, labels)),
            f"made/{k}/cloud": as_bytes(cloud.twins[k].images(z, labels)),  # type: ignore[union-attr]
            f"client/{k}/style": np.array(dealt.styles[dealt.client_styles[k]]),
            f"client/{k}/real": dealt.images[own[torch.randperm(len(own), generator=draw)[:SHOWN]]].numpy(),
        }
    for eavesdropper in simulation.eavesdroppers:
        k, who = eavesdropper.user, eavesdropper.settings.label  # type: ignore[attr-defined]
        draw = torch.Generator().manual_seed(random_key(simulation.seed, "attacked", k))  # the same z
        twin, labels = eavesdropper.twin, torch.from_numpy(arrays[f"made/{k}/labels"])  # type: ignore[attr-defined]
        z = torch.randn(len(labels), twin.generator.latent, generator=draw)
        arrays[f"made/{k}/{who}"] = as_bytes(twin.images(z, labels))
        arrays[f"made/{k}/{who}/ulps"] = np.array(eavesdropper.ulps)  # type: ignore[attr-defined]
    return arrays


@torch.no_grad()
def _made(generator: torch.nn.Module, z: Tensor, labels: Tensor) -> Tensor:
    return (generator(z, labels) + 1) / 2
