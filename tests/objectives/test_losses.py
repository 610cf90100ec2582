"""Losses against brute force and against other libraries."""

import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from networks import ENCODERS
from objectives import OBJECTIVES
from objectives.contrastive import info_nce
from tests.digits import objective
from tests.pretended import DEVICE, pretended_gpu


def _projections(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _info_nce_by_loops(z: np.ndarray, positive: np.ndarray, tau: float) -> float:
    """Eq. 2 of FedStyle with the usual normalisation: mean over anchors, mean over the anchor's positives."""
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    total = 0.0
    for i in range(len(z)):
        denominator = sum(math.exp(z[i] @ z[n] / tau) for n in range(len(z)) if n != i)
        positives = positive[i].nonzero()[0]
        total += sum(-math.log(math.exp(z[i] @ z[j] / tau) / denominator) for j in positives) / len(positives)
    return total / len(z)


@pytest.mark.parametrize("tau", [0.07, 0.5])
@pytest.mark.parametrize("groups", [[0, 0, 0, 1, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1, 1, 2, 2]])
def test_info_nce_by_loops(groups, tau):
    z = _projections(len(groups))
    g = torch.tensor(groups)
    positive = (g[:, None] == g) & ~torch.eye(len(g), dtype=torch.bool)
    expected = _info_nce_by_loops(z.numpy(), positive.numpy(), tau)
    assert info_nce(z, positive, tau).item() == pytest.approx(expected, rel=1e-9)


def test_info_nce_by_loops_where_anchors_have_unlike_numbers_of_positives():
    """So that a sum over the anchors is not one over their positives."""
    z, positive = _projections(4), torch.zeros(4, 4, dtype=torch.bool)
    for a, b in ((0, 1), (1, 2), (1, 3)):
        positive[a, b] = positive[b, a] = True
    expected = _info_nce_by_loops(z.numpy(), positive.numpy(), 0.5)
    assert info_nce(z, positive, 0.5).item() == pytest.approx(expected, rel=1e-9)


def test_info_nce_gradient_by_finite_differences():
    g = torch.tensor([0, 0, 1, 1, 1])
    positive = (g[:, None] == g) & ~torch.eye(5, dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda z: info_nce(z, positive, 0.3), _projections(5).requires_grad_())


@pytest.mark.parametrize("batch", [2, 7])
def test_nt_xent_is_cross_entropy_over_the_others(batch):
    """SimCLR's loss written as the popular implementations do: logits over 2B - 1 others, the partner is the label."""
    z1, z2 = _projections(batch, 1), _projections(batch, 2)
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    similarity = z @ z.T
    others = torch.stack([torch.cat([row[:i], row[i + 1 :]]) for i, row in enumerate(similarity)])
    partner = torch.tensor([i + batch - 1 for i in range(batch)] + list(range(batch)))
    expected = F.cross_entropy(others / 0.07, partner)
    torch.testing.assert_close(objective("simclr").criterion(None, [z1, z2], {}), expected)


def test_nt_xent_on_a_gpu_that_is_pretended_is_that_on_the_cpu():
    views = [_projections(4, 1), _projections(4, 2)]
    with pretended_gpu():
        there = objective("simclr").criterion(None, [z.to(DEVICE) for z in views], {}).cpu()
    assert torch.equal(there, objective("simclr").criterion(None, views, {}))


def test_nt_xent_of_equal_projections_is_chance():
    z = torch.ones(8, 5)
    assert objective("simclr").criterion(None, [z, z], {}).item() == pytest.approx(math.log(15), rel=1e-6)


def test_simsiam_by_hand():
    loss = objective("simsiam")
    model = loss.model().eval()
    z1, z2 = _projections(3, 1).float().repeat(1, 2)[:, :8], _projections(3, 2).float().repeat(1, 2)[:, :8]
    p1, p2 = model.predictor(z1).detach().numpy(), model.predictor(z2).detach().numpy()

    def cosine(a, b):
        return np.mean([x @ y / np.linalg.norm(x) / np.linalg.norm(y) for x, y in zip(a, b, strict=True)])

    expected = -0.5 * cosine(p1, z2.numpy()) - 0.5 * cosine(p2, z1.numpy())
    assert loss.criterion(model, [z1, z2], {}).item() == pytest.approx(expected, abs=1e-6)


def test_simsiams_hidden_layers_have_a_batch_norm_and_simclrs_have_none():
    """Without it SimSiam collapses (Chen and He 2021, Sec. 4.4)."""
    model, plain = objective("simsiam").model(), objective("simclr").model()
    for part in (model.projector, model.predictor):
        assert [type(layer) for layer in part] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
        assert part[1].num_features == part[0].out_features == part[3].in_features == 16
    assert [type(layer) for layer in plain.projector] == [nn.Linear, nn.ReLU, nn.Linear]


@pytest.mark.parametrize(("hidden", "layers"), [(0, [(10, 16)]), (7, [(7, 16), (10, 7)])])
def test_a_head_has_the_hidden_units_that_are_asked_for(hidden, layers):
    model = objective("classification", hidden=hidden).model()
    assert model.encoder.features == 16
    assert [tuple(p.shape) for p in model.head.parameters() if p.dim() == 2] == layers


def test_simsiam_stops_the_gradient_through_targets():
    """With a predictor that ignores its input, nothing reaches the projections."""
    loss = objective("simsiam")
    model = loss.model()
    for parameter in model.predictor.parameters():
        torch.nn.init.constant_(parameter, 0.0)
    torch.nn.init.constant_(model.predictor[-1].bias, 1.0)
    z1, z2 = (z.float().repeat(1, 2)[:, :8].requires_grad_() for z in (_projections(4, 1), _projections(4, 2)))
    gradients = torch.autograd.grad(loss.criterion(model, [z1, z2], {}), [z1, z2])
    assert all(g.abs().max() == 0 for g in gradients)


def test_classification_is_cross_entropy():
    loss = objective("classification")
    model, x, y = loss.model().eval(), torch.rand(6, 3, 8, 8), torch.tensor([0, 1, 2, 3, 4, 9])
    log_p = model.head(model.encoder(x)).log_softmax(1)
    assert loss.loss(model, {"x": x, "y": y}).item() == pytest.approx(-log_p[range(6), y].mean().item(), rel=1e-6)


@pytest.mark.parametrize("name", [name for name, network in ENCODERS.items() if hasattr(network, "classifier")])
def test_a_network_that_has_a_classifier_of_its_own_brings_its_head(name):
    network = partial(ENCODERS[name], channels=1, image_size=28)
    made = OBJECTIVES["classification"](encoder=network, classes=7, channels=1, image_size=28)
    head, own = made.model().head, network().classifier(7)
    assert type(head) is type(own)
    assert [tuple(p.shape) for p in head.parameters()] == [tuple(p.shape) for p in own.parameters()]
    assert [p.shape[0] for p in head.parameters()][-1] == 7


@pytest.mark.parametrize("name", ["classification", "simclr", "simsiam"])
def test_outputs_are_a_row_for_each_image_that_no_other_image_changes(name):
    """So that a method may mix them as it mixes weights."""
    loss = objective(name)
    model = loss.model().eval()
    batch = loss.draw(torch.rand(6, 3, 8, 8), torch.arange(6), torch.Generator().manual_seed(0))
    some = {key: tuple(t[2:4] for t in v) if isinstance(v, tuple) else v[2:4] for key, v in batch.items()}
    for everyones, alone in zip(loss.outputs(model, batch), loss.outputs(model, some), strict=True):
        assert len(everyones) == 6
        torch.testing.assert_close(everyones[2:4], alone)
