"""Estimates: images that pass are counted as the engine counts them, and times follow the nearest kind of training."""

import pytest

from common.spec import DataSettings, Spec
from diptych import cost
from diptych.study import load_study
from partitions import partition

RUNS = [
    "fedstyle/digit_10_iid_simclr/fedavg/default/2011",
    "padpaf/mnist_eight-clients/padpaf/default/2011",
    "feddva/mnist_client-marks/feddva/default/2011",
    "psfedgan/mnist_split-1/fedavg/default/2011",
    "fedinb/rotated-mnist_translation/fedinb/hist/2011",
]


@pytest.mark.parametrize("run", RUNS)
def test_the_images_of_a_run_are_about_those_that_its_clients_have(run):
    spec = load_study("digits").specs[run]
    dealt = partition(spec.data, "nowhere", spec.seed)
    assert cost.images_of(spec.data) == pytest.approx(sum(map(len, dealt.clients)), rel=0.1)


def _spec(**training) -> Spec:
    spec = load_study("digits").specs[RUNS[0]]
    return spec.model_copy(update={"training": spec.training.model_copy(update=training)})


def test_passes_are_counted_in_rounds_epochs_or_steps_of_the_clients_that_take_part():
    images = cost.images_of(_spec().data)
    assert cost.passes_of(_spec(rounds=3, local_epochs=2.0, participation=1.0)) == pytest.approx(6 * images)
    assert cost.passes_of(_spec(rounds=3, local_epochs=1.0, participation=0.5)) == pytest.approx(1.5 * images)
    in_steps = _spec(rounds=2, local_steps=5, batch_size=16, participation=1.0)
    assert cost.passes_of(in_steps) == 2 * 5 * 16 * 30  # three styles of ten clients


def test_slices_of_a_source_are_its_share():
    styles = {"a": "mnist[::4]", "b": "mnist[1:101]", "c": "unheard-of"}
    assert cost.images_of(DataSettings(dataset="x", styles=styles)) == 15_000 + 100 + cost.UNKNOWN_IMAGES


def test_a_time_is_that_of_the_nearest_kind_in_proportion(monkeypatch):
    kind = cost.Kind("fedavg", "simclr", "conv3", 8, 16)
    other = cost.Kind("fedavg", "simclr", "resnet18", 1, 32)
    monkeypatch.setattr(cost, "_trainings", lambda: {kind: 2.0, other: 100.0})
    cost._for_an_image.cache_clear()
    assert cost._for_an_image(kind) == 2.0
    assert cost._for_an_image(cost.Kind("fedprox", "simclr", "conv3", 16, 32)) == 2.0 * 2 * 4
    assert cost._for_an_image(cost.Kind("fedprox", "simsiam", "resnet18", 1, 16)) == 25.0
    cost._for_an_image.cache_clear()


def test_an_evaluation_takes_as_long_as_its_runs(monkeypatch):
    monkeypatch.setattr(cost, "_rows", lambda: ({"job": "evaluate", "seconds": "3"}, {"job": "claims", "seconds": "5"}))
    inputs = ["judges/x.safetensors", "a/provenance.json", "a/features.npz", "b/provenance.json", "b/features.npz"]
    assert cost.of_a_job("evaluate", inputs, ["x.csv"]) == 6
    assert cost.of_a_job("claim", [], ["x.md"]) == 5
