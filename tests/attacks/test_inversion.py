"""A run that is listened to: what it leaves, what it refuses, and that it may be stopped."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from abilities import Trained, arrays
from attacks.listeners import listeners
from baselines.fedavg import FedAvg
from common.errors import InputError
from common.spec import OptimiserSettings, Spec
from diptych.assembly import build_algorithm
from diptych.given import client_data
from diptych.training import train
from evaluation.privacy import inversion
from federation import Simulation
from federation.checkpoint import resume, save
from partitions import partition
from tests.digits import left_by, spec

DATA = {
    "dataset": "digit",
    "styles": {"all": "digits-plain[::9]"},
    "image_size": 16,
    "channels": 1,
    "at_most": 2,
    "clients_per_style": 2,
}
TRAINING = {"rounds": 1, "batch_size": 4, "optimiser": {"lr": 0.1}}


def _spec(
    name: str = "fedavg", objective: str = "classification", network: str = "smooth-lenet", **changes: Any
) -> Spec:
    return spec(
        name,
        objective,
        data=DATA | changes.pop("data", {}),
        network={"name": network},
        training=TRAINING | changes.pop("training", {}),
        inversion={"iterations": 20},
        **changes,
    )


@pytest.mark.parametrize("abilities", [[], ["codes"]])
def test_a_run_leaves_what_was_found_beside_what_was_there(abilities, tmp_path):
    run = left_by(_spec(abilities=abilities), tmp_path / "run")
    left = run.samples
    assert left["inverted/0/found"].shape == left["inverted/0/true"].shape == (2, 1, 16, 16)
    found = {(r["metric"], r["setting"]): r["value"] for r in inversion(run)}
    assert found["labels", ""] >= 0.5
    assert found["psnr", ""] > found["psnr", "another-user"]


def test_where_labels_make_no_difference_none_are_claimed(tmp_path):
    run = left_by(_spec(objective="autoencoder", network="inb-mnist"), tmp_path / "run")
    assert {r["metric"] for r in inversion(run)} == {"psnr", "recovered"}


PLAIN = "inversion: needs plain sgd with one learning rate and data.at_most"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"training": {"optimiser": {"lr": 0.1, "momentum": 0.9}}}, PLAIN),
        ({"training": {"optimiser": {"name": "adam"}}}, PLAIN),
        ({"training": {"optimiser": {"lr": 0.1, "weight_decay": 1e-3}}}, PLAIN),
        ({"data": {"at_most": 5}}, PLAIN),
        ({"data": {"at_most": None}}, PLAIN),
        ({"data": {"views": {"all": {"name": "rotation"}}}}, "inversion: needs data.views that show an image alike"),
        ({"name": "local"}, "inversion: clients of algorithm 'local' send nothing"),
        ({"name": "centralized"}, "inversion: clients of algorithm 'centralized' send nothing"),
    ],
)
def test_what_cannot_be_inverted_is_refused(changes, said, tmp_path):
    with pytest.raises(InputError, match=said):
        train(_spec(**changes), tmp_path / "run", "")
    assert not (tmp_path / "run").exists()


class _AtARateOfItsOwn(FedAvg):
    def updates(self):
        return [replace(update, optimiser=OptimiserSettings(lr=0.2)) for update in super().updates()]


def test_steps_at_a_rate_that_is_not_the_runs_cannot_be_inverted():
    algorithm = _AtARateOfItsOwn(**vars(build_algorithm(_spec(), 10)))
    with pytest.raises(InputError, match=PLAIN):
        listeners(_spec(), algorithm)
    assert listeners(_spec(training={"optimiser": {"lr": 0.2}}), algorithm)


def test_what_was_heard_outlives_a_stop(tmp_path):
    asked = _spec()
    dealt = partition(asked.data, "", asked.seed)
    algorithm = build_algorithm(asked, dealt.classes)

    def simulation() -> Simulation:
        data, heard = client_data(dealt, ""), listeners(asked, algorithm)
        made = Simulation(algorithm, data, asked.training, asked.seed, listeners=heard)
        made.keep_own()
        return made

    whole, resumed = simulation(), simulation()
    whole.run()
    save(tmp_path / "checkpoint.pt", whole, "key", 7.0)
    resume(tmp_path / "checkpoint.pt", resumed, "key")
    a, b = (arrays(Trained(s, dealt, asked), at_the_end=True)[1] for s in (whole, resumed))
    assert a.keys() == b.keys() != set()
    assert all((a[key] == b[key]).all() for key in a)
    assert torch.is_tensor(resumed.channel.listeners[0].sent["head.bias"])
