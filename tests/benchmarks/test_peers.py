"""Peers solve one problem, and what they cost is added up right."""

import copy
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
import torch.nn.functional as F

from benchmarks.bare import small_cnn
from benchmarks.peers import environment
from benchmarks.peers.__main__ import COLUMNS, SIDES, Figures, Measured, difference, problem, row
from benchmarks.peers.environment import PEERS, NotInstalled, python_of
from benchmarks.peers.measure import Costs, Failed, costs_of
from benchmarks.peers.problem import network
from benchmarks.peers.sides import bare, ours, ours_channels_last
from common.codehash import ROOT

# ---- one problem


def test_the_network_is_ours():
    """Peers have no packages of ours, so that it is written twice."""
    torch.manual_seed(1)
    theirs, mine, x = network(), small_cnn(), torch.rand(2, 1, 28, 28)
    mine.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(theirs(x), mine.head(mine.encoder(x)), rtol=0, atol=0)


def _averaged(asked):
    """FedAvg on a problem, as every peer is told it: all clients, one round."""
    sums = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in asked.initial.items()}
    for client in range(asked.clients):
        model = network()
        model.load_state_dict(asked.initial)
        optimiser = torch.optim.SGD(model.parameters(), lr=asked.rate)
        for x, y in asked.batches(client):
            optimiser.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimiser.step()
        for name, tensor in model.state_dict().items():
            sums[name] += tensor / asked.clients
    return sums


def _after(side, asked, workers, rounds=1):
    """What a side reports at the start and after each round."""
    said = []
    side.run(asked, workers, rounds, lambda weights: said.append(copy.deepcopy(weights)))
    return said


@pytest.mark.parametrize("images", [70, 6])
def test_our_sides_come_to_the_weights_of_the_problem(images):
    """With a last part of a batch that is dropped, and with nothing else."""
    asked = problem(3, images)
    expected = _averaged(asked)
    assert difference(asked.initial, expected) > 1e-4
    for side, workers in ((ours, 1), (ours, 2), (bare, 1)):
        start, end = _after(side, asked, workers)
        assert difference(start, asked.initial) == 0
        assert difference(end, expected) < 1e-7


def test_the_other_layout_comes_to_them_but_for_rounding():
    asked = problem(2, 70)
    assert 0 < difference(_after(ours_channels_last, asked, 1)[1], _averaged(asked)) < 1e-4


def test_another_order_of_images_is_noticed():
    asked = problem(3, 70)
    other = copy.deepcopy(asked)
    other.order[0] = other.order[0].flip(0)
    assert difference(_averaged(other), _averaged(asked)) > 1e-6


def test_more_rounds_are_reported_one_by_one():
    rounds = _after(ours, problem(2, 32), 1, rounds=2)
    assert len(rounds) == 3
    assert difference(rounds[2], rounds[1]) > 1e-4


def test_an_order_has_every_image_once():
    for images in (6, 32, 70):
        order = problem(2, images).order
        assert order.sort(dim=1).values.tolist() == [list(range(images))] * 2


def test_a_difference_is_a_share_of_the_norm():
    ours, theirs = {"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}, {"a": torch.tensor([3.0]), "b": torch.zeros(1)}
    assert difference(theirs, ours) == pytest.approx(0.8)


# ---- what it costs


COSTS = Costs(100.0, [103.0, 106.0, 108.0, 112.0], [(100.0, 0.0), (105.0, 2.0), (107.0, 6.0), (112.0, 10.0)], 500.0)


def test_rounds_are_timed_after_the_first():
    assert COSTS.times == [2.0, 4.0]
    assert COSTS.warm_up == 6.0
    # at 106 halfway from 2 to 6, at 108 a fifth of the way from 6 to 10
    assert COSTS.processor == pytest.approx([6.8 - 4, 10 - 6.8])


def test_two_loops_side_by_side_take_half_of_the_time_for_a_round_each():
    one, two = Figures.of("ours-2", COSTS), Figures.of("bare", COSTS)
    assert (one.round, two.round) == (3.0, 1.5)
    assert two.processor == pytest.approx(one.processor / 2)
    assert one.start_up == two.start_up == 3.0


def test_ratios_are_of_the_same_repeat():
    slow = Costs(0.0, [3.0, 6.0, 12.0, 18.0], [(0.0, 0.0), (18.0, 18.0)], 1000.0)
    mine, theirs = Measured([COSTS, slow]), Measured([slow, slow])
    cells = dict(zip(COLUMNS, row("flower", {"ours-2": mine, "flower": theirs}), strict=True))
    assert cells["round / ours-2"] == "1.50 (1.00 to 2.00)"
    assert cells["memory / ours-2"] == "1.50 (1.00 to 2.00)"
    assert cells["round, s"] == "6.00"


def test_who_cannot_is_said_so():
    assert row("bare", {"bare": Measured(why="has no more than 100 clients")}) == [
        "bare",
        "has no more than 100 clients",
    ]


CHILD = "import time\nmemory = bytearray(200 * 2**20)\nwhile time.process_time() < 1: pass\ntime.sleep(0.5)"
FAMILY = f"""import subprocess, sys, time
print("round", time.monotonic(), flush=True)
print("round", time.monotonic(), flush=True)
subprocess.run([sys.executable, "-c", {CHILD!r}])
print("round", time.monotonic(), flush=True)
"""


def test_what_children_use_counts():
    costs = costs_of([sys.executable, "-c", FAMILY], {})
    assert costs.processor[0] == pytest.approx(1, abs=0.3)
    assert 200 < costs.memory < 300


def test_who_takes_too_long_is_ended_with_all_children():
    marker = f"# {time.monotonic()}"
    with pytest.raises(Failed, match="longer than 1 s"):
        costs_of([sys.executable, "-c", FAMILY.replace("time.sleep(0.5)", f"time.sleep(60) {marker}")], {}, limit=1)
    time.sleep(0.2)
    alive = [p for p in psutil.process_iter(["cmdline", "status"]) if marker in " ".join(p.info["cmdline"] or [])]
    assert all(process.info["status"] == psutil.STATUS_ZOMBIE for process in alive)


def test_who_fails_says_why():
    with pytest.raises(Failed, match="ZeroDivisionError"):
        costs_of([sys.executable, "-c", "1 / 0"], {})


# ---- with peers


@pytest.mark.slow
def test_an_environment_that_cannot_be_made_is_not_taken_for_one(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "HERE", tmp_path)
    (tmp_path / "flower.txt").write_text("--no-index\nflwr==0\n")
    for _ in range(2):
        with pytest.raises(NotInstalled, match="flwr==0"):
            python_of("flower", tmp_path / "cache")
    (tmp_path / "flower.txt").write_text("")
    python = python_of("flower", tmp_path / "cache")
    said = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    assert said.stdout.strip() == torch.__version__


@pytest.mark.slow
def test_an_environment_outlives_the_one_that_it_was_made_from(monkeypatch, tmp_path):
    """Whose torch it saw, and which is gone by now."""
    (tmp_path / "flower.txt").write_text("")
    monkeypatch.setattr(environment, "HERE", tmp_path)
    python = python_of("flower", tmp_path / "cache")
    (link,) = python.parents[1].glob("lib/python*/site-packages/torch-of-the-project.pth")
    link.write_text("/nowhere\n")
    assert python_of("flower", tmp_path / "cache") == python
    assert (Path(link.read_text().strip()) / "torch").is_dir()


@pytest.mark.slow
def test_peers_come_to_the_same_weights():
    for peer in PEERS:
        try:
            python_of(peer)
        except NotInstalled as error:
            pytest.skip(str(error))
    command = [sys.executable, "-m", "benchmarks.peers", "--sizes", "3x64", "--repeats", "1", "--rounds", "1"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines()[4:] if line]
    assert {cells[0] for cells in rows} == set(SIDES)
    for cells in rows:
        assert float(cells[-1]) < (1e-4 if "channels" in cells[0] else 1e-7), cells
