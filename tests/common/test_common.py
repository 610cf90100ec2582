"""Files that appear whole, keys that do not collide, a hash that follows the code, provenance that is complete."""

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from common import codehash
from common.algorithms import LISTENING, TRAINING, algorithm_modules, training_code
from common.codehash import ROOT, code_hash, reachable
from common.errors import InputError, choose, nearest
from common.files import data_root, written
from common.keys import random_key
from common.provenance import PACKAGES, code_version, peak_memory_mb, provenance
from common.sources import dated


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    file = tmp_path / "new" / "file.txt"
    with suppress(ZeroDivisionError), written(file) as part:
        part.write_text("half" * (1 // 0))
    assert list(file.parent.iterdir()) == []
    with written(file) as part:
        part.write_text("whole")
        assert not file.exists()
    with suppress(ZeroDivisionError), written(file) as part:
        part.write_text("half")
        part.write_text("half" * (1 // 0))
    assert file.read_text() == "whole"
    assert list(file.parent.iterdir()) == [file]


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file/below: cannot be written"), written(tmp_path / "file" / "below"):
        pytest.fail("the block must not start")


def test_keys_depend_on_every_part_and_on_nothing_else():
    parts = [(1, "draw", 2, 3), (1, "draw", 3, 2), (1, "order", 2, 3), (2, "draw", 2, 3), (1, "draw", 23)]
    keys = {random_key(*p) for p in parts}
    assert len(keys) == len(parts)
    assert all(0 <= key < 2**63 for key in keys)
    program = "from common.keys import random_key; print(random_key(1, 'draw', 2, 3))"
    again = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(again.stdout) == random_key(1, "draw", 2, 3), "another process has another hash salt"


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """The code hash of a small project in which `a` imports `b`, and `c` is on its own, after an edit of one file."""

    def hashed(**changes: str) -> str:
        files = {"a.py": "from b import x\n", "b.py": '"""About b."""\nx = 1  # one\n', "c.py": "y = 2\n"}
        for name, content in (files | {f"{k}.py": v for k, v in changes.items()}).items():
            (tmp_path / name).write_text(content)
        monkeypatch.setattr(codehash, "ROOT", tmp_path)
        for cached in (codehash.module_file, codehash._read, code_hash):
            cached.cache_clear()
        return code_hash("a")

    yield hashed
    for cached in (codehash.module_file, codehash._read, code_hash):
        cached.cache_clear()


def test_the_hash_follows_what_is_imported_and_nothing_else(edited):
    before = edited()
    assert edited(b='"""Another text."""\n\nx = 1\n') == before, "comments, docstrings and layout do not count"
    assert edited(c="y = 3\n") == before, "what is not imported does not count"
    assert edited(b="x = 2\n") != before
    assert edited(a="import b\n") != before


def test_the_hash_is_the_same_with_every_python(edited):
    """3.12 gives functions and classes parameters of types, and 3.13 leaves out fields that are empty."""
    code = "from b import x\n\nclass A:\n    def f(self, *, y=x):\n        return [z for z in (y,) if z]\n"
    assert edited(a=code) == "ce07545806d6"


def test_a_file_that_is_no_python_is_named(edited):
    with pytest.raises(InputError, match=r"^b\.py, line 2: "):
        edited(b="x = 1\ny = = 2\n")


def test_the_hash_of_a_run_covers_the_engine_its_algorithm_and_no_other():
    codes = {name: training_code(name) for name in algorithm_modules()}
    assert len(set(codes.values())) == len(codes)
    reached = reachable("baselines.fedprox", "federation.simulation")
    assert {"federation.channel", "federation.server", "common.optimisers", "baselines.fedprox"} <= set(reached)
    assert not {"baselines.ditto", "reporting.tables", "evaluation.probe"} & set(reached)


def test_the_hash_of_a_run_that_somebody_listens_to_covers_who_does():
    assert training_code("fedavg", overheard=True) != training_code("fedavg")
    assert "attacks.weights" in reachable(LISTENING)
    assert "attacks.weights" not in reachable(*TRAINING, "baselines.fedavg")


def test_provenance_names_versions_and_hardware():
    found = provenance()
    assert found["packages"].keys() == set(PACKAGES)
    assert all(found["packages"].values())
    assert found["hardware"]
    assert found["cores"] >= 1
    assert isinstance(found["dirty"], bool)
    assert 10 < peak_memory_mb() < 100_000


@pytest.mark.parametrize(
    ("file", "dirty"),
    [("mine.py", True), ("config/mine.yaml", True), ("kept.py", True), ("notes.txt", False), ("", False)],
)
def test_code_that_no_commit_has_is_dirty(file, dirty, tmp_path, monkeypatch):
    def git(*arguments: str) -> None:
        named = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *named, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "kept.py").write_text("a = 1\n")
    for arguments in (["init"], ["add", "kept.py"], ["commit", "-m", "first"]):
        git(*arguments)
    if file:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("b = 2\n")
    monkeypatch.setattr("common.provenance.ROOT", tmp_path)
    assert code_version.__wrapped__()["dirty"] is dirty


def test_sentences_name_the_nearest():
    assert nearest("fedporx", ["fedavg", "fedprox"]) == "did you mean 'fedprox'? allowed: fedavg, fedprox"
    assert nearest("zzz", ["fedavg"]) == "allowed: fedavg"
    assert nearest("x", []) == "allowed: nothing"
    assert choose("k", "a", ["a", "b"]) == "a"


def test_the_data_root(monkeypatch):
    monkeypatch.delenv("DIPTYCH_DATA", raising=False)
    assert data_root() == "data"
    monkeypatch.setenv("DIPTYCH_DATA", "elsewhere")
    assert data_root() == "elsewhere"
    monkeypatch.setenv("HOME", "/somebodys")
    monkeypatch.setenv("DIPTYCH_DATA", "~/images")
    assert data_root() == "/somebodys/images"


def test_own_images_are_dated_and_published_ones_are_not(tmp_path):
    for name in ("MNIST/raw", "mine/ink/zero"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.png").write_bytes(b"1")
    assert dated("mnist", tmp_path) == []
    before = dated("mine/ink", tmp_path)
    assert len(before) == 1
    os.utime(tmp_path / "mine" / "ink" / "zero" / "a.png", (1, 1))
    assert dated("mine/ink", tmp_path) != before
    after = dated("mine/ink", tmp_path)
    (tmp_path / "mine" / ".ink.16.cache.npz").write_bytes(b"what was decoded")
    (tmp_path / "mine" / "pen" / "zero").mkdir(parents=True)
    (tmp_path / "mine" / "pen" / "zero" / "b.png").write_bytes(b"1")
    assert dated("mine/ink", tmp_path) == after, "what we keep ourselves, and other styles, are no change"
    (tmp_path / "pacs.npz").write_bytes(b"22")
    (tmp_path / "pacs").mkdir()
    (found,) = dated("pacs/sketch", tmp_path)
    assert found.startswith("pacs.npz 2 ")
