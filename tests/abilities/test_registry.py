"""Who has which ability: asked of what an algorithm and its model can do, before a step is taken."""

import pytest

from abilities import Trained
from abilities.registry import ABILITIES, able
from attacks.listeners import listeners
from common.codehash import ROOT
from common.spec import SampleSettings
from diptych.assembly import build_algorithm
from diptych.given import client_data
from diptych.study import load_study
from federation import Simulation
from federation.hooks import pooled
from partitions import partition

ABLE = {
    "fedstyle/digit_1_iid_simclr/fedstyle/default": ["features"],
    "fedstyle/digit_1_iid_simclr/centralized/default": ["features"],
    "padpaf/mnist_eight-clients/padpaf/vae": ["generation", "re-styling"],
    "padpaf/mnist_eight-clients/ditto/default": ["generation"],
    "feddva/mnist_client-marks/feddva/default": ["two codes"],
    "feddva/mnist_client-marks/fedavg/default": [],
    "psfedgan/mnist_setup-1/ps-fedgan/default": ["followed"],
    "psfedgan/mnist_split-1/sda-fl/default": [],
    "psfedgan/mnist_batch-1/fedavg/overheard": ["inverted"],
    "fedinb/rotated-mnist_translation/fedinb/hist": ["translation"],
    "fedinb/rotated-mnist_translation/fedavg/stargan-16": ["translation"],
}
"""Run of scale tiny -> its abilities; none where the specification says that nothing is kept."""


def _at_the_start(run: str, **changes) -> Trained:
    spec = load_study("tiny").specs[f"{run}/2011"].model_copy(update=changes)
    dealt = partition(spec.data, "", spec.seed)
    algorithm = build_algorithm(spec, dealt.classes)
    data, heard = client_data(dealt, pooled(algorithm)), listeners(spec, algorithm)
    return Trained(Simulation(algorithm, data, spec.training, spec.seed, listeners=heard), dealt, spec)


@pytest.mark.parametrize("run", ABLE)
def test_an_ability_is_asked_of_the_algorithm(run):
    assert list(able(_at_the_start(run))) == ABLE[run]


def test_every_ability_is_somebodys_and_on_the_page():
    assert set(ABILITIES) == {name for names in ABLE.values() for name in names} | {"asked"}
    page = (ROOT / "docs" / "run-folder.md").read_text()
    for name, ability in ABILITIES.items():
        (row,) = (line.split("|")[3:6] for line in page.splitlines() if line.startswith(f"| {name} |"))
        left = ability.features, ability.samples, ability.at_the_end
        assert [bool(cell.strip()) for cell in row] == [bool(part) for part in left]


@pytest.mark.parametrize("run", ABLE)
def test_without_features_only_what_is_made_or_inverted_is_left(run):
    left = list(able(_at_the_start(run, features=False)))
    assert left == [name for name in ABLE[run] if name in ("generation", "re-styling", "inverted")]


@pytest.mark.parametrize("run", ABLE)
def test_whoever_sends_weights_may_be_asked_whose_an_image_is(run):
    asked = _at_the_start(run, samples=SampleSettings(members=1), features=False)
    silent = ("centralized", "fedinb/hist")  # it sends projections
    assert ("asked" in able(asked)) == (not any(name in run for name in silent))


@pytest.mark.parametrize("run", [run for run, abilities in ABLE.items() if not abilities])
def test_a_classifier_has_one_code_for_an_image(run):
    assert list(able(_at_the_start(run, features=True))) == ["features"]
