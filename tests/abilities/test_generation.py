"""What a generative run leaves: the same whenever it is taken, of the right models, in the right places."""

import dataclasses

import numpy as np
import pytest
import torch

from abilities import Trained, arrays
from abilities.codes import discriminated
from abilities.generation import _tests_like, generated
from common.errors import InputError
from common.run_folder import RunFolder
from common.spec import Spec
from diptych.assembly import build_algorithm
from diptych.training import train
from federation import ClientData, Simulation
from networks.spectral import settle
from partitions import partition


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
        "samples": {"images": 24, "probed": 20},
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
