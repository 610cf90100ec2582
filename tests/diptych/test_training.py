"""What a training leaves in its folder, and what it takes no notice of: what an earlier one has left there."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import diptych.training
from baselines.fedavg import FedAvg
from common.codehash import ROOT
from common.errors import InputError
from common.run_folder import LOCK, RunFolder
from common.spec import Spec
from diptych.training import _refuse_single_images, train
from federation import ClientData, Diverged, Simulation
from partitions import Partition, partition
from tests.digits import STYLES, left_by, objective, spec
from tests.pretended import DEVICE, pretended_gpu

SAMPLES = {"images": 20, "probed": 60}
THREE = {"rounds": 3, "batch_size": 64}


def _gan(**more) -> Spec:
    objective = {"name": "gan", "latent": 8, "width": 8}
    return spec("padpaf", objective, samples=SAMPLES, **more)


@pytest.fixture
def killed(monkeypatch):
    """Train a run, which is killed when all of its rounds are done and saved."""

    def train_and_kill(asked: Spec, folder: Path) -> None:
        def kill(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(diptych.training, "_write_model", kill)
            with pytest.raises(KeyboardInterrupt):
                train(asked, folder, "", checkpoint_every=0.0)
        assert (folder / "checkpoint.pt").exists()

    return train_and_kill


def _resumed(folder: Path) -> bool:
    return json.loads((folder / "provenance.json").read_text())["resumed"]


def test_fewer_snapshots_and_no_scores_leave_none_of_those_before(tmp_path):
    left_by(spec("fedavg", training=THREE, snapshots=[1, 2], score_every=1), tmp_path)
    run = left_by(spec("fedavg", training=THREE, snapshots=[1]), tmp_path)
    run.check()
    assert run.snapshots == [1]
    assert run.table("scores.csv") == []


def test_a_folder_that_holds_another_run_is_left_alone(tmp_path):
    left_by(spec("fedavg"), tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(InputError, match="holds run 'tests/tiny/fedavg/default/3'; name another folder"):
        train(spec("fedper"), tmp_path, "")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert train(spec("fedavg", training=THREE), tmp_path, "") == "ok", "by another specification it is the same run"


def test_a_folder_in_which_another_run_was_stopped_is_left_alone(tmp_path, killed):
    killed(spec("fedavg"), tmp_path)
    with pytest.raises(InputError, match="holds run"):
        train(spec("fedper"), tmp_path, "")
    assert (tmp_path / "checkpoint.pt").exists()


@pytest.mark.parametrize("whose", ["clients", "server", "in turns"])
def test_batch_norm_needs_two_images_whoever_trains(whose):
    one, several = torch.arange(1), torch.arange(1, 9)
    of = {"clients": (several, one), "server": (one,), "in turns": (several,)}[whose]
    data = ClientData(
        torch.zeros(9, 3, 8, 8), torch.zeros(9).long(), of, turns=((several, one),) if "in" in whose else None
    )
    with pytest.raises(InputError, match=r"^data: batch norm needs two .* has 1 at a time; see data\.at_most, .* deal"):
        _refuse_single_images(data, FedAvg(objective=objective("classification")))
    _refuse_single_images(replace(data, clients=(several,), turns=None), FedAvg(objective=objective("classification")))


def test_a_run_that_diverges_has_no_images_of_one_that_did_not(tmp_path, monkeypatch):
    assert left_by(_gan(), tmp_path).samples

    def diverge(*_: object) -> None:
        raise Diverged(1, 0, float("nan"))

    monkeypatch.setattr(Simulation, "run", diverge)
    assert train(_gan(seed=4), tmp_path, "") == "diverged"
    run = RunFolder(tmp_path)
    assert not run.samples
    assert not run.features


def test_what_is_lost_in_the_last_step_is_divergence_as_well(tmp_path):
    """After it nobody computes a loss."""
    lost = THREE | {"rounds": 1, "server": {"optimiser": "adam", "lr": 1e39}}
    assert train(spec("fedavg", training=lost), tmp_path, "") == "diverged"


@pytest.mark.parametrize("objective", ["gan", "vae"])
def test_a_pooled_generator_is_asked_only_for_what_can_be_compared(objective, tmp_path):
    pooled = partial(spec, "centralized", {"name": objective, "latent": 8, "width": 8}, samples=SAMPLES)
    with pytest.raises(InputError, match=r"^abilities: .*\[codes, generation\]"):
        train(pooled(), tmp_path / "run", "")
    assert not [*tmp_path.glob("run/*")]
    samples = left_by(pooled(abilities=["codes", "generation"]), tmp_path).samples
    assert {key.split("/")[1] for key in samples if key.startswith("asked/")} == {"0", "1", "2"}


def test_nothing_vouches_for_a_folder_while_it_is_trained_in(tmp_path, killed):
    asked = spec("fedavg", training=THREE, snapshots=[1])
    left_by(asked, tmp_path)
    killed(asked, tmp_path)
    assert not (tmp_path / "provenance.json").exists()
    assert RunFolder(tmp_path).snapshots == [1], "of the rounds that are done"
    assert left_by(asked, tmp_path).snapshots == [1]
    assert _resumed(tmp_path)


def test_a_run_that_was_stopped_says_how_long_all_of_it_took(tmp_path, killed):
    asked = spec("fedavg", training=THREE)
    killed(asked, tmp_path)
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert 0 < saved["seconds"] < 600
    torch.save(saved | {"seconds": 3600.0}, tmp_path / "checkpoint.pt")
    left_by(asked, tmp_path)
    assert 3600 < json.loads((tmp_path / "provenance.json").read_text())["wall_s"] < 4200


def test_a_checkpoint_does_not_outlive_the_snapshots_that_it_vouches_for(tmp_path, killed, monkeypatch):
    """Another run begins in the folder and is stopped before a checkpoint of its own; then the first is trained on."""
    asked = spec("fedavg", training=THREE, snapshots=[1])
    killed(asked, tmp_path)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Simulation, "run", stop)
        with pytest.raises(KeyboardInterrupt):
            train(spec("fedavg", training=THREE, seed=4), tmp_path, "")
    assert left_by(asked, tmp_path).snapshots == [1]


def test_words_of_the_user_stay_in_the_specification(tmp_path):
    asked = spec("fedavg")
    (tmp_path / "spec.yaml").write_text(f"# mine\n{asked.to_yaml()}")
    left_by(asked, tmp_path)
    assert (tmp_path / "spec.yaml").read_text().startswith("# mine")


@pytest.mark.parametrize("changed", [False, True])
def test_a_checkpoint_counts_only_if_the_run_started_from_is_the_same(changed, tmp_path, killed):
    left_by(spec("fedavg", run="tests/tiny/fedavg/before/3"), tmp_path / "tests/tiny/fedavg/before/3")
    asked = spec("fedavg", training=THREE, start="tests/tiny/fedavg/before/3")
    folder = tmp_path / asked.run
    killed(asked, folder)
    if changed:
        model = tmp_path / "tests/tiny/fedavg/before/3/model.safetensors"
        save_file({name: 2 * tensor for name, tensor in load_file(model).items()}, model)
    left_by(asked, folder)
    assert _resumed(folder) is not changed


def test_a_checkpoint_counts_only_if_the_images_are_the_same(tmp_path, killed, monkeypatch):
    asked = spec("fedavg", training=THREE)
    killed(asked, tmp_path)
    monkeypatch.setattr("partitions.source.Source.sha256", "those of another file")
    left_by(asked, tmp_path)
    assert not _resumed(tmp_path)


@pytest.mark.parametrize("changed", [True, False])
def test_a_checkpoint_counts_only_if_what_is_known_of_the_images_is_the_same(changed, tmp_path, killed, monkeypatch):
    """Attributes may decide whose images they are."""

    def known(smiling: bool) -> Callable[..., Partition]:
        def dealt(*asked: Any) -> Partition:
            found = partition(*asked)
            faces = (replace(s, extra={"attributes": np.full((len(s.labels), 1), smiling)}) for s in found.sources)
            return replace(found, sources=tuple(faces))

        return dealt

    asked = spec("fedavg", training=THREE)
    monkeypatch.setattr(diptych.training, "partition", known(True))
    killed(asked, tmp_path)
    monkeypatch.setattr(diptych.training, "partition", known(not changed))
    left_by(asked, tmp_path)
    assert _resumed(tmp_path) is not changed


GAN = {"name": "gan", "latent": 8, "width": 8}
STARGAN = {"name": "stargan", "width": 4, "blocks": 1, "discriminator_steps": 1}
BY_STARGAN = {"network": {"name": "stargan", "width": 4}}
ONE_SOURCE = {"dataset": "digit", "styles": dict.fromkeys(STYLES, "digits-plain[::9]"), "image_size": 8}
WRONG: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "too few domains": ("fedavg", STARGAN | {"domains": 2}, BY_STARGAN),
    "nobody knows the domains": (
        "fedavg", STARGAN | {"domains": 3}, BY_STARGAN | {"data": ONE_SOURCE | {"pool": "together"}}),
    "nothing to start from": ("feddirt", "classification", {}),
    "nothing to be mixed": ({"name": "apfl", "reading": "fedstyle"}, GAN, {}),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_with_a_training_leaves_what_was_there(wrong, tmp_path):
    """Though it shows in the first step only."""
    algorithm, goal, more = WRONG[wrong]
    asked = spec(algorithm, goal, **more)
    left_by(spec("fedavg", run=asked.run, training=THREE, snapshots=[1], score_every=1), tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert {"model.safetensors", "scores.csv", "after-1.npz", "provenance.json"} <= set(before)
    with pytest.raises(InputError, match=r"objective\.domains|data\.pool|^start|no outputs"):
        train(asked, tmp_path, "")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_checkpoint_of_the_cpu_is_none_for_a_gpu(tmp_path, killed):
    """Its tensors would stay where they were, and so would what a GPU computes of them not be what it computes."""
    asked = spec("fedavg", training=THREE)
    killed(asked, tmp_path)
    with pretended_gpu():
        left_by(asked, tmp_path, device=DEVICE)
    assert not _resumed(tmp_path)


def test_a_checkpoint_of_a_gpu_is_none_where_there_is_no_gpu(tmp_path, killed, monkeypatch):
    asked = spec("fedavg", training=THREE)
    killed(asked, tmp_path)
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    with monkeypatch.context() as patched:
        patched.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
        torch.save(saved | {"key": saved["key"].removesuffix(" cpu") + " cuda"}, tmp_path / "checkpoint.pt")
    left_by(asked, tmp_path)
    assert not _resumed(tmp_path)


def test_a_second_training_in_a_folder_is_refused_and_changes_nothing(tmp_path, monkeypatch):
    """Another specification of the same run would delete the first one's snapshots, and leave its own scores there."""
    run, asked = Simulation.run, spec("fedavg", training=THREE, snapshots=[1])

    def and_another(simulation: Simulation, after_round: Callable[[Simulation], None]) -> None:
        def twice(simulation: Simulation) -> None:
            after_round(simulation)
            with monkeypatch.context() as patched:
                patched.setattr(Simulation, "run", run)
                with pytest.raises(InputError, match="is being trained by another process; wait for it"):
                    train(spec("fedavg", score_every=1), tmp_path, "")

        run(simulation, twice)

    monkeypatch.setattr(Simulation, "run", and_another)
    left = left_by(asked, tmp_path)
    left.check()
    assert (left.snapshots, left.table("scores.csv")) == ([1], [])
    assert not (tmp_path / LOCK).exists()


def test_a_training_that_was_killed_keeps_nobody_out(tmp_path):
    hold = """import pathlib, sys; from common.files import locked
with locked(pathlib.Path(sys.argv[1]), ""): print(flush=True); input()
"""
    command = [sys.executable, "-c", hold, str(tmp_path / LOCK)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(InputError, match="another process"):
            train(spec("fedavg"), tmp_path, "")
        other.kill()
    assert (tmp_path / LOCK).exists()
    left_by(spec("fedavg"), tmp_path)
    assert not (tmp_path / LOCK).exists()
