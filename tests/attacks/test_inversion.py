"""A run that is listened to: what it leaves, what it refuses, and that it may be stopped."""

import pytest
import torch

from abilities import Trained, arrays
from attacks.listeners import listeners
from common.errors import InputError
from common.run_folder import RunFolder
from common.spec import Spec
from diptych.assembly import build_algorithm
from diptych.training import client_data, train
from evaluation.privacy import inversion
from federation import Simulation
from federation.checkpoint import resume, save
from partitions import partition


def _spec(**changes) -> Spec:
    content = {
        "run": "x",
        "scale": "tiny",
        "seed": 3,
        "data": {
            "dataset": "digit",
            "styles": {"all": "digits-plain[::9]"},
            "image_size": 16,
            "channels": 1,
            "at_most": 2,
            "clients_per_style": 2,
        },
        "network": {"name": "smooth-lenet"},
        "objective": {"name": "classification"},
        "algorithm": {"name": "fedavg"},
        "training": {"rounds": 1, "batch_size": 4, "optimiser": {"lr": 0.1}},
        "inversion": {"iterations": 20},
    }
    return Spec(
        **{key: {**content[key], **changes.get(key, {})} if key in changes else content[key] for key in content}
    )


def test_a_run_leaves_what_was_found_beside_what_was_there(tmp_path):
    assert train(_spec(), tmp_path / "run", "") == "ok"
    left = RunFolder(tmp_path / "run").samples
    assert left["inverted/0/found"].shape == left["inverted/0/true"].shape == (2, 1, 16, 16)
    found = {(r["metric"], r["setting"]): r["value"] for r in inversion(RunFolder(tmp_path / "run"))}
    assert found["labels", ""] >= 0.5
    assert found["psnr", ""] > found["psnr", "another-user"]


def test_where_labels_make_no_difference_none_are_claimed(tmp_path):
    spec = _spec(objective={"name": "autoencoder"}, network={"name": "inb-mnist"})
    assert train(spec, tmp_path / "run", "") == "ok"
    assert {r["metric"] for r in inversion(RunFolder(tmp_path / "run"))} == {"psnr", "recovered"}


PLAIN = "inversion: needs plain sgd and data.at_most"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"training": {"optimiser": {"lr": 0.1, "momentum": 0.9}}}, PLAIN),
        ({"training": {"optimiser": {"name": "adam"}}}, PLAIN),
        ({"data": {"at_most": 5}}, PLAIN),
        ({"data": {"at_most": None}}, PLAIN),
        ({"algorithm": {"name": "local"}}, "inversion: clients of algorithm 'local' send nothing"),
        ({"algorithm": {"name": "centralized"}}, "inversion: clients of algorithm 'centralized' send nothing"),
    ],
)
def test_what_cannot_be_inverted_is_refused(changes, said, tmp_path):
    with pytest.raises(InputError, match=said):
        train(_spec(**changes), tmp_path / "run", "")
    assert not (tmp_path / "run").exists()


def test_what_was_heard_outlives_a_stop(tmp_path):
    spec = _spec()
    dealt = partition(spec.data, "", spec.seed)
    algorithm = build_algorithm(spec, dealt.classes)

    def simulation() -> Simulation:
        data, heard = client_data(dealt, ""), listeners(spec, algorithm)
        return Simulation(algorithm, data, spec.training, spec.seed, listeners=heard)

    whole, resumed = simulation(), simulation()
    whole.run()
    save(tmp_path / "checkpoint.pt", whole, "key")
    assert resume(tmp_path / "checkpoint.pt", resumed, "key")
    a, b = (arrays(Trained(s, dealt, spec), at_the_end=True)[1] for s in (whole, resumed))
    assert a.keys() == b.keys() != set()
    assert all((a[key] == b[key]).all() for key in a)
    assert torch.is_tensor(resumed.channel.listeners[0].sent["head.bias"])
