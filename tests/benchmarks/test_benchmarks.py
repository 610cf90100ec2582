"""Benchmarks compare like with like, and run."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from benchmarks import footprint, gan, identities, membership, profile, twins, whole
from benchmarks.bare import BareFedAvg, mnist_like
from benchmarks.engine import SEED, bare, engine, settings
from common.codehash import ROOT
from partitions.source import Source


def test_both_take_the_same_steps():
    ours, theirs = engine(3, 70), bare(3, 70)
    start = {name: tensor.clone() for name, tensor in theirs.server.items()}
    ours.run()
    theirs.run()
    for name, tensor in theirs.server.items():
        torch.testing.assert_close(ours.server.tensors[name], tensor, rtol=1e-4, atol=1e-6)
        assert not torch.equal(tensor, start[name])


def test_the_bare_loop_weighs_clients_by_size():
    data = mnist_like(2, 64)
    uneven = type(data)(data.images, data.labels, (torch.arange(96), torch.arange(96, 128)))
    loop = BareFedAvg(bare(1, 64).server, uneven, settings(), SEED)
    uploads = [loop._train(1, client) for client in range(2)]
    loop.run()
    for name, tensor in loop.server.items():
        torch.testing.assert_close(tensor, 0.75 * uploads[0][name] + 0.25 * uploads[1][name])


def test_all_time_of_a_step_is_of_some_kind():
    by_kind, others = profile.shares("padpaf", 1, small=True)
    assert sum(by_kind.values()) == pytest.approx(1)
    assert sum(others.values()) == pytest.approx(by_kind[profile.ELSE])
    assert all(by_kind[kind] > 0 for kind in profile.KINDS)
    operators = ["aten::mkldnn_convolution", "aten::native_batch_norm", "aten::_fused_adam_", "aten::copy_"]
    assert [profile.kind_of(operator) for operator in operators] == [
        "convolutions and products",
        "batch norm",
        "optimiser",
        "all else",
    ]


@pytest.mark.parametrize("paper", whole.RUNS)
def test_a_whole_run_is_the_same_but_for_its_way(paper):
    plain, other = (whole.spec_of(paper, "tiny", *way, seed=7) for way in (whole.WAYS[0], whole.WAYS[3]))
    assert (plain.seed, plain.training.precision, plain.training.channels_last) == (7, "fp32", False)
    assert (other.training.precision, other.training.channels_last) == ("bf16", True)
    assert other.model_copy(update={"training": plain.training}) == plain


@pytest.mark.slow
def test_whole_runs_are_measured_once_and_held_against_the_plain_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(whole, "WAYS", whole.WAYS[:2])
    monkeypatch.setattr(sys, "argv", ["whole", "--out", str(tmp_path / "whole.csv"), "--scale", "tiny", "--seeds", "1"])
    sys.argv += ["--papers", "psfedgan"]
    whole.main()
    printed, file = capsys.readouterr().out, (tmp_path / "whole.csv").read_text()
    whole.main()
    assert (capsys.readouterr().out, (tmp_path / "whole.csv").read_text()) == (printed, file)
    plain, other = (line.split(",") for line in file.splitlines()[1:])
    assert f"| channels-last | {float(other[4]) / float(plain[4]):.2f} | accuracy of the cloud |" in printed
    assert 0 <= float(plain[-1]) <= 1


@pytest.mark.slow
def test_the_table_is_printed():
    command = [sys.executable, "-m", "benchmarks.engine", "--clients", "2", "--images", "128", "--repeats", "1"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert len(said.splitlines()) == 4


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_ten_thousand_clients_of_whom_a_hundred_take_part_fit_into_1200_mebibytes(workers):
    """A model for each would be 65 GiB."""
    assert footprint.memory(footprint.round_of(10_000, workers)) < 1.2 * 1024


def test_the_bare_gan_takes_the_engines_steps(monkeypatch):
    """One batch, after which both sides step: the engine draws several at once, and only the first is drawn alike.

    To a twentieth of the step: Adam's first one is of one size, however small a gradient, and so is what rounding makes
    of gradients near zero, such as those of biases before batch norm.
    """
    monkeypatch.setattr(gan, "DISCRIMINATOR_STEPS", 1)
    ours, theirs = gan.engine(2, 32), gan.BareGAN(2, 32)
    start = {name: tensor.detach().clone() for name, tensor in ours.template.named_parameters()}
    ours.keep_own()
    ours.run()
    theirs.run()
    for client, model in enumerate(theirs.models):
        for side in ("encoder", "generator"):
            bare = {name: tensor for name, tensor in model.named_parameters() if name.startswith(side)}
            step = _distance(bare, start)
            assert step > 0
            assert _distance(bare, {name: ours.population.storage[name][client] for name in bare}) < 0.05 * step


def _distance(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    return float(sum((tensor - b[name]).square().sum() for name, tensor in a.items())) ** 0.5


def test_generators_take_the_same_step_one_by_one_and_together():
    steps = twins.GeneratorSteps(3, 8)
    start = steps.stacked["generator.layers.0.weight"].clone()
    steps.one_by_one()
    steps.together()
    for name, rows in steps.stacked.items():
        for model, row in zip(steps.models, rows, strict=True):
            torch.testing.assert_close(dict(model.named_parameters())[name].detach(), row, rtol=1e-4, atol=1e-5)
    assert not torch.equal(start, steps.stacked["generator.layers.0.weight"])


@pytest.mark.slow
def test_the_table_of_twins_is_printed():
    command = [sys.executable, "-m", "benchmarks.twins", "--users", "2", "--images", "64", "--width", "8"]
    said = subprocess.run([*command, "--repeats", "1"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert len(said.splitlines()) == 4


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_members_and_others_are_told_apart_only_where_the_parts_of_a_source_are_apart():
    """By chance where both are of one kind; where test images are noise, nearly always."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(4), 500)
    images = (rng.normal(60 * labels[:, None, None], 30, (2000, 8, 8)) + 40).clip(0, 255).astype(np.uint8)
    alike = Source("alike", images, labels, np.arange(2000) >= 1200, 4)
    apart = np.where(alike.test[:, None, None], rng.integers(0, 256, images.shape, dtype=np.uint8), images)
    assert np.mean([membership.null(alike, seed) for seed in range(4)]) == pytest.approx(0.5, abs=0.05)
    assert membership.null(Source("apart", apart, labels, alike.test, 4), 0) > 0.9
    with pytest.raises(ValueError, match="no official split"):
        membership.null(Source("whole", images, labels, None, 4), 0)


def test_of_many_numbers_a_probe_remembers_whoever_a_face_is_and_of_few_it_guesses():
    """A fair share of few: of 40 people one is the first of them in 1/40, and among any ten in a quarter."""
    assert identities.remembered(features=100, faces=3, people=40, seed=0) == [1, 1, 1]
    first, ten, fifty = identities.remembered(features=1, faces=50, people=40, seed=0)
    assert 1 / 40 < first < 0.1
    assert 0.25 < ten < 0.4
    assert fifty == 1, "of forty"
