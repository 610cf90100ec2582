"""Claims as the page shows them."""

import re
from dataclasses import dataclass, field

from reporting.claims import Finding, Outcome
from reporting.looks import CLAIMS, Look
from reporting.report.anchors import slug
from reporting.wording import plain, plural


@dataclass(frozen=True)
class ClaimView:
    """A claim as the page shows it."""

    finding: Finding
    known: frozenset[str] = field(repr=False)

    @property
    def look(self) -> Look:
        """Of its verdict."""
        return CLAIMS[self.finding.verdict]

    @property
    def id(self) -> str:
        """Its anchor; a claim that is asked in several ways has several."""
        apart = re.search(r" \[(.*)\]$", self.finding.statement)
        return f"claim-{slug(' '.join([self.finding.claim, *(apart.groups() if apart else ())]))}"

    @property
    def numbers(self) -> tuple[str, list[str]]:
        """How many comparisons hold, and the numbers one by one."""
        first, *rest = [plain(part) for part in self.finding.detail.split("; ")]
        return (first, rest) if "comparisons" in first or not rest else ("Its numbers", [first, *rest])

    @property
    def basis(self) -> str:
        """The reason of the verdict, and on what kind of runs."""
        found = self.finding
        if found.verdict is Outcome.NOT_MEASURED:
            return found.why
        why = found.why if found.why != found.grade else ""
        points = f"its means point {found.points}" if found.verdict is Outcome.UNDECIDED and found.points else ""
        where = f"{found.grade}, at scale {found.scale}, {plural(found.seeds, 'seed')}"
        return "; ".join(filter(None, [where, why, points]))

    @property
    def methods(self) -> list[str]:
        """Those that its numbers are of."""
        return sorted(self.known & {*re.findall(r"[\w-]+", self.finding.detail)})
