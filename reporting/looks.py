"""What verdicts look like and mean, wherever they are shown."""

from dataclasses import dataclass

from reporting.claims import Outcome
from reporting.verdict import Verdict


@dataclass(frozen=True)
class Look:
    """How a verdict looks, and what it means."""

    verdict: str
    mark: str
    means: str

    @property
    def slug(self) -> str:
        """Its name in style sheets and links."""
        return self.verdict.replace(" ", "-")


def _looks(meanings: dict[str, tuple[str, str]]) -> dict[str, Look]:
    return {verdict: Look(verdict, mark, means) for verdict, (mark, means) in meanings.items()}


FIRMLY = "as published, and a count or three seeds or more"
CELLS = _looks(
    {
        Verdict.AGREES: ("✓", f"{FIRMLY}: equal within the metric's tolerance"),
        Verdict.DISAGREES: ("✗", f"{FIRMLY}: off by more than the tolerance"),
        Verdict.UNDECIDED: ("?", "as published, but too few seeds or too much noise to tell"),
        Verdict.TREND_HOLDS: ("↑", "on the paper's side of the reference row, beyond noise"),
        Verdict.TREND_FAILS: ("↓", "on the other side of the reference row, beyond noise"),
        Verdict.WITHIN_NOISE: ("≈", "on which side of the reference row it is, the noise hides"),
        Verdict.NOT_COMPARABLE: ("·", "measured on something smaller or else, with nothing to read a trend from"),
        Verdict.DIVERGED: ("!", "the run did not end in a number"),
        Verdict.NOT_MEASURED: ("–", "printed in the paper, not measured here"),
        Verdict.NOT_PUBLISHED: ("+", "measured here, not printed in the paper"),
        Verdict.BEST: ("★", "the best of its column; the test stands below"),
        Verdict.NEAR_BEST: ("☆", "not told from the best of its column"),
    }
)
"""The verdicts on cells, firmest first."""
CLAIMS = _looks(
    {
        Outcome.SUPPORTED: ("✓", f"{FIRMLY}: it holds"),
        Outcome.CONTRADICTED: ("✗", f"{FIRMLY}: it does not hold"),
        Outcome.FOR: ("↑", "it holds on smaller runs, or on fewer seeds"),
        Outcome.AGAINST: ("↓", "it does not hold on smaller runs, or on fewer seeds"),
        Outcome.UNDECIDED: ("?", "the numbers do not decide it"),
        Outcome.NOT_MEASURED: ("–", "not all of its numbers were measured"),
    }
)
"""The verdicts on claims, firmest first."""
