"""SDA-FL-like: what is told, which labels count, the loss by hand."""

import copy
from collections import Counter

import pytest
import torch
import torch.nn.functional as F

from baselines.fedavg import FedAvg
from baselines.sda_fl import SDAFL
from common.spec import OptimiserSettings
from diptych.study import load_study
from federation.channel import Message
from tests.digits import announcements, data, objective, prepared, same, simulate, watch_batches
from tests.mutation import mutated


def _made(kind=SDAFL, **settings):
    small = {"latent": 6, "width": 8, "gan_epochs": 1.0, "synthetic": 12}
    return kind(objective=objective("classification"), **{**small, **settings})


def _case(kind=SDAFL, **settings):
    """A client's model with what it was told and has received, and a batch of two own and two shared images."""
    torch.manual_seed(0)
    algorithm = _made(kind, **settings)
    model, received = algorithm.model(), algorithm.model()
    told = {"images": torch.randint(0, 256, (2, 12, 3, 8, 8)).byte(), "labels": torch.randint(0, 10, (2, 12))}
    model.__dict__ |= {"announced": told, "received": received}
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
    logits = _logits(model.w, torch.cat([batch["x"], x])[rows])
    expected = F.cross_entropy(logits, torch.cat([batch["y"], named])[rows])
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
        ('m.announced["labels"].flatten()[k]', 'm.announced["labels"].flatten()[-k]'),
        ("named, UNSURE", "UNSURE, named"),
        ('made])[y != UNSURE], "y": y[y != UNSURE]', 'made]), "y": y.where(y != UNSURE, -100)'),
    ],
)
def test_a_wrong_loss_is_caught(right, wrong):
    with mutated("baselines.sda_fl", "SDAFL", right, wrong) as mutant, pytest.raises(AssertionError):
        check_loss(mutant)


def test_where_nothing_is_sure_it_is_fedavg():
    """To the bit, batch norm's statistics as well."""
    classification = objective("classification")
    assert any(isinstance(part, torch.nn.BatchNorm2d) for part in classification.model().modules())
    ours, theirs = simulate(_made(confidence=1.0)), simulate(FedAvg(objective=classification))
    assert same(ours.server.tensors, theirs.server.tensors, of="w.")


def test_shared_images_are_the_generators_in_bytes():
    """Of noise that the draw decides; white is 255."""
    algorithm, y = _made(), torch.arange(4)
    model = algorithm.model()
    last = [layer for layer in model.generator.modules() if isinstance(layer, torch.nn.Linear)][-1]
    last.weight.data *= 30
    told = algorithm.announced(model, torch.rand(4, 3, 8, 8), y, torch.Generator().manual_seed(1))
    z = torch.randn(12, 6, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        made = (model.generator(z, told["labels"]) + 1) / 2
    torch.testing.assert_close(told["images"].double() / 255, made.double(), atol=0.5 / 255 + 1e-6, rtol=0)
    assert {0, 255} <= set(told["images"].flatten().tolist())


def test_a_label_that_is_just_sure_enough_counts():
    """Two classes with half of the certainty each, of which the first is named."""
    algorithm, model, received, _, batch = _case(confidence=0.5)
    with torch.no_grad():
        received.w.head.weight.zero_()
        received.w.head.bias.copy_(torch.tensor([0.0, 0, 200, 0, 0, 200, 0, 0, 0, 0]))
    both = torch.cat([batch["x"], model.announced["images"].flatten(0, 1)[[1, 17]].float() / 255])
    torch.testing.assert_close(
        algorithm.both_halves(model, batch), F.cross_entropy(_logits(model.w, both), torch.tensor([3, 8, 2, 2]))
    )


def test_any_shared_image_may_come_with_a_batch():
    """Each of 300 images is drawn in its turn of 300 x 20, 20 +- 5 times."""
    batch = _made().draw(torch.rand(6000, 1, 1, 1), torch.zeros(6000).long(), torch.Generator().manual_seed(0))
    often = (batch["other"] % 300).bincount(minlength=300).double()
    assert often.min() > 3
    assert often.std() == pytest.approx(20**0.5, rel=0.2)


@pytest.mark.parametrize(
    ("owned", "asked"),
    [({0: 3000, 1: 3000}, {0: 2000, 1: 2000}), ({4: 9, 7: 3}, {4: 3000, 7: 1000}), ({2: 5}, {2: 4000})],
)
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_client_asks_for_its_labels_in_the_proportions_in_which_it_has_them(owned, asked, shuffled):
    algorithm = _made(synthetic=4000)
    y = torch.cat([torch.full((n,), label) for label, n in owned.items()])
    y = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(0))] if shuffled else y
    told = algorithm.announced(algorithm.model(), torch.rand(len(y), *[1] * 3), y, torch.Generator().manual_seed(1))
    assert Counter(told["labels"].tolist()) == asked
    assert len(told["images"]) == 4000


def test_the_gan_is_trained_with_an_optimiser_of_its_own():
    """Whatever the classifier's optimiser is: the prologue's losses, stepped with torch's Adam."""
    adam = {"lr": 1e-3, "betas": (0.5, 0.999)}
    algorithm = _made(gan_optimiser=OptimiserSettings(name="adam", **adam), gan_epochs=0.2)
    simulation = prepared(algorithm, rounds=1, optimiser=OptimiserSettings(lr=0.3, momentum=0.5))
    model, batches = copy.deepcopy(simulation.population.members[0]), []
    watch_batches(simulation, lambda client, batch: batches.extend([batch] if client == 0 else []))
    simulation.local.train(0, [0], algorithm.prologue(), "prologue")
    assert algorithm.prologue()[0].epochs == 0.2, "passes of its own, too"
    assert len(batches) > 1
    optimisers = {
        part: torch.optim.Adam(getattr(model, part).parameters(), **adam) for part in ("discriminator", "generator")
    }
    for batch in batches:
        for optimiser, update in zip(optimisers.values(), algorithm.prologue()[0].updates, strict=True):
            optimiser.zero_grad()
            update.loss(model, batch).backward()
            optimiser.step()
        model.zero_grad()
    for part in optimisers:
        ours, theirs = getattr(simulation.population.members[0], part), getattr(model, part)
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("scale", ["digits", "reference-psfedgan", "paper"])
def test_the_gan_is_stepped_as_ps_fedgans_is(scale):
    """In the tables where the two stand beside each other; but for what a search has chosen for PS-FedGAN."""
    found: dict[str, set[str]] = {}
    study = load_study(scale)
    for cell in study.cells:
        if (spec := cell.spec).labels["paper"] == "psfedgan":
            if spec.algorithm["name"] == "sda-fl":
                own = OptimiserSettings(**spec.algorithm["gan_optimiser"])
                found.setdefault("sda-fl", set()).add(own.model_dump_json())
            elif spec.algorithm["name"] == "ps-fedgan":
                before = study._content("psfedgan", cell.point, {})["training"]["optimiser"]
                found.setdefault("ps-fedgan", set()).add(OptimiserSettings(**before).model_dump_json())
                after = study.chosen["psfedgan"].get("ps-fedgan", {}).get("training", {}).get("optimiser", before)
                assert spec.training.optimiser == OptimiserSettings(**after)
    assert found["sda-fl"] == found["ps-fedgan"]
    assert scale == "digits" or found["sda-fl"] == {_made().gan_optimiser.model_dump_json()}, "the default, too"


def test_images_are_told_once_as_bytes_with_labels_that_the_client_has():
    heard: list[Message] = []
    everyone, simulation = data(), simulate(_made(), listeners=[heard.append])
    told, _ = announcements(heard)
    assert told.tensors["announced.images"].dtype == torch.uint8
    assert told.tensors["announced.images"].shape == (3, 12, 3, 8, 8)
    for k, indices in enumerate(everyone.clients):
        assert set(told.tensors["announced.labels"][k].tolist()) <= set(everyone.labels[indices].tolist())
    shared = {name.split(".")[0] for m in heard for name in m.tensors if not name.startswith("announced.")}
    assert shared == {"w"}, "the GAN stays"
    pretraining = [row for row in simulation.history if row["stage"] == "prologue"]
    assert {row["update"] for row in pretraining} == {0, 1}
    images = told.tensors["announced.images"].float()
    assert (images[0] != images[1]).any()
