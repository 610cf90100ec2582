"""Counts are those that follow from the layers, and a fit finds the machine that made its measurements."""

import gc

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks import costs
from benchmarks.counting import Counting, counted
from common.spec import Spec
from common.work import Work, kinds, row_of, work_of, work_of_a_step
from diptych.cost import Machine
from diptych.study import load_study


def _perceptron() -> Spec:
    """McMahan et al.'s 2NN: 784 or 256 values, two hidden layers of 200, one answer for each class."""
    spec = load_study("digits").specs["psfedgan/mnist_split-1/fedavg/default/2011"]
    return spec.model_copy(update={"network": {"name": "mcmahan-2nn"}, "objective": {"name": "classification"}})


def test_the_operations_on_an_image_are_those_of_its_layers():
    """Forwards two for each weight; backwards as many for its slope, and for what came in, but at the first layer."""
    spec = _perceptron()
    pixels = spec.data.channels * spec.data.image_size**2
    layers = [pixels * 200, 200 * 200, 200 * 2]
    found = counted(spec)
    assert found.image == 2 * (3 * sum(layers) - layers[0])
    assert found.before == found.after == Work()


def test_what_is_computed_once_of_images_is_no_work_of_their_steps():
    """FedDIRT translates all images once, and then takes each through the encoder twice and through the head once."""
    runs = load_study("digits").specs
    named = "fedinb/rotated-mnist_generalisation_1/{}/2011"
    alone, regularised = (counted(runs[named.format(m)]) for m in ("fedavg/default", "feddirt/l20-k10"))
    head = 3 * 2 * 64 * 2  # 64 features, two classes; forwards, and backwards twice
    assert regularised.image == 2 * alone.image - head
    assert regularised.before.flops > alone.before.flops == 0


def test_a_model_is_as_large_as_its_weights():
    spec = _perceptron()
    pixels = spec.data.channels * spec.data.image_size**2
    numbers = pixels * 200 + 200 + 200 * 200 + 200 + 200 * 2 + 2
    assert counted(spec).model_mb * 2**20 == pytest.approx(4 * numbers)


def test_the_memory_of_what_is_gone_is_free():
    with Counting() as counting:
        first = torch.ones(1000)
        second = first + 1
        del first
        gc.collect()
        third = second.view(10, 100) * 1
    assert counting.peak == 8000
    assert counting.live == 8000
    assert third.shape == (10, 100)
    assert counting.calls == 3  # views are none


def test_a_convolution_is_counted_as_torch_counts_it():
    from torch.utils.flop_counter import FlopCounterMode

    layer, x = nn.Conv2d(3, 5, 3), torch.ones(2, 3, 8, 8)
    with Counting() as ours:
        layer(x).sum().backward()
    with FlopCounterMode(display=False) as theirs:
        layer(x).sum().backward()
    assert ours.flops == theirs.get_total_flops() > 0


@pytest.mark.parametrize(
    "run",
    [
        "psfedgan/mnist_split-1/fedavg/default/2011",
        "fedstyle/digit_10_iid_simclr/ditto/default/2011",
        "feddva/mnist_client-marks/feddva/default/2011",
        "fedinb/rotated-mnist_generalisation_1/feddirt/l20-k10/2011",
    ],
)
def test_the_file_says_what_would_be_counted_today(run):
    spec = load_study("digits").specs[run]
    now = {key: value for key, value in row_of(counted(spec)).items() if key != "image_mb"}
    then = {key: value for key, value in row_of(kinds()[costs.Kind.of(spec)]).items() if key != "image_mb"}
    assert now.keys() == then.keys()
    for key, value in then.items():
        if key.endswith(("_calls", "_flops", "_mb")):
            assert float(now[key]) == pytest.approx(float(value), rel=0.2, abs=1), key
        else:
            assert now[key] == value


def test_a_fit_finds_the_machine_that_made_the_measurements():
    specs = [spec for spec in load_study("digits").specs.values() if spec.labels["paper"] in ("fedstyle", "psfedgan")]
    specs = [spec for spec in specs if not spec.inversion]
    made_by = Machine("x", call_us=7.0, gflops=12.0, start_s=0.4, how="")
    noise = np.random.default_rng(0).uniform(0.95, 1.05, len(specs))
    steps = [(spec, made_by.seconds(work_of_a_step(spec, costs.BATCH)) - 0.4) for spec in specs[:5]]
    found = costs.fitted([(s, made_by.seconds(work_of(s)) * n) for s, n in zip(specs, noise, strict=True)], steps)
    assert found.call_us == pytest.approx(7.0, rel=0.1)
    assert found.gflops == pytest.approx(12.0, rel=0.2)
    assert found.start_s == pytest.approx(0.4, rel=0.2)
    assert found.networks == {specs[0].network["name"]: pytest.approx(12.0, rel=0.3)}


def test_the_log_of_a_workflow_says_what_jobs_took(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "FOLDER", tmp_path)
    lines = [
        "2.5\t600\t0\ttrain\ta/b/c/default/1\t--scale\ttiny\t--out\tx",
        "9.0\t600\t1\ttrain\ta/b/d/default/1\t--scale\ttiny\t--out\tx",
        "4.0\t500\t0\tevaluate\tr/1\tr/2\t--out\tx.csv",
        "1.0\t500\t0\ttable\tx\t--scale\ttiny",
    ]
    (tmp_path / "jobs.log").write_text("\n".join(lines))
    costs.took(tmp_path / "jobs.log")
    assert (tmp_path / "took.csv").read_text() == "scale,run,seconds,memory_mb\ntiny,a/b/c/default/1,2.5,600\n"
    assert (tmp_path / "jobs.csv").read_text() == "job,seconds\nevaluate,2\ntable,1\n"
