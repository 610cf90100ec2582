"""Claims: sentences of a paper as expressions over records, and what our records say of them.

An expression is evaluated twice: on means, and then so that a comparison is true or false only where a t-test within
seeds says so, or, of two deviations over seeds, an F-test. A claim that all of several comparisons hold is so accepted
if each is significant (an intersection-union test, Berger 1982), and refused if one is significantly false, at a level
divided by their number (Bonferroni); where it says how many hold, each is decided either way at that level. A spread is
pooled over those comparisons of a claim that are of the same metrics and, where no two scales are compared, of the same
scale, where they may share one, as in `reporting.verdict`. Firm words need the published experiment and three seeds,
too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from common.files import written
from common.records import IDENTITY
from reporting.evidence import AND, RANK, Grade
from reporting.expressions import Aliases, Columns, Evaluator, Referee, Shelf, Tally
from reporting.records import PUBLISHED, read_csv
from reporting.verdict import SEEDS, is_counted
from reporting.wording import plural

PRINTED = {"yes": "holds", "no": "does not hold", "not-printed": "not printed"}
"""What claims.csv says of the paper's own numbers, in words."""
COUNTED_ALONE = "no chance in it, no test"
"""Why a claim is decided that rests on nothing random."""
SHOWN = 8
"""Numbers that are listed with a claim; all of them are in the tables."""


class Outcome(StrEnum):
    """What our records say of a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    FOR = "for"
    AGAINST = "against"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"


FIRM = frozenset({Outcome.SUPPORTED, Outcome.CONTRADICTED})


@dataclass(frozen=True)
class Doubt:
    """Why runs of a scale do not decide a claim, whichever way their numbers point, or have none.

    Attributes:
        why: the reason.
        until: an expression; where it is true of the scale's numbers, on means and with the columns of the claim, they
            decide it after all. Never, if empty.
    """

    why: str
    until: str = ""

    def reason(self, evaluator: Evaluator) -> str:
        """Why the numbers of an evaluator decide nothing; empty if they do."""
        asked = replace(evaluator, referee=Referee(), tally=Tally(), used=[])
        return "" if self.until and asked.truth(self.until) else self.why


@dataclass(frozen=True)
class Finding:
    """What our records say of one claim.

    Attributes:
        points: where the means point: for, against, or nowhere.
        why: the reason of the verdict.
        grade, scale, seeds: of the numbers that it rests on, the least of them; of two that are compared, the seeds
            that both have.
        budget: the share of the published training that those have had which have had the least of it; NaN if it is not
            known, or if nothing was measured.
        hold, measured, asked: of several comparisons that all must hold.
        detail: the numbers.
        passed_over: what other scales say.
    """

    claim: str
    section: str
    statement: str
    verdict: Outcome
    points: Literal["for", "against", ""]
    why: str
    grade: str
    scale: str
    seeds: int
    budget: float
    hold: int
    measured: int
    asked: int
    detail: str
    printed: str
    passed_over: str = ""

    @property
    def rank(self) -> tuple[bool, int, int, float, int]:
        """The smaller, the better it is founded: as published, then more comparisons, more training, more seeds."""
        grade = RANK.index(Grade(self.grade)) if self.grade else len(RANK)
        unmeasured = self.verdict is Outcome.NOT_MEASURED
        return unmeasured, grade, -self.measured, -float(np.nan_to_num(self.budget)), -self.seeds

    @property
    def told(self) -> str:
        """The verdict in a line, with what it rests on."""
        if self.verdict is Outcome.NOT_MEASURED:
            return f"{self.verdict} ({self.why})" if self.why else str(self.verdict)
        counted = f", {self.hold} of {self.measured} hold" if self.measured else ""
        counted += f", {self.asked - self.measured} not measured" if self.asked > self.measured else ""
        return f"{self.verdict} at {self.scale}, {self.grade}, {plural(self.seeds, 'seed')}{counted}"

    @property
    def said(self) -> str:
        """Reason and numbers in a line; in which direction an undecided one points."""
        if self.verdict is Outcome.NOT_MEASURED:
            return "; ".join(filter(None, [self.why, self.detail]))
        points = f"its means point {self.points}" if self.verdict is Outcome.UNDECIDED else ""
        where = f"{self.scale}, {self.grade}, {plural(self.seeds, 'seed')}"
        passed = f"passed over: {self.passed_over}" if self.passed_over else ""
        why = self.why if self.why != self.grade else ""
        return "; ".join(filter(None, [where, why, points, self.detail, passed]))


def findings(
    paper: str,
    records: pd.DataFrame,
    fixed: Mapping[str, Columns | list[Columns]],
    aliases: Aliases | None = None,
    undecided: Mapping[str, Mapping[str, Doubt]] | None = None,
) -> list[Finding]:
    """Evaluate every claim of a paper, at each scale by itself, and where it asks for what no scale has alone, on what
    is as published of several, which is of one experiment, or on each table and data set at the scale that has come
    closest to the paper's, whose numbers are compared with those of no other; the best founded finding stands.

    Args:
        records: ours, of one scale or several, averages included.
        fixed: claim -> columns that its queries leave open. With several such sets it is found once for each, and its
            statement says what sets them apart.
        aliases: what the expressions call values.
        undecided: scale -> claim -> why its runs do not decide it.
    """
    doubts = undecided or {}
    ours = records[(records["paper"] == paper) & (records["control"] == "")]
    shelves = {str(scale): Shelf.of(part) for scale, part in ours.groupby("scale")} or {"": Shelf.of(ours)}
    several_scales = len(shelves) > 1
    together = [(Shelf.of(_as_published(ours)), False), (Shelf.of(_closest(ours)), True)] if several_scales else []
    claims = read_csv(PUBLISHED / "claims.csv")
    found = []
    for claim in claims[claims["paper"] == paper].to_dict("records"):
        given = fixed.get(claim["claim_id"], {})
        cases = given if isinstance(given, list) else [given]
        for columns in cases:
            about = {
                "claim": claim["claim_id"],
                "section": claim["section"],
                "statement": claim["statement"] + _set_apart(columns, cases),
                "printed": PRINTED[claim["published_holds"]],
            }
            several = [
                _finding(about, claim["inequality"], scale, Evaluator(shelf, columns, aliases or {}), doubts)
                for scale, shelf in shelves.items()
            ]
            several.sort(key=lambda finding: finding.rank)
            for shelf, apart in together:
                evaluator = Evaluator(shelf, columns, aliases or {}, apart=apart)
                joint = _finding(about, claim["inequality"], "", evaluator, {})
                doubted = apart and any(claim["claim_id"] in doubts.get(s, {}) for s in joint.scale.split(AND))
                if joint.scale not in shelves and not doubted and joint.rank < several[0].rank:
                    several.insert(0, joint)
            best, *others = several
            told = [other.told for other in others if other.verdict is not Outcome.NOT_MEASURED]
            found.append(replace(best, passed_over="; ".join(told)))
    return found


def _finding(
    about: dict[str, Any],
    expression: str,
    scale: str,
    evaluator: Evaluator,
    undecided: Mapping[str, Mapping[str, Doubt]],
) -> Finding:
    """What the records that an evaluator has say of a claim: `about` it, at the scales of those that it rests on."""
    doubt = undecided.get(scale, {}).get(about["claim"])
    outcome = _outcome(expression, evaluator, doubt.reason(evaluator) if doubt else "")
    return Finding(**about, **({"scale": scale} | outcome))


def _as_published(records: pd.DataFrame) -> pd.DataFrame:
    """The records that differ in nothing from what was published, each number once for each seed."""
    alike = records[(records["differs"] == "") & (records["stand_in"] != "yes")]
    return alike.drop_duplicates([*IDENTITY, "seed"])


def _closest(records: pd.DataFrame) -> pd.DataFrame:
    """Of each table and data set the records of one scale: as published before reduced before stand-in, then of most
    training."""
    place = ["table", "dataset"]
    far = (records["stand_in"] == "yes") * 2 + (records["differs"] != "")
    less = -pd.to_numeric(records["budget"]).fillna(-1)
    of = records[[*place, "scale"]].assign(far=far, less=less).groupby([*place, "scale"])[["far", "less"]].max()
    chosen = of.sort_values(["far", "less"], kind="stable").reset_index().drop_duplicates(place)
    return records.merge(chosen[[*place, "scale"]], on=[*place, "scale"])


def _outcome(expression: str, plain: Evaluator, why_not: str) -> dict[str, Any]:
    """What the numbers decide of a finding: on means, and then with their noise."""
    truth, partly = plain.truth(expression), False
    if truth is None:
        plain, partly = replace(plain, partly=True, referee=Referee(), tally=Tally(), used=[]), True
        truth = plain.truth(expression)
    used, tally = [found for _, found in plain.used], plain.tally
    random = [found for found in used if not is_counted(found)]
    grade = max((found.grade for found in used), key=RANK.index, default=None)
    seeds = min(plain.referee.seeds or [found.seeds for found in random or used], default=0)
    known = plain.beyond_noise(expression)
    verdict, why = _verdict(truth, known, grade, seeds if random else SEEDS, why_not)
    if partly and verdict is Outcome.SUPPORTED:
        verdict, why = Outcome.FOR, f"{tally.asked - tally.measured} comparisons were not measured"
    scales = sorted({scale for found in used for scale in found.scale.split(AND)})
    return ({"scale": AND.join(scales)} if scales else {}) | {
        "verdict": verdict,
        "points": "" if truth is None else "for" if truth else "against",
        "why": why or ("" if random or truth is None else COUNTED_ALONE),
        "grade": str(grade or ""),
        "seeds": seeds,
        "budget": float(np.min([found.budget for found in used])) if used else float("nan"),
        "hold": tally.hold,
        "measured": tally.measured,
        "asked": tally.asked,
        "detail": _detail(plain),
    }


def _verdict(
    truth: bool | None, known: bool | None, grade: Grade | None, seeds: int, why_not: str
) -> tuple[Outcome, str]:
    """The verdict and its reason, from the truth on means and that beyond noise."""
    if truth is None:
        return Outcome.NOT_MEASURED, why_not or ("" if grade is None else "not all of its numbers were measured")
    if why_not and grade is not Grade.AS_PUBLISHED:
        return Outcome.UNDECIDED, why_not
    if known is None:
        return Outcome.UNDECIDED, "within noise" if seeds > 1 else "one seed: nothing is known of the noise"
    if grade is Grade.AS_PUBLISHED and seeds >= SEEDS:
        return (Outcome.SUPPORTED if known else Outcome.CONTRADICTED), ""
    why = grade if grade is not Grade.AS_PUBLISHED else f"{plural(seeds, 'seed')}, of which {SEEDS} are needed"
    return (Outcome.FOR if known else Outcome.AGAINST), str(why)


def _set_apart(columns: Columns, cases: list[Columns]) -> str:
    """The values of columns that differ between the cases of a claim, in brackets."""
    odd = [value for column, value in columns.items() if any(case.get(column) != value for case in cases)]
    words = (" or ".join(filter(None, [value] if isinstance(value, str) else value)) for value in odd)
    return f" [{', '.join(words)}]" if odd else ""


def _detail(evaluator: Evaluator) -> str:
    """The numbers that a claim rests on, and how many of its comparisons hold."""
    t, used = evaluator.tally, list(dict.fromkeys(said for said, _ in evaluator.used))
    if not used:
        return "none of its numbers was measured"
    counted = f"{t.hold} of {t.measured} measured comparisons hold" if t.measured else ""
    missing = f"{t.asked - t.measured} more were not measured" if t.asked > t.measured else ""
    more = f"and {len(used) - SHOWN} more" if len(used) > SHOWN else ""
    return "; ".join(filter(None, [", ".join(filter(None, [counted, missing])), *used[:SHOWN], more]))


def write_claims(paper: str, found: list[Finding], about: str, file: Path) -> None:
    """Write `claims.md`, and the same as CSV beside it."""
    table = pd.DataFrame([vars(finding) for finding in found])
    lines = [f"# Claims of {paper}", "", about, ""]
    for outcome in Outcome:
        part = [finding for finding in found if finding.verdict is outcome]
        if not part:
            continue
        lines += [f"## {outcome.capitalize()} ({len(part)} of {len(found)})", ""]
        for f in part:
            lines += [
                f"- **{f.claim}** ({f.section}; on the paper's own numbers: {f.printed}). {f.statement}.",
                f"  {f.said}.",
            ]
        lines.append("")
    with written(file) as part_file:
        part_file.write_text("\n".join(lines))
    with written(file.with_suffix(".csv")) as part_file:
        table.to_csv(part_file, index=False)
