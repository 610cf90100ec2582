"""What pages say is told from something else, or is not: as expressions over the records, and each such word is one."""

import re
from functools import cache
from itertools import product
from typing import Any

import pytest
import yaml

from common.codehash import ROOT
from reporting.compared import compared, shelf
from reporting.expressions import Shelf
from reporting.records import read_records

COMPARISONS: list[dict[str, Any]] = yaml.safe_load((ROOT / "docs" / "comparisons.yaml").read_text())
TOLD = r"(?<=[,(]) ?(?:not )?told\b|\btold (?:from|above|ahead|below)\b|\btell (?:\w+ )?from nothing\b"
ELSEWHERE = {
    "common-ground-results.md": [
        "Told apart, of 1",  # how far two codes differ
        "told from FedPer, the SDA-FL-like method",  # ranks, by Nemenyi's test
        "both told from PS-FedGAN and the sharing of whole GANs",
        "is told from FedStarGAN, which is last in all",
    ],
    "common-ground.md": ["What is *told* from something else"],
    "findings.md": ["told from the best plain baseline", "comparisons of ten not told from its own network's"],
    "glossary.md": ["told, told from"],
    "padpaf.md": [
        "three seeds do not tell it from nothing everywhere (padpaf-06",  # claims
        "Its slope is not told from nothing by a one-sided t-test",
        "a 1 and, at some clients, a 2 or a 5 is told from the rest",  # to the eye
    ],
    "settings.md": ["cannot be told from one whose images were blurred"],
    "verdicts.md": ["not told from it: by a one-sided t-test", "has it if it is told from each of the others"],
}
"""What is said of other tests, or in other words what other pages say."""


@cache
def _text(page: str) -> str:
    return " ".join((ROOT / "docs" / page).read_text().split())


@cache
def _records(folder: str) -> Shelf:
    return shelf(read_records(ROOT / "results" / "reference" / folder / "records.csv.gz"))


def _cases(where: dict[str, str | list[str]]) -> list[dict[str, str]]:
    options = [[value] if isinstance(value, str) else value for value in where.values()]
    return [dict(zip(where, case, strict=True)) for case in product(*options)]


@pytest.mark.parametrize("said", COMPARISONS, ids=lambda said: said["says"][:60])
def test_what_a_page_says_is_told_is(said):
    assert said["says"] in _text(said["page"])
    for where in _cases(said["where"]):
        for expected, expressions in (("told", said.get("told", [])), ("open", said.get("open", []))):
            for expression in expressions:
                found = compared(expression, _records(said["records"]), where)
                assert found.holds is not None, f"{expression} {where}"
                outcome = "open" if not found.told else "told" if found.holds else "told otherwise"
                assert outcome == expected, f"{expression} {where}: {found.said}"


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "board.md"))
def test_what_is_told_is_an_expression(page):
    text, spans = _text(page), []
    for quote in [said["says"] for said in COMPARISONS if said["page"] == page] + ELSEWHERE.get(page, []):
        spans += [match.span() for match in re.finditer(re.escape(quote), text)]
    said = [match.end() - 1 for match in re.finditer(TOLD, text)]
    assert [text[max(at - 80, 0) : at + 1] for at in said if not any(a <= at < b for a, b in spans)] == []
