"""The page of findings: what it says of claims is what the board says, which is made from committed records."""

import re

from common.codehash import ROOT

VERDICT = "(supported|contradicted|for|against|undecided)"


def _on_the_board() -> set[tuple[str, str]]:
    return set(re.findall(rf"^- \*\*([\w-]+)\*\* {VERDICT} ", (ROOT / "docs" / "board.md").read_text(), re.M))


def _on_the_page() -> set[tuple[str, str]]:
    """`psfedgan-06, -07, for` speaks of two claims."""
    text = " ".join((ROOT / "docs" / "findings.md").read_text().split())
    named = re.findall(rf"\b([a-z]+)-(\d+)((?:, -\d+)*), {VERDICT}", text)
    return {(f"{paper}-{n}", v) for paper, first, more, v in named for n in (first, *re.findall(r"\d+", more))}


def test_verdicts_on_claims_are_those_of_the_board():
    said = _on_the_page()
    assert len(said) >= 8
    assert said - _on_the_board() == set()
