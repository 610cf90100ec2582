"""Probes against plain modules and scikit-learn, and what is measured with them."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression
from torch import nn

from common.errors import InputError
from common.run_folder import RunFolder
from evaluation import linear
from evaluation.linear import linear_probe, longer_probe
from evaluation.probe import ProbeSettings, Stylised, accuracies_in, probe_accuracy
from networks import mlp
from tests.mutation import mutated

SETTINGS = ProbeSettings(epochs=12, batch_size=40, lr=0.01)
CLASSES, WIDTH = 4, 6


def _data(seed: int, probes: int, images: int, noise: float = 0.7) -> tuple[torch.Tensor, torch.Tensor]:
    """Features around a centre for each class (probes, images, WIDTH), and labels."""
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(99))
    y = torch.randint(0, CLASSES, (probes, images), generator=g)
    return centres[y] + noise * torch.randn(probes, images, WIDTH, generator=g), y


class _Eq4(nn.Module):
    """A classifier on h = h_c + G([h_c, h_s]), or on h_c alone."""

    def __init__(self, weight, bias, generator=None):
        super().__init__()
        self.head, self.generator = nn.Linear(WIDTH, CLASSES), generator
        self.head.load_state_dict({"weight": weight, "bias": bias})

    def forward(self, h_c, h_s=None):
        h = h_c if self.generator is None else h_c + self.generator(torch.cat([h_c, h_s], dim=1))
        return self.head(h)


def _by_hand(train, test, seed, styles=None, generators=None, *, trained=True, top=1) -> list[float]:
    """Each probe alone, as a module with torch's Adam; initial weights and order of images as probe_accuracy says."""
    (x, y), (x_test, y_test) = train, test
    g = torch.Generator().manual_seed(seed)
    order = torch.randperm(x.shape[1], generator=g)
    weight = torch.empty(CLASSES, WIDTH).uniform_(-(WIDTH**-0.5), WIDTH**-0.5, generator=g)
    bias = torch.empty(CLASSES).uniform_(-(WIDTH**-0.5), WIDTH**-0.5, generator=g)
    found = []
    for k in range(len(x)):
        generator = copy.deepcopy(generators[k]).requires_grad_(trained) if generators else None
        model = _Eq4(weight, bias, generator)
        optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=SETTINGS.lr)
        for _ in range(SETTINGS.epochs):
            for rows in order.split(SETTINGS.batch_size):
                optimiser.zero_grad()
                F.cross_entropy(model(x[k, rows], styles[0][k, rows] if styles else None), y[k, rows]).backward()
                optimiser.step()
        with torch.no_grad():
            out = model(x_test[k], styles[1][k] if styles else None)
        ahead = (out > out.gather(1, y_test[k][:, None])).sum(dim=1)
        found.append((ahead < top).double().mean().item())
    return found


def _stylised(generators, styles, *, trained: bool) -> Stylised:
    stacked = [
        torch.stack([g[layer].get_parameter(kind).detach() for g in generators])
        for layer in (0, 2)
        for kind in ("weight", "bias")
    ]
    return Stylised(*styles, tuple(stacked), trained)


def test_stacked_probes_are_what_torch_makes_of_each_alone():
    train, test = _data(0, 3, 100), _data(1, 3, 60)
    found = probe_accuracy(train, test, CLASSES, SETTINGS, seed=5)
    assert found.tolist() == _by_hand(train, test, 5)
    assert 0.4 < found.mean() < 1, "neither chance nor perfect, so that differences would show"


def test_a_probe_does_not_hang_on_those_beside_it():
    """Codes of an untrained encoder, which methods share to the bit, had other floors beside more codes."""
    (x, y), (x_test, y_test) = _data(0, 3, 100), _data(1, 3, 60, noise=2.0)
    together = probe_accuracy((x, y), (x_test, y_test), CLASSES, SETTINGS, 5)
    for probes in ([1], [2, 1], [1, 1]):
        found = probe_accuracy((x[probes], y[probes]), (x_test[probes], y_test[probes]), CLASSES, SETTINGS, 5)
        assert torch.equal(found, together[probes])
    assert len(set(together.tolist())) == 3


def test_an_answer_is_right_if_it_is_among_the_likeliest():
    """Of one fit, in whatever order they are asked for; more than there are classes are all of them."""
    train, test = _data(0, 3, 100), _data(1, 3, 60, noise=2.0)
    found = accuracies_in((2, 1, CLASSES + 7), train, test, CLASSES, SETTINGS, 5)
    assert found[0].tolist() == _by_hand(train, test, 5, top=2)
    assert found[1].tolist() == _by_hand(train, test, 5) == probe_accuracy(train, test, CLASSES, SETTINGS, 5).tolist()
    assert found[2].tolist() == [1, 1, 1]
    assert (found[1] < found[0]).all()
    assert (found[0] < 1).all()


@pytest.mark.parametrize("trained", [True, False])
def test_eq_4_is_what_torch_makes_of_it(trained):
    train, test = _data(0, 2, 100), _data(1, 2, 60)
    styles = (_data(2, 2, 100)[0], _data(3, 2, 60)[0])
    torch.manual_seed(0)
    generators = [mlp(2 * WIDTH, 5, WIDTH) for _ in range(2)]
    before = copy.deepcopy(generators[0].state_dict())
    stylised = _stylised(generators, styles, trained=trained)
    found = probe_accuracy(train, test, CLASSES, SETTINGS, 5, stylised)
    assert found.tolist() == _by_hand(train, test, 5, styles, generators, trained=trained)
    assert all(torch.equal(before[key], tensor) for key, tensor in generators[0].state_dict().items())
    assert torch.equal(stylised.generator[0][0], before["0.weight"]), "a probe leaves the run's generator alone"


def test_probes_of_a_number_from_each_part_are_what_torch_makes_of_each_alone():
    """By linear maps of their own, and with a rate that falls; weights are drawn after those of the classifiers."""
    settings, parts, bound = replace(SETTINGS, lr=0.05, decay=0.8, one_number_each=True), 3, WIDTH**-0.5
    (x, y), (x_test, y_test) = _data(0, 2, 100), _data(1, 2, 60)
    torch.manual_seed(0)
    x, x_test = (rows[:, :, None] + torch.randn(*rows.shape[:2], parts, WIDTH) for rows in (x, x_test))
    g = torch.Generator().manual_seed(5)
    order, expected = torch.randperm(100, generator=g), []
    start = [
        torch.empty(shape).uniform_(-(parts**-0.5), parts**-0.5, generator=g)
        for shape in ((CLASSES, parts), (CLASSES,))
    ]
    of_part = [torch.empty(shape).uniform_(-bound, bound, generator=g) for shape in ((1, WIDTH), (1,))]
    for k in range(2):
        head, *each = nn.Linear(parts, CLASSES), *(nn.Linear(WIDTH, 1) for _ in range(parts))
        for module, (weight, bias) in ((head, start), *((one, of_part) for one in each)):
            module.load_state_dict({"weight": weight, "bias": bias})
        model = nn.ModuleList([head, *each])

        def says(x: torch.Tensor, head=head, each=each) -> torch.Tensor:
            return head(torch.cat([of_part(x[:, n]) for n, of_part in enumerate(each)], dim=1))

        optimiser = torch.optim.Adam(model.parameters(), lr=settings.lr)
        falling = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.8)
        for _ in range(settings.epochs):
            for rows in order.split(settings.batch_size):
                optimiser.zero_grad()
                F.cross_entropy(says(x[k, rows]), y[k, rows]).backward()
                optimiser.step()
            falling.step()
        expected.append((says(x_test[k]).argmax(dim=1) == y_test[k]).double().mean().item())
    assert probe_accuracy((x, y), (x_test, y_test), CLASSES, settings, 5).tolist() == expected
    assert 0.4 < np.mean(expected) < 1


def test_a_generator_that_gives_nothing_leaves_the_content_feature():
    train, test = _data(0, 2, 100), _data(1, 2, 60)
    styles = (_data(2, 2, 100)[0], _data(3, 2, 60)[0])
    zeros = (torch.zeros(2, 5, 2 * WIDTH), torch.zeros(2, 5), torch.zeros(2, WIDTH, 5), torch.zeros(2, WIDTH))
    plain = probe_accuracy(train, test, CLASSES, SETTINGS, 5)
    assert torch.equal(
        probe_accuracy(train, test, CLASSES, SETTINGS, 5, Stylised(*styles, zeros, trained=False)), plain
    )


def test_it_reaches_what_logistic_regression_reaches():
    train, test = _data(0, 1, 400), _data(1, 1, 400)
    settings = ProbeSettings(epochs=300, batch_size=400, lr=0.02)
    theirs = LogisticRegression(C=1e4, max_iter=1000).fit(train[0][0], train[1][0]).score(test[0][0], test[1][0])
    assert abs(probe_accuracy(train, test, CLASSES, settings, 0).item() - theirs) < 0.02


def test_images_sorted_by_class_are_no_worse():
    """A client's images come sorted by class; batches of one class would spoil the classifier."""
    (x, y), test = _data(0, 1, 400), _data(1, 1, 400)
    order = y[0].argsort()
    mixed = probe_accuracy((x, y), test, CLASSES, SETTINGS, 0).item()
    assert abs(probe_accuracy((x[:, order], y[:, order]), test, CLASSES, SETTINGS, 0).item() - mixed) < 0.03


def test_the_test_set_decides_nothing():
    train, (x, y) = _data(0, 2, 100), _data(1, 2, 80)
    whole = probe_accuracy(train, (x, y), CLASSES, SETTINGS, 5)
    halves = [
        probe_accuracy(train, (x[:, part], y[:, part]), CLASSES, SETTINGS, 5) for part in (slice(40), slice(40, None))
    ]
    torch.testing.assert_close(torch.stack(halves).mean(dim=0), whole)


# ---- the evaluation, on a folder that is made by hand

STYLES = ("ink", "wax")


def _write_run(folder: Path, *, personal: bool = True, stylised: bool = False) -> RunFolder:
    """Two styles with two clients each. Shared features of `wax` say nothing; clients 1 and 3 have good ones."""
    g = np.random.default_rng(0)
    centres = 3 * g.normal(size=(CLASSES, WIDTH))
    arrays: dict[str, np.ndarray] = {}
    for style in STYLES:
        for part, n in (("train", 120), ("test", 80)):
            y = g.integers(0, CLASSES, n)
            good = style == "ink"
            arrays[f"labels/{style}/{part}"] = y
            arrays[f"shared/{style}/{part}/features"] = centres[y] * good + g.normal(size=(n, WIDTH))
            arrays[f"initial/{style}/{part}/features"] = g.normal(size=(n, WIDTH))
    if personal:
        for k, style in enumerate(np.repeat(STYLES, 2)):
            positions = g.permutation(120)[:50]
            arrays |= {f"client/{k}/style": np.array(style), f"client/{k}/positions": positions}
            for part, rows in (("train", positions), ("test", slice(None))):
                y = arrays[f"labels/{style}/{part}"][rows]
                arrays[f"client/{k}/{part}/features"] = (k % 2) * centres[y] + g.normal(size=(len(y), WIDTH))
                if stylised:
                    arrays[f"client/{k}/{part}/style"] = centres[y] + g.normal(size=(len(y), WIDTH))
    floats = {key: a.astype(np.float32) if a.dtype == float else a for key, a in arrays.items()}
    folder.mkdir(parents=True)
    run = RunFolder(folder)
    spec = {"run": "r", "scale": "digits", "seed": 3, "network": {}, "objective": {}, "algorithm": {}}
    spec |= {
        "data": {"dataset": "d", "styles": dict.fromkeys(STYLES, "x"), "clients_per_style": 2},
        "training": {"rounds": 1},
    }
    (folder / "spec.yaml").write_text(json.dumps(spec))
    run.write_features(floats)
    run.write_provenance({"status": "ok"})
    if stylised:
        torch.manual_seed(0)
        generators = [mlp(2 * WIDTH, 5, WIDTH) for _ in range(4)]
        save_file(
            {
                f"clients/generator.{name}": torch.stack([g.get_parameter(name).detach() for g in generators])
                for name in ("0.weight", "0.bias", "2.weight", "2.bias")
            },
            folder / "model.safetensors",
        )
    return run


def _cells(run: RunFolder, probe=linear_probe, epochs=60) -> dict[tuple[str, ...], float]:
    keys = ("protocol", "style", "variant", "control", "client")
    return {tuple(r.get(k, "") for k in keys): r["value"] for r in probe(run, epochs=epochs, batch_size=40, lr=0.02)}


def check_generalisation(cells) -> None:
    assert cells["generalization", "ink", "", "", ""] > 0.9
    assert cells["generalization", "wax", "", "", ""] < 0.45
    for style in STYLES:
        for control in ("untrained", "shuffled-labels"):
            assert cells["generalization", style, "", control, ""] < 0.45


def check_personalisation(cells) -> None:
    for style, (poor, good) in (("ink", "12"), ("wax", "34")):
        alone = [cells["personalization", style, "", "", f"client-{k}"] for k in (poor, good)]
        assert alone[0] < 0.5 < 0.9 < alone[1]
        assert cells["personalization", style, "", "", ""] == pytest.approx(np.mean(alone))
        assert cells["personalization", style, "", "shuffled-labels", "client-" + good] < 0.5
        assert cells["personalization", style, "", "untrained", ""] < 0.45


def test_every_cell_and_its_floors(tmp_path):
    cells = _cells(_write_run(tmp_path / "run"))
    check_generalisation(cells)
    check_personalisation(cells)
    assert len(cells) == 2 * 3 + 2 * 3 * 3  # styles x (value, floors), and for personalisation their clients


def test_clients_that_have_not_equally_many_images_are_named(tmp_path):
    run = _write_run(tmp_path / "run")
    fewer = {
        key: rows[:-8] for key, rows in run.features.items() if key in ("client/3/positions", "client/3/train/features")
    }
    run.write_features(dict(run.features) | fewer)
    with pytest.raises(InputError, match="clients of wax have 42 to 50 images; linear probes need equally many"):
        _cells(RunFolder(run.path))


def test_features_with_style_give_the_variants_of_eq_4(tmp_path):
    cells = _cells(_write_run(tmp_path / "run", stylised=True))
    mean = {
        variant: cells["personalization", "wax", variant, "", "client-3"]
        for variant in ("", "mean-style", "shuffled-style", "content-only")
    }
    assert mean[""] > 0.9, "the style features say the class, and a trained G finds it"
    assert mean["shuffled-style"] < 0.5
    assert mean["mean-style"] < 0.5
    assert mean["content-only"] < 0.5
    assert ("personalization", "wax", "frozen-generator", "", "") in cells


@pytest.mark.parametrize("stylised", [False, True])
def test_a_longer_probe_is_the_published_one_for_as_long_as_it_is_asked(stylised, tmp_path):
    """Asked for as many epochs as `linear-probe`, it gives its numbers; for more, others, and of personalisation."""
    run = _write_run(tmp_path / "run", stylised=stylised)
    published = _cells(run)
    wanted = {
        (protocol, style, ";".join(filter(None, [variant, "longer-probe"])), control, client): value
        for (protocol, style, variant, control, client), value in published.items()
        if protocol == "personalization" and variant in ("", "mean-style", "content-only")
    }
    assert _cells(run, longer_probe) == wanted
    assert len(wanted) == 2 * 3 * (5 if stylised else 3)  # styles x (mean, clients) x (variants, floors)
    longer = _cells(run, longer_probe, epochs=90)
    assert longer.keys() == wanted.keys()
    assert longer != wanted


def test_a_frozen_generator_is_the_clients_own(tmp_path):
    """Style features say the class, and of the four generators that of the third client alone lets them through."""
    run, identity = _write_run(tmp_path / "run", stylised=True), torch.eye(WIDTH)
    nothing = torch.zeros(WIDTH, WIDTH)
    through = {
        "0.weight": torch.cat([torch.cat([nothing, sign * identity], dim=1) for sign in (1, -1)]),
        "0.bias": torch.zeros(2 * WIDTH),
        "2.weight": torch.cat([identity, -identity], dim=1),  # relu(h) - relu(-h) = h
        "2.bias": torch.zeros(WIDTH),
    }
    tensors = {
        f"clients/generator.{name}": torch.stack([tensor * (k == 2) for k in range(4)])
        for name, tensor in through.items()
    }
    save_file(tensors, run.path / "model.safetensors")
    cells = _cells(run)
    key = "personalization", "frozen-generator", ""
    found = [cells[key[0], style, *key[1:], client] for style, client in (("ink", "client-1"), ("wax", "client-3"))]
    assert found[0] < 0.5 < 0.9 < found[1], "content features say nothing at either"


def test_a_probe_gets_each_images_style_or_another_images_and_a_generator_trained_along_or_frozen(tmp_path):
    run, members = _write_run(tmp_path / "run", stylised=True), [2, 3]
    found = linear._variants_of_eq4(run, members, seed=5)
    trained = {"": True, "mean-style": True, "shuffled-style": True, "frozen-generator": False}
    assert {variant: eq4.trained for variant, eq4 in found.items()} == trained
    for part in ("train", "test"):
        for n, k in enumerate(members):
            own = run.features[f"client/{k}/{part}/style"]
            given = {variant: getattr(eq4, part)[n].numpy() for variant, eq4 in found.items()}
            np.testing.assert_array_equal(given[""], own)
            np.testing.assert_array_equal(given["frozen-generator"], own)
            of_all = run.features[f"client/{k}/train/style"].mean(axis=0, keepdims=True)
            np.testing.assert_allclose(given["mean-style"], np.broadcast_to(of_all, own.shape), rtol=1e-5)
            assert (given["shuffled-style"] != own).any(axis=1).mean() > 0.9, "of another image"
            assert sorted(given["shuffled-style"].tolist()) == sorted(own.tolist()), "of the same client"


def test_a_program_without_personal_or_untrained_models(tmp_path):
    run = _write_run(tmp_path / "run", personal=False)
    kept = {key: a for key, a in run.features.items() if not key.startswith("initial/")}
    run.write_features(kept)
    cells = _cells(RunFolder(run.path))
    assert {key[0] for key in cells} == {"generalization"}
    assert {key[3] for key in cells} == {"", "shuffled-labels"}


def test_no_features_at_all(tmp_path):
    run = _write_run(tmp_path / "run", personal=False)
    run.write_features({"labels/ink/train": np.zeros(3, int)})
    with pytest.raises(InputError, match="no features to probe"):
        _cells(RunFolder(run.path))


def test_probes_are_fedstyles_where_nothing_else_is_asked_for_and_each_starts_elsewhere(monkeypatch, tmp_path):
    """Adam at 3e-3 for 200 epochs of batches of 2048. Each style and its clients have a seed of their own."""
    seen = []

    def fitted(train, test, classes, settings, seed, *eq4):
        seen.append((classes, settings, seed))
        return torch.full((len(train[0]),), 0.5)

    monkeypatch.setattr(linear, "probe_accuracy", fitted)
    run = _write_run(tmp_path / "run")
    list(linear_probe(run))
    assert {(classes, settings) for classes, settings, _ in seen} == {(CLASSES, ProbeSettings(200, 2048, 3e-3, 1.0))}
    seeds = [seed for *_, seed in seen]
    run.write_spec(run.spec.model_copy(update={"seed": run.spec.seed + 1}))
    list(linear_probe(RunFolder(run.path), epochs=3, batch_size=5, lr=0.5))
    assert {settings for _, settings, _ in seen[len(seeds) :]} == {ProbeSettings(3, 5, 0.5, 1.0)}
    assert len({seed for *_, seed in seen}) == 8, "of two runs, of two styles each, shared and personal"


BUGS = {
    "labels of other images": ("_generalisation", '"shared", y)', '"shared", y.roll(1))', check_generalisation),
    "labels that are not shuffled": ("_generalisation", "_shuffled(y, _seed(run, style))", "y", check_generalisation),
    "images of another client": ("_style_probes", "y_style[p] for", "y_style[p].roll(1) for", check_personalisation),
    "no mean over clients": ("_personalisation", "accuracy.mean()", "accuracy[0]", check_personalisation),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_evaluation_is_caught(bug, tmp_path):
    name, right, wrong, check = BUGS[bug]
    run = _write_run(tmp_path / "run")
    with mutated("evaluation.linear", name, right, wrong), pytest.raises(AssertionError):
        check(_cells(run))
