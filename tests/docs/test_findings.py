"""The pages of findings: what they say of claims is what the board says, or the claims of a folder of records."""

import csv
import re

import pytest

from common.codehash import ROOT

VERDICT = "(supported|contradicted|for|against|undecided)"
Said = set[tuple[str, str]]


def _on_the_board() -> Said:
    return set(re.findall(rf"^- \*\*([\w-]+)\*\* {VERDICT} ", (ROOT / "docs" / "board.md").read_text(), re.M))


def _in_folders(paper: str) -> Said:
    """What the records of one scale say, which the board puts together."""
    found = set()
    for file in (ROOT / "results" / "reference").glob(f"*/claims/{paper}.csv"):
        with open(file, newline="") as rows:
            found |= {(row["claim"], row["verdict"]) for row in csv.DictReader(rows)}
    return found


def _text(page: str) -> str:
    return " ".join((ROOT / "docs" / page).read_text().split())


def _on_the_page(text: str) -> Said:
    """In brackets, `psfedgan-06, -07, for; -10, against` speaks of three claims; only the first word on each counts, as
    what comes after it is about a part of the claim, or the runs."""
    said, paper = set(), ""
    for bracket in re.findall(r"\(([^()]*)\)", text):
        asked: list[str] = []
        for named, number, verdict in re.findall(rf"(?<!\w)([a-z]+)?-(\d\d)\b|\b{VERDICT}\b", bracket):
            if verdict:
                said |= {(claim, verdict) for claim in asked}
                asked = []
            else:
                paper = named or paper
                asked.append(f"{paper}-{number}")
        assert not asked, f"({bracket}) gives no verdict on {asked}"
    return said


def test_verdicts_on_claims_are_those_of_the_board():
    said = _on_the_page(_text("findings.md"))
    assert len(said) > 40
    assert said - _on_the_board() == set()


def test_each_claim_in_a_bracket_is_read():
    text = "(one-01, -02, against; -03, undecided) and (-04, for by few, its means against), 1e-15 (a for b)"
    verdicts = {"one-01": "against", "one-02": "against", "one-03": "undecided", "one-04": "for"}
    assert _on_the_page(text) == set(verdicts.items())


@pytest.mark.parametrize("paper", ["fedstyle", "feddva", "psfedgan", "fedinb"])
def test_verdicts_on_a_papers_page_are_the_boards_or_a_folders(paper):
    """`claims 16 and 17, supported`; `claim 4: for, of digits`."""
    text = _text(f"{paper}.md").replace("*", "")
    named = re.findall(rf"[Cc]laims? (\d+(?:(?:, | and )\d+)*)[:,]? {VERDICT}\b", text)
    said = {(f"{paper}-{int(n):02d}", verdict) for numbers, verdict in named for n in re.findall(r"\d+", numbers)}
    assert said
    assert said - _on_the_board() - _in_folders(paper) == set()
