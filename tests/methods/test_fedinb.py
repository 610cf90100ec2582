"""FedINB's protocol: what it lowers, what it inverts, what it sends."""

import itertools

import pytest
import torch

from common.errors import InputError
from federation import Channel
from methods.inb import INB, Federation


def _data(domains=3, classes=2, n=60, d=8, seed=0):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(domains, classes, n, d, generator=draw, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(domains, 1, d, d, generator=draw, dtype=torch.float64))[0]
    spread = torch.linspace(0.2, 2, d, dtype=torch.float64)
    return (x * spread) @ turn + 2 * torch.randn(domains, 1, 1, d, generator=draw, dtype=torch.float64)


def _fitted(bins=None, x=None, **more):
    channel = Channel()
    settings = {"layers": 3, "directions": 3, "iterations": 25, "bins": bins, **more}
    federation = Federation(_data() if x is None else x, INB(**settings), channel, seed=1)
    return federation, federation.run(), channel


@pytest.mark.parametrize("bins", [None, 20])
def test_layers_bring_domains_together_and_are_inverted(bins):
    x = _data()
    federation, layers, _ = _fitted(bins)
    means = [y.mean(dim=2).std(dim=0).mean() for y in (x, federation.x)]
    assert means[1] < 0.3 * means[0]
    back = federation.x
    for layer in reversed(layers):
        back = layer.inverse(back)
    inside = (back - x).abs().amax(dim=-1)
    assert inside.median() < 1e-3


def test_the_objective_never_falls_and_directions_stay_orthonormal():
    federation, layers, _ = _fitted()
    for layer in layers:
        eye = torch.eye(3, dtype=torch.float64).expand(2, 3, 3)
        torch.testing.assert_close(layer.theta.mT @ layer.theta, eye, atol=1e-6, rtol=0)
    fresh = Federation(_data(), INB(directions=3, iterations=1), Channel(), 1)
    losses = []
    for iterations in (1, 5, 15, 25):
        object.__setattr__(fresh.inb, "iterations", iterations)
        theta = fresh.directions(0)
        losses.append(fresh._objective(0, theta, torch.arange(2))[0])
    assert all((later <= sooner + 1e-12).all() for sooner, later in itertools.pairwise(losses))


def test_with_a_bin_between_any_two_samples_histograms_change_nothing():
    (_, (ours,), _), (_, (theirs,), _) = (_fitted(bins, layers=1, iterations=5) for bins in (None, 59))
    torch.testing.assert_close(ours.theta, theirs.theta, atol=1e-8, rtol=0)


def test_what_is_sent_is_what_the_formula_says():
    """2 J K (d + V) + 2 J' K V + K (B1 + 2) + K (100 + 2) numbers for each layer, class and client; beyond it the first
    theta, slices and barycenter, and the losses."""
    bins, k, d = 20, 3, 8
    federation, _, channel = _fitted(bins)
    sent = {}
    for (_, client, _, name), size in channel.traffic.items():
        if client == 0:
            sent[name] = sent.get(name, 0) + size // 4
    j, extra = int(federation.iterations.sum()), int((federation.trials - federation.iterations).sum())
    edges, classes, layers = bins + 1, 2, 3
    b1 = round((3 * 60) ** 0.5)
    assert sent["gradient"] == j * k * d
    assert sent["theta"] == j * k * d + layers * classes * k * d
    assert sent["slices"] == 2 * (j + extra) * k * edges + 2 * layers * classes * k * edges
    assert sent["histogram"] == layers * classes * k * (b1 + 2)
    assert sent["barycenter"] == layers * classes * k * (100 + 2)


@pytest.mark.parametrize(
    ("x", "more", "sentence"),
    [
        (_data(domains=1), {}, "two domains, got 1"),
        (_data(), {"directions": 9}, "there are 8 dimensions, got 9 directions"),
        (_data(n=1), {}, "two samples of each class, got 1"),
    ],
)
def test_bad_input_gives_one_sentence(x, more, sentence):
    with pytest.raises(InputError, match=sentence):
        _fitted(x=x, **more)
