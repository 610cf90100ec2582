"""The workflow on a cluster: Slurm on this machine, with the profile and the commands of docs/cluster.md."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from common.codehash import ROOT
from common.spec import read_yaml
from diptych.configuration import merged
from tests.checkout import Checkout
from tests.slurm import Cluster, missing, until
from tests.workflow.checks import check_same, results

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

PAGE = (ROOT / "docs" / "cluster.md").read_text()
TRIAL, UNLOCK = (
    re.search(rf"^{start}.*$", PAGE, re.MULTILINE)[0].split() for start in ("snakemake --w", "snakemake --u")
)
"""The page's commands, word for word: the workflow on a cluster; after a Snakemake that was killed."""
ADAPTED = {"# slurm-status-command: squeue": "slurm-status-command: squeue", "cores: 4": "cores: 1"}
"""What the page says of a cluster without accounting, and a machine with two processors."""
PAPERS = ("fedstyle", "padpaf")
LONG, LONG_RUN = {"training": {"rounds": 40}}, "fedstyle/digit_1_iid_simsiam/fedavg/default"
"""So long that it is caught at work."""
FILES = ("model.safetensors", "features.npz", "history.csv", "traffic.csv")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    assert find_spec("snakemake_executor_plugin_slurm"), "Snakemake cannot ask Slurm: pip install -e '.[test,slurm]'"
    with Cluster(tmp_path_factory.mktemp("slurm")) as started:
        yield started


def _cut(path: Path) -> Checkout:
    """A checkout whose scale `tiny` is a run of each kind of two papers, of one of which there is a scale `long`."""
    checkout = Checkout(path)
    scales = path / "config" / "scales"
    tiny = merged(read_yaml(scales / "tiny.yaml"), read_yaml(Path(__file__).parent / "cut.yaml"))
    tiny["papers"] = {paper: tiny["papers"][paper] for paper in PAPERS}
    (scales / "tiny.yaml").write_text(yaml.safe_dump(tiny))
    long = merged(tiny, {"seeds": list(FAULTS), "defaults": LONG})
    (scales / "long.yaml").write_text(yaml.safe_dump(long))
    return checkout


def _on(cluster: Cluster, path: Path) -> Checkout:
    checkout = _cut(path)
    checkout.environment |= cluster.environment
    profile = path / "profiles" / "slurm" / "config.yaml"
    text = profile.read_text()
    for old, new in ADAPTED.items():
        assert old in text
        text = text.replace(old, new)
    profile.write_text(text)
    return checkout


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Checkout:
    """What this machine makes without Slurm."""
    checkout = _cut(tmp_path_factory.mktemp("here") / "diptych")
    checkout.snakemake("tables")
    return checkout


def _jobs(cluster: Cluster, checkout: Checkout, states: str = "all") -> list[str]:
    """Slurm's jobs of a checkout."""
    rows = cluster.says("squeue", "--noheader", f"--states={states}", "--format=%i %Z").splitlines()
    return [job for job, folder in map(str.split, rows) if Path(folder) == checkout.path]


# ---- what comes out


def test_the_tables_are_those_of_one_machine_and_short_jobs_share_a_place_in_the_queue(cluster, here, tmp_path):
    others = cluster.says("sbatch", "--parsable", "--exclusive", "--output=/dev/null", "--wrap=sleep 600")
    there = _on(cluster, tmp_path / "diptych")
    process = there.start(*TRIAL)
    until(lambda: _jobs(cluster, there, "PENDING"))  # the queue is full
    cluster.says("scancel", others)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    check_same(here, there, "tables")
    runs = len(list((results(there) / "runs").rglob("provenance.json")))
    assert len(_jobs(cluster, there)) == 2 < runs


# ---- faults


def test_nothing_is_lost_and_nothing_done_twice_when_snakemake_itself_is_killed(cluster, here, tmp_path):
    there = _on(cluster, tmp_path / "diptych")
    process = there.start(*TRIAL)
    until(lambda: list((results(there) / "runs").rglob("provenance.json")))
    process.kill()
    process.communicate()
    (job,) = _jobs(cluster, there, "RUNNING")  # goes on; slowly, so that it is met by the next start
    cluster.says("scontrol", "suspend", job)
    there.run(*UNLOCK)
    assert f"scancel {job}" in " ".join(there.run(*TRIAL, fails=True).split())
    cluster.says("scontrol", "resume", job)
    until(lambda: not _jobs(cluster, there, "RUNNING"))
    finished = {file: file.stat().st_mtime for file in (results(there) / "runs").rglob("model.safetensors")}
    there.run(*TRIAL)
    check_same(here, there, "tables")
    assert all(file.stat().st_mtime == time for file, time in finished.items())


def _cancelled(cluster: Cluster, job: str, pids: list[int]) -> None:
    cluster.says("scancel", job)


def _killed(cluster: Cluster, job: str, pids: list[int]) -> None:
    """As by the kernel, where memory has run out."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _out_of_time(cluster: Cluster, job: str, pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # so that it does not end before
    cluster.says("scontrol", "update", f"JobId={job}", "EndTime=now+1")


def _started_again(cluster: Cluster, job: str, pids: list[int]) -> None:
    """As when its node is lost, or it has to make room for another."""
    cluster.says("scontrol", "requeue", job)


FAULTS = {1: _cancelled, 2: _killed, 3: _out_of_time, 4: _started_again}
"""What happens to the training with each seed."""


def _writing_to(log: Path) -> list[int]:
    """The processes whose output goes to a file."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if (process / "fd" / "1").resolve() == log:
                found.append(int(process.name))
    return found


def _job_of(pid: int) -> str:
    entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(entry.partition("=")[::2] for entry in entries)["SLURM_JOB_ID"]


def test_a_training_goes_on_from_its_checkpoint_whatever_ends_its_job(cluster, tmp_path):
    there = _on(cluster, tmp_path / "diptych")
    snakefile = there.path / "Snakefile"  # a checkpoint after each round, so that trainings can be short
    snakefile.write_text(snakefile.read_text().replace("diptych train", "diptych train --checkpoint-every 0"))
    made, logs = there.path / "results" / "long" / "runs", there.path / "results" / "long" / "logs"
    targets = [f"results/long/runs/{LONG_RUN}/{seed}/provenance.json" for seed in FAULTS]
    alone = ("--group-components", "training=1", "--config", "scale=long")
    process = there.start("snakemake", "--workflow-profile", "profiles/slurm", *targets, *alone)
    to_come = dict(FAULTS)

    def struck() -> bool:
        """Whether each training has met with its fault, as soon as it had a checkpoint."""
        assert process.poll() is None
        for seed, fault in list(to_come.items()):
            if (made / LONG_RUN / str(seed) / "checkpoint.pt").exists():
                pids = _writing_to(logs / LONG_RUN / f"{seed}.log")
                fault(cluster, _job_of(pids[0]), pids)
                del to_come[seed]
        return not to_come

    until(struck)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    for seed in FAULTS:
        left, undisturbed = made / LONG_RUN / str(seed), tmp_path / str(seed)
        there.run("diptych", "train", f"{LONG_RUN}/{seed}", "--scale", "long", "--out", str(undisturbed))
        assert json.loads((left / "provenance.json").read_text())["resumed"]
        for file in FILES:
            assert (left / file).read_bytes() == (undisturbed / file).read_bytes(), (seed, file)
