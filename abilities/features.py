"""One code of an image: features under the shared model, under every client's own, and under the untrained one."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import update_bn

from abilities.trained import BATCH, Arrays, Trained, looked_at
from federation import copied
from federation.data import as_float
from federation.hooks import pooled

Extract = Callable[[Any, Tensor], dict[str, Tensor]]
CROSSED = 400
"""Images, of all clients together, whose style everybody's model is asked for."""


def features(trained: Trained) -> Arrays:
    """The arrays of features.npz that linear probes read. Images are as clients see them, and not augmented."""
    simulation, dealt, algorithm = trained.simulation, trained.dealt, trained.algorithm
    trained_on = dealt.images[dealt.all_train] if dealt.style_views is None else trained.trained_on
    models = {"initial": with_statistics(copied(simulation.template), algorithm.global_features, trained_on)}
    if pooled(algorithm) or simulation.server.tensors:
        models["shared"] = shared_model(trained, algorithm.global_features, trained_on)
    arrays = {}
    for style, name in enumerate(dealt.styles):
        for part, indices in (("train", dealt.train[style]), ("test", dealt.test[style])):
            arrays[f"labels/{name}/{part}"] = dealt.labels[indices].numpy()
            x = trained.as_stored(style, indices)
            for which, model in models.items():
                found = looked_at(algorithm.global_features, model, x)
                arrays |= {f"{which}/{name}/{part}/{key}": rows.numpy() for key, rows in found.items()}
    if not pooled(algorithm):
        for client in trained.clients:
            arrays |= {f"client/{client}/{key}": rows for key, rows in _of_client(trained, client).items()}
        if f"client/{trained.clients[0]}/train/style" in arrays:
            arrays |= _crossed(trained)
    return arrays


def _of_client(trained: Trained, client: int) -> Arrays:
    dealt, style = trained.dealt, trained.dealt.client_styles[client]
    model = trained.simulation.own(client)  # not all of them at once: there are many, and large ones
    position = {int(image): n for n, image in enumerate(dealt.train[style])}
    arrays = {
        "style": trained.style_of(client),
        "positions": np.array([position[int(image)] for image in dealt.clients[client]]),
    }
    for part, indices in (("train", dealt.clients[client]), ("test", dealt.test[style])):
        found = looked_at(trained.algorithm.personal_features, model, trained.as_stored(style, indices))
        arrays |= {f"{part}/{key}": rows.numpy() for key, rows in found.items()}
    return arrays


def _crossed(trained: Trained) -> Arrays:
    """`crossed/...`: style features of some training images of each client by every client's own model."""
    share = max(2, CROSSED // len(trained.clients))
    chosen = [trained.some(trained.dealt.clients[k], share, "crossed", k) for k in trained.clients]
    shown = zip(trained.dealt.client_styles, chosen, strict=True)
    images = torch.cat([trained.as_stored(style, indices) for style, indices in shown])
    own = (trained.simulation.own(k) for k in trained.clients)
    by = [looked_at(trained.algorithm.personal_features, model, images)["style"] for model in own]
    owners = np.repeat(trained.clients, [len(indices) for indices in chosen])
    return {"crossed/style": torch.stack(by, dim=1).numpy(), "crossed/client": owners}


# ---- batch-norm statistics


class _Callable(nn.Module):
    """A feature extractor as a module whose batch norms `update_bn` finds."""

    def __init__(self, extract: Extract, model: nn.Module) -> None:
        super().__init__()
        self.extract, self.model = extract, model

    def forward(self, x: Tensor) -> Any:
        return self.extract(self.model, x)


def with_statistics(model: nn.Module, extract: Extract, images: Tensor) -> nn.Module:
    """The model with batch-norm statistics of these images: those of an untrained model say nothing."""
    update_bn(_batches(mixed(images), str(next(model.parameters()).device)), _Callable(extract, model))
    return model


def mixed(images: Tensor) -> Tensor:
    """In an order of no meaning, always the same: in batches of one style, variances would be those within styles."""
    return images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]


def _batches(images: Tensor, device: str) -> Iterator[Tensor]:
    for chunk in images.tensor_split(-(-len(images) // BATCH)):  # even ones: the mean over batches is one over images
        yield as_float(chunk.to(device))


def passed(extract: Extract, model: nn.Module, image: Tensor) -> dict[str, nn.Module]:
    """The modules, by their paths, that the extractor passes through."""
    found: dict[str, nn.Module] = {}
    modules = list(model.named_modules())
    hooks = [m.register_forward_hook(lambda m, *_, path=path: found.update({path: m})) for path, m in modules]
    looked_at(extract, model, image)
    for hook in hooks:
        hook.remove()
    return found


def shared_model(trained: Trained, extract: Extract, images: Tensor) -> nn.Module:
    """The shared model, or the only one; statistics that did not travel are estimated anew on `images`."""
    simulation = trained.simulation
    if pooled(trained.algorithm):
        return simulation.own(0)
    model = simulation.shared_model()
    norms = [path for path, m in passed(extract, model, images[:1]).items() if isinstance(m, _BatchNorm)]
    travelled = all(f"{path}.running_mean" in simulation.server.tensors for path in norms)
    return model if travelled else with_statistics(model, extract, images)
