"""A search through the workflow, and how what it has chosen comes into use."""

import re
import shutil

import pandas as pd
import pytest
import yaml

from diptych.study import load_study
from tests.checkout import Checkout
from tests.workflow.checks import results

pytestmark = pytest.mark.slow


def _trained(said: str) -> int:
    """How many runs a plan of Snakemake's trains."""
    return sum(int(count) for count in re.findall(r"^ train_\w+ +(\d+)\b", said, re.MULTILINE))


def test_a_search_comes_to_records_that_are_used_when_they_are_copied(tmp_path):
    checkout, study = Checkout(tmp_path / "diptych"), load_study("tiny")
    shutil.rmtree(checkout.path / "config" / "tuned", ignore_errors=True)
    assert _trained(checkout.snakemake("-n", "tables")) == len(study.specs), "no table waits for a trial"
    assert _trained(checkout.snakemake("-n", "tune")) == len(study.trials)
    assert "what was chosen: results/tiny/tuning" in checkout.snakemake("tune")
    assert set(checkout.run("diptych", "runs", "--trials", "--scale", "tiny").split()) == {
        str(file.parent.relative_to(results(checkout) / "runs"))
        for file in (results(checkout) / "runs").rglob("provenance.json")
    }
    file, tuned = results(checkout) / "tuning" / "psfedgan.csv", checkout.path / "config" / "tuned" / "tiny"
    records = pd.read_csv(file)
    records["chosen"] = records["point"].map({"sgd-0.1": "yes", "gan-0.001": "yes"})
    tuned.mkdir(parents=True)
    records.to_csv(tuned / "psfedgan.csv", index=False)
    assert "Nothing to be done" in checkout.snakemake("tune"), "a search does not look at what was chosen"
    for method, chosen in {"fedavg": ("sgd", 0.1), "ps-fedgan": ("adam", 1e-3)}.items():
        run = f"psfedgan/mnist_split-1/{method}/default/2011"
        optimiser = yaml.safe_load(checkout.run("diptych", "spec", run, "--scale", "tiny"))["training"]["optimiser"]
        assert (optimiser["name"], optimiser["lr"]) == chosen
