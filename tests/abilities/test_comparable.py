"""What all are asked alike: whose codes, answers and images these are, held against the models themselves."""

from functools import cache, partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from abilities import Trained, comparable
from abilities.comparable import _by_exchange, answers, asked, codes, translated
from abilities.features import mixed
from baselines.centralized import Centralized
from baselines.ditto import Ditto
from baselines.fedper import FedPer
from baselines.local import Local
from common.spec import OptimiserSettings
from diptych.given import client_data
from federation import Algorithm
from federation.hooks import pooled
from methods.feddva import FedDVA
from methods.fedstyle import FedStyle
from methods.padpaf import PaDPaF
from methods.ps_fedgan import PSFedGAN
from networks import DualEncoder
from objectives.objective import Model
from partitions import Partition, partition
from tests.digits import objective, prepared, simulate, spec, trained
from tests.mutation import mutated

STYLES = {"ink": "digits-plain", "pen": "digits-bold[1::2]", "tilted": "digits-plain", "turned": "digits-plain"}
DATA: dict[str, Any] = {
    "dataset": "digit", "styles": STYLES, "image_size": 8, "rotations": {"tilted": 30, "turned": 60},
    "unseen": ["turned"], "per_class": 6, "clients_per_style": 2, "server_share": 0.1,
}  # fmt: skip
SEEN_ANEW: dict[str, Any] = {
    "dataset": "digit", "styles": {"ink": "digits-plain", "pen": "digits-plain"}, "image_size": 8, "pool": "together",
}  # fmt: skip


@cache
def split(**changes: Any) -> Partition:
    return partition(spec("fedavg", data=DATA | changes).data, "", seed=3)


@cache
def run(
    algorithm: Any = Algorithm, goal: str = "classification", network: Any = None, lr: float = 0.05, **settings: Any
) -> Trained:
    """What is asked, of an algorithm that has trained for two rounds."""
    dealt, made = split(), algorithm(objective=objective(goal, network), **settings)
    training = {"local_epochs": 10, "optimiser": OptimiserSettings(lr=lr)}
    if algorithm is PSFedGAN:
        training["optimiser_state"] = "persistent"
    simulation = simulate(made, client_data(dealt, pooled(made)), **training)
    return trained(simulation, dealt, data=DATA, samples={"images": 30, "probed": 60})


def looked(model: Any, look: Any, x: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return look(model.eval(), x).numpy()


def shown(found: dict[str, np.ndarray], part: str) -> torch.Tensor:
    """The images of which codes were left."""
    return torch.from_numpy(found[f"codes/{part}/pixels"]).float().div(255).unflatten(1, (3, 8, 8))


# ---- codes


def check_content(codes: Any = codes) -> None:
    """By the shared model, of the images whose labels and clients stand beside them."""
    of, dealt = run(), split()
    found = codes(of)
    expected = looked(of.simulation.shared_model(), lambda m, x: m.encoder(x), shown(found, "test"))
    np.testing.assert_allclose(found["codes/test/content"], expected, atol=1e-5)
    for part, everyones in (("train", dealt.clients), ("test", dealt.tests)):
        pixels = found[f"codes/{part}/pixels"]
        for row, (k, label) in enumerate(zip(found[f"codes/{part}/client"], found[f"codes/{part}/label"], strict=True)):
            own = dealt.images[everyones[k]].flatten(1).numpy()
            (match,) = np.flatnonzero((own == pixels[row]).all(axis=1))[:1]
            assert label == dealt.labels[everyones[k][match]]
    assert found["codes/test/domain"].tolist() == [dealt.client_styles[k] for k in found["codes/test/client"]]


def check_style(codes: Any = codes) -> None:
    """Column k is by client k's own encoder, of the images of all clients."""
    of = run(FedStyle, "simclr", lam=0.5, style_epochs=1, hidden=8)
    found = codes(of)
    x = shown(found, "train")
    for k, model in enumerate(of.own):
        expected = looked(model, lambda m, x: m.style.encoder(x), x)
        np.testing.assert_allclose(found["codes/train/style"][:, k], expected, atol=1e-5)
    assert not np.allclose(found["codes/train/style"][:, 0], found["codes/train/style"][:, 2])


def check_own_content(codes: Any = codes) -> None:
    """Where nothing is shared, everybody's encoder is asked."""
    of = run(Local)
    found = codes(of)
    assert "codes/test/content" not in found
    expected = looked(of.own[3], lambda m, x: m.encoder(x), shown(found, "test"))
    np.testing.assert_allclose(found["codes/test/own-content"][:, 3], expected, atol=1e-5)


def check_statistics(codes: Any = codes) -> None:
    """Batch-norm statistics that did not travel are those of images as clients see them."""
    views = {"ink": {"name": "color-inversion"}, "pen": {"name": "zoom-out"}}
    dealt = partition(spec("fedavg", data=SEEN_ANEW | {"views": views}).data, "", seed=3)
    made = FedDVA(objective=objective("classification", partial(DualEncoder, width=4, latent=3)))
    simulation = simulate(made, client_data(dealt, ""), local_epochs=1, buffers="local")
    found = codes(trained(simulation, dealt, data=SEEN_ANEW | {"views": views}, samples={"images": 30, "probed": 60}))
    model, draw = simulation.shared_model(), torch.Generator()
    seen = [view(dealt.images[dealt.train[n]].float() / 255, draw) for n, view in enumerate(dealt.style_views or ())]
    images = mixed(torch.cat(seen))
    update_bn(images.tensor_split(-(-len(images) // 256)), model.encoder)
    expected = looked(model, lambda m, x: m.encoder.z(x)[0], shown(found, "test"))
    np.testing.assert_allclose(found["codes/test/content"], expected, atol=5e-3)  # `shown` are bytes


def check_cloud(codes: Any = codes) -> None:
    """Users of PS-FedGAN have no classifier; the cloud's is asked."""
    of = run(PSFedGAN, latent=4, width=8, synthetic=20)
    found = codes(of)
    cloud = of.simulation.server_work.classifier
    expected = looked(cloud, lambda m, x: m.encoder(x), shown(found, "test"))
    np.testing.assert_allclose(found["codes/test/content"], expected, atol=1e-5)


@pytest.mark.parametrize("check", [check_content, check_style, check_own_content, check_statistics, check_cloud])
def test_codes_are_by_the_models_that_they_are_said_to_be_by(check):
    check()


def test_the_code_of_a_translator_is_left_out_since_its_maps_are_told_the_label():
    assert codes(run(goal="stargan")) == {}


# ---- answers


def check_answers(answers: Any = answers) -> None:
    """Ditto's own model is v, the shared one w; right or wrong, client by client and on the style that nobody has."""
    of, dealt = run(Ditto, mu=0.0, lr=0.5), split()
    found = answers(of)
    truth = {k: dealt.labels[rows].numpy() for k, rows in enumerate(dealt.tests)}
    for who, part in (("own", "v"), ("shared", "w")):
        expected = [_right(getattr(of.with_shared[k], part), dealt, rows) for k, rows in enumerate(dealt.tests)]
        assert found[f"answers/{who}"].tolist() == np.concatenate(expected).tolist()
        unseen = [_right(getattr(of.with_shared[k], part), dealt, dealt.test[3]) for k in range(6)]
        np.testing.assert_allclose(found[f"answers/turned/{who}"], np.mean(unseen, axis=0))
    assert not np.array_equal(found["answers/own"], found["answers/shared"])
    assert np.bincount(found["answers/client"]).tolist() == [len(labels) for labels in truth.values()]
    assert found["answers/label"].tolist() == np.concatenate(list(truth.values())).tolist()


def _right(model: Any, dealt: Partition, rows: torch.Tensor) -> np.ndarray:
    logits = looked(model, lambda m, x: m.head(m.encoder(x)), dealt.images[rows].float() / 255)
    return logits.argmax(axis=1) == dealt.labels[rows].numpy()


def test_answers_are_those_of_own_and_of_shared_models():
    check_answers()


def test_only_a_model_whose_parts_have_all_travelled_is_a_shared_one():
    assert "answers/shared" in answers(run())
    assert {key for key in answers(run(FedPer)) if key.endswith("/shared")} == set()
    assert {key for key in answers(run(Local)) if key.endswith("/shared")} == set()


def test_one_model_for_all_answers_for_every_client():
    found = answers(run(Centralized))
    assert np.array_equal(found["answers/own"], found["answers/shared"])
    assert set(found["answers/client"]) == set(range(6))


def test_who_has_no_head_has_no_answers():
    assert answers(run(goal="simclr")) == {}


# ---- images


def check_translated(translated: Any = translated) -> None:
    """By FedDVA z is of the image, c of a training image of the target's, and the decoder the target's; counterparts
    are the same pictures, turned by the angle in between."""
    of, dealt = run(FedDVA, network=partial(DualEncoder, width=4, latent=3)), split()
    found = translated(of)
    for style in (0, 2):
        name, position = dealt.styles[style], {int(image): n for n, image in enumerate(dealt.test[style])}
        other = dealt.styles[2 - style]
        rows = [position[_place(dealt, style, image)] for image in found[f"real/{name}"]]
        expected = dealt.images[dealt.test[2 - style]][rows].numpy()
        assert np.array_equal(found[f"counterpart/{name}/{other}"], expected)
        assert found[f"label/{name}"].tolist() == dealt.labels[dealt.test[style]][rows].tolist()
    assert "counterpart/ink/pen" not in found, "others' pictures"
    source, target = of.own[0], of.own[4]
    with torch.no_grad():
        x, y = (torch.from_numpy(found[name]).float() / 255 for name in ("real/ink", "other/tilted"))
        z = source.eval().encoder.z(x)[0]
        c = target.eval().encoder.c(y, target.encoder.z(y)[0])[0]
        everyones = torch.stack([target.decoder(z, row.expand(len(z), -1)) for row in c], dim=1).add(1).div(2)
    made = torch.from_numpy(found["translated/ink/tilted"]).float() / 255
    nearest = (everyones - made[:, None]).abs().amax(dim=(2, 3, 4)).amin(dim=1)
    assert nearest.max() < 0.01, "z of each image, c of one of the target's training images"


class _Copying(nn.Module):
    """c is the image."""

    def z(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[:, 0, 0], x[:, 0, 0]

    def c(self, x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return 2 * x - 1, x


class _Showing(nn.Module):
    """Decodes c alone."""

    def forward(self, z: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return c


def check_exchange(exchanged: Any = _by_exchange) -> None:
    """What only copies c shows training images of the target, and none that a translation is measured against."""
    copying = Model(encoder=_Copying(), decoder=_Showing())
    of = SimpleNamespace(
        personal_models=[copying] * 2,
        spec=SimpleNamespace(data=SimpleNamespace(clients_per_style=1)),
        stream=lambda *_: torch.Generator().manual_seed(0),
    )
    shown, learned_from = ({name: torch.rand(9, 1, 4, 4) for name in "ab"} for _ in range(2))
    for (_, target), made in exchanged(of, learned_from, shown, {}):
        apart = (made[:, None] - learned_from[target]).abs().amax(dim=(2, 3, 4)).amin(dim=1)
        assert apart.max() < 1e-6


def test_what_is_exchanged_is_not_what_a_translation_is_measured_against():
    check_exchange()


class _Marking(Algorithm):
    """Puts into the first pixel of each image for which client it was made."""

    def restyled(
        self, members: list[Any], draw: torch.Generator, x: torch.Tensor, y: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        made = x.repeat(len(members), 1, 1, 1, 1)
        made[..., 0, 0] = torch.arange(len(members))[:, None, None] / 255
        return {"restyle/test-restyled": made}


def check_restyled(translated: Any = translated) -> None:
    """By a method's own re-styling: the source's images, for the first of the target's clients."""
    found, first = translated(run(_Marking)), {"ink": 0, "pen": 2, "tilted": 4}
    for source, (target, client) in product(first, first.items()):
        made = found[f"translated/{source}/{target}"]
        assert (made[..., 0, 0] == client).all()
        assert np.array_equal(made[..., 1:, :], found[f"real/{source}"][..., 1:, :])


def test_a_re_styled_image_is_its_sources_in_its_targets_style():
    check_restyled()


def _place(dealt: Partition, style: int, image: np.ndarray) -> int:
    same = (dealt.images[dealt.test[style]].numpy() == image).all(axis=(1, 2, 3))
    return int(dealt.test[style][int(np.flatnonzero(same)[0])])


def test_an_image_in_anothers_style():
    check_translated()


def test_labels_are_asked_of_a_clients_own_generator_and_among_its_own():
    of = run(PSFedGAN, latent=4, width=8, synthetic=20)
    found = asked(of)
    for k, mine in enumerate(split().clients):
        assert set(found[f"asked/{k}/labels"]) == set(split().labels[mine].tolist())
    assert not np.array_equal(found["asked/0/made"], found["asked/3/made"])
    assert set(asked(run(FedDVA, network=partial(DualEncoder, width=4, latent=3)))["asked/0/labels"]) == {-1}


def test_and_are_held_against_images_of_them():
    skewed = {k: v for k, v in DATA.items() if k != "per_class"} | {"deal": {"name": "dirichlet", "beta": 0.1}}
    dealt = partition(spec("fedavg", data=skewed).data, "", seed=3)
    made = FedDVA(objective=objective("classification", partial(DualEncoder, width=4, latent=3)))
    simulation = prepared(made, client_data(dealt, False))
    found = asked(trained(simulation, dealt, data=skewed, samples={"images": 30, "probed": 60}))
    for k, mine in enumerate(dealt.clients):
        known = set(dealt.labels[mine].tolist())
        assert set(found[f"asked/{k}/real-labels"]) | set(found[f"asked/{k}/other-labels"]) <= known
        own = np.bincount(found[f"asked/{k}/own-labels"], minlength=10)
        share = torch.bincount(dealt.labels[mine], minlength=10).numpy() / len(mine)
        assert own / own.sum() == pytest.approx(share, abs=0.2), "as often as the client has them"
    assert known < set(range(10))


def labels_among(images: np.ndarray, rows: torch.Tensor) -> list[int | None]:
    """The label of each image; None of one that is not among these."""
    there = dict(
        zip((image.numpy().tobytes() for image in split().images[rows]), split().labels[rows].tolist(), strict=True)
    )
    return [there.get(image.tobytes()) for image in images]


def test_images_beside_are_a_clients_test_images_its_styles_training_images_and_its_own():
    dealt, found = split(), asked(run(PSFedGAN, latent=4, width=8, synthetic=20))
    for k, style in enumerate(dealt.client_styles):
        for name, rows in (("real", dealt.tests[k]), ("own", dealt.clients[k]), ("other", dealt.train[style])):
            assert found[f"asked/{k}/{name}-labels"].tolist() == labels_among(found[f"asked/{k}/{name}"], rows)
        assert None in labels_among(found[f"asked/{k}/other"], dealt.clients[k]), "others' with the same style, too"


def test_images_beside_translations_are_test_and_training_images_of_their_style():
    dealt, found = split(), translated(run(FedDVA, network=partial(DualEncoder, width=4, latent=3)))
    for style in dealt.seen:
        name = dealt.styles[style]
        assert found[f"label/{name}"].tolist() == labels_among(found[f"real/{name}"], dealt.test[style])
        assert found[f"other-label/{name}"].tolist() == labels_among(found[f"other/{name}"], dealt.train[style])


def test_images_beside_are_as_clients_of_their_style_see_them():
    views = {"pen": {"name": "color-inversion"}}
    dealt = partition(spec("fedavg", data=SEEN_ANEW | {"views": views}).data, "", seed=3)
    made = FedDVA(objective=objective("classification", partial(DualEncoder, width=4, latent=3)))
    of = trained(prepared(made, client_data(dealt, "")), dealt, data=SEEN_ANEW, samples={"images": 30, "probed": 60})
    found = asked(of) | translated(of)
    for k, style in enumerate(("ink", "pen")):
        beside = [f"asked/{k}/{name}" for name in ("real", "other", "own")] + [f"real/{style}", f"other/{style}"]
        assert {name: found[name].mean() > 128 for name in beside} == dict.fromkeys(beside, style == "pen")


def test_who_makes_no_images_leaves_none():
    assert asked(run()) == {}
    assert translated(run()) == {}
    assert translated(run(PaDPaF, "gan")) == {}, "its own procedure is switched off"


BUGS = {
    "content by a client's model": (
        "_encoders", "Encoder(shared, content)", "Encoder(trained.own[2], content)", check_content, codes),
    "labels of other images": (
        "codes", "labels[torch.cat(rows)]", "labels[torch.cat(rows[::-1])]", check_content, codes),
    "style by one encoder": (
        "_encoders", "[Encoder(model, style) for", "[Encoder(trained.own[0], style) for", check_style, codes),
    "statistics of images as they are": (
        "whole_shared", "look, trained.trained_on)",
        "look, torch.nn.functional.interpolate(trained.dealt.images.float() / 255, (8, 8)))",
        check_statistics, codes),
    "no cloud": (
        "_encoders", "(cloud := getattr(", "False and (cloud := getattr(", check_cloud, codes),
    "own answers by the shared model": (
        "_own_answers", "algorithm.scores(m, x, y)", "trained.objective.scores(algorithm.global_model(m), x, y)",
        check_answers, answers),
    "answers beside other labels": (
        "answers", "torch.cat([y for _, y in tested]).numpy()", "torch.cat([y for _, y in tested]).flip(0).numpy()",
        check_answers, answers),
    "the target's images for the source's": (
        "_by_restyling", "yield (source, target), part", "yield (target, source), part", check_restyled, translated),
    "the source's decoder": (
        "_by_exchange", "in models.items():", "in [(b, models[a]) for b in models]:", check_translated, translated),
    "c of what a translation is measured against": (
        "_by_exchange", '("c", learned_from)', '("c", x)', check_exchange, _by_exchange),
    "counterparts of other images": (
        "_counterparts", "test[other][place]", "test[other][place.flip(0)]", check_translated, translated),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_caught(bug):
    name, right, wrong, check, asked_of = BUGS[bug]
    with mutated("abilities.comparable", name, right, wrong) as mutant, pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparable, name, mutant)
        with pytest.raises((AssertionError, ValueError, KeyError)):
            check(mutant if name == asked_of.__name__ else asked_of)
