"""What the page on tests says of them is so."""

import ast
import re

import pytest

from common.codehash import ROOT
from tests import checkout

TESTS = ROOT / "tests"
PAGE = (TESTS / "README.md").read_text()
CODE = {file: ast.parse(file.read_text()) for file in sorted(TESTS.rglob("*.py"))}


def _names(file) -> set[str]:
    """What is defined at the top of a file."""
    assigned = [node for node in CODE[file].body if isinstance(node, ast.Assign | ast.AnnAssign)]
    targets = [target for node in assigned for target in getattr(node, "targets", [getattr(node, "target", None)])]
    defined = [node for node in CODE[file].body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {node.name for node in defined} | {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize("named", re.findall(r"`([\w/]+\.py::\w+)`", PAGE))
def test_an_example_is_there(named):
    file, _, test = named.partition("::")
    assert test in _names(TESTS / file)


def test_there_is_an_example_of_each_kind_and_each_file_that_is_named():
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| (.+) \|$", PAGE.partition("## What to build")[0], re.MULTILINE)[1:]
    assert len(rows) > 10
    assert all("::" in example for _, example in rows)
    for file in re.findall(r"`([\w/]+\.py)[`:]", PAGE):
        assert (TESTS / file).is_file(), file


def _builders() -> dict[str, set[str]]:
    """The files that hold builders -> the names that the page gives for them."""
    rows = re.findall(r"^\| ([^|]+) \| (.+) \|$", PAGE.partition("## What to build")[2].partition("\n## ")[0], re.M)
    found: dict[str, set[str]] = {}
    for of, there in rows:
        for file in re.findall(r"`([\w/]+\.py)`", f"{of} {there}"):
            found.setdefault(file, set()).update(re.findall(r"`(\w+)`", there))
    return found


def test_builders_are_where_the_page_has_them_and_none_is_left_out():
    files = {file for file in CODE if not file.name.startswith("test_")}
    assert {TESTS / name for name in _builders()} == files
    everything = set().union(*map(_names, files))
    assert set().union(*_builders().values()) <= everything


def _public(name: str) -> set[str]:
    """The functions and classes of a file of builders that more than one file of tests takes from it."""
    module = "tests." + name.removesuffix(".py").replace("/", ".")
    taken = [
        {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == module
         for alias in node.names}
        for tree in CODE.values()
    ]  # fmt: skip
    return {one for names in taken for one in names if sum(one in other for other in taken) > 1}


@pytest.mark.parametrize("name", ["digits.py", "mutation.py", "checkout.py", "networks/sizes.py"])
def test_what_several_files_build_from_is_on_the_page(name):
    shared = {one for one in _public(name) if not one.isupper() and not one.startswith("check_")}
    assert shared
    assert shared <= _builders()[name]


def test_what_is_slow_is_on_the_page_and_nothing_else():
    slow = {str(file.relative_to(TESTS)) for file in CODE if "mark." + "slow" in file.read_text()}
    said = PAGE.partition("## What is slow")[2].partition("Of the rest")[0]
    assert set(re.findall(r"`([\w/]+\.py)`", said)) == slow


def test_tests_of_a_bug_say_so_in_their_name():
    """By which a search for what no test notices leaves them out (docs/mutation.md)."""
    for file, tree in CODE.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                called = {n.func.id for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
                assert "mutated" not in called or "caught" in node.name, (file.name, node.name)


def test_a_command_that_hangs_says_where(tmp_path, monkeypatch):
    monkeypatch.setattr(checkout, "LIMIT", 1)
    here = checkout.Checkout(tmp_path, source=None)
    for fails in (False, True):
        with pytest.raises(AssertionError, match=r"(?s)Fatal Python error: Aborted.*line 1 in <module>"):
            here.run("python", "-c", "import time; time.sleep(60)", fails=fails)
