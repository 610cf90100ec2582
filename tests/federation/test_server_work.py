"""Training at the server by hand: what lasts from call to call, and what batches have."""

from dataclasses import replace

import pytest
import torch

from common.spec import OptimiserSettings
from federation import ServerWorkSettings, names, train_on
from tests import quadratic
from tests.quadratic import Quadratic

WORK = ServerWorkSettings(0, OptimiserSettings(lr=0.1, momentum=0.9), 4)


def test_momenta_and_counts_of_batches_go_on_from_call_to_call():
    """Two calls over ten images in batches of 4, 4 and 2: the second update comes after batches 2, 4 and 6."""
    own = OptimiserSettings(lr=0.02)

    class Two(Quadratic):
        def updates(self):
            (both,) = super().updates()
            head = replace(both, which=names("head"), every=2, lr_factor=2.0)
            return [replace(both, which=names("encoder"), optimiser=own, lr_factor=0.5), head]

    images, labels, model, states, done = quadratic.images(), torch.arange(10), Two().model(), [], 0
    draw = torch.Generator().manual_seed(4)
    for expected in (3, 6):
        done = train_on(Two(), model, images, labels, WORK, states, draw, 1, batches=done)
        assert done == expected
    reference, order = Two().model(), torch.Generator().manual_seed(4)
    momentum = torch.zeros(1, dtype=torch.float64)
    batches = [rows for _ in range(2) for rows in torch.randperm(10, generator=order).split(4)]
    for n, rows in enumerate(batches, 1):
        batch = {"x": images[rows]}
        body = list(reference.encoder.parameters())
        slopes = torch.autograd.grad(Two().loss(reference, batch), body)
        with torch.no_grad():
            for p, slope in zip(body, slopes, strict=True):
                p -= 0.02 * 0.5 * slope
        if n % 2 == 0:
            (slope,) = torch.autograd.grad(Two().loss(reference, batch), [reference.head.c])
            momentum = 0.9 * momentum + slope
            with torch.no_grad():
                reference.head.c -= 0.1 * 2 * momentum
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert len(states) == 2


@pytest.mark.parametrize("round", [0, 1, 3])
def test_a_servers_rate_decays_as_the_clients_do(round):
    moved = []
    for lr in (0.1, 0.1 * 0.5 ** max(0, round - 1)):
        work = replace(WORK, optimiser=OptimiserSettings(lr=lr), lr_decay=0.5 if lr == 0.1 else 1.0)
        model = Quadratic().model()
        draw = torch.Generator().manual_seed(4)
        train_on(Quadratic(), model, quadratic.images(), torch.arange(10), work, [], draw, 1, round=round)
        moved.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(*moved)


def test_a_servers_batch_is_where_its_images_are():
    """What is random about it is drawn on the CPU; here, they are on torch's device without memory."""
    seen: list[str] = []

    class Watched(Quadratic):
        def draw(self, x, y, generator):
            return {"x": x, "noise": torch.rand(len(x), generator=generator)}

        def loss(self, model, batch):
            seen.extend(tensor.device.type for tensor in batch.values())
            return super().loss(model, batch)

    model, images = Watched().model().to("meta"), quadratic.images().to("meta")
    labels = torch.arange(10, device="meta")
    train_on(Watched(), model, images, labels, WORK, [], torch.Generator(), 1, labels % 3)
    assert seen == ["meta"] * 9


def test_a_servers_batch_is_whole_and_says_which_styles_its_images_show():
    """Of nine images in batches of four, one is left over, of which no batch norm can be made."""
    seen: list[tuple[list[int], list[int], list[float]]] = []

    class Watched(Quadratic):
        def draw(self, x, y, generator):
            return {"x": x, "y": y, "noise": torch.rand(len(x), generator=generator)}

        def loss(self, model, batch):
            assert model.training
            assert ("style" in batch) == styled
            seen.append((batch["y"].tolist(), batch["style"].tolist() if styled else [], batch["noise"].tolist()))
            return super().loss(model, batch)

    images, labels = quadratic.images()[:9], torch.arange(9)
    for styled in (True, False, False):
        draw = torch.Generator().manual_seed(4)
        styles = labels % 3 if styled else None
        assert train_on(Watched(), Watched().model().eval(), images, labels, WORK, [], draw, 2, styles) == 4
    order = torch.Generator().manual_seed(4)
    passes = [torch.randperm(9, generator=order) for _ in range(2)]
    expected = [rows.tolist() for order in passes for rows in order.split(4) if len(rows) > 1]
    for n, (y, style, noise) in enumerate(seen):
        assert y == expected[n % 4]
        assert style == ([label % 3 for label in y] if n < 4 else [])
        assert noise == seen[n % 4][-1]
