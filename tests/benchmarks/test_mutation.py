"""Which change is which, of which lines, and which tests are asked about it."""

import csv
import json

import pytest

from benchmarks import mutation
from common.codehash import ROOT

SOURCE = '''"""A module."""

from math import sqrt


def spread(values, floor=0.0):
    """Of some values."""
    mean = sum(values) / len(values)
    if mean > floor and len(
        values
    ) > 1:
        return sqrt(
            sum((v - mean) ** 2 for v in values)
        )
    return "None"


class Pair:
    """Two."""

    def swap(self):
        return list(zip(self.b, self.a, strict=True))
'''


def _mutated() -> str:
    """As mutmut writes it: the function as it was and its versions, one below the other, with names of their own."""

    def version(name: str, text: str, was: str = "", becomes: str = "") -> str:
        assert was in text
        return text.replace("def spread", f"def {name}").replace("def swap", f"def {name}").replace(was or "", becomes)

    before, after = SOURCE.split("class Pair")
    imports, function = before.split("def spread")
    function, (head, method) = "def spread" + function, after.split("    def swap")
    method = "    def swap" + method
    parts = [
        imports,
        version("x_spread__mutmut_orig", function),
        version("x_spread__mutmut_1", function, "/ len", "* len"),
        version("x_spread__mutmut_2", function, "> 1", "> 2"),
        version("x_spread__mutmut_3", function, "- mean", "+ mean"),
        version("x_spread__mutmut_4", function, '"None"', '"XXNoneXX"'),
        version("x_spread__mutmut_5", function, "floor=0.0", "floor=1.0"),
        "class Pair" + head,
        version("xǁPairǁswap__mutmut_orig", method),
        version("xǁPairǁswap__mutmut_1", method, "self.b", "None"),
        version("xǁPairǁswap__mutmut_2", method, ", strict=True", ""),
    ]
    return "\n".join(parts)


def _changes() -> dict[str, mutation.Change]:
    return mutation.changes("federation.sums", _mutated(), SOURCE)


def test_a_change_says_where_it_is_and_what_differs():
    changed = _changes()
    assert set(changed) == {
        *(f"federation.sums.x_spread__mutmut_{n}" for n in (1, 2, 3, 4, 5)),
        *(f"federation.sums.xǁPairǁswap__mutmut_{n}" for n in (1, 2)),
    }
    first = changed["federation.sums.x_spread__mutmut_1"]
    assert first.function == "federation.sums.spread"
    assert first.was == "mean = sum(values) / len(values)"
    assert first.becomes == "mean = sum(values) * len(values)"
    assert changed["federation.sums.x_spread__mutmut_5"].was == "def spread(values, floor=0.0):"
    assert changed["federation.sums.xǁPairǁswap__mutmut_1"].function == "federation.sums.Pair.swap"


def test_its_lines_are_those_of_the_statement_without_its_body_and_of_a_head_those_of_its_body():
    text = [line.strip() for line in SOURCE.splitlines()]
    lines = {name.removeprefix("federation.sums."): [text[n - 1] for n in of.lines] for name, of in _changes().items()}
    assert lines["x_spread__mutmut_1"] == ["mean = sum(values) / len(values)"]
    assert lines["x_spread__mutmut_2"] == ["if mean > floor and len(", "values", ") > 1:"]
    assert lines["x_spread__mutmut_3"] == ["return sqrt(", "sum((v - mean) ** 2 for v in values)", ")"]
    assert lines["x_spread__mutmut_5"][0] == '"""Of some values."""'
    assert lines["x_spread__mutmut_5"][-1] == 'return "None"'
    assert lines["xǁPairǁswap__mutmut_1"] == ["return list(zip(self.b, self.a, strict=True))"]


def test_spelling_and_strict_are_words_alone():
    words = {name for name, change in _changes().items() if change.of_words_alone}
    assert words == {"federation.sums.x_spread__mutmut_4", "federation.sums.xǁPairǁswap__mutmut_2"}
    to_none = mutation.Change("n", "f", 'name = "x"', "name = None", range(1, 2))
    assert not to_none.of_words_alone


SECONDS = {
    "tests/federation/test_sums.py::test_slow": 2.0,
    "tests/federation/test_sums.py::test_of_what_is_shared": 0.1,
    "tests/federation/test_other.py::test_quick": 0.01,
    "tests/methods/test_far.py::test_quickest": 0.001,
    "tests/methods/test_unrelated.py::test_it": 0.0,
}


def test_those_who_run_the_line_are_asked_nearest_first_and_then_their_files():
    contexts = [
        "",
        "tests/methods/test_far.py::test_quickest|run",
        "tests/federation/test_sums.py::test_slow|run",
        "tests/federation/test_other.py::test_gone|setup",
    ]
    assert mutation.asked("federation.sums", contexts, SECONDS, seconds=9) == [
        "tests/federation/test_sums.py::test_slow",
        "tests/methods/test_far.py::test_quickest",
        "tests/federation/test_sums.py::test_of_what_is_shared",
        "tests/federation/test_other.py::test_quick",
    ]
    assert mutation.asked("federation.sums", contexts, SECONDS, seconds=2.1) == [
        "tests/federation/test_sums.py::test_slow",
        "tests/methods/test_far.py::test_quickest",
        "tests/federation/test_other.py::test_quick",
    ], "what takes no longer than is left"
    assert mutation.asked("federation.sums", contexts, SECONDS, seconds=0.5)[0].endswith("test_slow"), "one at least"
    assert mutation.asked("federation.sums", [""], SECONDS, seconds=9) == [], "run when the module is read, by no test"


@pytest.fixture
def swept(tmp_path, monkeypatch):
    """A project of one module, as mutmut has left it."""
    monkeypatch.chdir(tmp_path)
    for folder, text in (("federation", SOURCE), ("mutants/federation", _mutated())):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "sums.py").write_text(text)
    codes = dict(zip(_changes(), (1, 0, 33, 34, 1, None, 34), strict=True))
    (tmp_path / "mutants/federation/sums.py.meta").write_text(json.dumps({"exit_code_by_key": codes}))
    return tmp_path


def test_the_score_is_of_what_was_tried(swept, capsys):
    mutation.main(["score"])
    assert "| `federation` | 7 | 5 | 4 | 2 | 1 | 1 | 50% |" in capsys.readouterr().out


def test_survivors_are_what_nothing_noticed(swept):
    mutation.main(["survivors", "--out", "left.csv"])
    header, second, third = (swept / "left.csv").read_text().splitlines()
    assert header == "where,was,becomes,why"
    assert second == "federation.sums.spread,) > 1:,) > 2:,"
    assert third.startswith("federation.sums.spread,sum((v - mean)")


def test_every_survivor_of_the_page_has_its_reason():
    with (ROOT / "docs/mutation-survivors.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        package, module, *_ = row["where"].split(".")
        assert (ROOT / package / f"{module}.py").exists(), row["where"]
        assert row["was"] != row["becomes"]
        assert len(row["why"].split()) > 2, row
