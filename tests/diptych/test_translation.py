"""Translation by runs that are finished: the same images as the simulation made, from what it has left."""

from functools import cache

import numpy as np
import pytest
import torch

from abilities import Trained, arrays
from abilities.translation import by_norms, translate_of
from common.errors import InputError
from common.run_folder import RunFolder
from common.spec import SampleSettings, Spec
from diptych.assembly import build_algorithm
from diptych.given import client_data
from diptych.translation import Translation
from federation import Simulation
from federation.hooks import pooled
from networks.stargan import StarGANGenerator
from partitions import partition
from partitions.rotations import rotated
from tests.digits import left_by, spec
from tests.mutation import mutated

ANGLES = {"0": 0, "30": 30, "60": 60}
STARGAN = {
    "network": {"name": "stargan", "width": 4},
    "objective": {"name": "stargan", "domains": 3, "width": 4, "blocks": 1, "discriminator_steps": 1},
    "training": {"local_steps": 2},
}
RUNS = {
    "auto-encoder": {"network": {"name": "inb-mnist"}},
    "pixels": {"network": {"name": "pixels"}, "samples": {"images": 50}},
    "histograms": {"network": {"name": "pixels"}, "algorithm": {"bins": 6}},
    "stargan": STARGAN | {"algorithm": {"name": "fedavg"}},
    "centralised stargan": STARGAN | {"algorithm": {"name": "centralized"}},
}
FEDINB = {"name": "fedinb", "layers": 2, "directions": 3, "iterations": 4, "map_bins": 8, "autoencoder_epochs": 2}


def _spec(which: str) -> Spec:
    own = RUNS[which]
    algorithm = own.get("algorithm", {})
    return spec(
        algorithm if "name" in algorithm else FEDINB | algorithm,
        own.get("objective", "autoencoder"),
        data={
            "dataset": "rotated-digits",
            "styles": dict.fromkeys(ANGLES, "digits-plain"),
            "rotations": {style: angle for style, angle in ANGLES.items() if angle},
            "per_class": 10,
            "image_size": 8,
            "channels": 1,
        },
        network=own["network"],
        training={"rounds": 2, "batch_size": 16, "optimiser": {"name": "adam", "lr": 1e-4}, **own.get("training", {})},
        snapshots=[0],
        samples=own.get("samples", {"images": 2000}),
    )


@pytest.mark.parametrize("which", ["auto-encoder", "stargan"])
def test_what_is_translated_is_what_clients_see(which, tmp_path):
    """Clients of one domain see its images inverted: they are real, translated, and what others are held against so."""
    plain = _spec(which).model_copy(update={"snapshots": []})
    inverted = plain.data.model_copy(update={"views": {"30": {"name": "color-inversion"}}, "image_size": 16})
    folders = [
        left_by(plain.model_copy(update={"data": data}), tmp_path / name)
        for name, data in (("plain", plain.data.model_copy(update={"image_size": 16})), ("seen", inverted))
    ]
    plain_made, seen = (folder.samples for folder in folders)
    for kind in ("real", "other"):
        assert np.abs(seen[f"{kind}/30"] + plain_made[f"{kind}/30"].astype(int) - 255).max() <= 1
        assert np.array_equal(seen[f"{kind}/0"], plain_made[f"{kind}/0"])
    assert not np.array_equal(seen["translated/30/0"], plain_made["translated/30/0"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Trains a run, once."""
    return cache(lambda which: left_by(_spec(which), tmp_path_factory.mktemp("run")).path)


def _images(part: str = "test") -> tuple[torch.Tensor, torch.Tensor]:
    """40 of the first domain, and their labels."""
    dealt = partition(_spec("pixels").data, "", 3)
    rows = getattr(dealt, part)[0][:40]
    return dealt.images[rows].float() / 255, dealt.labels[rows]


def _by_models(simulation: Simulation):
    """From the models themselves: two clients' translators, or the generator that all share."""
    members = [simulation.synchronised(k).eval() for k in range(len(simulation.population.members))]
    if hasattr(members[0], "latent"):
        return lambda x, y, a, b: members[b].images(members[a].latent(x, y), y)
    objective = simulation.algorithm.objective
    return lambda x, y, a, b: objective.translate(members[0], x, torch.full_like(y, a), torch.full_like(y, b))


@pytest.mark.parametrize("which", RUNS)
def test_what_was_saved_translates_as_the_simulation_does(which, folder):
    asked, (x, y) = _spec(which), _images()
    dealt = partition(asked.data, "", asked.seed)
    algorithm = build_algorithm(asked, dealt.classes)
    simulation = Simulation(algorithm, client_data(dealt, pooled(algorithm)), asked.training, asked.seed)
    simulation.run()
    before, translate = _by_models(simulation), translate_of(algorithm)
    members = [simulation.synchronised(k).eval() for k in range(len(simulation.population.members))]
    saved = Translation(folder(which))
    assert saved.domains == tuple(ANGLES)
    for a, source in enumerate(ANGLES):
        for b, target in enumerate(ANGLES):
            found = saved.translate(x, y, source, target)
            with torch.no_grad():
                assert torch.equal(found, before(x, y, a, b))
                assert torch.equal(found, translate(members, x, y, a, [b])[0])
            assert found.shape == x.shape
            assert 0 <= found.min() <= found.max() <= 1


@pytest.mark.parametrize("which", RUNS)
def test_the_run_leaves_translations_of_its_test_images(which, folder):
    asked, run, saved = _spec(which), RunFolder(folder(which)), Translation(folder(which))
    kinds = {key.partition("/")[0] for key in run.samples}
    both = {"translated", "instance-normed"} if "stargan" in which else {"translated"}
    assert kinds == {"label", "real", *both, "rotated", "other", "other-label"}
    assert {key.partition("/")[0] for key in run.after(0)} == {"label", "real", *both}
    dealt = partition(asked.data, "", asked.seed)
    count = min(asked.samples.images, len(dealt.test[0]))
    for a, source in enumerate(ANGLES):
        real, labels = (run.samples[f"{kind}/{source}"] for kind in ("real", "label"))
        assert len(real) == len(labels) == count
        assert np.bincount(labels, minlength=10).min() >= count // 12, "classes come as often as there are"
        x = torch.from_numpy(real).float() / 255
        others = dealt.images[dealt.train[a]].numpy()
        assert all((others == image).all(axis=(1, 2, 3)).any() for image in run.samples[f"other/{source}"])
        assert len(run.samples[f"other/{source}"]) == len(run.samples[f"other-label/{source}"])
        for target, angle in ANGLES.items():
            expected = saved.translate(x, torch.from_numpy(labels), source, target)
            made = run.samples[f"translated/{source}/{target}"]
            assert np.abs(made - expected.mul(255).numpy()).max() < 0.51
            turned = rotated(torch.from_numpy(real), angle - ANGLES[source]).numpy()
            assert np.array_equal(run.samples[f"rotated/{source}/{target}"], turned)


def _in_both_ways(kinds) -> dict[str, torch.Tensor]:
    """A batch by a generator whose statistics lag behind, and the same once more: looking changes nothing."""
    torch.manual_seed(3)
    generator = StarGANGenerator(channels=1, image_size=8, domains=3, width=4, blocks=1)
    x, one_hot = torch.rand(5, 1, 8, 8), torch.eye(3)[torch.tensor([0, 1, 2, 0, 1])]
    generator(x + 1, one_hot, one_hot)
    before = {name: value.clone() for name, value in generator.state_dict().items()}
    found = kinds(torch.nn.ModuleList([generator]).eval())
    made = {name: models[0](x, one_hot, one_hot.roll(1, 1)) for name, models in found.items()}
    assert all(torch.equal(models[0](x, one_hot, one_hot.roll(1, 1)), made[name]) for name, models in found.items())
    assert all(torch.equal(value, before[name]) for name, value in generator.state_dict().items())
    assert not any(models.training for models in found.values())
    for n in range(5):
        alone = generator.eval()(x[[n]], one_hot[[n]], one_hot[[n]].roll(1, 1))
        assert torch.allclose(made["translated"][[n]], alone, atol=1e-6)
        alone = generator.train()(x[[n]], one_hot[[n]], one_hot[[n]].roll(1, 1))
        assert torch.allclose(made["instance-normed"][[n]], alone, atol=1e-6)
        generator.load_state_dict(before)
    return made


def test_stargan_translates_by_the_statistics_it_kept_and_by_each_images_own():
    made = _in_both_ways(by_norms)
    assert (made["translated"] - made["instance-normed"]).abs().max() > 0.01


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("_forgotten", "copied(members)", "members"),
        ("_forgotten", "norm.track_running_stats = False", "pass"),
        ("by_norms", "_forgotten(members)", "members"),
        ("by_norms", '"translated": members', '"translated": _forgotten(members)'),
    ],
)
def test_norms_by_other_statistics_are_caught(name, right, wrong):
    with mutated("abilities.translation", name, right, wrong) as mutant, pytest.raises(AssertionError):
        _in_both_ways(mutant if name == "by_norms" else by_norms)


def test_models_whose_norms_keep_nothing_translate_in_one_way():
    plain = torch.nn.ModuleList([torch.nn.InstanceNorm2d(3), torch.nn.BatchNorm2d(3)])
    assert by_norms(plain) == {"translated": plain}


def test_a_run_leaves_what_its_model_makes_by_each_images_own_statistics(folder):
    run = RunFolder(folder("stargan"))
    spec, dealt = run.spec, partition(run.spec.data, "", run.spec.seed)
    algorithm = build_algorithm(spec, dealt.classes)
    simulation = Simulation(algorithm, client_data(dealt, pooled(algorithm)), spec.training, spec.seed)
    simulation.run()
    model = simulation.synchronised(0).train()
    x = torch.from_numpy(run.samples["real/30"]).float() / 255
    source, target = torch.full((len(x),), 1), torch.full((len(x),), 2)
    expected = algorithm.objective.translate(model, x, source, target)
    assert np.abs(run.samples["instance-normed/30/60"] - expected.mul(255).numpy()).max() < 0.51


@pytest.mark.parametrize("which", ["stargan", "centralised stargan"])
def test_whoever_is_asked_as_all_are_translates_by_both_statistics_too(which, folder, tmp_path):
    """Common ground's images are those that the run leaves anyway, and no others are left of the domains."""
    asked = left_by(_spec(which).model_copy(update={"abilities": ["translation"], "snapshots": []}), tmp_path)
    left, kinds = RunFolder(folder(which)).samples, ("real", "translated", "instance-normed")
    assert {key.partition("/")[0] for key in asked.samples} >= {*kinds}
    for key, images in asked.samples.items():
        if key.startswith(kinds):
            assert np.array_equal(images, left[key]), key


def test_an_image_translated_to_its_own_domain_is_itself(folder):
    """Without an auto-encoder that loses something; up to what clamps hold at the ends of the distributions."""
    (x, y), saved = _images("train"), Translation(folder("pixels"))
    assert (saved.translate(x, y, "0", "0") - x).abs().flatten().quantile(0.99) < 1e-3
    assert (saved.translate(x, y, "0", "60") - x).abs().max() > 0.1


def test_an_auto_encoder_alone_is_what_a_run_starts_with(folder):
    """After no layer a translation is the reconstruction by the target's decoder of the source's codes."""
    start = RunFolder(folder("auto-encoder")).after(0)
    end = RunFolder(folder("auto-encoder")).samples
    key = "translated/0/60"
    assert start[key].shape == end[key].shape
    assert (start[key] != end[key]).any()
    assert np.array_equal(start["real/0"], end["real/0"])


def test_without_rotations_there_is_no_control_by_rotation():
    asked = _spec("pixels")
    data = asked.data.model_copy(update={"rotations": {}})
    asked = asked.model_copy(update={"data": data, "samples": SampleSettings(images=20)})
    dealt = partition(asked.data, "", asked.seed)
    start = Simulation(build_algorithm(asked, dealt.classes), client_data(dealt, ""), asked.training, asked.seed)
    _, samples = arrays(Trained(start, dealt, asked), at_the_end=True)
    assert "other/30" in samples
    assert not any(key.startswith("rotated/") for key in samples)
    apart = samples["translated/0/30"].astype(int) - samples["real/0"]
    assert np.abs(apart).max() <= 1, "there is no layer yet"
    assert len(apart) == 20


# ---- bad input


def _nan(x: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.arange(x.numel()).reshape(x.shape) == 5, torch.nan, x)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"source": "15"}, "source: unknown name '15'; allowed: 0, 30, 60"),
        ({"target": "600"}, "target: unknown name '600'; did you mean '60'"),
        ({"label": lambda y: y - 1}, "label: must be a class from 0 to 9 for each of 40 images"),
        ({"label": lambda y: y + 1}, "label: must be a class from 0 to 9 for each of 40 images"),
        ({"label": lambda y: y[:-1]}, "label: must be a class from 0 to 9 for each of 40 images"),
        ({"label": lambda y: y.float() + 0.5}, "label: must be a class from 0 to 9 for each of 40 images"),
        ({"x": lambda x: x * 255}, r"x: .*numbers in \[0, 1\]"),
        ({"x": lambda x: x - 0.1}, r"x: .*numbers in \[0, 1\]"),
        ({"x": _nan}, r"x: .*numbers in \[0, 1\]"),
        ({"x": lambda x: x[:0], "label": lambda y: y[:0]}, r"x: .*numbers in \[0, 1\]"),
        ({"x": lambda x: (255 * x).byte()}, r"x: .*numbers in \[0, 1\]"),
        ({"x": lambda x: x.flatten(1)}, r"x: must be images of 1 x 8 x 8, got 64"),
        ({"x": lambda x: x[..., :7]}, r"x: must be images of 1 x 8 x 8, got 1 x 8 x 7"),
        ({"x": lambda x: x.expand(-1, 3, -1, -1)}, r"x: must be images of 1 x 8 x 8, got 3 x 8 x 8"),
    ],
)
@pytest.mark.parametrize("which", ["pixels", "stargan"])
def test_what_cannot_be_translated(which, changes, sentence, folder):
    x, y = _images()
    y = y.clone()
    y[0], y[1] = 0, 9
    asked = {
        "x": changes.get("x", lambda x: x)(x),
        "label": changes.get("label", lambda y: y)(y),
        "source": changes.get("source", "0"),
        "target": changes.get("target", "30"),
    }
    with pytest.raises(InputError, match=f"^{sentence}"):
        Translation(folder(which)).translate(**asked)


def test_folders_that_cannot_be_used(folder, tmp_path):
    with pytest.raises(InputError, match=r"spec\.yaml: cannot be read \(No such file"):
        Translation(tmp_path / "nothing")
    whole = folder("pixels")
    for name in ("spec.yaml", "provenance.json"):
        (tmp_path / name).write_bytes((whole / name).read_bytes())
    with pytest.raises(InputError, match=r"model\.safetensors: cannot be read .*; run the training again"):
        Translation(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(InputError, match=r"model\.safetensors: cannot be read .*; run the training again"):
        Translation(tmp_path)


def test_a_run_that_does_not_translate_is_refused(tmp_path):
    asked = _spec("auto-encoder").model_copy(update={"algorithm": {"name": "local"}, "features": False})
    left_by(asked, tmp_path)
    with pytest.raises(InputError, match="the algorithm 'local' does not translate images"):
        Translation(tmp_path)
