"""What FedINB's tables and figures are drawn from: counted iterations, objectives, and chosen images."""

from types import SimpleNamespace

import numpy as np
import pytest

from evaluation.extracts import searches
from evaluation.grids import samples
from evaluation.translated import iterations

NOTES = [
    {"round": round, "class": digit, "iteration": 1, "trials": trials, "objective": 0.5}
    for round, digit, trials in ((1, 0, 2.0), (1, 1, 1.0), (2, 0, 4.0), (2, 1, 3.0))
]


def _run(algorithm: dict, notes: list[dict]) -> SimpleNamespace:
    return SimpleNamespace(spec=SimpleNamespace(algorithm=algorithm), table={"notes.csv": notes}.get)


@pytest.mark.parametrize(
    ("algorithm", "setting"),
    [
        ({"name": "fedinb", "iterations": 100}, "j=100;k=10;l=10"),
        ({"name": "fedinb", "directions": 3, "layers": 2}, "j=200;k=3;l=2"),
    ],
)
def test_iterations_are_summed_over_layers(algorithm, setting):
    found = list(iterations(_run(algorithm, NOTES)))
    assert {record["digit"]: record["value"] for record in found} == {"0": 6, "1": 4, "all": 5}
    assert {record["setting"] for record in found} == {setting}


def test_a_run_without_searches_has_none():
    assert not list(iterations(_run({"name": "fedavg"}, [])))
    assert not searches(_run({"name": "fedavg"}, []))


def test_searches_are_what_the_iterations_came_to():
    assert searches(_run({}, NOTES))[2] == {"round": 2, "class": 0, "iteration": 1, "objective": 0.5}


def _translating(labels: list[int]) -> SimpleNamespace:
    """Images that are their index, translated to what is 100 above it."""
    index = np.arange(len(labels), dtype=np.uint8).reshape(-1, 1, 1, 1)
    arrays = {"label/0": np.array(labels), "real/0": index, "translated/0/60": index + 100}
    called = {"method": "fedinb", "variant": "j=200"}
    return SimpleNamespace(labels=called, samples=arrays, snapshots=[0], after=lambda _: arrays)


def test_translations_are_shown_by_class():
    found = samples(_translating([1, 0, 0, 1, 1, 0, 0, 1]))
    assert set(found) == {"fedinb/j=200/real/0", "fedinb/j=200/translated/0/60"}, "and none of earlier layers"
    assert found["fedinb/j=200/real/0"].shape == (3, 2, 1, 1, 1)
    assert found["fedinb/j=200/real/0"][..., 0, 0, 0].tolist() == [[1, 0], [2, 3], [5, 4]]
    assert (found["fedinb/j=200/translated/0/60"] == found["fedinb/j=200/real/0"] + 100).all()


def test_what_translations_ought_to_look_like_is_of_the_same_images():
    run = _translating([1, 0, 0, 1, 1, 0, 0, 1])
    run.samples["counterpart/0/60"] = run.samples["real/0"] + 50
    found = samples(run)
    assert set(found) == {f"fedinb/j=200/{key}" for key in ("real/0", "translated/0/60", "counterpart/0/60")}
    assert (found["fedinb/j=200/counterpart/0/60"] == found["fedinb/j=200/real/0"] + 50).all()


def test_grids_styles_and_the_first_real_images_are_shown_at_the_end_and_after_snapshots():
    arrays = {
        "grid/0": np.zeros(3), "restyle/source": np.ones(2), "client/0/style": np.array("a"),
        "client/0/real": np.arange(50), "client/0/generated": np.zeros(9), "membership/0/members": np.zeros(1),
    }  # fmt: skip
    after = {4: {"grid/0": np.full(3, 4), "client/0/real": np.arange(9)}}
    found = samples(SimpleNamespace(labels={"method": "padpaf"}, samples=arrays, snapshots=[4], after=after.get))
    at_the_end = {f"padpaf/default/{key}" for key in ("grid/0", "restyle/source", "client/0/style", "client/0/real")}
    assert set(found) == at_the_end | {f"padpaf/default/after-4/{key}" for key in after[4]}
    assert found["padpaf/default/client/0/real"].tolist() == list(range(20))
    assert found["padpaf/default/after-4/grid/0"].tolist() == [4, 4, 4]


def test_every_class_has_as_many_rows():
    found = samples(_translating([0, 0, 0, 1]))
    assert found["fedinb/j=200/real/0"][..., 0, 0, 0].tolist() == [[0, 3]]
