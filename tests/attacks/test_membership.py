"""Membership by the model that was last sent: its own loss, of each image, and right where a model has overfitted."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from abilities import Trained
from abilities.overheard import _alike
from attacks.membership import COMPANY, Membership, says
from baselines.fedavg import FedAvg
from common.run_folder import RunFolder
from common.spec import SampleSettings, Spec
from diptych.assembly import build_algorithm
from diptych.given import client_data
from diptych.training import train
from evaluation.privacy import membership
from federation import Message, Names, Phase, Simulation, Update, everything, names
from networks.spectral import SNLinear
from objectives.classification import Classification
from partitions import partition
from tests.attacks.overheard import LABELS, images, objective
from tests.mutation import mutated


def _spec(name: str = "fedavg", rounds: int = 1, members: int = 40, **more) -> Spec:
    return Spec(
        run="x",
        scale="tiny",
        seed=3,
        data={
            "dataset": "digit",
            "styles": {"all": "digits-photo[::3]", "other": "digits-photo[1::3]"},
            "image_size": 8,
            "at_most": 40,
        },
        **{
            "network": {"name": "mcmahan-2nn"},
            "objective": {"name": "classification"},
            "algorithm": {"name": name},
            "training": {"rounds": rounds, "batch_size": 40, "local_epochs": 150, "optimiser": {"lr": 0.1}},
            "features": False,
            "samples": {"members": members},
            **more,
        },
    )


def _areas(spec: Spec, folder) -> dict[str, float]:
    assert train(spec, folder / "run", "") == "ok"
    rows = membership(RunFolder(folder / "run"))
    return {r["client"]: r["value"] for r in rows if r["metric"] == "membership_auc" and "client" in r}


def _sends(back: dict[str, torch.Tensor]) -> Membership:
    """Who has heard the fifth client send this."""
    wiretap = Membership()
    wiretap(Message(1, "down", (5,), {}))
    wiretap(Message(1, "up", (5,), {name: t[None] for name, t in back.items()}))
    return wiretap


COMPANIONS = images(COMPANY), torch.zeros(COMPANY, dtype=torch.long)


def _said(y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What a model says of four images, and minus the cross-entropy of each by hand."""
    torch.manual_seed(0)
    made, x = objective(), images(4)
    begun, sent = made.model(), made.model().state_dict()
    wiretap = Membership()
    for round in (1, 2):
        down = {name: torch.zeros_like(t) for name, t in sent.items()}
        wiretap(Message(round, "down", (5,), down))
        wiretap(Message(round, "up", (5,), {name: t[None] * (round - 1) for name, t in sent.items()}))
    found = says(FedAvg(objective=made), wiretap, 5, begun, (x, y), COMPANIONS, None, 1)
    begun.load_state_dict(sent)
    with torch.no_grad():
        whole = begun.head(begun.encoder(torch.cat([x, COMPANIONS[0]])))
        own = -F.cross_entropy(whole[:4], y, reduction="none")
        rest = -F.cross_entropy(whole[4:], COMPANIONS[1], reduction="sum")
    return found, (own + rest) / (1 + COMPANY), own


def test_a_score_is_minus_the_loss_by_what_was_sent_last():
    found, by_hand, _ = _said(LABELS)
    torch.testing.assert_close(found, by_hand)


def test_and_is_in_the_order_of_the_images_own():
    found, _, own = _said(LABELS)
    assert found.argsort().tolist() == own.argsort().tolist()


def test_members_of_an_overfitted_model_are_told(tmp_path):
    assert all(area > 0.75 for area in _areas(_spec(), tmp_path).values())


def test_and_are_not_where_nothing_was_learned(tmp_path):
    spec = _spec(training={"rounds": 1, "local_steps": 1, "batch_size": 20, "optimiser": {"lr": 1e-6}})
    assert all(0.2 < area < 0.8 for area in _areas(spec, tmp_path).values())


def test_a_score_the_wrong_way_round_is_caught(tmp_path):
    with mutated("attacks.membership", "says", "return -losses", "return losses", where="abilities.overheard"):
        assert all(area < 0.25 for area in _areas(_spec(), tmp_path).values())


@pytest.mark.parametrize("name", ["simclr", "simsiam", "vae", "gan"])
def test_every_objective_says_something_of_each_image(name, tmp_path):
    network = {"name": "conv3", "width": 4}
    training = {"rounds": 1, "local_steps": 1, "batch_size": 20, "optimiser": {"lr": 0.01}}
    sizes = {"latent": 8, "width": 8} if name in ("vae", "gan") else {}
    if name == "gan":
        sizes["discriminator_steps"] = 1
    spec = _spec(network=network, objective={"name": name, **sizes}, training=training, members=5)
    assert train(spec, tmp_path / "run", "") == "ok"
    for scores in (RunFolder(tmp_path / "run").samples[f"membership/0/{who}"] for who in ("members", "others")):
        assert len(np.unique(scores)) == len(scores) == 5


class _OfAStyle(Classification):
    def criterion(self, model, outputs, batch):
        """What is said of each image's style, as if that were its class."""
        return F.cross_entropy(outputs[0], batch["style"])


def test_each_image_is_asked_about_with_as_many_others_as_there_are_all_of_its_style():
    torch.manual_seed(0)
    made, x = _OfAStyle(**vars(objective())), images(4)
    begun, company = made.model(), (images(6)[4:], torch.zeros(2, dtype=torch.long))
    found = says(FedAvg(objective=made), _sends(begun.state_dict()), 5, begun, (x, LABELS), company, 7, 1)
    with torch.no_grad():
        said = F.log_softmax(begun.head(begun.encoder(torch.cat([x, company[0]]))), dim=1)[:, 7]
    torch.testing.assert_close(found, (said[:4] + said[4:].sum()) / 3)


def test_others_are_test_images_of_the_clients_style_as_many_of_each_label():
    """Where labels are skewed as well: a model knows best what its client has most of, member or not."""
    spec = _spec()
    skewed = {"deal": {"name": "dirichlet", "beta": 0.3}, "clients_per_style": 2, "at_most": 100}
    dealt = partition(spec.data.model_copy(update=skewed), "", spec.seed)
    trained = Trained(Simulation(build_algorithm(spec, 10), client_data(dealt, ""), spec.training, 3), dealt, spec)
    for user, style in enumerate(dealt.client_styles):
        asked = _alike(trained, user)
        assert set(asked["members"].tolist()) <= set(dealt.clients[user].tolist())
        assert set(asked["others"].tolist()) <= set(dealt.test[style].tolist())
        assert dealt.labels[asked["members"]].tolist() == dealt.labels[asked["others"]].tolist()
        assert len(asked["members"]) == len(set(asked["others"].tolist())) == 40


def test_by_default_nobody_asks(tmp_path):
    spec = _spec(members=0)
    assert train(spec, tmp_path / "run", "") == "ok"
    assert not (tmp_path / "run" / "samples.npz").exists()
    assert spec.samples == SampleSettings()
    assert spec.digest == _spec(samples={}).digest != _spec().digest


def _by_statistics(travelled: bool) -> torch.Tensor:
    """What a model says whose client began with statistics under which no number is of use."""
    torch.manual_seed(0)
    made, x = objective(network="conv3"), images(4)
    begun, sent = made.model(), made.model().state_dict()
    for name, tensor in begun.state_dict().items():
        if name.endswith("running_var"):
            tensor.fill_(1e-30)
    wiretap = _sends({name: t for name, t in sent.items() if travelled or "running" not in name})
    found = says(FedAvg(objective=made), wiretap, 5, begun, (x, LABELS), COMPANIONS, None, 1)
    begun.load_state_dict(sent)
    begun.train(not travelled)
    y = [torch.cat([one[None], COMPANIONS[1]]) for one in LABELS]
    batches = [torch.cat([one[None], COMPANIONS[0]]) for one in x]
    with torch.no_grad():
        by_hand = [F.cross_entropy(begun.head(begun.encoder(b)), own) for b, own in zip(batches, y, strict=True)]
    torch.testing.assert_close(found, -torch.stack(by_hand))
    return found


def test_batch_norms_whose_statistics_stay_take_those_of_the_images_asked_about():
    assert (_by_statistics(travelled=False) - _by_statistics(travelled=True)).abs().max() > 1e-3


class _Divided(nn.Module):
    """A layer whose weight is divided by its largest singular value."""

    features = 5

    def __init__(self) -> None:
        super().__init__()
        self.layer = SNLinear(64, 5)

    def forward(self, x):
        return self.layer(x.flatten(1))


def test_weights_are_divided_by_a_largest_singular_value_of_their_own_whatever_was_begun_with():
    torch.manual_seed(0)
    made, x = dataclasses.replace(objective(), encoder=_Divided), images(4)
    begun, sent = made.model(), dict(made.model().named_parameters())
    u, _, v = torch.linalg.svd(sent["encoder.layer.weight"].detach(), full_matrices=False)
    sent["encoder.layer.weight"] = weight = u @ torch.tensor([8.0, 4.0, 2.0, 1.0, 0.5]).diag() @ v
    found = says(FedAvg(objective=made), _sends(sent), 5, begun, (x, LABELS), COMPANIONS, None, 1)
    with torch.no_grad():
        h = F.linear(torch.cat([x, COMPANIONS[0]]).flatten(1), weight / 8, sent["encoder.layer.bias"])
        logits = F.linear(h, sent["head.weight"], sent["head.bias"])
    losses = F.cross_entropy(logits, torch.cat([LABELS, COMPANIONS[1]]), reduction="none")
    torch.testing.assert_close(found, -(losses[:4] + losses[4:].sum()) / (1 + COMPANY))


def _brightness(which: Names, times: float) -> Update:
    return Update(which, lambda m, batch: times * batch["x"].mean())


class _OfFourLosses(FedAvg):
    """1 and 10 times a batch's brightness move what is sent, 100 and 1,000 times what is not."""

    shared = names("encoder")

    def phases(self) -> list[Phase]:
        return [
            Phase([_brightness(names("encoder"), 1), _brightness(names("head"), 100)]),
            Phase([_brightness(everything, 1000)], only=names("head")),
            Phase([_brightness(everything, 10)]),
        ]


def test_a_score_is_of_the_sum_of_losses_that_move_what_was_sent():
    made, x = objective(), images(4)
    begun = made.model()
    sent = {name: t for name, t in begun.state_dict().items() if name.startswith("encoder.")}
    found = says(_OfFourLosses(objective=made), _sends(sent), 5, begun, (x, LABELS), COMPANIONS, None, 1)
    bright = torch.stack([(image.mean() + 7 * COMPANIONS[0].mean()) / 8 for image in x])
    torch.testing.assert_close(found, -11 * bright)


def test_what_a_loss_draws_is_of_the_seed_and_the_same_for_all_images():
    made = objective("vae", "conv3")
    begun = made.model()
    wiretap, asked = _sends(begun.state_dict()), (images(1).repeat(2, 1, 1, 1), LABELS[:2])

    def scores(seed: int) -> torch.Tensor:
        torch.seed()
        return says(FedAvg(objective=made), wiretap, 5, begun, asked, COMPANIONS, None, seed)

    once, again, other = scores(1), scores(1), scores(2)
    assert torch.equal(once, again)
    assert once[0] == once[1] != other[0]
