"""The main path, as a user takes it: the workflow at a scale `tiny` that is cut down to one run of each kind."""

import os
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from common.spec import read_yaml
from diptych.configuration import merged
from tests.checkout import Checkout
from tests.workflow.checks import check_records, check_runs, results

TABLES = (
    "fedstyle-table1",
    "padpaf-generation",  # in the eyes of a judge
    "feddva-disentanglement",
    "psfedgan-attackers",
    "fedinb-translation",
)
CLAIMS = ("fedstyle", "padpaf", "feddva", "psfedgan", "fedinb")
FIGURES = {
    "fedstyle-figure4": "style-map",
    "fedstyle-figure5": "class-counts",
    "padpaf-figure3": "points",
    "padpaf-figure13": "samples",
    "feddva-figure5": "code-map",
    "psfedgan-figure5": "records",
    "fedinb-figure15": "searches",
}
"""One of each kind of data that figures are drawn from."""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Checkout:
    """A checkout in which every run of the cut has been trained and measured, and the above been made of it."""
    checkout = Checkout(tmp_path_factory.mktemp("made") / "diptych")
    tiny = checkout.path / "config" / "scales" / "tiny.yaml"
    tiny.write_text(yaml.safe_dump(merged(read_yaml(tiny), read_yaml(Path(__file__).parent / "cut.yaml"))))
    checkout.snakemake(*_everything())
    return checkout


def _everything() -> list[str]:
    tables = [f"results/tiny/tables/{table}.md" for table in TABLES]
    return [*tables, *(figure.replace("-", "_") for figure in FIGURES), "claims", "results/tiny/records.csv"]


def _planned(checkout: Checkout, *targets: str) -> dict[str, int]:
    """How many jobs of each rule Snakemake would run for these targets, or for all."""
    said = checkout.snakemake("-n", *(targets or _everything()))
    return {rule: int(count) for rule, count in re.findall(r"^ (\w+) +(\d+)\b", said, re.MULTILINE)}


def _trained(jobs: dict[str, int]) -> set[str]:
    return {rule.removeprefix("train_") for rule in jobs if rule.startswith("train")}


# ---- what comes out


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_measured_cells(table, made):
    cells = pd.read_csv(results(made) / "tables" / f"{table}.csv")
    assert cells["ours"].notna().any()
    for form in ("md", "tex"):
        assert (results(made) / "tables" / f"{table}.{form}").stat().st_size


def test_every_figure_is_drawn_in_every_format(made):
    for figure in FIGURES:
        for form in ("png", "pdf", "svg"):
            assert (results(made) / "figures" / f"{figure}.{form}").stat().st_size


@pytest.mark.parametrize("paper", CLAIMS)
def test_claims_have_a_verdict(paper, made):
    assert pd.read_csv(results(made) / "claims" / f"{paper}.csv")["verdict"].notna().all()
    assert (results(made) / "claims" / f"{paper}.md").stat().st_size


def test_a_report_can_be_made_of_what_is_there(made, tmp_path):
    made.run("diptych", "report", "results/tiny", "--out", str(tmp_path / "report.html"))
    page = (tmp_path / "report.html").read_text()
    for name in (*TABLES, *FIGURES):
        assert f'id="{name}' in page


def test_every_run_is_trained_by_its_own_method_and_measured(made):
    check_runs(made)


def test_every_record_says_where_it_comes_from(made):
    check_records(made)


def test_a_run_is_the_same_by_hand(made, tmp_path):
    """A job is forked from a process that has imported everything; by hand it is a process of its own."""
    folder = next((results(made) / "runs").glob("psfedgan/*/ps-fedgan/default/2011"))
    made.run("diptych", "train", str(folder / "spec.yaml"), "--out", str(tmp_path))
    for file in ("model.safetensors", "samples.npz", "history.csv", "traffic.csv"):
        assert (tmp_path / file).read_bytes() == (folder / file).read_bytes(), file


# ---- what is done again, and what is not


def _edited(file: Path, old: str, new: str, checkout: Checkout) -> dict[str, int]:
    """The jobs that are planned after an edit, which is undone."""
    before = file.read_text()
    assert old in before
    file.write_text(before.replace(old, new))
    try:
        return _planned(checkout)
    finally:
        file.write_text(before)


def test_there_is_nothing_left_to_do_and_a_comment_changes_nothing(made):
    file = made.path / "baselines" / "fedavg.py"
    before = file.read_text()
    file.write_text(before + "\n# a comment\n")
    assert "Nothing to be done" in made.snakemake(*_everything())
    file.write_text(before)


def test_a_changed_algorithm_is_trained_again_and_no_other(made):
    file = made.path / "baselines" / "fedavg.py"
    jobs = _edited(file, "self.objective.updates()", "list(self.objective.updates())", made)
    assert _trained(jobs) == {"fedavg"}
    assert jobs["evaluate"] == len(list((results(made) / "records").glob("*/fedavg.csv"))), "once in each paper"
    assert "extract" not in jobs


def test_a_changed_setting_of_one_method_trains_it_again_and_no_other(made):
    jobs = _edited(made.path / "config" / "papers" / "fedinb.yaml", "weight: 2.0", "weight: 3.0", made)
    assert _trained(jobs) == {"feddirt"}


def test_a_changed_evaluation_trains_nothing(made):
    jobs = _edited(made.path / "evaluation" / "probe.py", "indices == y_test", "indices != y_test", made)
    assert jobs["evaluate"]
    assert not _trained(jobs)


def test_a_changed_judge_is_trained_again_and_no_run(made):
    tiny = made.path / "config" / "scales" / "tiny.yaml"
    jobs = _edited(tiny, "features: 8", "features: 9", made)
    assert jobs["judge"] == len(list((results(made) / "judges").rglob("*.safetensors")))
    assert not _trained(jobs)


@pytest.mark.parametrize(
    ("file", "old", "new", "redone"),
    [
        ("results/paper/claims.csv", "< 0.1 * q('train_time'", "< 0.2 * q('train_time'", {"table", "claim"}),
        ("reporting/cells.py", "import pandas as pd", "import pandas as pd\n\nREAD = 1", {"table", "claim"}),
        ("config/scales/tiny.yaml", "numbers mean nothing", "numbers mean little", {"table", "claim", "figure"}),
        ("config/papers/fedstyle.yaml", "rounds: 100", "rounds: 150", {"count", "evaluate", "records", "all_records"}),
        (
            "config/papers/fedinb.yaml",
            '{method: fedinb-hist, variant: ""}',
            '{method: hist, variant: ""}',
            {"evaluate", "records"},
        ),
        (
            "config/papers/padpaf.yaml",
            "horizontal-flip, share: 0.5",
            "horizontal-flip, share: 0.4",
            {"count"},
        ),  # no run here
    ],
)
def test_what_hangs_on_a_file_is_made_again_and_nothing_trained(file, old, new, redone, made):
    jobs = _edited(made.path / file, old, new, made)
    assert redone <= set(jobs)
    assert not _trained(jobs)


def test_one_table_trains_the_runs_of_its_paper_alone(made, tmp_path):
    other = Checkout(tmp_path / "diptych", source=made.path)
    shutil.rmtree(results(other))
    said = other.snakemake("-n", "results/tiny/tables/feddva-disentanglement.md")
    trained = set(re.findall(r"\btrain (\w+)/", said))
    assert trained == {"feddva"}


def test_new_clients_wait_for_the_run_that_they_start_from(made):
    """If that one was trained again, so are they."""
    folder = results(made) / "runs" / "padpaf" / "mnist_eight-clients" / "padpaf" / "conditional" / "2011"
    file = folder / "provenance.json"
    before, times = file.read_bytes(), file.stat()
    file.write_bytes(before + b"\n")  # another file than before: a newer date alone is no reason to train again
    said = made.snakemake("-n", "results/tiny/records/padpaf/padpaf.csv")
    file.write_bytes(before)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "train padpaf/mnist_new-clients/padpaf/conditional/2011" in said
    assert "train padpaf/mnist_eight-clients/padpaf/conditional/2011" not in said


def test_one_figure_is_one_plotting_job(made):
    files = [results(made) / "figures" / f"fedstyle-figure5.{form}" for form in ("png", "pdf", "svg")]
    for file in files:
        file.unlink()
    assert _planned(made, str(files[0].relative_to(made.path))) == {"figure": 1}
    assert _planned(made, "fedstyle_figure5") == {"figure": 1, "fedstyle_figure5": 1}
    made.snakemake("fedstyle_figure5")
    assert all(file.stat().st_size for file in files)


@pytest.mark.parametrize("data", ["fedstyle-figure5.class-counts.csv", "padpaf-figure13.samples.npz"])
def test_drawing_a_figure_imports_no_torch(made, tmp_path, data):
    source = results(made) / "figures" / "data" / data
    figure = data.partition(".")[0]
    arguments = ["figure", figure, "--scale", "tiny", "--data", str(source), "--out", f"{tmp_path}/drawn.png"]
    program = f"import sys; from diptych.cli import main; main({arguments}); print('torch' in sys.modules)"
    assert made.run("python", "-c", program).strip() == "False"
    assert (tmp_path / "drawn.png").stat().st_size


# ---- misled


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("scael=tiny", ["--config", "'scael'", "did you mean 'scale'"]),
        ("scale=tinny", ["scale", "'tinny'", "did you mean 'tiny'"]),
        ("gpus=many", ["gpus", "'many'"]),
    ],
)
def test_a_wrong_setting_ends_with_one_sentence(made, setting, words):
    said = made.run("snakemake", "--cores", "1", "tables", "--config", setting, fails=True)
    assert "Traceback" not in said
    line = next(line for line in said.splitlines() if words[0] in line and words[1] in line)
    assert all(word in line for word in words)


def test_a_figure_that_there_is_not_is_refused(made):
    assert "fedstyle_figure99" in made.snakemake("fedstyle_figure99", fails=True)
