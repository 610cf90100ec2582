"""The fork server: a command that it does is as if a process of its own had done it, and none outlives its asker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from diptych.forkserver import ADDRESS, delegated, preload

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is a fork server on Linux alone")

# a server whose commands are simpler than ours, so that it has little to import
SERVER = """
import os, socket, sys, time
from pathlib import Path
import diptych.cli
from diptych.forkserver import Server

def command(arguments):
    what, *rest = arguments
    if what == "say":
        print(*rest, os.getcwd(), os.environ["WORD"], sys.stdin.readline().strip())
        print("aside", file=sys.stderr)
    elif what == "raise":
        raise RuntimeError("as expected")
    elif what == "exit":
        sys.exit(int(rest[0]))
    elif what == "wait":  # until the file in the first place is gone; meanwhile there is one of its own
        own = Path(rest[1] + str(os.getpid()))
        own.touch()
        try:
            while Path(rest[0]).exists():
                time.sleep(0.01)
        finally:
            own.unlink()
    elif what == "die":
        os.kill(os.getpid(), 9)
    return 0

diptych.cli.main = command
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
Server(listener, int(sys.argv[2])).serve(sys.stdin)
"""
CLIENT = "import sys; from diptych.forkserver import delegated; sys.exit(delegated(sys.argv[1:]))"


def _until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[subprocess.Popen[str]]:
    address = tmp_path / "socket"
    monkeypatch.setenv(ADDRESS, str(address))
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(address), "2"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        _until(address.exists)
        yield process
        process.kill()


def _ask(*arguments: object, **more) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", CLIENT, *map(str, arguments)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, **more)


def _at_work(folder: Path) -> list[Path]:
    return sorted(folder.glob("own*"))


def test_a_command_has_the_streams_folder_and_environment_of_its_asker(server, tmp_path):
    asker = _ask("say", "hello", cwd=tmp_path, env=os.environ | {"WORD": "word"})
    said, aside = asker.communicate("line\n")
    assert said == f"hello {tmp_path} word line\n"
    assert aside == "aside\n"
    assert asker.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [(["exit", 2], 2, ""), (["raise"], 1, "RuntimeError: as expected"), (["die"], 128 + signal.SIGKILL, "")],
)
def test_a_command_ends_as_it_would_by_itself(server, arguments, status, words):
    asker = _ask(*arguments)
    _, said = asker.communicate()
    assert asker.returncode == status
    assert words in said


def test_no_more_commands_run_at_once_than_there_are_slots_and_all_are_done(server, tmp_path):
    (tmp_path / "go").touch()
    askers = [_ask("wait", tmp_path / "go", tmp_path / "own") for _ in range(5)]
    _until(lambda: len(_at_work(tmp_path)) == 2)
    time.sleep(0.3)
    assert len(_at_work(tmp_path)) == 2
    (tmp_path / "go").unlink()
    assert [asker.wait() for asker in askers] == [0] * 5


def test_a_command_ends_with_its_asker_and_leaves_nothing_half_written(server, tmp_path):
    (tmp_path / "go").touch()
    first, second = (_ask("wait", tmp_path / "go", tmp_path / "own") for _ in range(2))
    _until(lambda: len(_at_work(tmp_path)) == 2)
    waiting = _ask("wait", tmp_path / "go", tmp_path / "own")
    for asker in (first, waiting):
        asker.kill()
    _until(lambda: len(_at_work(tmp_path)) == 1)
    (tmp_path / "go").unlink()
    assert second.wait() == 0


@pytest.mark.parametrize("how", ["its leash is let go", "it is killed"])
def test_no_command_outlives_the_server(server, tmp_path, how):
    (tmp_path / "go").touch()
    asker = _ask("wait", tmp_path / "go", tmp_path / "own")
    _until(lambda: _at_work(tmp_path))
    job = int(_at_work(tmp_path)[0].name.removeprefix("own"))
    server.kill() if how == "it is killed" else server.stdin.close()
    _until(lambda: not Path(f"/proc/{job}").exists())
    _, said = asker.communicate()
    assert asker.returncode == 1
    assert "ended before this command did" in said


def test_without_a_server_a_command_is_not_delegated(tmp_path, monkeypatch):
    monkeypatch.delenv(ADDRESS, raising=False)
    assert delegated(["list"]) is None
    monkeypatch.setenv(ADDRESS, str(tmp_path / "gone"))
    assert delegated(["list"]) is None


def test_an_algorithm_that_cannot_be_imported_is_no_other_jobs_matter(monkeypatch, capfd):
    """Whoever adds one makes mistakes, and its own jobs say which."""
    wrong = {"fedavg": "baselines.fedavg", "newcomer": "baselines.of_no_such_name"}
    monkeypatch.setattr("common.algorithms.algorithm_modules", lambda: wrong)
    monkeypatch.setattr("diptych.forkserver.PRELOADED", ())
    monkeypatch.setattr("gc.freeze", lambda: None)
    preload("tiny")
    assert "No module named 'baselines.of_no_such_name'" in capfd.readouterr().err
