"""Gradient inversion: what is heard is the gradient, labels are read off it, and a known image comes back."""

import pytest
import torch

from attacks.inversion import Inversion, inverted, labels_of
from baselines.fedavg import FedAvg
from common.errors import InputError
from common.spec import OptimiserSettings, Spec
from diptych.assembly import build_objective
from diptych.training import train
from evaluation.privacy import inversion, psnr
from federation import ClientData
from tests.digits import left_by, prepared, spec
from tests.mutation import mutated

SGD = OptimiserSettings(lr=0.1)


DATA = {
    "dataset": "digit",
    "styles": {"all": "digits-plain[::9]"},
    "image_size": 16,
    "channels": 1,
    "at_most": 2,
    "clients_per_style": 2,
}
TRAINING = {"rounds": 1, "batch_size": 4, "optimiser": {"lr": 0.1}}


def _spec(objective: str = "classification", data: dict | None = None, training: dict | None = None) -> Spec:
    return spec(
        "fedavg",
        objective,
        data=DATA | (data or {}),
        network={"name": "smooth-lenet"},
        training=TRAINING | (training or {}),
        inversion={"iterations": 20},
    )


OBJECTIVE = build_objective(_spec(), classes=10)


def _case(images: int = 1):
    """A model, smooth images that are no noise, their labels, and the gradients."""
    torch.manual_seed(0)
    model = OBJECTIVE.model()
    rows = torch.linspace(0, 3, 16).sin()
    x = torch.stack([(rows[:, None] * rows.roll(n)[None]).abs() for n in range(images)])[:, None]
    y = torch.tensor([7, 2, 5, 2])[:images]
    loss = OBJECTIVE.loss(model, {"x": x, "y": y})
    names = [name for name, _ in model.named_parameters()]
    return model, x, y, dict(zip(names, torch.autograd.grad(loss, list(model.parameters())), strict=True))


def _recovered(model, x, y, gradients) -> float:
    found = inverted(OBJECTIVE, model, gradients, y, tuple(x.shape), 300, torch.Generator().manual_seed(1))
    assert 0 <= found.min() <= found.max() <= 1
    return psnr((found * 255).round().byte().numpy(), (x * 255).round().byte().numpy()).mean()


def test_a_known_image_is_recovered_from_a_known_gradient():
    assert _recovered(*_case()) >= 30


def test_and_is_not_from_the_gradient_of_another():
    model, x, y, _ = _case()
    other = OBJECTIVE.loss(model, {"x": x.flip(2), "y": y})
    gradients = dict(
        zip(dict(model.named_parameters()), torch.autograd.grad(other, list(model.parameters())), strict=True)
    )
    assert _recovered(model, x, y, gradients) < 25


def test_two_images_are_recovered_too():
    assert _recovered(*_case(2)) >= 30


@pytest.mark.parametrize("images", [1, 2, 4])
def test_labels_are_read_off_the_last_bias(images):
    _, _, y, gradients = _case(images)
    assert labels_of(gradients["head.bias"], images).tolist() == sorted(y.tolist())


def _heard() -> tuple[Inversion, dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """What a listener makes of one round with one client, and the true gradients."""
    _, x, y, _ = _case(4)
    listener = Inversion(OBJECTIVE, SGD, 0)
    data, settings = ClientData(x, y, (torch.arange(4),)), {"rounds": 1, "batch_size": 4, "optimiser": SGD}
    simulation = prepared(FedAvg(objective=OBJECTIVE), data, **settings, listeners=[listener])
    start = simulation.template
    loss = OBJECTIVE.loss(start, {"x": x, "y": y})
    true = torch.autograd.grad(loss, list(start.parameters()))
    simulation.run()
    return listener, dict(zip(dict(start.named_parameters()), true, strict=True))


def check_gradients(kind=Inversion) -> None:
    listener, true = _heard()
    ours = kind.gradients(listener, 0)
    for name, gradient in true.items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-5, rtol=1e-3)


def test_what_crosses_gives_the_gradient():
    check_gradients()


@pytest.mark.parametrize(("right", "wrong"), [(" / self.lr", ""), ("tensor - self.after", "-tensor + self.after")])
def test_a_wrong_gradient_is_caught(right, wrong):
    with mutated("attacks.inversion", "Inversion", right, wrong) as mutant, pytest.raises(AssertionError):
        check_gradients(mutant)


def test_a_run_leaves_what_was_found_beside_what_was_there(tmp_path):
    run = left_by(_spec(), tmp_path / "run")
    arrays = run.samples
    assert arrays["inverted/0/found"].shape == arrays["inverted/0/true"].shape == (2, 1, 16, 16)
    found = {(r["metric"], r["setting"]): r["value"] for r in inversion(run)}
    assert found["labels", ""] >= 0.5
    assert found["psnr", ""] > found["psnr", "another-user"]


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {"optimiser": {"lr": 0.1, "momentum": 0.9}}},
        {"training": {"optimiser": {"name": "adam"}}},
        {"training": {"local_epochs": 2}},
        {"data": {"at_most": 5}},
        {"data": {"at_most": None}},
        {"objective": "simclr"},
    ],
)
def test_updates_that_are_no_plain_step_are_refused(changes, tmp_path):
    with pytest.raises(InputError, match="inversion: needs a classifier"):
        train(_spec(**changes), tmp_path / "run", "")
    assert not (tmp_path / "run").exists()
