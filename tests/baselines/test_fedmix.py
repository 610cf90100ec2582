"""NaiveMix and FedMix: what is exchanged, the loss by hand, FedMix against mixup itself."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from baselines.fedavg import FedAvg
from baselines.fedmix import FedMix
from baselines.naivemix import NaiveMix
from federation import ClientData
from federation.channel import Message
from objectives.objective import Model
from tests.digits import announcements, data, objective, same, simulate
from tests.mutation import mutated


class _Smooth(nn.Module):
    """An encoder with curvature and without batch norm, so that every image is on its own."""

    features = 6

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3 * 8 * 8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(x.flatten(1)))


def _objective():
    return objective("classification", lambda **_: _Smooth())


def _made(kind, **settings):
    return kind(objective=_objective(), **settings)


def _case(seed: int = 0):
    draw = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model: Model = _objective().model().double()
    told = {
        "image": torch.rand(3, 3, 8, 8, generator=draw).double(),
        "label": torch.rand(3, 10, generator=draw).double(),
    }
    told["label"] /= told["label"].sum(dim=1, keepdim=True)
    model.__dict__["announced"] = told
    batch = {
        "x": torch.rand(7, 3, 8, 8, generator=draw).double(),
        "y": torch.randint(10, (7,), generator=draw),
        "other": torch.tensor([4, 0, 2, 1, 1, 0, 5]),  # 4 is client 1 of 3
    }
    return model, batch, told


def _mixup(model, batch, told, lam: float) -> torch.Tensor:
    """Mixup with a client's mean: what NaiveMix does, and FedMix approximates for small lambda."""
    logits = model.head(model.encoder((1 - lam) * batch["x"] + lam * told["image"][1]))
    soft = -(told["label"][1] * logits.log_softmax(dim=1)).sum(dim=1).mean()
    return (1 - lam) * F.cross_entropy(logits, batch["y"]) + lam * soft


def check_naivemix(kind) -> None:
    model, batch, told = _case()
    for lam in (0.0, 0.1, 0.7):
        torch.testing.assert_close(_made(kind, lam=lam).mixed_loss(model, batch), _mixup(model, batch, told, lam))


def check_fedmix(kind) -> None:
    """The difference to mixup falls as lambda^2: by 100 for a tenth of lambda; so does that of the gradients."""
    model, batch, told = _case()
    leaves = list(model.parameters())
    errors, slopes = [], []
    for lam in (0.1, 0.01, 0.001):
        exact, ours = _mixup(model, batch, told, lam), _made(kind, lam=lam).mixed_loss(model, batch)
        errors.append(float((exact - ours).abs().detach()))
        gradients = (torch.autograd.grad(loss, leaves) for loss in (exact, ours))
        slopes.append(float(sum((a - b).abs().sum() for a, b in zip(*gradients, strict=True))))
    for found in (errors, slopes):
        assert found[1] < 0.02 * found[0]
        assert found[2] < 0.02 * found[1]


def test_naivemix():
    check_naivemix(NaiveMix)


def test_fedmix():
    check_fedmix(FedMix)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("along.sum() if", "along.mean() if"),
        ("((1 - self.lam) * batch", "(batch"),
        ("+ self.lam * taylor", "- self.lam * taylor"),
        ("create_graph=True", "create_graph=False"),
        ("+ self.lam * F.cross_entropy(logits, labels)", ""),
    ],
)
def test_a_wrong_fedmix_is_caught(right, wrong):
    with mutated("baselines.fedmix", "FedMix", right, wrong) as mutant, pytest.raises((AssertionError, RuntimeError)):
        check_fedmix(mutant)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(1 - self.lam) * batch", "batch"),
        ('batch["other"][0] %', 'batch["other"][1] %'),
        ("+ self.lam * F.cross_entropy(logits, labels)", '+ self.lam * F.cross_entropy(logits, batch["y"])'),
    ],
)
def test_a_wrong_naivemix_is_caught(right, wrong):
    with mutated("baselines.naivemix", "NaiveMix", right, wrong) as mutant, pytest.raises(AssertionError):
        check_naivemix(mutant)


def test_the_public_reading_has_a_smaller_taylor_term():
    model, batch, _ = _case()
    plain = _made(FedMix, lam=0.2)
    losses = [_made(FedMix, lam=0.2, reading=reading).mixed_loss(model, batch) for reading in ("canonical", "public")]
    rest = losses[1] - (losses[0] - losses[1]) / 6  # canonical = rest + t, public = rest + t / 7
    image, labels = plain.others(model, batch)
    x = (0.8 * batch["x"]).requires_grad_()
    logits = model.head(model.encoder(x))
    own = 0.8 * F.cross_entropy(logits, batch["y"])
    (slope,) = torch.autograd.grad(own, x, retain_graph=True)
    torch.testing.assert_close(losses[0] - rest, 0.2 * (slope * image).sum())
    torch.testing.assert_close(rest, own + 0.2 * F.cross_entropy(logits, labels))


@pytest.mark.parametrize("kind", [NaiveMix, FedMix])
def test_without_weight_it_is_fedavg(kind):
    """Not bit by bit: batches are drawn in other numbers."""
    mixed, plain = (simulate(_made(k, **s), rounds=1, local_epochs=1) for k, s in ((kind, {"lam": 0.0}), (FedAvg, {})))
    assert same(mixed.server.tensors, plain.server.tensors)


@pytest.mark.parametrize("kind", [NaiveMix, FedMix])
def test_a_client_that_lacks_the_last_classes_tells_that_it_has_none_of_them(kind):
    told = _made(kind).announced(None, torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 1, 2]), torch.Generator())
    assert told["label"].tolist() == [0.25, 0.5, 0.25] + [0.0] * 7


@pytest.mark.parametrize("kind", [NaiveMix, FedMix])
def test_means_cross_the_channel_once_and_reach_everybody(kind):
    heard: list[Message] = []
    everyone, simulation = data(), simulate(_made(kind), listeners=[heard.append])
    up, down = announcements(heard)
    for k, indices in enumerate(everyone.clients):
        image = everyone.images[indices].float().div(255).mean(dim=0)
        label = torch.bincount(everyone.labels[indices], minlength=10) / len(indices)
        torch.testing.assert_close(up.tensors["announced.image"][k], image)
        torch.testing.assert_close(up.tensors["announced.label"][k], label)
    size = up.tensors["announced.image"][0].nbytes + up.tensors["announced.label"][0].nbytes
    sent = dict.fromkeys(("up", "down"), 0)
    for (round, _, way, _), n in simulation.channel.traffic.items():
        sent[way] += n if round == 0 else 0
    assert sent == {"up": 3 * size, "down": 9 * size}
    for member in simulation.population.members:
        assert torch.equal(member.announced["image"], down.tensors["announced.image"])


@pytest.mark.parametrize("lam", [-0.1, 1.1])
@pytest.mark.parametrize("kind", [NaiveMix, FedMix])
def test_the_weight_is_a_share(kind, lam):
    with pytest.raises(ValueError, match="than or equal to"):
        _made(kind, lam=lam)


def test_means_are_of_images_as_their_client_sees_them():
    everyone = data()
    dark = ClientData(everyone.images, everyone.labels, everyone.clients, views=(lambda x, g: 0 * x,) * 3)
    simulation = simulate(_made(NaiveMix), dark, rounds=1)
    assert not simulation.population.members[0].announced["image"].any()
