"""The whole workflow at a tiny scale, as a user runs it."""

import os
import re
import signal
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml
from safetensors.torch import load_file

from diptych.study import load_study
from tests.checkout import Checkout
from tests.digits import same

pytestmark = pytest.mark.slow

EVERYTHING = ("tables", "figures", "claims")


def _jobs(said: str) -> dict[str, int]:
    """How many jobs of each rule Snakemake has planned."""
    return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", said, re.MULTILINE) if rule != "total"}


def _results(checkout: Checkout) -> Path:
    return checkout.path / "results" / "tiny"


# ---- what comes out


def test_every_table_figure_and_claim_comes_out(finished):
    study = load_study("tiny")
    for paper, config in study.papers.items():
        for table in config.tables:
            for form in ("md", "csv", "tex"):
                assert (_results(finished) / "tables" / f"{paper}-{table}.{form}").stat().st_size
        for figure in config.figures:
            for form in ("png", "pdf", "svg"):
                assert (_results(finished) / "figures" / f"{paper}-{figure}.{form}").stat().st_size
        assert (_results(finished) / "claims" / f"{paper}.md").stat().st_size


def test_every_rule_has_trained_its_own_method(finished):
    folders = [file.parent for file in (_results(finished) / "runs").rglob("provenance.json")]
    assert {str(folder.relative_to(_results(finished) / "runs")) for folder in folders} == set(load_study("tiny").specs)
    for folder in folders:
        spec = yaml.safe_load((folder / "spec.yaml").read_text())
        assert spec["algorithm"]["name"] == folder.parts[-3]
        assert spec["run"].split("/") == list(folder.parts[-5:])


def test_every_record_says_where_it_comes_from(finished):
    records = pd.read_csv(_results(finished) / "records.csv", dtype=str, keep_default_na=False)
    for column in (
        "run",
        "scale",
        "seed",
        "code",
        "spec",
        "sources_sha256",
        "versions",
        "hardware",
        "wall_s",
        "metric",
    ):
        assert (records[column] != "").all(), column
    assert set(records["dirty"]) <= {"True", "False"}


# ---- what is done again, and what is not


def test_there_is_nothing_left_to_do(finished):
    assert "Nothing to be done" in finished.snakemake(*EVERYTHING)


def test_a_changed_algorithm_is_trained_again_and_no_other(finished):
    file = finished.path / "baselines" / "fedprox.py"
    before = file.read_text()
    file.write_text(before + "\n# a comment changes nothing\n")
    assert "Nothing to be done" in finished.snakemake("-n", *EVERYTHING)
    file.write_text(before.replace("self.mu / 2", "self.mu / 3"))
    assert file.read_text() != before
    jobs = _jobs(finished.snakemake("-n", *EVERYTHING))
    file.write_text(before)
    assert [rule for rule in jobs if rule.startswith("train")] == ["train_fedprox"]
    assert jobs["evaluate"] == len(list((_results(finished) / "records").glob("*/fedprox.csv"))), "once in each paper"
    assert "extract" not in jobs


def test_a_changed_setting_of_one_method_trains_it_again_and_no_other(finished):
    file = finished.path / "config" / "papers" / "fedstyle.yaml"
    before = file.read_text()
    file.write_text(before.replace("ditto: {algorithm: {mu: 2.0,", "ditto: {algorithm: {mu: 1.0,"))
    assert file.read_text() != before
    jobs = _jobs(finished.snakemake("-n", *EVERYTHING))
    file.write_text(before)
    assert [rule for rule in jobs if rule.startswith("train")] == ["train_ditto"]


def test_a_changed_evaluation_trains_nothing(finished):
    file = finished.path / "evaluation" / "probe.py"
    before = file.read_text()
    file.write_text(before.replace("likeliest == y_test", "likeliest != y_test"))
    assert file.read_text() != before
    jobs = _jobs(finished.snakemake("-n", *EVERYTHING))
    file.write_text(before)
    assert jobs["evaluate"]
    assert not [rule for rule in jobs if rule.startswith("train")]


@pytest.mark.parametrize("target", ["results/tiny/figures/fedstyle-figure5.png", "fedstyle_figure5"])
def test_one_figure_is_one_plotting_job(finished, target):
    for form in ("png", "pdf", "svg"):
        (_results(finished) / "figures" / f"fedstyle-figure5.{form}").unlink(missing_ok=True)
    jobs = _jobs(finished.snakemake(target))
    assert jobs.pop("figure") == 1
    assert set(jobs) <= {"fedstyle_figure5"}


@pytest.mark.parametrize("data", ["fedstyle-figure5.class-counts.csv", "padpaf-figure16.samples.npz"])
def test_drawing_a_figure_imports_no_torch(finished, tmp_path, data):
    source = _results(finished) / "figures" / "data" / data
    figure = data.partition(".")[0]
    arguments = ["figure", figure, "--scale", "tiny", "--data", str(source), "--out", f"{tmp_path}/drawn.png"]
    program = f"import sys; from diptych.cli import main; main({arguments}); print('torch' in sys.modules)"
    assert finished.run("python", "-c", program).strip() == "False"
    assert (tmp_path / "drawn.png").stat().st_size


def test_a_changed_judge_is_trained_again_and_no_run(finished):
    file = finished.path / "config" / "scales" / "tiny.yaml"
    before = file.read_text()
    file.write_text(before.replace("judge: {width: 4,", "judge: {width: 5,"))
    assert file.read_text() != before
    jobs = _jobs(finished.snakemake("-n", *EVERYTHING))
    file.write_text(before)
    assert jobs["judge"] == len(list((_results(finished) / "judges").rglob("*.safetensors")))
    assert not [rule for rule in jobs if rule.startswith("train")]


def test_new_clients_wait_for_the_run_that_they_start_from(finished):
    """If that one was trained again, so are they."""
    folder = _results(finished) / "runs" / "padpaf" / "mnist_eight-clients" / "padpaf" / "conditional" / "2011"
    file = folder / "provenance.json"
    before, times = file.read_bytes(), file.stat()
    file.write_bytes(before + b"\n")  # another file than before: a newer date alone is no reason to train again
    said = finished.snakemake("-n", *EVERYTHING)
    file.write_bytes(before)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "train padpaf/mnist_new-clients/padpaf/conditional/2011" in said
    assert "train padpaf/mnist_eight-clients/padpaf/conditional/2011" not in said
    assert "Nothing to be done" in finished.snakemake("-n", *EVERYTHING)


def test_any_number_of_cores_gives_the_same_tables(finished, tmp_path):
    other = Checkout(tmp_path / "diptych")
    other.snakemake(*EVERYTHING, cores=8)
    for kind in ("tables", "claims", "figures"):
        names = sorted(file.name for file in (_results(finished) / kind).iterdir() if file.is_file())
        assert names == sorted(file.name for file in (_results(other) / kind).iterdir() if file.is_file())
        for name in names:
            ours, theirs = ((_results(c) / kind / name).read_bytes() for c in (finished, other))
            assert ours == theirs, name


# ---- interrupted, and misled


def test_killed_and_run_again_gives_what_never_stopping_gives(finished, tmp_path):
    spec = yaml.safe_load(next((_results(finished) / "runs").rglob("fedstyle/default/*/spec.yaml")).read_text())
    spec["training"] |= {"rounds": 40}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    train = ("diptych", "train", str(tmp_path / "spec.yaml"), "--checkpoint-every", "0", "--out")
    finished.run(*train, str(tmp_path / "whole"))
    process, checkpoint = finished.start(*train, str(tmp_path / "killed")), tmp_path / "killed" / "checkpoint.pt"
    while not checkpoint.exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "provenance.json").exists()
    assert "goes on after round" in finished.run(*train, str(tmp_path / "killed"))
    whole, killed = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert same(whole, killed)
    for name in ("features.npz", "history.csv", "traffic.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()
    assert not checkpoint.exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("scael=tiny", ["--config", "'scael'", "did you mean 'scale'"]),
        ("scale=tinny", ["scale", "'tinny'", "did you mean 'tiny'"]),
        ("gpus=many", ["gpus", "'many'"]),
    ],
)
def test_a_wrong_setting_ends_with_one_sentence(finished, setting, words):
    said = finished.run("snakemake", "--cores", "1", "tables", "--config", setting, fails=True)
    assert "Traceback" not in said
    line = next(line for line in said.splitlines() if words[0] in line and words[1] in line)
    assert all(word in line for word in words)


def test_a_figure_that_there_is_not_is_refused(finished):
    assert "fedstyle_figure99" in finished.snakemake("fedstyle_figure99", fails=True)
