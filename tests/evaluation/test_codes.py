"""Probes of content and style codes, on codes whose answers are known."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from common.run_folder import RunFolder
from evaluation import codes as module
from evaluation.codes import Codes, accuracies, disentanglement, identity_probe, probe, shuffled, told_apart
from evaluation.probe import ProbeSettings, probe_accuracy
from tests.evaluation.test_frechet import SPEC
from tests.mutation import mutated

CLASSES, CLIENTS, N = 4, 3, 240
LABEL = {"content": ["untrained", "shuffled-labels"], "style": []}
label_probe = partial(probe, images={"": "plain"}, targets=["label"], codes=LABEL, protocols=["published", "sound"])
client_probe = partial(
    probe,
    images={"generated": "generated", "real": "codes"},
    targets=["client"],
    codes={"content": ["shuffled-labels"], "style": ["shuffled-labels"]},
    protocols=["published", "sound"],
    one_number_each=True,
)
"""As PaDPaF's file has them."""


def _one_hot(values: np.ndarray, size: int, rng) -> np.ndarray:
    return (3 * np.eye(size)[values] + 0.1 * rng.normal(size=(len(values), size))).astype(np.float32)


def _codes(content: str, style: str, *, memorised: bool = False) -> dict[str, np.ndarray]:
    """Codes that say `label`, `client`, `both` or `nothing`."""
    rng, arrays = np.random.default_rng(0), {}
    for source in ("plain", "codes", "generated"):
        for part in ("train", "test"):
            label, client = rng.integers(0, CLASSES, N), rng.integers(0, CLIENTS, N)
            said = {"label": _one_hot(label, 6, rng), "client": _one_hot(client, 6, rng)}
            said |= {
                "nothing": rng.normal(size=(N, 6)).astype(np.float32),
                "both": said["label"] - said["client"][:, ::-1],
            }
            if memorised:
                said["nothing"] = rng.normal(size=(N, 400)).astype(np.float32)
            arrays |= {
                f"{source}/{part}/label": label,
                f"{source}/{part}/client": client,
                f"{source}/{part}/content": said[content],
                f"{source}/{part}/untrained-content": rng.normal(size=said[content].shape).astype(np.float32),
                f"{source}/{part}/style": np.stack([said[style]] * CLIENTS, axis=1),
            }
    return arrays


def _run(folder, arrays, dataset: str = "mnist", seed: int = 1) -> RunFolder:
    run = RunFolder(folder)
    run.write_features(arrays)
    spec = SPEC.replace("dataset: mnist", f"dataset: {dataset}").replace("seed: 1", f"seed: {seed}")
    (folder / "spec.yaml").write_text(spec)
    run.write_provenance({"status": "ok"})
    return run


def _number(run: RunFolder) -> float:
    (value,) = (
        r["value"]
        for r in disentanglement(run, images={"": "codes"}, one_number_each=True, epochs=8)
        if r["metric"] == "disentanglement"
    )
    return value


@pytest.mark.parametrize(
    ("content", "style", "expected"),
    [
        ("label", "client", 1),
        ("client", "label", -1),
        ("both", "both", 0),
        ("nothing", "nothing", 0),
        ("label", "nothing", 0.5),
    ],
)
def test_one_number_for_disentanglement(content, style, expected, tmp_path):
    assert _number(_run(tmp_path, _codes(content, style))) == pytest.approx(expected, abs=0.1)


def test_the_label_probe_tells_content_from_style(tmp_path):
    records = list(label_probe(_run(tmp_path, _codes("label", "client")), epochs=8))
    by = {(r["setting"], r["protocol"], r.get("control", ""), r.get("client", "")): r["value"] for r in records}
    for protocol in ("published", "sound"):
        content, style = (f"probe=linear;features={f};target=label" for f in ("content", "style"))
        assert by[content, protocol, "", ""] > 0.95
        assert by[content, protocol, "shuffled-labels", ""] < 0.6
        assert by[style, protocol, "", ""] < 0.6
        each = [by[style, protocol, "", f"client-{k}"] for k in range(1, CLIENTS + 1)]
        assert by[style, protocol, "", ""] == pytest.approx(np.mean(each))


def test_the_published_protocol_rewards_memory_and_the_sound_one_does_not(tmp_path):
    """More features than images: fitted and scored on the same, a probe of noise is right."""
    records = list(label_probe(_run(tmp_path, _codes("nothing", "client", memorised=True)), epochs=25))
    content = {r["protocol"]: r["value"] for r in records if "content" in r["setting"] and not r.get("control")}
    assert content["published"] > 0.9
    assert content["sound"] < 0.45


def test_the_client_probe_sees_all_clients_style_codes(tmp_path):
    records = list(client_probe(_run(tmp_path, _codes("label", "client")), epochs=15))
    value = {(r["setting"], r["protocol"], r["role"], r.get("control", "")): r["value"] for r in records}
    for role in ("generated", "real"):
        for protocol in ("published", "sound"):
            assert value["probe=linear;features=style;target=client", protocol, role, ""] > 0.9
            assert value["probe=linear;features=content;target=client", protocol, role, ""] < 0.65
            assert value["probe=linear;features=style;target=client", protocol, role, "shuffled-labels"] < 0.65


def test_identities_are_probed_on_celeba_alone(tmp_path):
    arrays = _codes("label", "client")
    assert not list(identity_probe(_run(tmp_path, arrays), epochs=5))
    run = _run(tmp_path, arrays, "celeba")
    records = list(identity_probe(run, epochs=20))
    value = {r["setting"]: r["value"] for r in records if not r.get("control") and r.get("protocol") == "published"}
    top = [value[f"probe=linear;features=content;target=identity;top_k={k}"] for k in (1, 10, 50)]
    assert top[0] > 0.9
    assert top == sorted(top)
    assert next(r["value"] for r in records if r["metric"] == "identities") == CLASSES
    assert not list(label_probe(_run(tmp_path, arrays, "celeba"))), "its labels are identities"


def test_the_number_is_made_of_accuracies_between_chance_and_one():
    """Four labels of which one is half of all, and two clients: chance is 1/2 of either."""
    targets = {"label": torch.tensor([0, 0, 0, 1, 2, 3]), "client": torch.tensor([0, 1, 0, 1, 0, 1])}
    scored = {("content", "label"): 0.9, ("style", "label"): 0.6, ("content", "client"): 0.5, ("style", "client"): 0.8}
    rows = list(told_apart(scored, targets))
    said = {r["setting"]: r["value"] for r in rows if r["metric"] == "information"}
    assert said == pytest.approx(
        {
            "features=content;target=label": 0.8,
            "features=style;target=label": 0.2,
            "features=content;target=client": 0.0,
            "features=style;target=client": 0.6,
        }
    )
    (number,) = [r["value"] for r in rows if r["metric"] == "disentanglement"]
    assert number == pytest.approx((0.8 - 0.2 + 0.6 - 0.0) / 2)


def test_shuffled_targets_are_the_same_in_another_order_and_always_the_same_one():
    pair = torch.arange(50), torch.arange(30)
    found, again, other = shuffled(pair, 1), shuffled(pair, 1), shuffled(pair, 2)
    for part in (0, 1):
        assert torch.equal(found[part].sort().values, pair[part])
        assert torch.equal(found[part], again[part])
        assert not torch.equal(found[part], pair[part])
        assert not torch.equal(found[part], other[part])


def test_identities_are_read_from_the_first_clients_style_and_from_an_untrained_encoder_as_a_floor(tmp_path):
    arrays = _codes("label", "label")
    nothing = np.random.default_rng(1).normal(size=arrays["plain/train/content"].shape).astype(np.float32)
    arrays["plain/train/style"] = np.stack([arrays["plain/train/style"][:, 0], nothing, nothing], axis=1)
    run = _run(tmp_path, arrays, "celeba")
    run.write_provenance({"status": "ok", "sources": {"a": {"name": "x", "sha256": "0", "images": 7, "classes": 9}}})
    records = [r for r in identity_probe(run, epochs=20) if r["metric"] == "accuracy"]
    found = {(r["setting"], r.get("control", "")): r["value"] for r in records if r["protocol"] == "sound"}
    top = {features: f"probe=linear;features={features};target=identity;top_k=1" for features in ("content", "style")}
    assert found[top["style"], ""] > 0.9
    assert found[top["content"], "untrained"] < 0.6


def test_faces_are_remembered_as_published_and_recognised_by_the_sound_protocol(tmp_path):
    """Codes that say who it is say so of another face of theirs as well; codes of nothing, of the same face alone."""
    for said, recognised in (("label", True), ("nothing", False)):
        arrays = _codes(said, said, memorised=True)
        records = [r for r in identity_probe(_celeba(tmp_path, arrays), epochs=40) if r["metric"] == "accuracy"]
        first = {
            (r["protocol"], r.get("control", "")): r["value"]
            for r in records
            if "features=content" in r["setting"] and r["setting"].endswith("top_k=1")
        }
        assert first["published", ""] > 0.9
        assert (first["sound", ""] > 0.9) == recognised
        assert first["sound", "shuffled-labels"] < 0.6
    assert first["published", "shuffled-labels"] > 0.9, "as many numbers as faces: anything is remembered"


def check_left_out(left_out=module._others_and_one_of_each) -> None:
    """The last face of 7 and of 2; of 5 and 9 there is one."""
    others, last = left_out(np.array([7, 5, 7, 2, 2, 7, 9]))
    assert last.tolist() == [4, 5]
    assert others.tolist() == [0, 1, 2, 3, 6]


def test_the_sound_protocol_leaves_out_a_face_of_everybody_who_has_another():
    check_left_out()


@pytest.mark.parametrize(
    ("right", "wrong"), [("counts > 1", "counts > 0"), ("people[::-1]", "people"), ("np.sort(last)", "last[::-1]")]
)
def test_other_faces_left_out_are_caught(right, wrong):
    with mutated("evaluation.codes", "_others_and_one_of_each", right, wrong) as mutant, pytest.raises(AssertionError):
        check_left_out(mutant)


def test_where_nobody_has_two_faces_only_what_is_published_is_measured(fitted, tmp_path):
    arrays = _codes("label", "client")
    arrays["plain/train/label"] = np.arange(len(arrays["plain/train/label"]))
    assert {r.get("protocol") for r in identity_probe(_celeba(tmp_path, arrays)) if r["metric"] == "accuracy"} == {
        "published"
    }


# ---- what probes are fitted to, and how


@pytest.fixture
def fitted(monkeypatch) -> list[dict[str, Any]]:
    """How each probe is fitted; nothing is, and all accuracies are a half."""
    fits: list[dict[str, Any]] = []

    def accuracies_in(tops, train, test, classes, settings, seed):
        fits.append({"train": train, "test": test, "classes": classes, "how": settings, "seed": seed, "tops": tops})
        return torch.full((len(tops), len(train[0])), 0.5)

    monkeypatch.setattr(module, "accuracies_in", accuracies_in)
    monkeypatch.setattr(module, "probe_accuracy", lambda *fit: accuracies_in((1,), *fit)[0])
    return fits


SOURCE = {"name": "x", "sha256": "0", "images": 7, "classes": 9}


def _celeba(folder, arrays) -> RunFolder:
    run = _run(folder, arrays, "celeba")
    run.write_provenance({"status": "ok", "sources": {"a": SOURCE}})
    return run


def test_probes_are_padpafs_where_nothing_else_is_asked_for(fitted, tmp_path):
    """50 epochs by Adam whose rate falls by 0.95 in each, of batches of 32 at 1e-2; of identities, of 256 at 1e-1."""
    arrays = _codes("label", "client")
    run = _run(tmp_path, arrays)
    list(label_probe(run))
    list(disentanglement(run, images={"": "codes"}))
    assert {fit["how"] for fit in fitted} == {ProbeSettings(50, 32, 1e-2, 0.95)}
    fitted.clear()
    list(identity_probe(_celeba(tmp_path, arrays)))
    assert {fit["how"] for fit in fitted} == {ProbeSettings(50, 256, 1e-1, 0.95)}
    assert [fit["tops"] for fit in fitted] == [(1, 10, 50)] * 2 * 4
    assert {fit["classes"] for fit in fitted} == {CLASSES}, "as many as there are identities"


def test_what_is_asked_for_reaches_the_probes(fitted, tmp_path):
    asked, arrays = {"epochs": 3, "batch_size": 7, "lr": 0.5}, _codes("label", "client")
    run = _run(tmp_path, arrays)
    list(label_probe(run, **asked))
    list(disentanglement(run, images={"": "codes"}, **asked))
    list(identity_probe(_celeba(tmp_path, arrays), **asked))
    assert {fit["how"] for fit in fitted} == {ProbeSettings(3, 7, 0.5, 0.95)}


def test_another_run_and_another_question_start_probes_elsewhere(fitted, tmp_path):
    seeds = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        run = _run(folder, _codes("label", "client"), seed=seed)
        for ask in (label_probe, partial(client_probe, images={"": "codes"})):
            fitted.clear()
            list(ask(run))
            seeds.append({fit["seed"] for fit in fitted})
        fitted.clear()
        list(disentanglement(run, images={"": "codes"}))
        seeds.append({fit["seed"] for fit in fitted})
        fitted.clear()
        (folder / "spec.yaml").write_text((folder / "spec.yaml").read_text().replace("mnist", "celeba"))
        run = RunFolder(folder)
        run.write_provenance({"status": "ok", "sources": {"a": SOURCE}})
        list(identity_probe(run))
        seeds.append({fit["seed"] for fit in fitted})
    assert [len(each) for each in seeds] == [1] * 8
    assert len(set.union(*seeds)) == 8


def test_targets_are_shuffled_in_another_order_in_another_run(fitted, tmp_path):
    orders = []
    for seed in (1, 1, 2):
        run = _run(tmp_path, _codes("label", "client"), seed=seed)
        list(probe(run, images={"": "plain"}, targets=["label"], codes={"content": ["shuffled-labels"]}))
        right, wrong = fitted[-1]["train"][1]
        assert torch.equal(right.sort().values, wrong.sort().values)
        orders.append(wrong)
    assert torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[1], orders[2])


@pytest.mark.parametrize("ask", [partial(probe, targets=["label"], codes={"content": []}), disentanglement])
def test_codes_are_standardised_if_that_is_asked_for_and_otherwise_as_they_are(ask, fitted, tmp_path):
    run = _run(tmp_path, _codes("both", "both"))
    for asked in ({}, {"standardised": True}):
        fitted.clear()
        list(ask(run, images={"": "plain"}, **asked))
        codes = torch.cat([fit["train"][0] for fit in fitted])
        spread = torch.stack([codes.mean(dim=1), codes.std(dim=1)])
        standard = torch.stack([torch.zeros_like(spread[0]), torch.ones_like(spread[1])])
        assert torch.allclose(spread, standard, atol=1e-4) == bool(asked)


@pytest.mark.parametrize("asked", [{}, {"one_number_each": True}])
def test_codes_by_several_encoders_are_probed_together_if_that_is_asked_for(asked, fitted, tmp_path):
    arrays = {key: x[:, :2] if key.endswith("/style") else x for key, x in _codes("label", "client").items()}
    run = _run(tmp_path, arrays)
    rows = list(probe(run, images={"": "codes"}, targets=["client"], codes={"style": []}, **asked))
    (fit,) = fitted
    assert fit["train"][0].shape == ((1, N, 2, 6) if asked else (2, N, 6))
    assert fit["how"].one_number_each == bool(asked)
    assert [row.get("client", "") for row in rows] == ["", *([] if asked else ["client-1", "client-2"])]


def test_the_published_protocol_is_fitted_to_test_images_and_the_sound_one_to_training_images(fitted, tmp_path):
    run = _run(tmp_path, _codes("label", "client"))
    for protocols, part in ((None, "train"), (["sound"], "train"), (["published"], "test")):
        fitted.clear()
        list(probe(run, images={"": "plain"}, targets=["label"], codes={"content": []}, protocols=protocols))
        (fit,) = fitted
        for at, which in (("train", part), ("test", "test")):
            for n, key in enumerate(("content", "label")):
                np.testing.assert_array_equal(fit[at][n][0].numpy(), run.features[f"plain/{which}/{key}"])


def test_after_snapshots_the_published_protocol_is_repeated_if_that_is_asked_for(fitted, tmp_path):
    arrays = _codes("label", "client")
    run = _run(tmp_path, arrays)
    run.write_arrays("after-1.npz", {key: x[:50] for key, x in arrays.items()})
    ask = partial(probe, run, images={"": "plain"}, targets=["label"], codes={"content": []}, protocols=["sound"])
    end = ("probe=linear;features=content;target=label", "sound")
    assert [(r["setting"], r["protocol"]) for r in ask()] == [end]
    assert [len(fit["test"][0][0]) for fit in fitted] == [N]
    fitted.clear()
    early = f"{end[0]};round=1", "published"
    assert [(r["setting"], r["protocol"]) for r in ask(snapshots=True)] == [early, end]
    assert [len(fit["test"][0][0]) for fit in fitted] == [50, N]


def test_the_published_number_at_the_end_stands_under_its_round_too_where_there_are_snapshots(tmp_path):
    """So that a curve over rounds has its end, and whoever takes a share of the rounds knows how many there were."""
    run = _run(tmp_path, _codes("label", "client"))
    ask = partial(probe, run, images={"": "plain"}, targets=["label"], codes={"content": []}, protocols=["published"])
    name = "probe=linear;features=content;target=label"
    (end,) = ask()
    last = end | {"setting": f"{name};round={run.spec.training.rounds}"}
    assert list(ask(snapshots=True)) == [end, last]
    run.write_spec(run.spec.model_copy(update={"snapshots": [run.spec.training.rounds]}))
    run.write_arrays(f"after-{run.spec.training.rounds}.npz", dict(run.features))
    again = partial(ask, snapshots=True)
    assert list(probe(RunFolder(run.path), **again.keywords)) == [last, end], "once, as of any snapshot"


def test_there_is_an_answer_for_each_label_and_none_for_more(fitted):
    """Of what is scored on, as well: here the largest label is in neither of the training sets."""
    pair = torch.zeros(6, 2), torch.zeros(4, 2)
    few, many = torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([3, 4, 0, 1])
    accuracies({("a", "", ""): (pair, (few, few[:4])), ("b", "", ""): (pair, (few, many))}, "sound", ProbeSettings(), 0)
    assert [fit["classes"] for fit in fitted] == [5]


@pytest.mark.parametrize("protocol", ["sound", "published"])
def test_the_accuracy_of_each_case_is_that_of_probes_of_its_size_side_by_side(protocol):
    generator, settings = torch.Generator().manual_seed(0), ProbeSettings(epochs=3, batch_size=16, lr=0.02)
    y = torch.randint(0, 3, (60,), generator=generator), torch.randint(0, 3, (40,), generator=generator)

    def code(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(torch.randn(len(t), size, generator=generator) + t[:, None] for t in y)

    cases = {(name, "", ""): (code(size), y) for name, size in (("a", 4), ("b", 2), ("c", 4))}
    found = accuracies(cases, protocol, settings, 5)
    first = 0 if protocol == "sound" else 1
    for names in (("a", "c"), ("b",)):
        x = [torch.stack([cases[name, "", ""][0][part] for name in names]) for part in (first, 1)]
        truth = [y[part].expand(len(names), -1) for part in (first, 1)]
        expected = probe_accuracy((x[0], truth[0]), (x[1], truth[1]), 3, settings, 5)
        assert [found[name, "", ""] for name in names] == expected.tolist()


def test_floors_are_standardised_as_codes_are_and_pixels_are_in_the_unit_interval():
    rng = np.random.default_rng(0)
    arrays = {f"codes/{part}/{code}": (7 + 5 * rng.normal(size=(30, 4))) for part in ("train", "test") for code in "zc"}
    arrays |= {key.replace("/z", "/untrained-z"): 2 * x for key, x in arrays.items() if key.endswith("z")}
    pixels = {part: rng.integers(0, 256, (30, 4), dtype=np.uint8) for part in ("train", "test")}
    arrays |= {f"codes/{part}/pixels": x for part, x in pixels.items()}
    codes = Codes(arrays, "codes", standardised=True)
    (train, test), plain = codes.controlled("z", "untrained")[""], codes.each("z")[""]
    torch.testing.assert_close(train.mean(dim=0), torch.zeros(4).double(), atol=1e-12, rtol=0)
    torch.testing.assert_close(train.std(dim=0), torch.ones(4).double())
    torch.testing.assert_close((train, test), tuple(plain))  # which are half as large
    for part, found in zip(("train", "test"), codes.controlled("z", "pixels")[""], strict=True):
        np.testing.assert_allclose(found.numpy(), pixels[part] / 255, rtol=1e-6)
    assert set(codes.controlled("z", "shuffled-labels")) == {""}
    assert codes.controls("z", ["untrained", "shuffled-labels", "pixels"]) == ["untrained", "shuffled-labels", "pixels"]
    assert codes.controls("c", ["untrained", "shuffled-labels"]) == ["shuffled-labels"], "there is no untrained c"


def test_what_is_the_same_of_all_training_images_is_not_blown_up():
    x = np.random.default_rng(0).normal(size=(30, 2))
    x[:, 1] = 3.0
    test = x.copy()
    test[:, 1] += 1e-4
    train, test = Codes({"codes/train/z": x, "codes/test/z": test}, "codes", standardised=True).each("z")[""]
    np.testing.assert_allclose(train[:, 1], 0, atol=1e-12)
    np.testing.assert_allclose(test[:, 1], 1e-4, rtol=1e-6)


def test_codes_by_several_encoders_are_taken_one_by_one_or_at_once():
    x = np.random.default_rng(0).normal(size=(5, 3, 2))
    arrays = {f"own/codes/{part}/style": x for part in ("train", "test")}
    arrays |= {f"codes/{part}/label": np.arange(5) for part in ("train", "test")}
    by = Codes(arrays, "own/codes")
    assert [t.tolist() for t in by.target("label")] == [list(range(5))] * 2, "which does not depend on encoders"
    for k in range(3):
        for part in by.each("style")[f"client-{k + 1}"]:
            np.testing.assert_array_equal(part.numpy(), x[:, k])
    assert set(by.each("style")) == {"client-1", "client-2", "client-3"}
    (together,) = Codes(arrays, "own/codes", at_once=True).each("style").items()
    assert together[0] == ""
    np.testing.assert_array_equal(together[1][0].numpy(), x)


@pytest.mark.parametrize("at_once", [False, True])
def test_styles_are_taken_together_for_the_client_alone_and_if_that_is_asked_for(at_once, monkeypatch, tmp_path):
    asked: dict[tuple[str, str, str], int] = {}

    def accuracies(cases, protocol, settings, seed):
        assert protocol == "sound"
        asked.update({name: pair[1].ndim for name, (pair, _) in cases.items()})
        return dict.fromkeys(cases, 0.5)

    monkeypatch.setattr(module, "accuracies", accuracies)
    records = list(
        disentanglement(_run(tmp_path, _codes("label", "client")), images={"": "codes"}, one_number_each=at_once)
    )
    each = [f"client-{k + 1}" for k in range(CLIENTS)]
    expected = {("content", target, ""): 2 for target in ("label", "client")}
    expected |= {("style", "label", encoder): 2 for encoder in each}
    expected |= {("style", "client", ""): 3} if at_once else {("style", "client", encoder): 2 for encoder in each}
    assert asked == expected
    assert len(records) == 5


@pytest.mark.parametrize("whose", ["client", "domain"])
def test_parts_of_the_number_name_what_was_asked(whose, tmp_path):
    """With two clients in a style the style is another question than the client."""
    arrays = _codes("label", "client")
    arrays |= {key.replace("client", "domain"): x // 2 for key, x in arrays.items() if key.endswith("/client")}
    records = list(disentanglement(_run(tmp_path, arrays), images={"": "codes"}, whose=whose, epochs=20))
    said = {r["setting"]: r["value"] for r in records if r["metric"] == "information"}
    assert said.keys() == {f"features={f};target={t}" for f in ("content", "style") for t in ("label", whose)}
    (number,) = [r["value"] for r in records if r["metric"] == "disentanglement"]
    content, style = ([said[f"features={f};target={t}"] for t in ("label", whose)] for f in ("content", "style"))
    assert number == pytest.approx((content[0] - style[0] + style[1] - content[1]) / 2)


def test_where_a_run_has_left_no_codes_the_others_are_told_apart_all_the_same(fitted, tmp_path):
    run = _run(tmp_path, _codes("label", "client"))
    roles = {r["role"] for r in disentanglement(run, images={"first": "nowhere", "second": "codes"})}
    assert roles == {"second"}
    roles = {r["role"] for r in label_probe(run, images={"first": "nowhere", "second": "codes"})}
    assert roles == {"", "second"}, "floors are nobody's"


def test_of_a_single_style_nothing_is_told_apart():
    targets = {"label": torch.tensor([0, 1]), "client": torch.tensor([0, 0])}
    scored = {(features, target): 0.5 for features in ("content", "style") for target in targets}
    assert list(told_apart(scored, targets)) == []
