"""What every objective, network, partition and evaluation must do, for the sole reason that it is registered."""

import inspect
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from common.records import IDENTITY, OURS
from common.run_folder import RunFolder
from evaluation.extracts import EXTRACTS
from evaluation.moved import LEFT
from evaluation.registry import EVALUATIONS
from federation.names import selected
from networks import ENCODERS
from objectives import OBJECTIVES
from partitions import PARTITIONS, SOURCES, load
from partitions.sources import EMBEDDED
from tests.digits import STYLES, check_draws, data, left_by, objective, spec
from tests.evaluation.pictures import protocol

# ---- objectives


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_has_finite_losses_that_reach_every_parameter(name):
    made = objective(name)
    model, batch = made.model(), made.draw(torch.rand(8, 3, 8, 8), torch.arange(8), torch.Generator().manual_seed(0))
    batch["style"] = torch.arange(8) % len(STYLES)  # from the engine
    trained = set()
    for update in made.updates():
        loss = update.loss(model, batch)
        assert loss.shape == ()
        assert loss.isfinite()
        leaves = [entry for entry in selected(model, update.which) if entry.is_parameter]
        torch.autograd.grad(loss, [entry.tensor for entry in leaves])  # an unused one is an error
        trained |= {entry.name for entry in leaves}
    assert trained == {name for name, _ in model.named_parameters()}
    assert "encoder" in dict(model.named_children())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_all_that_is_random_about_a_batch_comes_from_the_generator(name):
    check_draws(objective(name))


GAMES = ("gan", "stargan")
"""They need not lower their losses."""


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in GAMES])
def test_training_on_an_objective_lowers_it(name):
    torch.manual_seed(0)
    made, everyone = objective(name), data()
    images = everyone.images[everyone.clients[0]][:64].float() / 255
    labels = everyone.labels[everyone.clients[0]][:64]
    model = made.model()
    optimiser, losses = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), []
    for step in range(40):
        loss = made.loss(model, made.draw(images, labels, torch.Generator().manual_seed(step)))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


# ---- networks


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_maps_images_to_as_many_features_as_it_says(name, channels):
    size = 28 if name in ("mcmahan-cnn", "inb-fmnist") else 32
    encoder = ENCODERS[name](channels=channels, image_size=size).eval()
    x = torch.rand(3, channels, size, size)
    with torch.no_grad():
        features = encoder(x)
        assert features.shape == (3, encoder.features)
        assert features.isfinite().all()
        torch.testing.assert_close(encoder(x[1:2]), features[1:2], atol=1e-5, rtol=1e-4)  # no image feels another
    assert inspect.getdoc(ENCODERS[name])


# ---- sources and partitions

SETTINGS = {
    "dirichlet": {"beta": 0.5},
    "label-skew": {"alpha": 5.0},
    "shards": {"each": 5},
    "by-class": {"of": [[0], [1], [2], [3, 4]]},
}
"""Settings of the partitions that need some."""


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_source_needs_no_file(name, tmp_path):
    source = load(name, 16, str(tmp_path))
    assert len(source.images) == len(source.labels) == 1797
    assert source.sha256 == load(name, 16, "").sha256
    assert SOURCES[name]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("clients", [1, 4])
@pytest.mark.parametrize("name", PARTITIONS)
def test_a_partition_deals_to_every_client_and_depends_on_its_generator_alone(name, clients):
    if name == "by-class" and clients == 1:
        return  # its setting says how many there are
    labels = np.random.default_rng(0).integers(0, 5, 200)
    deal = partial(PARTITIONS[name], labels, clients, **SETTINGS.get(name, {}))
    shares, again, other = (deal(rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert len(shares) == clients
    assert all(len(share) and share.min() >= 0 and share.max() < len(labels) for share in shares)
    assert all(np.array_equal(a, b) for a, b in zip(shares, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(shares, other, strict=True))


# ---- evaluations


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of FedStyle, which leaves everything that there is to measure."""
    asked = spec({"name": "fedstyle", "style_epochs": 1, "hidden": 8}, {"name": "simclr", "hidden": 16, "out": 8})
    return left_by(asked, tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def generative(tmp_path_factory):
    """A run of PaDPaF with labels, a snapshot and a judge: all that there is to measure on generated images."""
    asked = spec(
        {"name": "padpaf", "restyle_steps": 3},
        {"name": "gan", "latent": 8, "width": 4, "conditional": True},
        data={
            "dataset": "mnist",
            "styles": dict.fromkeys(("plain", "color-inversion", "rotation"), "digits-plain[::4]"),
            "views": {"color-inversion": {"name": "color-inversion"}, "rotation": {"name": "rotation"}},
            "pool": "together",
            "classes_per_client": 0.5,
            "image_size": 8,
        },
        network={"name": "sn-resnet", "width": 4},
        training={"rounds": 1, "batch_size": 16, "buffers": "local"},
        snapshots=[0],
        samples={"images": 40, "probed": 60},
    )
    return left_by(asked, tmp_path_factory.mktemp("generative"), judged=True)


@pytest.fixture(scope="module")
def dual(tmp_path_factory):
    """A run of FedDVA that classifies: two codes, decoded images, scores and a judge."""
    asked = spec(
        {"name": "feddva", "xi": 8.0},
        data={"dataset": "mnist", "styles": STYLES, "marks": {"svhn": "ellipse"}, "image_size": 8},
        network={"name": "dual-encoder", "width": 4, "latent": 3},
        training={"rounds": 2, "batch_size": 16, "buffers": "local"},
        score_every=1,
        samples={"images": 60, "probed": 90},
    )
    return left_by(asked, tmp_path_factory.mktemp("dual"), judged=True)


@pytest.fixture(scope="module")
def eavesdropped(tmp_path_factory):
    """A run of PS-FedGAN with attackers and a judge."""
    small = {"latent": 4, "width": 4, "synthetic": 8}
    asked = spec(
        {"name": "ps-fedgan", **small, "attackers": [{"name": "a1", "r": "0.9"}]},
        data={"dataset": "mnist", "styles": {"all": "digits-plain[::4]"}, "image_size": 8, "clients_per_style": 2},
        network={"name": "vgg4", "width": 4},
        training={"rounds": 2, "batch_size": 16},
        score_every=1,
        samples={"images": 20},
    )
    return left_by(asked, tmp_path_factory.mktemp("eavesdropped"), judged=True)


@pytest.fixture(scope="module")
def overheard(tmp_path_factory):
    """A run of FedAvg whose first update is inverted, and that is scored on a style that nobody has."""
    asked = spec(
        "fedavg",
        data={
            "dataset": "mnist",
            "styles": {"all": "digits-plain[::4]", "turned": "digits-plain[::4]"},
            "rotations": {"turned": 90},
            "unseen": ["turned"],
            "image_size": 8,
            "at_most": 2,
        },
        network={"name": "smooth-lenet"},
        training={"rounds": 1, "batch_size": 2, "optimiser": {"lr": 0.1}},
        features=False,
        score_every=1,
        inversion={"iterations": 3},
    )
    return left_by(asked, tmp_path_factory.mktemp("overheard"))


@pytest.fixture(scope="module")
def translating(tmp_path_factory):
    """A run of FedINB, with what its translators did before the first layer, and a judge."""
    asked = spec(
        {"name": "fedinb", "layers": 1, "directions": 2, "iterations": 3, "autoencoder_epochs": 1},
        "autoencoder",
        data={
            "dataset": "rotated-digits",
            "styles": dict.fromkeys(("0", "30"), "digits-plain"),
            "rotations": {"30": 30},
            "per_class": 20,
            "image_size": 8,
            "channels": 1,
        },
        network={"name": "inb-mnist"},
        snapshots=[0],
        samples={"images": 100},
    )
    return left_by(asked, tmp_path_factory.mktemp("translating"), judged=True)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A run of FedDVA that is asked for what all are asked alike, and a judge."""
    asked = spec(
        "feddva",
        network={"name": "dual-encoder", "width": 4, "latent": 3},
        training={"rounds": 1, "batch_size": 16, "buffers": "local"},
        abilities=["codes", "answers", "generation", "translation"],
        samples={"images": 30, "probed": 60},
    )
    return left_by(asked, tmp_path_factory.mktemp("compared"), judged=True)


RUNS = ["run", "generative", "dual", "eavesdropped", "overheard", "translating", "compared"]


def _settings(name: str, run: RunFolder) -> dict[str, Any]:
    if name in ("fid", "translation"):
        return {"extractors": ["domain-classifier"]}
    content, style = ("z", "c") if "codes/test/z" in run.features else ("content", "style")
    images = {"images": {"shared-encoder": "codes", "own-encoder": "own/codes"}, "epochs": 3}
    left = (by for by, start in LEFT.items() if any(key.startswith(start) for key in run.samples))
    by_all = any(key.startswith("asked/") for key in run.samples)
    return {
        "asked": protocol(*(("common", "asked") if by_all else ("padpaf", "asked-labels"))).keywords,
        "moved": {"by": next(left, "translation")},
        "linear-probe": {"epochs": 3},
        "longer-probe": {"epochs": 3},
        "identity-probe": {"epochs": 3},
        "probe": images | {"targets": ["label", "client"], "codes": {content: ["untrained"], style: []}},
        "disentanglement": images | {"codes": {"content": content, "style": style}},
    }.get(name, {})


ELSEWHERE = {"identity-probe": "tests/evaluation/test_codes.py", "work": "tests/evaluation/test_counts.py"}
"""Of CelebA alone, and of what somebody has counted: where it is tested that there are numbers."""
OF_WHOLE = ("linear-probe", "longer-probe")
"""They need features of whole images, which only the first kind of run leaves."""
OF_THE_LEAST = ("linear-probe", "budget")
"""All that can be measured on features of the shared model alone, and on the specification."""


@pytest.mark.parametrize("name", EVALUATIONS)
def test_an_evaluation_gives_records(name, request):
    given = [_records(name, request.getfixturevalue(which)) for which in RUNS if which == "run" or name not in OF_WHOLE]
    assert any(given) == (name not in ELSEWHERE)


def _records(name: str, run: RunFolder) -> list[dict[str, Any]]:
    records = list(EVALUATIONS[name](run, **_settings(name, run)))
    for record in records:
        assert {"kind", "style", "metric", "unit", "aggregate", "value"} <= record.keys() <= {*IDENTITY, *OURS}
        assert math.isfinite(record["value"])
        if record["unit"] == "fraction":
            assert 0 <= record["value"] <= 1
    assert records == list(EVALUATIONS[name](run, **_settings(name, run))), "measured twice, it gives other numbers"
    keys = [tuple(record.get(c, "") for c in (*IDENTITY, "control")) for record in records]
    assert len(set(keys)) == len(keys), "two records name the same cell"
    return records


def test_there_is_a_control_beside_every_metric_of_the_papers_features(run):
    for name in ("linear-probe", "clusters", "class-entropy"):
        records = list(EVALUATIONS[name](run, **_settings(name, run)))
        cases = {(r["metric"], r.get("protocol"), r["style"]) for r in records if not r.get("control")}
        assert cases == {(r["metric"], r.get("protocol"), r["style"]) for r in records if r.get("control")}


@pytest.mark.parametrize("name", EVALUATIONS)
def test_an_evaluation_takes_the_least_that_a_program_outside_leaves(name, tmp_path, run):
    """A specification, a provenance and the features of the shared model: docs/run-folder.md."""
    (tmp_path / "spec.yaml").write_text(run.spec.to_yaml())
    folder = RunFolder(tmp_path)
    folder.write_features({k: v for k, v in run.features.items() if k.startswith(("labels/", "shared/"))})
    folder.write_provenance({"status": "ok"})
    records = list(EVALUATIONS[name](folder, **_settings(name, folder)))
    assert all(math.isfinite(record["value"]) for record in records)
    assert bool(records) == (name in OF_THE_LEAST)


@pytest.mark.parametrize("name", EXTRACTS)
def test_an_extract_gives_rows_with_its_columns(name, request):
    extract, columns = EXTRACTS[name]
    rows = extract(request.getfixturevalue({"code-map": "dual", "searches": "translating"}.get(name, "run")))
    assert rows
    assert all(set(row) == set(columns) for row in rows)
