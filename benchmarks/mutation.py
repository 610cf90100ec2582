"""What the tests notice: mutmut's changes of the code, each tried on the tests that run its very line.

    pip install mutmut==3.8.1 pytest-cov
    python -m benchmarks.mutation run --minutes 120        in a clone that nobody works in; goes on where it was stopped
    python -m benchmarks.mutation score
    python -m benchmarks.mutation survivors --out survivors.csv

mutmut itself asks all tests that call a function, which for one that every training calls is minutes for a change. Here
coverage says which tests run a line, or share with one that does what their file has made. Those of the module's own
file of tests come first, then those of its package's folder, then all others, the quickest first, as many as
`--seconds` allow. Changes come in mixed order, so that what has been tried by a deadline is a fair sample. Changes of
nothing but a string's spelling, or of `strict=`, are left out.
"""

import argparse
import ast
import csv
import difflib
import json
import os
import re
import subprocess
import sys
import tomllib
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

MUTANTS = Path("mutants")
COVERAGE = MUTANTS / "coverage"
LEFT_OUT, NO_TEST, UNNOTICED = 34, 33, 0
"""What mutmut notes of a change that is not tried, that no test runs, and under which all tests pass; None: not yet."""


@dataclass(frozen=True)
class Change:
    """One change: mutmut's name of it, the function, what differs, and the source's lines of the statement it is in."""

    name: str
    function: str
    was: str
    becomes: str
    lines: range

    @property
    def of_words_alone(self) -> bool:
        """Whether nothing but a string's case or spelling differs, or zip's `strict`."""
        strict = re.compile(r",? ?strict=\w+")
        was, becomes = strict.sub("", self.was), strict.sub("", self.becomes).replace(", )", ")")
        return was == becomes or self.was.casefold() == self.becomes.replace("XX", "").casefold()


def changes(module: str, mutated: str, source: str) -> dict[str, Change]:
    """All changes of a module by mutmut's names, of the text that mutmut has made of its source."""
    functions = dict(_functions(ast.parse(source)))
    versions = defaultdict[str, dict[str, list[str]]](dict)
    lines = mutated.splitlines()
    for node in ast.walk(ast.parse(mutated)):
        if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name:
            function, _, version = node.name.partition("__mutmut_")
            name = _readable(module, function).rpartition(".")[2]
            text = [line.replace(node.name, name) for line in lines[node.lineno - 1 : node.end_lineno]]
            versions[function][version] = text
    made = {}
    for function, texts in versions.items():
        before = texts.pop("orig")
        for version, after in texts.items():
            name = f"{module}.{function}__mutmut_{version}"
            first, was, becomes = _difference(before, after)
            line = functions[function].lineno + first
            made[name] = Change(name, _readable(module, function), was, becomes, _statement(functions[function], line))
    return made


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods by mutmut's names for them."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield f"x_{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"xǁ{node.name}ǁ{n.name}", n) for n in node.body if isinstance(n, ast.FunctionDef))


def _readable(module: str, function: str) -> str:
    return ".".join([module, *filter(None, function.removeprefix("x").removeprefix("_").split("ǁ"))])


def _difference(before: list[str], after: list[str]) -> tuple[int, str, str]:
    """The first line that differs, from 0, and all that do."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    edits = [edit for edit in matcher.get_opcodes() if edit[0] != "equal"]
    was = [line.strip() for _, start, end, _, _ in edits for line in before[start:end]]
    becomes = [line.strip() for _, _, _, start, end in edits for line in after[start:end]]
    return edits[0][1], " ".join(was), " ".join(becomes)


def _statement(function: ast.FunctionDef, line: int) -> range:
    """Lines of the innermost statement around a line, without the body that it may have; for one of a function's head,
    which runs once, when the module is read, those of its body."""
    around = [n for n in ast.walk(function) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or line)]
    inner = max(around, key=lambda n: n.lineno)
    if inner is function:
        return range(function.body[0].lineno, (function.end_lineno or line) + 1)
    body = getattr(inner, "body", None)
    end = body[0].lineno - 1 if body else inner.end_lineno or line
    return range(min(inner.lineno, line), max(end, line) + 1)


def nearness(test: str, module: str) -> int:
    """0: a test in the module's own file of tests; 1: in its package's folder; 2: elsewhere."""
    package, *_, name = module.split(".")
    path = test.partition("::")[0]
    return 0 if path.startswith(f"tests/{package}/test_{name}") else 1 if path.startswith(f"tests/{package}/") else 2


def asked(module: str, contexts: Iterable[str], durations: Mapping[str, float], seconds: float) -> list[str]:
    """The tests to ask about a line: first those that run it, of its contexts (`test|phase`), then others of their
    files, which may share what one of them has made; as many as `seconds` allow, at least one, if any."""
    pairs = [context.rpartition("|") for context in contexts if context]
    direct = {test for test, _, phase in pairs if phase == "run" and test in durations}
    files = {test.partition("::")[0] for test, _, _ in pairs}
    candidates = [test for test in durations if test.partition("::")[0] in files]
    candidates.sort(key=lambda test: (test not in direct, nearness(test, module), durations[test]))
    kept, spent = list[str](), 0.0
    for test in candidates:
        if not kept or spent + durations[test] + 0.02 <= seconds:
            kept.append(test)
            spent += durations[test] + 0.02
    return kept


def of_project() -> dict[str, Change]:
    """All changes that mutmut has made in `mutants/`."""
    made = {}
    for notes in sorted(MUTANTS.rglob("*.py.meta")):
        path = notes.relative_to(MUTANTS).with_suffix("")
        module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        made.update(changes(module, (MUTANTS / path).read_text(), path.read_text()))
    return made


def outcomes() -> dict[str, int | None]:
    """What mutmut has noted of each change: an exit status of pytest, `NO_TEST`, `LEFT_OUT`, or None."""
    notes = (json.loads(path.read_text())["exit_code_by_key"] for path in sorted(MUTANTS.rglob("*.py.meta")))
    return {name: status for of_file in notes for name, status in of_file.items()}


def cover() -> None:
    """Run all tests that are asked once, to know which of them run which line."""
    settings = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["mutmut"]
    packages = [f"--cov={package}" for package in settings["source_paths"]]
    options = ["--cov-context=test", "--cov-report=", "--dist=no", *settings["pytest_add_cli_args"]]
    command = [sys.executable, "-m", "pytest", *options, *packages, *settings["pytest_add_cli_args_test_selection"]]
    MUTANTS.mkdir(exist_ok=True)
    subprocess.run(command, env={**os.environ, "COVERAGE_FILE": str(COVERAGE)}, check=True)


def run(seconds: float, minutes: float, children: int) -> None:
    """Try what has not been tried, until the time is up."""
    from coverage import CoverageData
    from mutmut import __main__ as mutmut
    from mutmut.runners.harness import PytestRunner
    from mutmut.state import state
    from mutmut.workers.isolation import ForkRunner

    if not COVERAGE.exists():
        cover()
    covered = CoverageData(str(COVERAGE))
    covered.read()
    deadline = datetime.now() + timedelta(minutes=minutes)
    made = dict[str, Change]()
    collect, submit, of_all = mutmut.collect_source_file_mutation_data, ForkRunner.submit, PytestRunner.run_tests

    @cache
    def by_line(module: str) -> dict[int, list[str]]:
        return covered.contexts_by_lineno(str(_source_of(module).absolute()))

    def collected(**what: Any) -> Any:
        mutants, by_path = collect(**what)
        made.update(of_project())
        for data, name, _ in mutants:
            if made[name].of_words_alone:
                data.exit_code_by_key[name] = LEFT_OUT
        for data in by_path.values():
            data.save()
        return [mutant for mutant in mutants if not made[mutant[1]].of_words_alone], by_path

    def submitted(runner: Any, name: str, tests: list[str], limit: int, estimate: float) -> None:
        if datetime.now() > deadline:
            raise KeyboardInterrupt  # mutmut's way to end, with what has been noted
        module = name.rpartition(".")[0]
        contexts = {context for line in made[name].lines for context in by_line(module).get(line, [])}
        durations = state().duration_by_test
        kept = asked(module, contexts, durations, seconds)
        expected = sum(durations[test] for test in kept)
        submit(runner, name, kept, ceil((expected + 3) * 6), expected + 2)

    def by_file(runner: Any, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        files = defaultdict[str, list[str]](list)
        for test in tests:
            files[test.partition("::")[0]].append(test)
        if mutant_name is None or not files:
            return int(of_all(runner, mutant_name=mutant_name, tests=tests))
        # one file after the other, so that the rest is not even read once a test has failed
        near = sorted(files, key=lambda file: (nearness(file, mutant_name.rpartition(".")[0]), file))
        return next((code for file in near if (code := of_all(runner, mutant_name=mutant_name, tests=files[file]))), 0)

    mutmut.collect_source_file_mutation_data = collected
    mutmut.estimated_worst_case_time = lambda name: zlib.crc32(name.encode())  # by which mutmut sorts
    ForkRunner.submit, PytestRunner.run_tests = submitted, by_file
    ForkRunner.run_clean_tests = lambda runner, tests: 0  # `cover` has just run them
    mutmut._run((), children)


def _source_of(module: str) -> Path:
    path = Path(*module.split("."))
    return path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"


def score() -> str:
    """A table: of each package changes, those tried, noticed, not noticed, and run by no test."""
    counts = defaultdict[str, Counter[str]](Counter)
    for name, status in outcomes().items():
        kind = {LEFT_OUT: "words", None: "untried", UNNOTICED: "unnoticed", NO_TEST: "no test"}.get(status, "noticed")
        counts[name.partition(".")[0]][kind] += 1
    lines = [
        "| package | changes | without words | tried | noticed | not noticed | run by no test | score |",
        "|---" * 8 + "|",
    ]
    for package, of in counts.items():
        tried = of["noticed"] + of["unnoticed"] + of["no test"]
        shown = [of.total(), of.total() - of["words"], tried, of["noticed"], of["unnoticed"], of["no test"]]
        lines.append(f"| `{package}` | {' | '.join(map(str, shown))} | {of['noticed'] / max(tried, 1):.0%} |")
    return "\n".join(lines)


def survivors() -> Iterator[Change]:
    """What nothing has noticed, tried or run by no test, in the order of the code."""
    made = of_project()
    return (made[name] for name, status in outcomes().items() if status in (UNNOTICED, NO_TEST))


def main(arguments: list[str] | None = None) -> None:
    """Sweep, or say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    sweep = commands.add_parser("run")
    sweep.add_argument("--seconds", type=float, default=4.0, help="of tests for a change")
    sweep.add_argument("--minutes", type=float, default=120.0, help="after which it ends, wherever it stands")
    sweep.add_argument("--children", type=int, default=2, help="changes that are tried at once")
    commands.add_parser("score")
    commands.add_parser("survivors").add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    if options.command == "run":
        run(options.seconds, options.minutes, options.children)
    elif options.command == "score":
        print(score())
    else:
        with options.out.open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["where", "was", "becomes", "why"])
            rows.writerows((change.function, change.was, change.becomes, "") for change in survivors())


if __name__ == "__main__":
    main()
