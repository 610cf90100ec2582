"""Inversion of weights: local work is gone through as the engine does, labels are read off, known images come back."""

import pytest
import torch
from torch import nn

from attacks.inversion import apart
from attacks.weights import OWN, Rehearsal, Weights, labels_of, normalised
from attacks.wiretap import as_heard
from baselines.fedavg import FedAvg
from tests.attacks.overheard import LABELS, Overheard, images, objective, others
from tests.digits import objective as on_digits
from tests.digits import training
from tests.mutation import mutated

KNOWN = {
    "fedavg": {},
    "fedprox": {"mu": 1.0},
    "scaffold": {},
    "ditto": {},
    "ditto-fedprox": {},
    "apfl": {},
    "fedrep": {},
    "fedper": {},
}
"""Algorithms whose clients draw nothing, with settings."""
CLOSE = 1e-4
"""Of a squared distance: four steps with batch norm on two images blow up what rounding leaves."""


def _rehearsed(run: Overheard, y: torch.Tensor, kind=Rehearsal) -> float:
    """How far a rehearsal with the client's own images is from what it sent."""
    model = as_heard(run.algorithm, run.begun[0], run.listener, 0)
    rehearsal = kind(run.algorithm, run.training, model, len(y), None, 1)
    heard = rehearsal.pulls(run.listener.back[0])
    assert {name for name in run.listener.back[0] if "running" not in name and "common" not in name} == heard.keys()
    ours = rehearsal.run(run.x, y, {})
    return float(apart([ours[name] for name in heard], list(heard.values())).detach())


@pytest.mark.parametrize(
    ("name", "steps", "network"),
    [
        *((name, steps, "smooth-lenet") for name in KNOWN for steps in (1, 4)),
        *((name, 4, "conv3") for name in ("scaffold", "fedrep")),  # norms, in controls as well, and on both sides
    ],
)
def test_a_rehearsal_with_the_true_images_ends_where_the_client_did(name, steps, network):
    run = Overheard(Weights, name, objective(network=network), images(2), LABELS[:2], steps=steps, **KNOWN[name])
    assert _rehearsed(run, LABELS[:2]) < CLOSE


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ditto", {"reading": "released"}),
        ("ditto", {"reading": "fedstyle"}),
        ("fedrep", {"reading": "fedstyle"}),
        ("apfl", {"reading": "fedstyle"}),
        ("fedprox", {"reading": "fedstyle"}),
    ],
)
def test_whatever_it_is_read_as(name, settings):
    run = Overheard(Weights, name, objective(), images(2), LABELS[:2], steps=2, **settings)
    assert _rehearsed(run, LABELS[:2]) < CLOSE


def test_a_gradient_through_earlier_steps_is_caught():
    run = Overheard(Weights, "fedrep", objective(), images(1), LABELS[:1])
    with (
        mutated("attacks.weights", "Rehearsal", ".view_as(tensors[name])", "") as mutant,
        pytest.raises(AssertionError),
    ):
        assert _rehearsed(run, LABELS[:1], mutant) < CLOSE


@pytest.mark.parametrize(
    ("name", "images_", "steps"),
    [
        ("fedavg", 1, 1),
        ("fedavg", 1, 4),
        ("fedavg", 2, 1),
        ("fedavg", 4, 1),
        ("fedmix", 4, 1),
        ("ditto", 1, 1),
        ("fedrep", 1, 1),
        ("fedper", 2, 1),
    ],
)
def test_known_images_and_labels_come_back(name, images_, steps):
    run = Overheard(Weights, name, objective(), images(images_), LABELS[:images_], steps=steps)
    near, labels = run.found()
    assert (near >= 30).all()
    assert labels is not None
    assert sorted(labels.tolist()) == sorted(LABELS[:images_].tolist())


def test_a_last_layer_that_is_matched_though_it_has_told_the_labels_is_caught():
    run = Overheard(Weights, "fedavg", objective(), images(4), LABELS)
    with mutated("attacks.weights", "labels_read_off", "others or heard", "heard"), pytest.raises(AssertionError):
        assert (run.found()[0] >= 30).all()


def test_an_image_comes_back_where_the_last_layer_is_all_there_is():
    run = Overheard(Weights, "fedavg", objective(network="pixels"), images(1), LABELS[:1])
    assert (run.found()[0] >= 25).all()


def test_and_do_where_a_constant_of_the_image_is_trained_on_too():
    rotations = {"translation": "rotation", "angles": [0.0, 30.0], "weight": 1.0}
    run = Overheard(Weights, "feddirt", objective(), images(1), LABELS[:1], **rotations)
    assert (run.found()[0] >= 30).all()


def test_and_do_not_from_another_clients_message():
    run = Overheard(Weights, "fedavg", objective(), images(1), LABELS[:1])
    assert (run.misled() < 15).all()


def test_pixels_of_an_autoencoder_come_back_within_their_range():
    run = Overheard(Weights, "fedavg", objective("autoencoder", "inb-mnist"), images(1), LABELS[:1])
    near, labels = run.found()
    assert labels is None, "labels are not in its loss"
    assert near.mean() > run.misled().mean() + 3


@pytest.mark.parametrize("images_", [1, 2, 4])
def test_labels_are_read_off_the_last_bias(images_):
    made = objective()
    torch.manual_seed(0)
    model, y = made.model(), LABELS[:images_]
    (bias,) = torch.autograd.grad(made.loss(model, {"x": images(images_), "y": y}), [model.head.bias])
    assert labels_of(bias, images_).tolist() == sorted(y.tolist())


@pytest.mark.parametrize(
    ("right", "wrong"), [(" / self.lr", ""), ("self.begun[name] - after", "-self.begun[name] + after")]
)
def test_a_wrong_gradient_is_caught(right, wrong):
    run = Overheard(Weights, "fedavg", objective(), images(1), LABELS[:1])
    with mutated("attacks.weights", "Rehearsal", right, wrong) as mutant, pytest.raises(AssertionError):
        assert _rehearsed(run, LABELS[:1], mutant) < CLOSE


@pytest.mark.parametrize(
    ("name", "solved"),
    [("vae", {"epsilon", "prior", "noise"}), ("simclr", {"y"}), ("gan", {"z_c", "z_s", "noise", "image_noise"})],
)
def test_what_is_drawn_from_continuous_distributions_is_solved_for(name, solved):
    made = on_digits(name)
    rehearsal = Rehearsal(FedAvg(objective=made), training(local_steps=1), made.model(), 2, None, 1)
    unknown = rehearsal.unknown(torch.rand(2, 3, 8, 8).requires_grad_(), None)
    assert {slot[2] for slot in unknown} == solved


@pytest.mark.parametrize(
    ("norm", "x"),
    [
        (nn.BatchNorm2d(3), torch.rand(4, 3, 5, 5)),
        (nn.BatchNorm1d(3, affine=False), torch.rand(4, 3)),
        (nn.InstanceNorm2d(3, affine=True, track_running_stats=True), torch.rand(4, 3, 5, 5)),
    ],
)
@pytest.mark.parametrize("mode", [True, False])
def test_norms_are_torchs(norm, x, mode):
    norm(x)  # which moves the statistics
    norm.train(mode)
    torch.testing.assert_close(normalised(norm, x), norm(x))


def test_labels_of_the_images_are_the_same_in_every_step():
    run = Overheard(Weights, "fedper", objective(), images(1), LABELS[:1], steps=3)
    rehearsal = Rehearsal(
        run.algorithm, run.training, as_heard(run.algorithm, run.begun[0], run.listener, 0), 1, None, 1
    )
    assert list(rehearsal.unknown(others(run.x).requires_grad_(), None)) == [OWN]
