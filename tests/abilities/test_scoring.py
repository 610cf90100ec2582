"""Scores on test images, against the model asked image by image; equal models are asked once."""

import dataclasses
from functools import partial
from unittest import mock

import pytest
import torch

from abilities import scoring
from abilities.scoring import scores
from baselines.centralized import Centralized
from baselines.ditto import Ditto
from baselines.fedavg import FedAvg
from baselines.fedavg_server import FedAvgServer
from baselines.fedprox import FedProx
from common.run_folder import RunFolder
from common.spec import DataSettings, Spec
from diptych.given import client_data
from diptych.training import train
from evaluation.generalisation import generalisation
from federation import Simulation
from methods.ps_fedgan import PSFedGAN
from partitions import partition
from tests.digits import objective, trained, training
from tests.mutation import mutated

TWO = {"a": "digits-plain[0::9]", "b": "digits-bold[2::9]"}


def _dealt(**settings):
    data = {
        "image_size": 8,
        "clients_per_style": 3,
        "server_share": 0.1,
        "styles": {"all": "digits-plain[::6]"},
        **settings,
    }
    return partition(DataSettings(dataset="mnist", **data), "", seed=3)


def _trained(kind, dealt, rounds: int = 1) -> Simulation:
    made, asked = kind(objective=objective("classification")), training(rounds=rounds)
    simulation = Simulation(made, client_data(dealt, ""), asked, 7)
    simulation.keep_own()
    simulation.run()
    for name, rows in simulation.population.storage.items():
        if name.endswith("head.bias"):  # what clients keep says a class of its own to all images
            rows += 100 * torch.eye(10)[[0, 1, 8]]
    return simulation


def _by_hand(simulation, dealt, client: int) -> float:
    return _right(simulation.algorithm.personal_model(simulation.synchronised(client)), dealt, client)


@torch.no_grad()
def _right(model, dealt, client: int) -> float:
    """The share of a client's test images that a model is right about."""
    model, right = model.eval(), []
    for index in dealt.tests[client].tolist():
        image = dealt.images[index : index + 1].float() / 255
        right.append(int(model.head(model.encoder(image)).argmax()) == int(dealt.labels[index]))
    return sum(right) / len(right)


def check_scores(kind, ask=scores, **settings) -> int:
    """Every client's accuracy is what its own model says of its own test images; returns how many were asked."""
    dealt = _dealt(**settings)
    simulation = _trained(kind, dealt)
    with mock.patch.object(scoring, "_means", wraps=scoring._means) as asked, torch.no_grad():
        rows = [row for row in ask(trained(simulation, dealt)) if row["client"] >= 0]
        assert [row["value"] for row in rows] == pytest.approx([_by_hand(simulation, dealt, k) for k in range(3)])
    return asked.call_count


def test_equal_models_on_equal_images_are_asked_once():
    assert check_scores(FedAvg) == 1


def test_models_or_images_that_differ_are_asked_each():
    assert check_scores(Ditto) == 3
    assert check_scores(FedAvg, test_images="dealt") == 3


def test_a_client_that_installs_nothing_is_scored_with_its_own_model():
    """FedProx as FedStyle reads it: w_k is only drawn to what the server sends."""
    dealt = _dealt()
    simulation = _trained(partial(FedProx, mu=0.1, reading="fedstyle"), dealt)
    rows = [row for row in scores(trained(simulation, dealt)) if row["client"] >= 0]
    assert [row["value"] for row in rows] == [_right(simulation.own(k), dealt, k) for k in range(3)]
    assert [row["value"] for row in rows] != [_right(simulation.shared_model(k), dealt, k) for k in range(3)]


@pytest.mark.parametrize(("right", "wrong"), [("torch.equal(i, j) and", ""), ("torch.equal(t, b[name])", "True")])
def test_asking_too_little_is_caught(right, wrong):
    def ask() -> None:
        check_scores(Ditto)
        check_scores(FedAvg, test_images="dealt")

    ask()
    with mutated("abilities.scoring", "_alike", right, wrong), pytest.raises(AssertionError):
        ask()


def test_a_server_without_a_model_of_its_own_has_no_scores():
    dealt = _dealt()
    simulation = _trained(FedAvgServer, dealt)
    assert {row["client"] for row in scores(trained(simulation, dealt))} == {0, 1, 2}


# ---- styles that no client has


def _with_an_unseen_style(**settings):
    styles = dict.fromkeys(("0", "90"), "digits-plain[::6]")
    return _dealt(styles=styles, rotations={"90": 90}, unseen=["90"], **settings)


def check_unseen(kind, ask=scores) -> None:
    """Every client's model on the same digits turned, training and test images apart, beside its own test images."""
    dealt = _with_an_unseen_style()
    simulation = _trained(kind, dealt, rounds=5)
    rows = ask(trained(simulation, dealt))
    found = {(row["client"], row["style"], row["part"]): row["value"] for row in rows if row["client"] >= 0}
    expected = {}
    for client in range(3):
        model = simulation.algorithm.personal_model(simulation.synchronised(client)).eval()
        for style, part, indices in (
            ("", "", dealt.test[0]),
            ("90", "train", dealt.train[1]),
            ("90", "test", dealt.test[1]),
        ):
            with torch.no_grad():
                said = model.head(model.encoder(dealt.images[indices].float() / 255)).argmax(dim=1)
            expected[client, style, part] = float((said == dealt.labels[indices]).float().mean())
    assert found == pytest.approx(expected)
    assert len(set(expected.values())) > 2


@pytest.mark.parametrize("kind", [FedAvg, Ditto])
def test_clients_are_scored_on_styles_that_nobody_has(kind):
    check_unseen(kind)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("style not in dealt.seen", "style in dealt.seen"),
        ("dealt.train[style]", "dealt.test[style]"),
        ("dealt.test[style]", "dealt.train[style]"),
    ],
)
def test_scores_on_other_images_are_caught(right, wrong):
    with mutated("abilities.scoring", "_asked", right, wrong), pytest.raises(AssertionError):
        check_unseen(Ditto)


def test_a_pooled_client_is_tested_on_what_clients_have_and_on_what_they_have_not():
    dealt = _with_an_unseen_style()
    simulation = Simulation(
        Centralized(objective=objective("classification")), client_data(dealt, "clients"), training(rounds=1), 7
    )
    simulation.run()
    with mock.patch.object(scoring, "_means", wraps=scoring._means) as asked:
        rows = scores(trained(simulation, dealt))
    assert [(row["client"], row["style"], row["part"]) for row in rows] == [
        (0, "", ""),
        (0, "90", "train"),
        (0, "90", "test"),
    ]
    assert torch.equal(asked.call_args_list[0].args[2].indices, dealt.test[0])


@pytest.mark.parametrize("kind", [Centralized, PSFedGAN])
def test_what_one_model_scores_is_the_mean_over_clients_and_not_over_their_images(kind):
    """Client 0 has six test images, client 1 all others."""
    dealt = partition(DataSettings(dataset="digit", styles=TWO, image_size=8, server_share=0.1), "", seed=3)
    dealt = dataclasses.replace(dealt, test=(dealt.test[0][:6], dealt.test[1]))
    small = {"latent": 6, "width": 8, "synthetic": 20} if kind is PSFedGAN else {}
    algorithm = kind(objective=objective("classification"), **small)
    settings = training(rounds=1, optimiser_state="persistent")
    simulation = Simulation(algorithm, client_data(dealt, "clients" if kind is Centralized else ""), settings, 7)
    simulation.run()
    model = simulation.synchronised(0) if kind is Centralized else simulation.server_work.classifier
    with torch.no_grad():
        said = [model.eval().head(model.encoder(dealt.images[own].float() / 255)) for own in dealt.tests]
    each = [
        float((logits.argmax(dim=1) == dealt.labels[own]).float().mean())
        for logits, own in zip(said, dealt.tests, strict=True)
    ]
    (row,) = [
        row
        for row in scores(trained(simulation, dealt))
        if row["client"] == (0 if kind is Centralized else -1) and row["score"] == "accuracy"
    ]
    assert row["value"] == pytest.approx(sum(each) / 2)


def test_the_cloud_is_scored_on_what_each_client_sees():
    """Both have the same digits, one of them inverted."""
    views = {"a": {"name": "plain"}, "b": {"name": "color-inversion"}}
    settings = {"pool": "together", "styles": dict.fromkeys(views, "digits-plain[::4]"), "views": views}
    dealt = partition(DataSettings(dataset="digit", image_size=8, server_share=0.2, **settings), "", seed=3)
    algorithm = PSFedGAN(objective=objective("classification"), latent=6, width=8, synthetic=20, classifier_epochs=9)
    simulation = Simulation(
        algorithm, client_data(dealt, ""), training(rounds=1, optimiser_state="persistent", local_epochs=0.1), 7
    )
    simulation.run()
    model, x = simulation.server_work.classifier.eval(), dealt.images[dealt.test[0]].float() / 255
    with torch.no_grad():
        seen = [view(x, torch.Generator()) for view in dealt.views]
        said = [model.head(model.encoder(images)).argmax(dim=1) for images in seen]
    plain, inverted = (float((answers == dealt.labels[dealt.test[0]]).float().mean()) for answers in said)
    (row,) = [row for row in scores(trained(simulation, dealt)) if (row["client"], row["score"]) == (-1, "accuracy")]
    assert plain > inverted + 0.1
    assert row["value"] == pytest.approx((plain + inverted) / 2)


def test_an_unseen_style_is_seen_as_its_view_shows_it():
    dealt = _with_an_unseen_style(views={"90": {"name": "color-inversion"}})
    simulation = _trained(FedAvg, dealt, rounds=5)
    plain = _with_an_unseen_style()
    (value,) = {row["value"] for row in scores(trained(simulation, dealt)) if row["part"] == "test"}
    model = simulation.synchronised(0).eval()
    with torch.no_grad():
        said = model.head(model.encoder(1 - plain.images[plain.test[1]].float() / 255)).argmax(dim=1)
    assert value == pytest.approx(float((said == plain.labels[plain.test[1]]).float().mean()))


def test_a_run_leaves_scores_of_unseen_styles_in_its_table(tmp_path):
    spec = Spec(
        run="p/c/fedavg/default/3",
        scale="tiny",
        seed=3,
        data={
            "dataset": "rotated-digits",
            "styles": dict.fromkeys(("0", "45", "90"), "digits-plain[::6]"),
            "rotations": {"45": 45, "90": 90},
            "unseen": ["90"],
            "image_size": 8,
        },
        network={"name": "dirt"},
        objective={"name": "classification"},
        algorithm={"name": "fedavg"},
        training={"rounds": 4, "local_steps": 3, "batch_size": 16},
        score_every=2,
        features=False,
    )
    train(spec, tmp_path, "")
    rows = RunFolder(tmp_path).table("scores.csv")
    assert len(rows) == 2 * 2 * (1 + 2)
    assert {(row["round"], row["style"], row["part"]) for row in rows} == {
        (n, *of) for n in (2, 4) for of in (("", ""), ("90", "train"), ("90", "test"))
    }
    found = {(r["domain"], r["protocol"], r["setting"]) for r in generalisation(RunFolder(tmp_path))}
    assert found == {("90", p, s) for p in ("", "test-images") for s in ("", "rounds=2", "rounds=4")}
