"""What a run that is listened to keeps after some of its rounds: what it would have kept had it ended there."""

import numpy as np
import pytest

from common.run_folder import RunFolder
from diptych.study import load_study
from diptych.training import train


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
