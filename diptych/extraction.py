"""What evaluations need of a trained model: features of images, as arrays."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import update_bn

from federation import Algorithm, Simulation, copied
from federation.data import as_float
from federation.hooks import pooled
from partitions import Partition

Extract = Callable[[Any, Tensor], dict[str, Tensor]]
BATCH = 256  # larger ones are slower per image: they leave the cache


def _batches(images: Tensor, device: str) -> Iterator[Tensor]:
    for chunk in images.split(BATCH):
        yield as_float(chunk.to(device))


@torch.no_grad()
def _extracted(extract: Extract, model: nn.Module, images: Tensor) -> dict[str, np.ndarray]:
    """Features of images under a model in evaluation mode, not augmented, as (images, dimensions) arrays by name."""
    device = str(next(model.parameters()).device)
    model.eval()
    parts = [extract(model, x) for x in _batches(images, device)]
    return {name: torch.cat([part[name] for part in parts]).cpu().numpy() for name in parts[0]}


class _Callable(nn.Module):
    """A feature extractor as a module whose batch norms `update_bn` finds."""

    def __init__(self, extract: Extract, model: nn.Module) -> None:
        super().__init__()
        self.extract, self.model = extract, model

    def forward(self, x: Tensor) -> Any:
        return self.extract(self.model, x)


def _used_batch_norms(extract: Extract, model: nn.Module, image: Tensor) -> list[str]:
    """The paths of the batch norms that the extractor passes through."""
    used: list[str] = []
    norms = [(path, module) for path, module in model.named_modules() if isinstance(module, _BatchNorm)]
    hooks = [module.register_forward_hook(lambda *_, path=path: used.append(path)) for path, module in norms]
    _extracted(extract, model, image)
    for hook in hooks:
        hook.remove()
    return used


def with_statistics(model: nn.Module, extract: Extract, images: Tensor) -> nn.Module:
    """The model with batch-norm statistics of these images: those of an untrained model say nothing."""
    update_bn(_batches(images, str(next(model.parameters()).device)), _Callable(extract, model))
    return model


def _shared_model(simulation: Simulation, images: Tensor) -> nn.Module:
    """The shared model, or the only one; statistics that did not travel are estimated anew on `images`."""
    if pooled(simulation.algorithm):
        return simulation.population.members[0]
    model, extract = simulation.shared_model(), simulation.algorithm.generalised
    used = _used_batch_norms(extract, model, images[:1])
    travelled = all(f"{path}.running_mean" in simulation.server.tensors for path in used)
    return model if travelled else with_statistics(model, extract, images)


def features(simulation: Simulation, dealt: Partition) -> dict[str, np.ndarray]:
    """The arrays of features.npz, as docs/run-folder.md lists them."""
    algorithm, trained_on = simulation.algorithm, dealt.images[dealt.all_train]
    models = {"initial": with_statistics(copied(simulation.template), algorithm.generalised, trained_on)}
    if pooled(algorithm) or simulation.server.tensors:
        models["shared"] = _shared_model(simulation, trained_on)
    arrays = {}
    for style, name in enumerate(dealt.styles):
        for part, indices in (("train", dealt.train[style]), ("test", dealt.test[style])):
            arrays[f"labels/{name}/{part}"] = dealt.labels[indices].numpy()
            for which, model in models.items():
                extracted = _extracted(algorithm.generalised, model, dealt.images[indices])
                arrays |= {f"{which}/{name}/{part}/{key}": rows for key, rows in extracted.items()}
    if not pooled(algorithm):
        for client in range(len(dealt.clients)):
            arrays |= _client_features(algorithm, simulation.population.members[client], dealt, client)
    return arrays


def _client_features(algorithm: Algorithm, model: nn.Module, dealt: Partition, client: int) -> dict[str, np.ndarray]:
    style = dealt.client_styles[client]
    position = {int(image): n for n, image in enumerate(dealt.train[style])}
    arrays = {
        f"client/{client}/style": np.array(dealt.styles[style]),
        f"client/{client}/positions": np.array([position[int(image)] for image in dealt.clients[client]]),
    }
    for part, indices in (("train", dealt.clients[client]), ("test", dealt.test[style])):
        extracted = _extracted(algorithm.personalised, model, dealt.images[indices])
        arrays |= {f"client/{client}/{part}/{key}": rows for key, rows in extracted.items()}
    return arrays
