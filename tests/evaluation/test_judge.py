"""The judge: a measure that must not fail on what generators make before they are good."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from common.run_folder import RunFolder
from common.spec import DataSettings, Spec
from diptych.configuration import JudgeSettings
from diptych.judging import _eyes, train_judge
from diptych.workflow import Workflow
from evaluation import judge as module
from evaluation.corruption import CORRUPTIONS, blurred, corrupted, noisy, shifted
from evaluation.frechet import frechet_distance, gaussian
from evaluation.judge import judge_quality, load
from partitions import partition
from partitions.celeba import ATTRIBUTES

SETTINGS = JudgeSettings(width=8, features=16, epochs=12)
STYLES = {"upright": "digits-plain[0::2]", "turned": "digits-plain[1::2]"}
DATA = {"dataset": "mnist", "styles": STYLES, "rotations": {"turned": 90}, "image_size": 16, "channels": 1}


def _spec() -> Spec:
    return Spec(
        run="padpaf/c/padpaf/default/1",
        scale="tiny",
        seed=1,
        data=DATA,
        network={"name": "sn-resnet"},
        objective={"name": "gan"},
        algorithm={"name": "padpaf"},
        training={"rounds": 1},
    )


def _said(quality, metric="accuracy", target="label"):
    """Case -> value, clean images under the empty name."""
    of = {row["setting"]: row["value"] for row in quality if row["metric"] == metric}
    return {setting.removeprefix(f"judge;target={target}"): value for setting, value in of.items() if target in setting}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A judge of upright and turned digits, and what it says of itself."""
    file = tmp_path_factory.mktemp("judge") / "judge.safetensors"
    return train_judge(_spec(), SETTINGS, "", file), file


def check_steadfast(accuracy: dict[str, float]) -> None:
    """Within five points of clean images: three are asked for of a full data set, and here are 540 test images."""
    clean = accuracy.pop("")
    assert clean > 0.9
    for how, strength in CORRUPTIONS:
        case = f";images={how}-{strength:g}"
        if case != ";images=shift-2":  # an eighth of these images' side
            assert accuracy[case] > clean - 0.05, case
    assert accuracy[";images=shift-2"] > clean - 0.1


@pytest.mark.parametrize("target", ["label", "client"])
def test_what_it_reads_survives_noise_shifts_and_blur(judged, target):
    check_steadfast(_said(judged[0], target=target))


def test_a_judge_of_clean_images_would_fail(tmp_path, monkeypatch):
    """The corruptions are strong enough to tell: without them in training, noise alone costs a third."""
    monkeypatch.setattr(module, "augmented", lambda x, draw: x)
    accuracy = _said(train_judge(_spec(), SETTINGS, "", tmp_path / "judge"))
    assert accuracy[""] > 0.9
    with pytest.raises(AssertionError):
        check_steadfast(accuracy)


def test_it_says_what_it_says_of_noise(judged):
    shares = [row["value"] for row in judged[0] if row["metric"] == "label_share"]
    assert len(shares) == 10
    assert sum(shares) == pytest.approx(1)
    assert _said(judged[0], "one_label")[";images=only-noise"] == pytest.approx(max(shares))
    assert 0.1 <= _said(judged[0], "confidence")[";images=only-noise"] <= 1


def test_faces_keep_their_hairstyle(tmp_path):
    """All are of one source, which clients share out by attribute: dark above where bald, dark below under a hat."""
    rng = np.random.default_rng(0)
    bald = np.arange(300) % 2 == 0
    columns = [ATTRIBUTES.index(name) for name in ("Bald", "Wearing_Hat")]
    attributes = np.zeros((300, 40), dtype=bool)
    attributes[:, columns] = np.stack([bald, ~bald], axis=1)
    images = rng.integers(0, 100, (300, 12, 8, 3), dtype=np.uint8)
    images[bald, 6:] += 155
    images[~bald, :6] += 155
    np.savez(tmp_path / "celeba.npz", images=images, identities=np.arange(300) // 2 * 2, attributes=attributes)
    hair = {"bald": ["Bald"], "hat": ["Wearing_Hat"]}
    faces = {"dataset": "celeba", "styles": dict.fromkeys(hair, "celeba"), "attributes": hair, "pool": "together"}
    data = DataSettings(**faces, test_images="dealt", image_size=8, channels=3)
    spec = _spec().model_copy(update={"data": data})
    quality = train_judge(spec, JudgeSettings(width=4, features=8, epochs=20), str(tmp_path), tmp_path / "judge")
    assert _said(quality, target="client")[""] > 0.95
    assert not [row for row in quality if row["metric"] == "label_share"], "of more people than there are test images"


@pytest.mark.parametrize("dataset", ["mnist", "another"])
def test_it_sees_all_training_images_of_the_data_sets_that_it_is_to_see_whole(dataset, tmp_path, monkeypatch):
    """Clients have five images of each class and style; who sees all has the rest as well, and no test image."""
    seen, asked_of = [], []
    monkeypatch.setattr(module, "augmented", lambda x, draw: seen.extend(_keys(x)) or x)
    monkeypatch.setattr(
        "diptych.judging.examined", lambda network, views, *rest: asked_of.extend(_keys(views[0])) or []
    )
    spec = _spec()
    spec = spec.model_copy(update={"data": DataSettings(**DATA, per_class=5)})
    settings = JudgeSettings(width=4, features=8, epochs=1, whole=[dataset])
    train_judge(spec, settings, "", tmp_path / "judge")
    dealt = partition(spec.data, "", spec.seed)
    trained, tests = (set(_keys(dealt.images[torch.cat(of)])) for of in (dealt.train, dealt.test))
    assert len(trained) == 100
    assert set(seen) == (set(_keys(dealt.images)) - tests if dataset == "mnist" else trained)
    assert set(asked_of) == tests


def test_the_second_client_that_sees_an_image_sees_it_in_another_way(tmp_path, monkeypatch):
    """One digit in two clients' eyes is what a perfect change of style would be: never in one client's twice."""
    drawn = []
    monkeypatch.setattr("diptych.judging._eyes", lambda styles, draw: drawn.append(_eyes(styles, draw)) or drawn[-1])
    views = {"a": {"name": "plain"}, "b": {"name": "color-inversion"}, "c": {"name": "vertical-flip"}}
    data = DataSettings(
        dataset="mnist", pool="together", styles=dict.fromkeys(views, "digits-plain"), views=views, image_size=8
    )
    spec = _spec().model_copy(update={"data": data})
    train_judge(spec, JudgeSettings(width=4, features=8, epochs=1), "", tmp_path / "judge")
    first, second = drawn[-2:]
    assert len(first) > 300
    assert not (first == second).any()
    assert {*zip(first.tolist(), second.tolist(), strict=True)} == {
        (a, b) for a in range(3) for b in range(3) if a != b
    }


def test_where_an_image_has_one_style_nobody_else_sees_it(tmp_path):
    """Each style has a source of its own, and a view."""
    views = {"upright": {"name": "plain"}, "turned": {"name": "color-inversion"}}
    data = DataSettings(dataset="mnist", styles=STYLES, views=views, image_size=8)
    spec = _spec().model_copy(update={"data": data})
    quality = train_judge(spec, JudgeSettings(width=4, features=8, epochs=1), "", tmp_path / "judge")
    assert not [row for row in quality if "views=two" in row["setting"]]
    assert [row for row in quality if row["metric"] == "accuracy"]


def test_each_seed_has_a_judge_of_its_own(tmp_path):
    """Which images of an embedded source are for tests is drawn by the seed; their judge must not have seen them."""
    run = RunFolder(tmp_path)
    for seed in (1, 2):
        run.write_spec(_spec().model_copy(update={"run": f"padpaf/mnist_two/padpaf/default/{seed}", "seed": seed}))
        assert RunFolder(tmp_path).judged(Path("judges")).judge == Path(f"judges/padpaf/mnist_two/{seed}.safetensors")
    flow = Workflow({"scale": "reference-feddva"})
    judges = flow.judges(SimpleNamespace(paper="feddva", method="feddva"))
    assert {file for file in judges if "hairstyles" in file} == {
        f"results/reference-feddva/judges/feddva/celeba_hairstyles/{seed}.safetensors" for seed in (2011, 2012, 2013)
    }
    wildcards = SimpleNamespace(paper="feddva", condition="celeba_hairstyles", seed="2012")
    assert flow.judge()["run"](wildcards).endswith("/2012")


def _keys(images: torch.Tensor) -> list[bytes]:
    """Images as bytes, which tell them apart."""
    return [_stored(image).numpy().tobytes() for image in images]


def _stored(image: torch.Tensor) -> torch.Tensor:
    """A float image in [0, 1] as it was stored."""
    return (image * 255).round().byte() if image.is_floating_point() else image


SHAPES = {
    "encoder.0": (4, 3, 3, 3),
    "encoder.1": (4,),
    "encoder.4": (8, 4, 3, 3),
    "encoder.5": (8,),
    "hidden.0": (32, 8 * 4 * 4),
    "hidden.1": (32,),
    "features": (6, 32),
    "label": (10, 6),
    "client": (5, 6),
}
"""Layer -> its weight, in the file of a judge of width 4 with 6 features, of images of 16 pixels."""


def test_a_file_says_what_it_has_always_said(tmp_path):
    """Two convolutions, a hidden layer and features, layer by layer as functions: a judge of long ago can be read."""
    torch.manual_seed(0)
    held = {f"{layer}.weight": torch.rand(shape) - 0.5 for layer, shape in SHAPES.items()}
    held |= {f"{layer}.bias": torch.rand(shape[0]) - 0.5 for layer, shape in SHAPES.items()}
    for layer in ("encoder.1", "encoder.5", "hidden.1"):
        held |= {f"{layer}.running_{what}": torch.rand(SHAPES[layer]) / 5 + 0.1 for what in ("mean", "var")}
        held[f"{layer}.num_batches_tracked"] = torch.tensor(9)
    shape = {"channels": 3, "size": 16, "width": 4, "features": 6, "classes": 10, "clients": 5}
    save_file(held, tmp_path / "judge", {"judge": json.dumps({"shape": shape, "quality": []})})
    images = np.random.default_rng(0).integers(0, 256, (300, 3, 16, 16), dtype=np.uint8)

    def of(layer: str) -> tuple[torch.Tensor, torch.Tensor]:
        return held[f"{layer}.weight"], held[f"{layer}.bias"]

    def normal(x: torch.Tensor, layer: str) -> torch.Tensor:
        mean, variance = held[f"{layer}.running_mean"], held[f"{layer}.running_var"]
        return F.relu(F.batch_norm(x, mean, variance, *of(layer), eps=1e-5))

    x = torch.from_numpy(images) / 255
    for convolution, norm in (("encoder.0", "encoder.1"), ("encoder.4", "encoder.5")):
        x = F.max_pool2d(normal(F.conv2d(x, *of(convolution), padding=1), norm), 2)
    h = F.linear(normal(F.linear(x.flatten(1), *of("hidden.0")), "hidden.1"), *of("features"))
    heads = [F.linear(F.relu(h), *of(head)) for head in ("label", "client")]
    judge = load(tmp_path / "judge")
    np.testing.assert_allclose(judge(images)[0], h.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(judge.logits(images), heads[0].numpy(), rtol=1e-4, atol=1e-5)
    found = module.logits(judge.network, torch.from_numpy(images) / 255)
    for said, expected in zip(found, (h, *heads), strict=True):
        torch.testing.assert_close(said, expected, rtol=1e-3, atol=1e-3)
        assert said.std(dim=0).max() > 0.02, "of each image something else"


def test_it_is_the_same_again(tmp_path):
    short = JudgeSettings(width=4, features=8, epochs=1)
    first, again = (train_judge(_spec(), short, "", tmp_path / name) for name in "ab")
    assert first == again
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


class _Reader(torch.nn.Module):
    """Reads the label off the first pixel, in tenths, and the client off the second; sure of it by odds of e^2, of the
    last label by e."""

    def forward(self, x):
        label, client = (x[:, 0, 0, 0] * 10).long().clamp(max=9), (x[:, 0, 0, 1] > 0.5).long()
        return x.flatten(1), torch.eye(10)[label] * (2.0 - (label == 9).float())[:, None], 2.0 * torch.eye(2)[client]


def test_what_it_says_of_itself_is_what_it_reads_off_test_images():
    """Three of four labels right and one of four clients; a second view agrees in three. Without one there
    is no such number."""
    draw = torch.Generator().manual_seed(0)
    x, again = torch.zeros(4, 1, 40, 40), torch.zeros(4, 1, 40, 40)
    x[:, 0, 0, 0], x[:, 0, 0, 1] = torch.tensor([0.05, 0.15, 0.25, 0.95]), 0.9
    again[:, 0, 0, 0] = torch.tensor([0.05, 0.15, 0.25, 0.75])
    seen = x, torch.tensor([0, 1, 2, 3]), torch.tensor([1, 0, 0, 0])
    quality = module.examined(_Reader(), seen, again, draw)
    sure = np.mean([np.exp(odds) / (np.exp(odds) + 9) for odds in (2, 2, 2, 1)])
    assert _said(quality)[""] == 0.75
    assert _said(quality, target="client")[""] == 0.25
    assert _said(quality, "confidence")[""] == pytest.approx(sure, rel=1e-5)
    (agreement,) = [(row["setting"], row["value"]) for row in quality if row["metric"] == "label_agreement"]
    assert agreement == ("judge;views=two", 0.75)
    assert set(_said(quality)) == {"", *(f";images={how}-{s:g}" for how, s in CORRUPTIONS)}
    assert not [row for row in module.examined(_Reader(), seen, None, draw) if row["metric"] == "label_agreement"]


def test_what_it_says_under_a_corruption_is_of_images_that_are_so_corrupted(monkeypatch):
    """The n-th makes all images show label n, of which there are n + 1 among 21."""

    def shown(x: torch.Tensor, how: str, strength: float, draw: torch.Generator) -> torch.Tensor:
        return torch.full_like(x, (CORRUPTIONS.index((how, strength)) + 0.5) / 10)

    monkeypatch.setattr(module, "corrupted", shown)
    label = torch.arange(6).repeat_interleave(torch.arange(1, 7))
    seen = torch.full((21, 1, 4, 4), 0.95), label, torch.zeros_like(label)
    said = _said(module.examined(_Reader(), seen, None, torch.Generator().manual_seed(0)))
    cases = [f";images={how}-{strength:g}" for how, strength in CORRUPTIONS]
    assert said == pytest.approx({"": 0.0} | {case: (n + 1) / 21 for n, case in enumerate(cases)})


def test_of_noise_it_says_how_often_it_gives_each_label():
    draw = torch.Generator().manual_seed(0)
    x = torch.zeros(3000, 1, 4, 4)
    quality = module.examined(_Reader(), (x, torch.zeros(3000).long(), torch.zeros(3000).long()), None, draw)
    shares = {row["setting"]: row["value"] for row in quality if row["metric"] == "label_share"}
    assert list(shares) == [f"judge;label={c};images=only-noise" for c in range(10)]
    assert list(shares.values()) == pytest.approx([0.1] * 10, abs=0.02), "every brightness is as likely"
    assert _said(quality, "one_label")[";images=only-noise"] == max(shares.values())
    sure, less = (np.exp(odds) / (np.exp(odds) + 9) for odds in (2, 1))
    expected = sure + (less - sure) * list(shares.values())[-1]
    assert _said(quality, "confidence")[";images=only-noise"] == pytest.approx(expected, rel=1e-5)


def test_a_label_that_noise_is_never_given_has_a_share_of_nothing():
    class Sceptic(_Reader):
        def forward(self, x):
            return super().forward(x / 2)

    x = torch.zeros(300, 1, 4, 4)
    truth = torch.zeros(300).long()
    quality = module.examined(Sceptic(), (x, truth, truth), None, torch.Generator().manual_seed(0))
    shares = {row["setting"]: row["value"] for row in quality if row["metric"] == "label_share"}
    assert [shares[f"judge;label={c};images=only-noise"] for c in range(5, 10)] == [0] * 5
    assert sum(shares.values()) == pytest.approx(1)


def test_its_rate_begins_at_five_thousandths_where_nothing_else_is_asked_for(monkeypatch):
    rates = []
    monkeypatch.setattr(module, "step", lambda how, *_: rates.append((how.name, how.lr)))
    network = module.JudgeNetwork(channels=1, size=8, width=2, features=4, classes=3, clients=2)
    batch = torch.rand(6, 1, 8, 8), torch.arange(6) % 3, torch.arange(6) % 2
    module.fit(network, [[batch], [batch]], torch.Generator())
    assert rates == [("adam", 5e-3), ("adam", 2.5e-3)]


def test_it_is_trained_on_both_questions_by_adam_whose_rate_falls_linearly(monkeypatch):
    """Against Adam by hand, with images as they are; no two passes have the same rate."""
    monkeypatch.setattr(module, "augmented", lambda x, draw: x)
    torch.manual_seed(0)
    ours = module.JudgeNetwork(channels=1, size=8, width=2, features=4, classes=3, clients=2)
    theirs = copy.deepcopy(ours).train()
    passes = [[(torch.rand(6, 1, 8, 8), torch.arange(6) % 3, torch.arange(6) % 2) for _ in range(2)] for _ in range(4)]
    module.fit(ours, passes, torch.Generator(), lr=0.02)
    parameters = list(theirs.parameters())
    first, second = [[torch.zeros_like(p) for p in parameters] for _ in range(2)]
    for n, (x, label, client) in enumerate((batch for batches in passes for batch in batches), start=1):
        _, says_label, says_client = theirs(x)
        loss = F.cross_entropy(says_label, label) + F.cross_entropy(says_client, client)
        for p, m, v, g in zip(parameters, first, second, torch.autograd.grad(loss, parameters), strict=True):
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.999).add_(0.001 * g**2)
            p.data -= (0.02, 0.015, 0.01, 0.005)[(n - 1) // 2] * m / (1 - 0.9**n) / ((v / (1 - 0.999**n)).sqrt() + 1e-8)
    assert not ours.training
    x = torch.rand(20, 1, 8, 8)
    for a, b in zip(ours.train()(x), theirs(x), strict=True):  # a bias before a batch norm has no gradient, and no say
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_its_quality_is_recorded_beside_what_it_judges(judged, tmp_path):
    run = RunFolder(tmp_path, judged[1])
    vars(run)["samples"] = {}
    assert list(judge_quality(run)) == [], "nothing is judged"
    vars(run)["samples"] = {"made/0/cloud": np.zeros(1, np.uint8)}
    records = list(judge_quality(run))
    assert [(r["metric"], r["setting"], r["value"]) for r in records] == [
        (row["metric"], row["setting"], row["value"]) for row in judged[0]
    ]
    assert {(r["role"], r["kind"]) for r in records} == {("real", "judge")}


# ---- features


@pytest.fixture(scope="module")
def distance(judged):
    """From the training images of upright digits, and test images of upright and of turned ones."""
    dealt = partition(DataSettings(**DATA), "", seed=1)
    judge = load(judged[1])
    upright, turned = (dealt.images[dealt.test[k]].float() / 255 for k in (0, 1))

    def features(x):
        return gaussian(judge((x * 255).round().byte().numpy())[0], "a set")

    reference = features(dealt.images[dealt.train[0]].float() / 255)
    return lambda x: frechet_distance(features(x), reference), upright, turned


def test_the_distance_grows_with_noise_and_blur(distance):
    measure, upright, _ = distance
    draw = torch.Generator().manual_seed(0)
    for how, strengths in (("noise", (0.2, 0.4, 0.8)), ("blur", (1.0, 1.5, 2.5))):
        found = [measure(upright), *(measure(corrupted(upright, how, s, draw)) for s in strengths)]
        assert found == sorted(found), (how, found)
        assert found[-1] > 2 * found[0]


def test_the_distance_grows_with_the_share_of_another_clients_images(distance):
    measure, upright, turned = distance
    n = min(len(upright), len(turned))
    counts = (0, n // 4, n // 2, n)
    found = [measure(torch.cat([upright[: n - k], turned[:k]])) for k in counts]
    assert found == sorted(found), found
    assert found[-1] > 2 * found[0]


# ---- corruptions


def test_corruptions_are_what_they_are_called():
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(4, 2, 12, 12, generator=draw)
    down, right = torch.tensor([0, 1, -2, 0]), torch.tensor([0, 0, 1, -3])
    moved = shifted(x, down, right)
    assert torch.equal(moved[0], x[0])
    assert torch.equal(moved[1, :, 1:], x[1, :, :-1])
    assert torch.equal(moved[1, :, 0], x[1, :, 0]), "the border is repeated"
    assert torch.equal(moved[2, :, :-2, 1:], x[2, :, 2:, :-1])
    assert torch.equal(moved[3, :, :, :-3], x[3, :, :, 3:])
    grey = torch.full((2, 1, 100, 100), 0.5)
    spread = noisy(grey, torch.tensor([0.1, 0.0]), draw).std(dim=(1, 2, 3))
    assert spread.tolist() == pytest.approx([0.1, 0], abs=2e-3)
    assert blurred(grey, torch.tensor([1.0, 2.0])) == pytest.approx(grey)
    assert (blurred(x, torch.full((4,), 2.0)).var() < blurred(x, torch.full((4,), 0.5)).var()).item()
    for how, strength in CORRUPTIONS:
        assert corrupted(x, how, strength, draw).shape == x.shape
