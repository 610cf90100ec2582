"""What a run that is listened to keeps after some of its rounds: what it would have kept had it ended there."""

import dataclasses

import numpy as np
import pytest
import torch

from abilities import Trained
from abilities.overheard import _alike, _asked, _by_discriminator, membership
from attacks.listeners import listeners
from common.run_folder import RunFolder
from diptych.assembly import build_algorithm
from diptych.given import client_data
from diptych.study import load_study
from diptych.training import train
from federation import Simulation
from networks.cgan import hidden_units
from partitions import partition
from tests.digits import spec


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two rounds with a snapshot after the first, and one round."""
    spec = load_study("tiny").specs["psfedgan/mnist_setup-1/ps-fedgan/default/2011"]
    assert (spec.snapshots, spec.training.rounds) == ([1], 2)
    once = spec.model_copy(
        update={"snapshots": [], "training": spec.training.model_copy(update={"rounds": 1}), "run": f"{spec.run}1"}
    )
    folders = [tmp_path_factory.mktemp("run") for _ in range(2)]
    for one, folder in zip((spec, once), folders, strict=True):
        train(one, folder, "")
    return [RunFolder(folder) for folder in folders]


def test_a_snapshot_is_of_its_round(runs):
    whole, once = runs
    kept = whole.after(1)
    assert {key for key in kept if "a1" in key or "cloud" in key}
    for key, images in kept.items():
        np.testing.assert_array_equal(images, once.samples[key])
    assert (kept["made/0/cloud"] != whole.samples["made/0/cloud"]).any(), "the generator has gone on"


def test_a_snapshot_keeps_the_cloud_and_a1_alone(runs):
    makers = {key.split("/")[2] for key in runs[0].after(1)} - {"labels"}
    factors = ("1-1e-4", "1-1e-7", "1-1e-15", "1-1e-21", "0.9999", "1", "1;masks=own")
    assert makers == {"cloud", *(f"a1;r={factor}" for factor in factors)}


def _followed(algorithm: dict[str, str] | None = None, **data) -> Trained:
    asked = spec(
        {"name": "ps-fedgan", "latent": 4, "width": 4, "synthetic": 10} | (algorithm or {}),
        data={"dataset": "mnist", "pool": "together", "image_size": 16, "channels": 1} | data,
        samples={"members": 20},
    )
    dealt = partition(asked.data, "", asked.seed)
    built = build_algorithm(asked, 10)
    who = listeners(asked, built)
    simulation = Simulation(built, client_data(dealt, ""), asked.training, asked.seed, listeners=who)
    simulation.run()
    return Trained(simulation, dealt, asked)


def test_membership_is_asked_of_images_as_the_user_sees_them():
    """Its discriminator has been trained on the negatives of these."""
    view = {"negative": {"name": "color-inversion"}}
    of = _followed(styles={"negative": "digits-plain[::8]"}, views=view)
    dealt, twin = of.dealt, of.simulation.server_work.twins[0]
    pairs = _alike(of, 0)
    found = _by_discriminator(of, 0, twin, pairs)
    for who, rows in pairs.items():
        negative = 1 - dealt.images[rows].float() / 255
        whole = [torch.ones(len(rows), units) for units in hidden_units(4)]
        with torch.no_grad():
            expected = twin.discriminator(2 * negative - 1, dealt.labels[rows], whole)
        np.testing.assert_allclose(found[f"membership/0/{who}"], expected, atol=1e-6)


def test_others_have_labels_that_the_user_has():
    """What a discriminator says of a label that it has never seen would tell members from others by that alone."""
    of = _followed(styles={"ink": "digits-plain[::8]"}, clients_per_style=2, deal={"name": "shards", "each": 5})
    for user in (0, 1):
        pairs = _asked(of, user, of.dealt.all_test, 40)
        others = set(of.dealt.labels[pairs["others"]].tolist())
        assert others
        assert others <= set(of.dealt.labels[of.dealt.clients[user]].tolist())
        assert len(pairs["members"]) == len(pairs["others"]) <= 40
        assert set(pairs["members"].tolist()) <= set(of.dealt.clients[user].tolist())


def test_nothing_is_asked_of_a_discriminator_that_nobody_has_sent():
    """The server's twin of it has never been trained."""
    ink = {"ink": "digits-plain[::8]"}
    everything, generators = (
        membership(_followed({"name": "full-gan", "share": share}, styles=ink)) for share in ("all", "once")
    )
    assert everything
    assert not generators


def test_nothing_is_asked_of_a_user_of_whose_labels_none_is_tested():
    of = _followed(styles={"ink": "digits-plain[::8]"}, clients_per_style=2, deal={"name": "shards", "each": 5})
    asked = {key.split("/")[1] for key in membership(of)}
    dealt = of.dealt
    his = dealt.labels[dealt.clients[0]].unique()
    tests = dealt.test[0][~torch.isin(dealt.labels[dealt.test[0]], his)]
    alone = Trained(of.simulation, dataclasses.replace(dealt, test=(tests,)), of.spec)
    assert (asked, {key.split("/")[1] for key in membership(alone)}) == ({"0", "1"}, {"1"})
