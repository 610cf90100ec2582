"""A Slurm of one machine, of Debian's packages `slurm-wlm` and `munge`; nothing of it lies outside one folder."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
"""What must be installed."""
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=64000
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE
OverTimeLimit=0
KillWait=5
MinJobAge=600
ReturnToService=2
StateSaveLocation={folder}/controller
SlurmdSpoolDir={folder}/node
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
"""
"""Two processors and 64 GB, whatever there is: what jobs ask for is counted, not enforced. No accounting."""


def missing() -> str:
    """Why there can be no Slurm here; nothing if it can."""
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    there = [program for program in PROGRAMS if shutil.which(program)]
    return "" if len(there) == len(PROGRAMS) else f"no {', '.join(sorted(set(PROGRAMS) - set(there)))}: see .ci/run"


def until(true: Callable[[], object], seconds: float = 600) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not after {seconds} s"
        time.sleep(0.1)


class Cluster:
    """Started by `with`; stopped, with all jobs, at its end.

    Attributes:
        environment: what Slurm's commands need to find it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"SLURM_CONF": f"{folder}/slurm.conf", "PATH": f"{folder}/bin:{os.environ['PATH']}"}

    def __enter__(self) -> "Cluster":
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        for name in ("controller", "node", "bin"):
            (self.folder / name).mkdir(parents=True)
        # Snakemake's plugin takes SLURM_CONF away from the steps of a job: elsewhere it lies in /etc
        srun = f'#!/bin/sh\nexport SLURM_CONF={self.folder}/slurm.conf\nexec {shutil.which("srun")} "$@"\n'
        (self.folder / "bin" / "srun").write_text(srun)
        (self.folder / "bin" / "srun").chmod(0o755)
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o400)
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        # --force: the folder is one of tests, which others may look into
        self._run("munged", "--force", *(f"--{name}={self.folder}/munge.{end}" for name, end in files.items()))
        host, controller, node = socket.gethostname().partition(".")[0], *_free_ports()
        text = CONFIGURATION.format(
            host=host, controller=controller, node=node, folder=self.folder, user=getpass.getuser()
        )
        (self.folder / "slurm.conf").write_text(text)
        self._run("slurmctld")
        self._run("slurmd")
        until(lambda: self.says("sinfo", "-h", "-o", "%t") == "idle")

    def __exit__(self, *_: object) -> None:
        for pid in self._pids():
            if pid.name == "slurmd.pid":
                self.says("scancel", "--user", "root", "--full")
                with suppress(AssertionError):
                    until(lambda: not self.says("squeue", "-h"), 30)
        for name in ("slurmd", "slurmctld", "munge"):
            with suppress(OSError, ValueError):
                os.kill(int((self.folder / f"{name}.pid").read_text()), 15)
        until(lambda: not self._pids(), 30)

    def _pids(self) -> list[Path]:
        return list(self.folder.glob("*.pid"))

    def _run(self, *command: str) -> None:
        subprocess.run(command, env=os.environ | self.environment, check=True)

    def says(self, *command: str) -> str:
        """What one of Slurm's commands says."""
        return subprocess.run(
            command, env=os.environ | self.environment, stdout=subprocess.PIPE, text=True
        ).stdout.strip()


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
