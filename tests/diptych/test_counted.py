"""What needs no run: parameters by hand, schedules as the engine draws them, and what holds whatever the data."""

import pandas as pd
import pytest

from common.sources import KNOWN
from diptych import propositions
from diptych.cli import main
from diptych.counted import IDENTITIES, measure
from diptych.study import load_study
from diptych.workflow import Workflow
from reporting.claims import findings
from reporting.records import read_records
from tests.mutation import mutated


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> pd.DataFrame:
    file = tmp_path_factory.mktemp("counted") / "records.csv"
    assert main(["count", "--scale", "tiny", "--out", str(file)]) == 0
    return read_records(file)


def test_parameters_are_those_of_table_4_by_hand(counted):
    """MNIST: the generator embeds a label and maps 100 + 10 numbers; test_ps_fedgan.py has both counts."""
    found = counted[counted["metric"] == "parameters"].set_index(["dataset", "method"])["value"].astype(int)
    assert found["mnist", "ps-fedgan"] == 1_470_565
    assert found["mnist", "full-gan"] == 1_489_012 + 1_470_565
    assert set(found.index.get_level_values(0)) == {"mnist", "fmnist", "svhn", "cifar10"}
    assert set(counted[counted["metric"] == "parameters"]["differs"]) == {"network"}, "of which the paper says nothing"


def test_epochs_follow_from_who_is_drawn(counted):
    """Half of 20 clients is 10; half of 15 is 7."""
    epochs = counted[counted["metric"] == "epochs_per_client"].set_index(["dataset", "clients_per_style"])["value"]
    assert set(epochs["office-home", "5"]) == {250}
    assert set(epochs["digit", "10"]) == {250}
    assert epochs["adaptiope", "5"].to_numpy() == pytest.approx(100 * 5 * 7 / 15)


def test_identities_are_counted_where_celebas_lists_are(tmp_path):
    """Three people on four pictures; without the lists nothing is said."""
    for file in KNOWN["celeba"].files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / IDENTITIES).write_text("1.jpg 7\n2.jpg 9\n3.jpg 7\n4.jpg 10177\n")
    for data, expected in ((tmp_path, {3.0}), (tmp_path / "nowhere", set())):
        measure("paper", data, tmp_path / "records.csv")
        assert set(read_records(tmp_path / "records.csv").query("metric == 'identities'")["value"]) == expected


def test_identities_are_counted_again_as_soon_as_they_are_there(tmp_path, monkeypatch):
    """Snakemake does, if this parameter of its rule changes."""
    monkeypatch.setenv("DIPTYCH_DATA", "")  # which a workflow sets
    flow = Workflow({"scale": "tiny", "data": str(tmp_path)})
    before = flow.counted()
    for file in KNOWN["celeba"].files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert flow.counted() == [*before, "identities"]


@pytest.mark.parametrize(
    ("paper", "claim", "verdict"),
    [
        ("fedstyle", "fedstyle-14", "supported"),
        ("psfedgan", "psfedgan-06", "for"),
        ("psfedgan", "psfedgan-07", "for"),
        ("psfedgan", "psfedgan-19", "contradicted"),  # 10 % of CIFAR-10 in Split-3, as the paper's appendix says
        ("psfedgan", "psfedgan-15", "supported"),
        ("fedinb", "fedinb-26", "supported"),
        ("fedinb", "fedinb-27", "supported"),
    ],
)
def test_claims_on_what_is_counted_are_measured_at_every_scale(paper, claim, verdict, counted):
    config = load_study("paper").papers[paper]
    found = {f.claim: f for f in findings(paper, counted, config.claims, config.aliases)}[claim]
    assert found.verdict == verdict


def test_propositions_are_told_for_what_they_are(counted):
    """Of noise, in a table of their own; bins of n + 1 edges are not the samples."""
    found = counted[counted["table"] == "propositions"]
    assert set(found["paper"]) == {"fedinb", "psfedgan"}
    assert set(found["dataset"]) == {"noise"}
    of_bins = found.query("metric == 'theta_max_abs_diff'").set_index("setting")["value"]
    assert of_bins["edges=n"] < 1e-5 < of_bins["edges=n+1"]


@pytest.mark.parametrize(
    ("metric", "broken"),
    [
        ("gradient_max_abs_diff", ("objectives.slices", "gradient", "-2 /", "-1 /")),
        ("theta_max_abs_diff", ("methods.fedinb", "Search", "slices.pseudo_samples(centre, ", "0.9 * centre + 0 * (")),
        ("discriminator_max_abs_diff", ("methods.ps_fedgan", "PSFedGAN", "m.taken += 1", "m.taken += len(self.share)")),
    ],
)
def test_propositions_of_wrong_code_are_caught(metric, broken):
    """Half the gradient; histograms' barycenters drawn to zero; users that train otherwise if they are followed."""
    with mutated(*broken):
        stated = [one for one in propositions.PROPOSITIONS if one.metric == metric]
        assert stated[0].difference() > 1e-5
