"""Ways of taking a step of many clients: the same step, and a command that measures them."""

import csv
import shutil
import time

import pytest
import torch

from benchmarks import gpu


def _stepped(way: str, case: str, device: str = "cpu", steps: int = 2) -> dict[str, torch.Tensor]:
    """All clients' tensors after some steps."""
    clients = gpu.WAYS[way](case, 3, device, small=True)
    for _ in range(steps):
        clients.all()
    return {name: rows.detach().cpu().double() for name, rows in clients.storage.items() if rows.is_floating_point()}


def _apart(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    return sum(float((rows - b[name]).square().sum()) for name, rows in a.items()) ** 0.5


def check_way(way: str, case: str, device: str = "cpu") -> None:
    """It ends where the loop does, to a hundredth of the distance: Adam's first steps are as long where a gradient is
    nearly 0, and then of rounding's sign."""
    unseen = 3 if way == "captured" else 0  # before it records
    loop = _stepped("loop", case, device, 2 + unseen)
    moved = _apart(loop, _stepped("loop", case, device, 0))
    assert moved > 0
    assert _apart(_stepped(way, case, device), loop) < 0.01 * moved


@pytest.mark.parametrize("case", gpu.CASES)
def test_all_clients_at_once_take_the_loops_step(case):
    check_way("mapped", case)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
@pytest.mark.parametrize("case", ["mcmahan-cnn", "ps-fedgan"])  # to compile the two others takes minutes
@pytest.mark.parametrize("way", ["compiled", "mapped-compiled"])
def test_a_compiled_program_takes_the_loops_step(way, case, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # that of the user may hold what was cut short
    check_way(way, case)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("case", gpu.OF_A_GPU)
@pytest.mark.parametrize("way", ["streams", "captured", "compiled", "mapped", "mapped-compiled"])
def test_every_way_takes_the_loops_step_on_a_gpu(way, case):
    check_way(way, case, "cuda")


def test_a_way_that_leaves_a_client_out_is_caught(monkeypatch):
    monkeypatch.setattr(gpu.Mapped, "all", lambda self: [self.one(k) for k in range(2)])
    with pytest.raises(AssertionError, match="<"):
        check_way("mapped", "mcmahan-cnn")


ASKED = ["--device", "cpu", "--small", "--clients", "2", "--repeats", "1", "--seconds", "0"]
FEW = ["--networks", "mcmahan-cnn", "ps-fedgan", "--ways", "loop", "mapped", "streams", "captured"]


def _lines(path):
    return list(csv.DictReader(path.open()))


def test_the_command_measures_what_there_is_and_goes_on_where_it_was_stopped(tmp_path, capsys):
    path = tmp_path / "some.csv"
    gpu.main([*ASKED, *FEW, "--out", str(path)])
    lines = _lines(path)
    assert len(lines) == 2 * 4 * 2
    for line in lines:
        assert (line["note"] == "needs CUDA") == (line["way"] in ("streams", "captured")) == (line["ratio"] == "")
        assert line["note"] or float(line["least"]) <= float(line["ratio"]) <= float(line["most"])
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    capsys.readouterr()
    gpu.main([*ASKED, *FEW, "--out", str(path)])
    assert len(capsys.readouterr().out.splitlines()) == len(lines) - 3
    again = _lines(path)
    assert [[line[key] for key in gpu.WHAT] for line in again] == [[line[key] for key in gpu.WHAT] for line in lines]


def test_the_command_ends_when_its_time_is_up(tmp_path, capsys, monkeypatch):
    """Even where whoever is at work, such as a compiler, takes whatever is raised for an error of its own."""

    def works(self):
        try:
            time.sleep(60)
        except Exception as error:
            raise RuntimeError("failed") from error

    monkeypatch.setattr(gpu.Mapped, "all", works)
    path = tmp_path / "none.csv"
    gpu.main([*ASKED, "--networks", "ps-fedgan", "--ways", "mapped", "--minutes", "0.02", "--out", str(path)])
    assert "the time is up" in capsys.readouterr().err
    assert not _lines(path)


def test_a_way_that_fails_is_a_line_that_says_why(tmp_path, monkeypatch):
    def fails(self):
        raise RuntimeError("out of something\nand more")

    monkeypatch.setattr(gpu.Mapped, "all", fails)
    gpu.main([*ASKED, "--networks", "ps-fedgan", "--ways", "mapped", "--out", str(tmp_path / "o.csv")])
    assert {line["note"] for line in _lines(tmp_path / "o.csv")} == {"RuntimeError: out of something"}
