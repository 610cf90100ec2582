"""What is counted without training: parameters by hand, and schedules as the engine draws them."""

import pandas as pd
import pytest

from diptych.cli import main
from diptych.study import load_study
from reporting.claims import findings
from reporting.records import read_records


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


@pytest.mark.parametrize(
    ("paper", "claim", "verdict"),
    [
        ("fedstyle", "fedstyle-14", "supported"),
        ("psfedgan", "psfedgan-06", "for"),
        ("psfedgan", "psfedgan-07", "for"),
        ("psfedgan", "psfedgan-19", "contradicted"),  # 10 % of CIFAR-10 in Split-3, as the paper's appendix says
    ],
)
def test_claims_on_what_is_counted_are_measured_at_every_scale(paper, claim, verdict, counted):
    config = load_study("paper").papers[paper]
    found = {f.claim: f for f in findings(paper, counted, config.claims, config.aliases)}[claim]
    assert found.verdict == verdict
