"""Codes of two encoders and images that are decoded from them: whose images, by whose encoders and decoders."""

from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from abilities import Trained, decoding
from abilities.codes import inferred
from abilities.decoding import _manifolds, _swaps, decoded
from abilities.features import mixed
from abilities.trained import as_bytes
from common.spec import OptimiserSettings
from diptych.given import client_data
from federation import Simulation, copied
from methods.feddva import FedDVA
from networks import DualEncoder
from objectives.objective import Model
from partitions import partition
from tests.digits import dealt, objective, prepared, simulate, spec, trained

VIEWS = {"dark": {"name": "color-inversion"}, "fallen": {"name": "vertical-flip"}}
DATA: dict[str, Any] = {
    "dataset": "digit", "styles": dict.fromkeys(VIEWS, "digits-plain[::9]"), "image_size": 8, "pool": "together",
    "views": VIEWS,
}  # fmt: skip


def feddva() -> FedDVA:
    return FedDVA(objective=objective("classification", partial(DualEncoder, width=4, latent=3)))


@cache
def run() -> Trained:
    """FedDVA after a round of two clients who see the same digits in ways of their own."""
    split, adam = partition(spec("fedavg", data=DATA).data, "", seed=3), OptimiserSettings(name="adam", lr=1e-3)
    simulation = simulate(feddva(), client_data(split, ""), rounds=1, buffers="local", optimiser=adam)
    return trained(simulation, split, data=DATA, samples={"images": 20, "probed": 30})


def seen(client: int, indices: Tensor) -> Tensor:
    x = run().plain(indices)
    return x.flip(-2) if client else 1 - x


def found_among(images: np.ndarray, client: int, indices: Tensor) -> Tensor:
    """The indices of these images, of which each is there once."""
    everyones = as_bytes(seen(client, indices)).astype(int)
    apart = np.abs(images.reshape(-1, 1, *everyones.shape[1:]) - everyones).max(axis=(2, 3, 4))
    assert apart.min(axis=1).max() <= 1
    rows = apart.argmin(axis=1)
    assert len(set(rows.tolist())) == len(rows)
    return indices[rows]


def codes_by(model: Any, x: Tensor) -> dict[str, Tensor]:
    with torch.no_grad():
        z, _ = model.eval().encoder.z(x)
        return {"z": z, "c": model.encoder.c(x, z)[0]}


def with_statistics_of(x: Tensor, simulation: Simulation) -> Any:
    """The model that training starts from."""
    model: Any = copied(simulation.template)
    update_bn(mixed(x).tensor_split(-(-len(x) // 256)), model.encoder)
    return model


@pytest.mark.parametrize("part", ["train", "test"])
def test_codes_are_of_what_each_client_sees(part):
    of, split, found = run(), run().dealt, inferred(run())
    owner = found[f"codes/{part}/client"]
    assert np.bincount(owner).tolist() == [15, 15]
    for k, mine in enumerate({"train": split.clients, "test": split.tests}[part]):
        rows = found_among(found[f"codes/{part}/pixels"][owner == k], k, mine)
        untrained = with_statistics_of(seen(k, split.clients[k]), of.simulation)  # whose own statistics stay, too
        assert found[f"codes/{part}/label"][owner == k].tolist() == split.labels[rows].tolist()
        models = {"codes/{}/untrained-": untrained, "codes/{}/": of.global_models[k], "own/codes/{}/": of.own[k]}
        for place, model in models.items():
            for name, expected in codes_by(model, seen(k, rows)).items():
                got = torch.from_numpy(found[place.format(part) + name][owner == k])
                torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


def test_the_floor_has_the_statistics_of_all_training_images_where_those_of_clients_travel():
    simulation, split = prepared(feddva(), buffers="shared"), dealt()
    found = inferred(trained(simulation, samples={"images": 18, "probed": 30}))
    untrained = with_statistics_of(split.images[split.all_train.unique()].float() / 255, simulation)
    x = torch.from_numpy(found["codes/test/pixels"]).float().div(255).unflatten(1, (3, 8, 8))
    for name, expected in codes_by(untrained, x).items():
        torch.testing.assert_close(
            torch.from_numpy(found[f"codes/test/untrained-{name}"]), expected, atol=1e-5, rtol=1e-4
        )


def test_images_to_decode_are_test_images_as_each_client_sees_them():
    found, split = decoded(run()), run().dealt
    for k, tests in enumerate(split.tests):
        rows = found_among(found[f"client/{k}/real"], k, tests)
        assert len(rows) == 10
        assert found[f"client/{k}/real/labels"].tolist() == split.labels[rows].tolist()
        assert found[f"client/{k}/style"] == list(VIEWS)[k]


def test_manifolds_are_of_the_codes_and_decoders_of_all_clients_own_models(monkeypatch):
    of, given = run(), []
    monkeypatch.setattr(decoding, "_manifolds", lambda *handed: given.append(handed) or {})
    found = decoded(of)
    ((models, codes),) = given
    assert models == of.own
    for k, model in enumerate(of.own):
        rows = found_among(found[f"client/{k}/real"], k, of.dealt.tests[k])
        for name, expected in codes_by(model, seen(k, rows)).items():
            torch.testing.assert_close(codes[k][name], expected)


# ---- decoders whose images say what they were made from


class Telling(nn.Module):
    """z, c and whose decoder it is, one below the other, as bytes."""

    def __init__(self, owner: int) -> None:
        super().__init__()
        self.owner = owner

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        return torch.stack([z, c, torch.full_like(z, self.owner)], dim=1).unsqueeze(1) / 127.5 - 1


def telling(clients: int) -> list[Any]:
    return [Model(decoder=Telling(k)) for k in range(clients)]


def test_an_exchange_has_z_of_a_client_and_c_of_the_next():
    """Client k has 10 k, 10 k + 1, ... as its z, and 100 more as its c; images of as many as both have."""
    sizes = (3, 5, 4)
    z = [(torch.arange(n) + 10.0 * k)[:, None].expand(-1, 2) for k, n in enumerate(sizes)]
    found = _swaps(telling(3), [{"z": own, "c": own + 100} for own in z])
    assert len(found) == 6
    for a, b in ((0, 1), (1, 2), (2, 0)):
        for by, decoder in (("z", a), ("c", b)):
            expected = [[10 * a + n, 100 + 10 * b + n, decoder] for n in range(min(sizes[a], sizes[b]))]
            assert found[f"{a}/{b}/{by}"][:, 0, :, 0].tolist() == expected


def test_a_client_alone_exchanges_nothing():
    assert _swaps(telling(1), [{"z": torch.zeros(2, 2), "c": torch.zeros(2, 2)}]) == {}


def test_a_manifold_has_z_down_and_c_across_two_deviations_to_either_side():
    """z varies along (3, -4) about (100, 140), which is turned round as -4 is the larger; c along (4, 3)."""
    steps = torch.tensor([[-6.0], [-2.0], [2.0], [6.0]])
    codes = [
        {"z": torch.tensor([100.0, 140.0]) + own * torch.tensor([0.6, -0.8]), "c": 60 + own * torch.tensor([0.8, 0.6])}
        for own in (steps[:1], steps[1:])
    ]
    reach = 2 * (80 / 3) ** 0.5
    found = _manifolds(telling(2), codes)
    for k in (0, 1):
        assert found[f"manifold/{k}"].shape == (8, 8, 1, 3, 2)
        for row, z in enumerate(np.linspace(-reach, reach, 8)):
            for column, c in enumerate(np.linspace(-reach, reach, 8)):
                expected = [[100 - 0.6 * z, 140 + 0.8 * z], [60 + 0.8 * c, 60 + 0.6 * c], [k, k]]
                assert np.abs(found[f"manifold/{k}"][row, column, 0] - np.array(expected)).max() < 0.51
