"""What a generative run leaves: the same whenever it is taken, of the right models, in the right places."""

import dataclasses

import numpy as np
import pytest
import torch

from abilities import Trained, arrays
from abilities.codes import discriminated
from abilities.generation import _tests_like, generated
from abilities.trained import Arrays, as_bytes, settled
from common.errors import InputError
from common.run_folder import RunFolder
from common.spec import Spec
from diptych.assembly import build_algorithm
from diptych.training import train
from federation import ClientData, Simulation, copied
from federation.data import as_float
from networks.spectral import settle
from objectives import Generative
from partitions import partition
from partitions.views import resized
from tests.digits import same


def _spec(**changes) -> Spec:
    given = {
        "run": "padpaf/c/padpaf/conditional/3",
        "scale": "tiny",
        "seed": 3,
        "data": {
            "dataset": "mnist",
            "styles": dict.fromkeys(("plain", "color-inversion"), "digits-plain[::6]"),
            "views": {"color-inversion": {"name": "color-inversion"}},
            "pool": "together",
            "classes_per_client": 0.5,
            "image_size": 8,
        },
        "network": {"name": "sn-resnet", "width": 4},
        "objective": {"name": "gan", "latent": 8, "width": 4, "conditional": True},
        "algorithm": {"name": "padpaf"},
        "training": {"rounds": 2, "batch_size": 16, "buffers": "local"},
        "samples": {"images": 24, "batch": 8, "probed": 20},
    }
    return Spec(**{**given, **changes})


@pytest.fixture(scope="module")
def trained():
    spec = _spec()
    dealt = partition(spec.data, "", spec.seed)
    data = ClientData(dealt.images, dealt.labels, dealt.clients, dealt.views)
    simulation = Simulation(build_algorithm(spec, 10), data, spec.training, spec.seed)
    simulation.keep_own()
    simulation.run()
    return lambda: Trained(simulation, dealt, spec)


def test_taking_samples_changes_nothing_and_gives_the_same_again(trained):
    population = trained().simulation.population
    before = {name: rows.clone() for name, rows in population.storage.items()}
    once, again = ({**kept, **samples} for kept, samples in (arrays(trained(), at_the_end=True) for _ in range(2)))
    assert once.keys() == again.keys()
    assert all(np.array_equal(once[key], again[key]) for key in once)
    assert all(torch.equal(rows, before[name]) for name, rows in population.storage.items())
    assert all(member.training for member in population.members)


def test_every_client_is_shown_by_its_own_model_and_its_own_view(trained):
    arrays, dealt = generated(trained()), trained().dealt
    plain, inverted = (arrays[f"client/{k}/real"].mean() for k in (0, 1))
    assert plain < 100 < 155 < inverted
    assert not np.array_equal(arrays["grid/0/both"], arrays["grid/1/both"])
    assert not np.array_equal(arrays["client/0/generated"], arrays["client/0/generated/generator=global"])
    for k in (0, 1):
        seen = set(dealt.labels[dealt.clients[k]].tolist())
        assert set(arrays[f"client/{k}/generated/labels"].tolist()) <= seen
        assert set(arrays[f"client/{k}/unseen/labels"].tolist()) == set(range(10)) - seen
        assert len(arrays[f"client/{k}/generated"]) == 24
        assert not set(arrays[f"client/{k}/real/labels"].tolist()) - seen


def test_real_images_are_those_that_each_client_sees_and_their_labels_stand_beside_them(trained):
    arrays, dealt = generated(trained()), trained().dealt
    for k, (mine, tests) in enumerate(zip(dealt.clients, dealt.tests, strict=True)):
        for name, rows in (("real", mine), ("held-out", tests), ("held-out-unseen", tests)):
            x = as_float(dealt.images[rows])
            seen = map(np.ndarray.tobytes, as_bytes(resized(1 - x if k else x, 8)))
            label = dict(zip(seen, dealt.labels[rows].tolist(), strict=True))
            expected = [label[image.tobytes()] for image in arrays[f"client/{k}/{name}"]]
            assert arrays[f"client/{k}/{name}/labels"].tolist() == expected


def test_held_out_images_have_the_clients_labels_in_its_proportions_and_others_apart(trained):
    """A floor of labels that the client lacks would be no floor of its images."""
    arrays, dealt = generated(trained()), trained().dealt
    for k in (0, 1):
        mine = torch.bincount(dealt.labels[dealt.clients[k]], minlength=10)
        alike = torch.bincount(dealt.labels[_tests_like(trained(), k)], minlength=10)
        assert set(arrays[f"client/{k}/held-out/labels"].tolist()) == set(mine.nonzero().ravel().tolist())
        assert set(arrays[f"client/{k}/held-out-unseen/labels"].tolist()) == set((mine == 0).nonzero().ravel().tolist())
        times = alike.sum() / mine.sum()
        assert times > 0.1
        assert (alike - times * mine).abs().max() <= 1.5, "not a multiple of what the client has"
        plain, inverted = (arrays[f"client/{k}/held-out-unseen"].mean() for k in (0, 1))
        assert plain < 100 < 155 < inverted


def test_held_out_images_are_any_test_images_where_none_has_a_label_of_the_clients(trained):
    """As with CelebA, whose labels are people, and whose test images are of others."""
    whole = trained()
    labels, clients = whole.dealt.labels, whole.dealt.clients
    others = tuple(t[~torch.isin(labels[t], labels[c])] for t, c in zip(whole.dealt.tests, clients, strict=True))
    strangers = Trained(whole.simulation, dataclasses.replace(whole.dealt, dealt_tests=others), whole.spec)
    arrays = generated(strangers)
    for k, tests in enumerate(others):
        assert len(arrays[f"client/{k}/held-out"]) == whole.spec.samples.images
        assert set(arrays[f"client/{k}/held-out/labels"].tolist()) == set(labels[tests].tolist()), "all alike"


def test_held_out_faces_are_any_test_faces(trained):
    """Those in the proportions of a client's people would be a handful: of most there is one."""
    whole = trained()
    data = whole.spec.data.model_copy(update={"dataset": "celeba"})
    faces = Trained(whole.simulation, whole.dealt, whole.spec.model_copy(update={"data": data}))
    for k, tests in enumerate(whole.dealt.tests):
        assert torch.equal(_tests_like(faces, k), tests)
        assert len(_tests_like(whole, k)) < len(tests)


def test_held_out_images_are_of_those_of_a_clients_labels_that_are_tested(trained):
    """Of the first one nothing is; of the others there are as many as before, in the same proportions."""
    whole = trained()
    dealt = whole.dealt
    first = [int(dealt.labels[mine].min()) for mine in dealt.clients]
    fewer = tuple(t[dealt.labels[t] != c] for t, c in zip(dealt.tests, first, strict=True))
    lacking = Trained(whole.simulation, dataclasses.replace(dealt, dealt_tests=fewer), whole.spec)
    for k, c in enumerate(first):
        mine, alike = (
            torch.bincount(dealt.labels[rows], minlength=10) for rows in (dealt.clients[k], _tests_like(lacking, k))
        )
        assert alike[c] == 0
        mine[c] = 0
        assert (alike > 0).tolist() == (mine > 0).tolist()
        assert (alike - alike.sum() / mine.sum() * mine).abs().max() <= 1.5


def test_a_longer_runs_snapshot_is_a_shorter_runs_end(tmp_path):
    """So that Table 1 may be read after 120 rounds of the 300 of Fig. 10."""
    training = {"batch_size": 16, "buffers": "local", "lr_decay": 0.9}
    training |= {"server": {"optimiser": "adam", "weighting": "uniform"}}
    train(_spec(training=training | {"rounds": 2}, snapshots=[1]), tmp_path / "long", "")
    train(_spec(training=training | {"rounds": 1}), tmp_path / "short", "")
    long, short = RunFolder(tmp_path / "long"), RunFolder(tmp_path / "short")
    then, end = long.after(1), {**short.features, **short.samples}
    assert then.keys() == end.keys()
    assert all(np.array_equal(then[key], end[key]) for key in end)
    assert not np.array_equal(long.samples["client/0/generated"], end["client/0/generated"])


def test_features_are_those_of_the_shared_and_of_each_clients_own_encoder(trained):
    arrays, dealt = discriminated(trained()), trained().dealt
    assert arrays["codes/test/style"].shape == (20, 2, 4)
    assert arrays["plain/test/content"].shape == (20, 4)
    assert not np.allclose(arrays["plain/test/style"][:, 0], arrays["plain/test/style"][:, 1])
    member = trained().simulation.shared_model()
    settle(member)
    chosen = trained().some(torch.cat(dealt.test).unique(), 20, "samples", "some", "plain test")
    expected = member.encoder.eval()(2 * trained().plain(chosen) - 1)
    np.testing.assert_allclose(arrays["plain/test/content"], expected.detach().numpy(), atol=1e-5)
    assert np.array_equal(arrays["plain/test/label"], dealt.labels[chosen].numpy())


def _codes(of: Trained, x: torch.Tensor) -> torch.Tensor:
    """Of images in [0, 1], one beside the other: by the shared φ^c, by that of the start, by the clients' φ^s."""
    simulation = of.simulation
    content = [model.encoder for model in (simulation.shared_model(), copied(simulation.template))]
    style = [simulation.own(k).style.encoder for k in of.clients]
    with torch.no_grad():
        return torch.cat([settled(encoder).eval()(2 * x - 1) for encoder in content + style], dim=1)


def check_coded(of: Trained, found: Arrays, place: str, everyones: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Every row has all codes of one of its client's images, whose label stands beside them.

    Args:
        everyones: for each client, images as it sees them, and their labels.
    """
    parts = (found[f"{place}/{key}"] for key in ("content", "untrained-content", "style"))
    rows = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    assert np.bincount(found[f"{place}/client"]).tolist() == [10, 10]
    for k, (x, labels) in enumerate(everyones):
        mine = found[f"{place}/client"] == k
        apart = np.abs(rows[mine][:, None] - _codes(of, x).numpy()).max(axis=2)
        assert apart.min(axis=1).max() < 1e-4
        expected = labels[apart.argmin(axis=1)].tolist()
        assert found[f"{place}/label"][mine].tolist() == expected
        assert len(set(expected)) > 2


def test_pooled_codes_are_of_what_each_client_sees(trained):
    of = trained()
    dealt, found = of.dealt, discriminated(of)

    def images(rows: torch.Tensor, style: str) -> tuple[torch.Tensor, torch.Tensor]:
        x = of.plain(rows)
        return (1 - x if style == "color-inversion" else x), dealt.labels[rows]

    for part, whole in (("train", dealt.clients), ("test", dealt.tests)):
        check_coded(of, found, f"codes/{part}", [images(*own) for own in zip(whole, dealt.styles, strict=True)])


@pytest.fixture
def telling(trained, monkeypatch) -> Trained:
    """Whose images say by which model they are made, and of which label (`_told`)."""
    of = trained()
    known = [*of.own, *of.with_shared]

    def generate(self, m, z_c, z_s, y, noise):
        who = next((n for n, model in enumerate(known) if model is m), len(known))
        return ((10 * who + y.argmax(dim=1)) / 50).view(-1, 1, 1, 1).expand(-1, self.channels, 8, 8)

    monkeypatch.setattr(Generative, "generate", generate)
    return of


def _told(images: np.ndarray) -> tuple[list[int], list[int]]:
    """By whom (the clients' own models, then those with what is shared, then others), and labels."""
    who, labels = np.divmod(np.rint(images[:, 0, 0, 0] / 255 * 50).astype(int), 10)
    return sorted(set(who)), labels.tolist()


def test_images_are_by_the_models_and_of_the_labels_that_they_are_said_to_be(telling):
    arrays = generated(telling)
    for k in (0, 1):
        of = f"client/{k}"
        asked, unseen = (arrays[f"{of}/{kind}/labels"].tolist() for kind in ("generated", "unseen"))
        assert _told(arrays[f"{of}/generated"]) == ([k], asked)
        assert _told(arrays[f"{of}/generated/generator=global"]) == ([2 + k], asked)
        assert _told(arrays[f"{of}/generated/bn=eval"]) == ([4], asked)
        assert _told(arrays[f"{of}/unseen"]) == ([k], unseen)
        for layout in ("style-by-row", "content-by-row", "both"):
            assert _told(arrays[f"grid/{k}/{layout}"].reshape(60, -1, 8, 8)) == ([k], 6 * list(range(10)))


def test_generated_codes_are_of_images_by_each_clients_own_model_of_its_own_labels(telling):
    found, images = discriminated(telling), []
    for k, mine in enumerate(telling.dealt.clients):
        labels = telling.dealt.labels[mine].unique()
        images.append((((10 * k + labels) / 50).view(-1, 1, 1, 1).expand(-1, telling.objective.channels, 8, 8), labels))
    for part in ("train", "test"):
        check_coded(telling, found, f"generated/{part}", images)


def test_grids_have_one_latent_down_and_the_other_across(trained, monkeypatch):
    def generate(self, m, z_c, z_s, y, noise):
        """Their latents in the first two rows."""
        return torch.stack([z_c, z_s], dim=1).sigmoid().unsqueeze(1)

    monkeypatch.setattr(Generative, "generate", generate)
    arrays = generated(trained())
    for layout, down, across in (("style-by-row", 1, 0), ("content-by-row", 0, 1)):
        grid = arrays[f"grid/0/{layout}"][:, :, 0]
        for z in (grid[:, :, down], grid[:, :, across].swapaxes(0, 1)):
            assert (z == z[:, :1]).all(), "the same all along"
            assert len(np.unique(z[:, 0], axis=0)) == len(z), "and each another"
        assert np.array_equal(arrays[f"grid/0/{layout}"], arrays[f"grid/1/{layout}"])
    assert len(np.unique(arrays["grid/0/both"].reshape(120, 8), axis=0)) == 120


def test_batch_norms_of_evaluation_mode_have_the_mean_over_batches_of_the_same_labels(trained, monkeypatch):
    """In a copy of the client's own model; all others generate in training mode."""
    of, calls, generate = trained(), [], Generative.generate

    def watched(self, m, z_c, z_s, y, noise):
        inputs = []
        hooks = [norm.register_forward_pre_hook(lambda _, given: inputs.append(given[0])) for norm in _norms(m)]
        made = generate(self, m, z_c, z_s, y, noise)
        for hook in hooks:
            hook.remove()
        calls.append((m, m.training, y.argmax(dim=1), inputs, made))
        return made

    monkeypatch.setattr(Generative, "generate", watched)
    arrays, known = generated(of), [*of.own, *of.with_shared]
    assert {training for m, training, *_ in calls if m in known} == {True}
    for k, model in enumerate(dict.fromkeys(m for m, *_ in calls if m not in known)):
        assert same(dict(model.named_parameters()), dict(of.own[k].named_parameters()))
        looked, shown = ([call[2:] for call in calls if call[:2] == (model, mode)] for mode in (True, False))
        for part in (looked, shown):
            assert torch.cat([y for y, *_ in part]).tolist() == arrays[f"client/{k}/generated/labels"].tolist()
        assert np.array_equal(as_bytes(torch.cat([x for *_, x in shown])), arrays[f"client/{k}/generated/bn=eval"])
        for norm, batches in zip(_norms(model), zip(*(inputs for _, inputs, _ in looked), strict=True), strict=True):
            means, variances = ([getattr(x, moment)(dim=(0, 2, 3)) for x in batches] for moment in ("mean", "var"))
            torch.testing.assert_close(norm.running_mean, sum(means) / 3)
            torch.testing.assert_close(norm.running_var, sum(variances) / 3)
    assert k == 1


def _norms(model) -> list[torch.nn.Module]:
    return [part for part in model.generator.modules() if isinstance(part, torch.nn.BatchNorm2d)]


def test_a_run_goes_on_from_another_ones_shared_tensors(tmp_path):
    first = tmp_path / "padpaf/c/padpaf/conditional/3"
    train(_spec(), first, "")
    new = _spec(run="padpaf/n/padpaf/conditional/3", start="padpaf/c/padpaf/conditional/3", snapshots=[0, 1])
    folder = tmp_path / "padpaf/n/padpaf/conditional/3"
    assert train(new, folder, "") == "ok"
    run, old = RunFolder(folder), RunFolder(first)
    assert run.snapshots == [0, 1]
    plain = "plain/test/content"
    np.testing.assert_allclose(run.after(0)[plain], old.features[plain], atol=1e-5)
    assert not np.allclose(run.after(1)[plain], old.features[plain], atol=1e-5)
    with pytest.raises(InputError, match="start: run 'padpaf/x' has left no model"):
        train(_spec(run="padpaf/n/padpaf/conditional/3", start="padpaf/x"), folder, "")
    other = _spec(
        run="padpaf/o/padpaf/wide/3", start="padpaf/c/padpaf/conditional/3", network={"name": "sn-resnet", "width": 8}
    )
    with pytest.raises(InputError, match="tensors that this one has not in this shape"):
        train(other, tmp_path / "padpaf/o/padpaf/wide/3", "")


def test_pooling_clients_with_views_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be pooled"):
        train(_spec(algorithm={"name": "centralized"}), tmp_path, "")
