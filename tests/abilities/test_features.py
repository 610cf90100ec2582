"""Features: whose model they are of, and with which batch-norm statistics."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import abilities.features
from abilities.features import CROSSED, features, mixed
from baselines.fedavg import FedAvg
from common.spec import DataSettings
from diptych.given import client_data
from federation import Simulation
from federation.data import as_float
from methods.fedstyle import FedStyle
from partitions import partition
from partitions.views import resized
from tests.digits import STYLES, dealt, objective, simulate, trained
from tests.mutation import mutated

MODULE = "abilities.features"


def _run(**settings) -> Simulation:
    return simulate(FedAvg(objective=objective("simclr")), local_steps=4, participation=0.67, **settings)


def _of(model: torch.nn.Module, images: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return copy.deepcopy(model).eval().encoder(as_float(images)).numpy()


def check_personal() -> None:
    """A client's own are those of its model as its last local training left it, whatever has been averaged since."""
    simulation, split = _run(rounds=3), dealt()
    found = features(trained(simulation))
    for k, own in enumerate(simulation.population.members):
        x = split.images[split.clients[k]]
        np.testing.assert_allclose(found[f"client/{k}/train/features"], _of(own, x), atol=1e-5)
        assert np.abs(_of(own, x) - _of(simulation.synchronised(k), x)).max() > 1e-2, "the broadcast model is another"


def check_statistics() -> None:
    """The shared model's batch norms have the server's statistics where they travel; where they stay with the clients,
    those of the training images of all."""
    for buffers in ("shared", "local"):
        simulation, split = _run(rounds=2, buffers=buffers), dealt()
        model = simulation.shared_model()
        norms = [m for m in model.encoder.modules() if isinstance(m, torch.nn.BatchNorm2d)]
        if buffers == "local":
            x = as_float(mixed(split.images[split.all_train]))
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # the plain mean over batches
            with torch.no_grad():
                for part in x.tensor_split(-(-len(x) // 256)):
                    model.train().encoder(part)
        first = {name: t for name, t in model.state_dict().items() if name.endswith("running_mean")}
        assert any(t.abs().max() > 0 for t in first.values()), "not the initial ones"
        for style, name in enumerate(split.styles):
            expected = _of(model, split.images[split.test[style]])
            np.testing.assert_allclose(
                features(trained(simulation))[f"shared/{name}/test/features"], expected, atol=1e-4
            )


def check_order() -> None:
    """Images come style after style, and variances are those of all of them."""
    dark = torch.rand(300, 3, 8, 8, generator=torch.Generator().manual_seed(1)) / 4
    images, block = torch.cat([dark, 0.75 + dark]), nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    found = abilities.features.with_statistics(block, lambda model, x: {"features": model(x)}, images)[1]
    maps = block[0](images)
    assert found.running_mean.tolist() == pytest.approx(maps.mean(dim=(0, 2, 3)).tolist(), abs=0.02)
    assert found.running_var.tolist() == pytest.approx(maps.var(dim=(0, 2, 3)).tolist(), rel=0.05)


def test_statistics_are_a_mean_over_images_and_not_over_unequal_batches():
    """One image more than a batch, of one colour each; a batch of that one alone has no variance at all."""
    count = abilities.features.BATCH + 1
    images = torch.linspace(0, 1, count)[:, None, None, None].expand(count, 1, 2, 2).contiguous()
    block = nn.Sequential(nn.BatchNorm2d(1))
    found = abilities.features.with_statistics(block, lambda model, x: {"features": model(x)}, images)[0]
    assert found.running_mean.item() == pytest.approx(0.5, abs=1e-3)
    assert found.running_var.item() == pytest.approx(images.var().item(), rel=0.02)


def check_views() -> None:
    """Of styles that show one source in different ways, each in its own, at the size that networks see."""
    views = {"mnist": {"name": "color-inversion"}}
    one = {"dataset": "digit", "pool": "together", "image_size": 8, "styles": dict.fromkeys(STYLES, STYLES["mnist"])}
    split = partition(DataSettings(**one, views=views), "", seed=3)
    simulation = simulate(FedAvg(objective=objective("classification")), client_data(split, ""), rounds=1)
    found = abilities.features.features(trained(simulation, split))
    inverted, as_it_is = (found[f"shared/{style}/test/features"] for style in ("mnist", "svhn"))
    assert np.abs(inverted - as_it_is).max() > 1e-2
    tests, mine = (resized(1 - as_float(split.images[rows]), 8) for rows in (split.test[0], split.clients[0]))
    np.testing.assert_allclose(inverted, _of(simulation.shared_model(), tests), atol=1e-4)
    expected = _of(simulation.own(0), mine)
    np.testing.assert_allclose(found["client/0/train/features"], expected, atol=1e-4)


def check_crossed() -> None:
    """Rows are of as many training images of each client, columns of one client's model: where both are the same
    client's, they are its own style features of these images."""
    simulation = simulate(FedStyle(objective=objective("simclr"), style_epochs=1, hidden=8), local_steps=2, rounds=1)
    found = features(trained(simulation))
    clients = len(simulation.population.members)
    assert np.bincount(found["crossed/client"]).tolist() == [min(CROSSED // clients, len(dealt().clients[0]))] * clients
    for k in range(clients):
        mine = found["crossed/style"][found["crossed/client"] == k]
        own = found[f"client/{k}/train/style"]
        assert np.abs(mine[:, k, None] - own).max(axis=2).min(axis=1).max() < 1e-4, "each is one of its own"
        assert np.abs(mine[:, (k + 1) % clients] - mine[:, k]).max() > 1e-2, "somebody else's encoder is another"


@pytest.mark.parametrize("check", [check_personal, check_statistics, check_order, check_views, check_crossed])
def test_features(check):
    check()


BUGS = {
    "personal features from the broadcast model": (
        "_of_client", "simulation.own(client)", "simulation.synchronised(client)", check_personal),
    "personal features of the first client": (
        "_of_client", "simulation.own(client)", "simulation.own(0)", check_personal),
    "everybody's images by one model": (
        "_crossed", "trained.simulation.own(k)", "trained.simulation.own(0)", check_crossed),
    "styles of other clients' images": (
        "_crossed", "trained.dealt.clients[k]", "trained.dealt.clients[0]", check_crossed),
    "statistics that nobody has sent": (
        "shared_model", "model if travelled else with_statistics(model, extract, images)", "model", check_statistics),
    "statistics estimated though they were sent": (
        "shared_model", "model if travelled else with_statistics", "with_statistics", check_statistics),
    "statistics of other images": (
        "shared_model", "with_statistics(model, extract, images)", "with_statistics(model, extract, images[:64])",
        check_statistics),
    "statistics of one style after the other": (
        "with_statistics", "mixed(images)", "images", check_order),
    "images as they are, whoever sees them": (
        "features", "trained.as_stored(style, indices)", "trained.dealt.images[indices]", check_views),
    "images of all styles as the first sees them": (
        "features", "trained.as_stored(style, indices)", "trained.as_stored(0, indices)", check_views),
    "and clients' as another style does": (
        "_of_client", "trained.as_stored(style, indices)", "trained.as_stored(1, indices)", check_views),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_features_of_a_wrong_model_are_caught(bug):
    name, right, wrong, check = BUGS[bug]
    with mutated(MODULE, name, right, wrong), pytest.raises(AssertionError):
        check()
