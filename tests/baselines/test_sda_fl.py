"""SDA-FL-like: what is told, which labels count, the loss by hand."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from baselines.sda_fl import SDAFL
from federation import Simulation
from federation.channel import Message
from networks import Conv3
from objectives import OBJECTIVES
from tests.digits import data, training
from tests.mutation import mutated

IMAGES = {"channels": 3, "image_size": 8}


def _made(kind=SDAFL, **settings):
    objective = OBJECTIVES["classification"](encoder=partial(Conv3, **IMAGES, width=4), classes=10, **IMAGES)
    small = {"latent": 6, "width": 8, "gan_epochs": 1.0, "synthetic": 12}
    return kind(objective=objective, **{**small, **settings})


def _case(kind=SDAFL, **settings):
    """A client's model with what it was told and has received, and a batch of two own and two shared images."""
    torch.manual_seed(0)
    algorithm = _made(kind, **settings)
    model, received = algorithm.model(), algorithm.model()
    told = {"images": torch.randint(0, 256, (2, 12, 3, 8, 8)).byte(), "labels": torch.randint(0, 10, (2, 12))}
    model.__dict__ |= {"told": told, "received": received}
    batch = {"x": torch.rand(2, 3, 8, 8), "y": torch.tensor([3, 8]), "other": torch.tensor([25, 17])}
    return algorithm, model, received, told, batch


def _logits(model, x):
    return model.head(model.encoder(x))


def check_loss(kind=SDAFL) -> None:
    algorithm, model, received, told, batch = _case(kind, confidence=0.0)
    x = torch.stack([told["images"][0, 1], told["images"][1, 5]]).float() / 255  # 25 - 24 = 1, and 17 = 12 + 5
    named = _logits(received.w.eval(), x).argmax(dim=1)
    expected = F.cross_entropy(_logits(model.w, torch.cat([batch["x"], x])), torch.cat([batch["y"], named]))
    torch.testing.assert_close(algorithm.both_halves(model, batch), expected)

    least = _logits(received.w, x).detach().softmax(dim=1).max(dim=1).values
    algorithm, model, _, _, _ = _case(kind, confidence=float(least.mean()))
    sure = least >= least.mean()
    assert sure.sum() == 1
    rows = torch.cat([torch.tensor([True, True]), sure])
    logits = _logits(model.w, torch.cat([batch["x"], x]))
    expected = F.cross_entropy(logits[rows], torch.cat([batch["y"], named])[rows])
    torch.testing.assert_close(algorithm.both_halves(model, batch), expected)

    algorithm, model, _, _, _ = _case(kind, labels="client", confidence=1.0)
    asked = torch.stack([told["labels"][0, 1], told["labels"][1, 5]])
    expected = F.cross_entropy(_logits(model.w, torch.cat([batch["x"], x])), torch.cat([batch["y"], asked]))
    torch.testing.assert_close(algorithm.both_halves(model, batch), expected)


def test_the_loss_by_hand():
    check_loss()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (">= self.confidence", "< self.confidence"),
        ("m.received.w.eval()", "m.w.eval()"),
        (".float() / 255", ".float()"),
        ('m.told["labels"].flatten()[k]', 'm.told["labels"].flatten()[-k]'),
        ("named, UNSURE", "UNSURE, named"),
    ],
)
def test_a_wrong_loss_is_caught(right, wrong):
    with mutated("baselines.sda_fl", "SDAFL", right, wrong) as mutant, pytest.raises(AssertionError):
        check_loss(mutant)


def test_where_nothing_is_sure_only_own_images_count():
    algorithm, model, _, _, batch = _case(confidence=1.0)
    both = torch.cat([batch["x"], model.told["images"].flatten(0, 1)[[1, 17]].float() / 255])
    torch.testing.assert_close(
        algorithm.both_halves(model, batch), F.cross_entropy(_logits(model.w, both)[:2], batch["y"])
    )


def test_images_are_told_once_as_bytes_with_labels_that_the_client_has():
    heard: list[Message] = []
    everyone = data()
    simulation = Simulation(_made(), everyone, training(rounds=2), 7, listeners=[heard.append])
    simulation.run()
    told = [m for m in heard if any(name.startswith("told.") for name in m.tensors)]
    assert [m.direction for m in told] == ["up", "down"]
    assert told[0].tensors["told.images"].dtype == torch.uint8
    assert told[0].tensors["told.images"].shape == (3, 12, 3, 8, 8)
    for k, indices in enumerate(everyone.clients):
        assert set(told[0].tensors["told.labels"][k].tolist()) <= set(everyone.labels[indices].tolist())
    shared = {name.split(".")[0] for m in heard for name in m.tensors if not name.startswith("told.")}
    assert shared == {"w"}, "the GAN stays"
    pretraining = [row for row in simulation.history if row["stage"] == "prologue"]
    assert {row["update"] for row in pretraining} == {0, 1}
    images = told[0].tensors["told.images"].float()
    assert (images[0] != images[1]).any()
