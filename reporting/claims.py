"""Claims: sentences of a paper as expressions over records, and what our records say of them.

An expression asks for numbers by `q(metric, **columns)`, which are computed with seed by seed. A number that was not
measured is `Unknown`, which comparisons and sums pass on, so that `all` can still come to a conclusion from the numbers
that are there.

An expression is evaluated twice: on means, and then so that a comparison is true or false only where a t-test within
seeds says so, and else as unknown as what was not measured. A claim that all of several comparisons hold is so accepted
if each is significant (an intersection-union test, Berger 1982), and refused if one is significantly false, at a level
divided by their number (Bonferroni). Spreads are pooled over the comparisons of a claim, as in `reporting.verdict`.
Firm words need the published experiment and three seeds, too.
"""

import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from common.errors import InputError
from common.files import written
from common.records import IDENTITY
from reporting.evidence import RANK, Evidence, Grade, as_one
from reporting.records import PUBLISHED, read_csv
from reporting.verdict import ALPHA, COUNTED, SEEDS, TIMED, Spread, above_zero
from reporting.wording import plural

CONSTANTS = {
    "SSL": ("simclr", "simsiam"),
    "PFL": ("fedavg", "fedper", "fedrep", "fedprox", "apfl", "ditto"),
    "STYLES": {
        "digit": ("mnist", "svhn", "usps"),
        "office-home": ("art", "clipart", "product", "real-world"),
        "adaptiope": ("synthetic", "product", "real-life"),
    },
    "PSD": ("mnist", "fmnist", "svhn", "cifar10"),
    "NONGAN": ("fedavg", "fedprox", "scaffold", "naivemix", "fedmix", "sda-fl"),
    "USERS": {"user-1": 2, "user-2": 3, "user-3": 5},
    "CLIENTS": tuple(f"client-{k}" for k in range(1, 9)),
    "VARIANTS": ("l10-k20", "l20-k10", "l10-k10", "l20-k20"),
    "ANGLES": ("75", "90"),
    "SYNC": ("1", "10", "100"),
    "DIGITS": tuple("0123456789"),
}
"""What the expressions call axes: FedStyle's, PaDPaF's clients, PS-FedGAN's data, baselines and users, and FedINB's
set-ups of FedDIRT, unseen domains, mini-batches between aggregations, and classes."""
Columns = dict[str, str | list[str]]
Aliases = dict[str, dict[str, str | Columns]]
"""Column -> what the expressions call a value -> what the records call it: a value of the same column, or columns."""
PRINTED = {"yes": "holds", "no": "does not hold", "not-printed": "not printed"}
"""What claims.csv says of the paper's own numbers, in words."""
SHOWN = 8
"""Numbers that are listed with a claim; all of them are in the tables."""


class Unknown:
    """A number that was not measured, a truth that depends on one, or one that the noise leaves open."""

    def _pass_on(self, *_: Any) -> "Unknown":
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __abs__ = _pass_on
    __lt__ = __le__ = __gt__ = __ge__ = _pass_on
    __eq__ = _pass_on  # type: ignore[assignment]
    __ne__ = _pass_on  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise NotMeasured


class NotMeasured(Exception):
    """An expression needs the truth of something that is unknown."""


Truth = bool | Unknown


@dataclass
class Referee:
    """Decides comparisons: on means; or, given a spread, by t-tests.

    Attributes:
        spread: of differences within seeds, pooled; None to decide on means.
        level: at which a comparison is called false.
        differences: what was compared with zero so far, where chance is in it.
    """

    spread: Spread | None = None
    level: float = ALPHA
    differences: list[Collection[float]] = field(default_factory=list)

    def above_zero(self, difference: "Number", *, or_equal: bool) -> Truth:
        """Whether a difference is."""
        values, mean = difference.values.values(), difference.mean
        plain = mean > 0 or (or_equal and mean == 0)
        if not difference.random:
            return plain
        self.differences.append(values)
        if self.spread is None:
            return plain
        p = above_zero(values, self.spread)
        if p == 0.5 and len({*values}) == 1:  # a tie without any spread
            return plain
        return True if p < ALPHA else False if 1 - p < self.level else Unknown()  # also where it is NaN


@dataclass(frozen=True, eq=False)
class Number:
    """A measured number: arithmetic pairs seeds, and a comparison is decided by a referee.

    Attributes:
        values: by seed.
        random: whether chance is in it; if not, one seed stands for all.
    """

    values: dict[str, float]
    random: bool
    referee: Referee

    @property
    def mean(self) -> float:
        """Over seeds."""
        return sum(self.values.values()) / len(self.values)

    def _with(self, other: Any, operate: Callable[[float, float], float]) -> "Number | Unknown":
        if isinstance(other, Unknown):
            return other
        if not isinstance(other, Number):
            pairs = {seed: (value, float(other)) for seed, value in self.values.items()}
        elif not other.random:
            pairs = {seed: (value, other.mean) for seed, value in self.values.items()}
        elif not self.random:
            pairs = {seed: (self.mean, value) for seed, value in other.values.items()}
        else:
            pairs = {seed: (value, other.values[seed]) for seed, value in self.values.items() if seed in other.values}
        if not pairs:
            return Unknown()
        random = self.random or (isinstance(other, Number) and other.random)
        return Number({seed: operate(*pair) for seed, pair in pairs.items()}, random, self.referee)

    def __add__(self, other: Any) -> "Number | Unknown":
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> "Number | Unknown":
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> "Number | Unknown":
        return self._with(other, lambda mine, theirs: theirs - mine)

    def __mul__(self, other: Any) -> "Number | Unknown":
        return self._with(other, operator.mul)

    def __truediv__(self, other: Any) -> "Number | Unknown":
        return self._with(other, operator.truediv)

    def __rtruediv__(self, other: Any) -> "Number | Unknown":
        return self._with(other, lambda mine, theirs: theirs / mine)

    __radd__, __rmul__ = __add__, __mul__

    def __abs__(self) -> "Size":
        return Size(self)

    def _above(self, other: Any, *, or_equal: bool, sign: int = 1) -> Truth:
        difference = (self - other) * sign if not isinstance(other, Unknown) else other
        return difference if isinstance(difference, Unknown) else self.referee.above_zero(difference, or_equal=or_equal)

    def __gt__(self, other: Any) -> Any:
        return self._above(other, or_equal=False)

    def __ge__(self, other: Any) -> Any:
        return self._above(other, or_equal=True)

    def __lt__(self, other: Any) -> Any:
        return self._above(other, or_equal=False, sign=-1)

    def __le__(self, other: Any) -> Any:
        return self._above(other, or_equal=True, sign=-1)

    def __eq__(self, other: Any) -> Any:
        """Of every seed: an identity is no matter of chance."""
        difference = self - other
        return (
            difference if isinstance(difference, Unknown) else all(abs(d) < 1e-12 for d in difference.values.values())
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Size:
    """The absolute value of a number. That it is small is two comparisons, as in TOST: noise makes it no smaller."""

    of: Number

    def _within(self, bound: Any, compare: Callable[[Any, Any], Truth]) -> Truth:
        sides = [compare(self.of, bound), compare(self.of * -1, bound)]
        if any(side is False for side in sides):
            return False
        return next((side for side in sides if isinstance(side, Unknown)), True)

    def __le__(self, bound: Any) -> Any:
        return self._within(bound, operator.le)

    def __lt__(self, bound: Any) -> Any:
        return self._within(bound, operator.lt)


@dataclass
class Tally:
    """How many comparisons below `all` were measured, and how many of them hold."""

    asked: int = 0
    measured: int = 0
    hold: int = 0

    def count(self, truths: Iterable[Any]) -> list[Any]:
        """Note the truths and return them as a list."""
        found = list(truths)
        known = [bool(truth) for truth in found if not isinstance(truth, Unknown)]
        self.asked += len(found)
        self.measured += len(known)
        self.hold += sum(known)
        return found


@dataclass(frozen=True)
class Shelf:
    """The records of one paper and scale, averages included and controls left out, to be found by their columns."""

    records: pd.DataFrame
    index: dict[str, dict[str, set[int]]]
    known: dict[tuple[int, ...], Evidence] = field(default_factory=dict)

    @classmethod
    def of(cls, records: pd.DataFrame) -> "Shelf":
        """Column -> value -> the rows that have it."""
        records = records.reset_index(drop=True)
        found = {column: records.groupby(column).indices for column in IDENTITY}
        return cls(records, {c: {str(v): set(map(int, rows)) for v, rows in of.items()} for c, of in found.items()})

    def rows(self, columns: Mapping[str, str | list[str]]) -> set[int]:
        """The rows that have, in each column, the value or one of the values."""
        named = {column: [wanted] if isinstance(wanted, str) else wanted for column, wanted in columns.items()}
        return set.intersection(
            *(set().union(*(self.index[column].get(v, set()) for v in values)) for column, values in named.items())
        )

    def evidence(self, rows: set[int], asked: str) -> Evidence:
        """What these rows say, who must say the same for the same seed.

        Raises:
            InputError: two cells match that are not the same.
        """
        key = tuple(sorted(rows))
        if key not in self.known:
            found = self.records.iloc[list(key)]
            values = found.groupby("seed")["value"].agg(["min", "max"])
            if (values["max"] - values["min"] > 1e-9).any():
                raise InputError(f"claims.csv: {asked} matches several numbers; name more columns")
            self.known[key] = as_one(found)
        return self.known[key]


@dataclass
class Evaluator:
    """Evaluates an expression over the records of one paper and scale.

    Attributes:
        fixed: column values that every query of a claim gets where it names none.
        aliases: what the expressions call values.
        referee: decides comparisons.
        partly: whether `all` goes by what was measured, if anything was.
    """

    shelf: Shelf
    fixed: Mapping[str, Any] = field(default_factory=dict)
    aliases: Aliases = field(default_factory=dict)
    referee: Referee = field(default_factory=Referee)
    partly: bool = False
    tally: Tally = field(default_factory=Tally)
    used: list[tuple[str, Evidence]] = field(default_factory=list)

    def q(self, metric: str, **columns: Any) -> Any:
        """The one matching number; a tuple matches any of its members.

        Without `variant` the default form of a method is meant, as in the published rows; without `client`, no single
        one.

        Raises:
            InputError: two cells match that are not the same.
        """
        found = self._evidence(metric, columns)
        if found is None:
            return Unknown()
        self._note(metric, columns, found, found.mean)
        return Number(found.values, metric not in COUNTED, self.referee)

    def sd(self, metric: str, **columns: Any) -> Any:
        """The standard deviation over seeds of the one matching number; under three seeds it is not known."""
        found = self._evidence(metric, columns)
        if found is None or found.seeds < SEEDS:
            return Unknown()
        self._note(f"sd of {metric}", columns, found, found.std)
        return Number({"": found.std}, True, self.referee)

    def _evidence(self, metric: str, columns: dict[str, Any]) -> Evidence | None:
        """What was measured of it; None if nothing was, or a run diverged."""
        asked = {"metric": metric, "variant": "", "client": "", **self.fixed, **columns}
        options = [[wanted] if isinstance(wanted, str) else list(wanted) for wanted in asked.values()]
        cases = (dict(zip(asked, case, strict=True)) for case in itertools.product(*options))
        rows = set().union(*(self.shelf.rows(self._meant(case)) for case in cases))
        found = self.shelf.evidence(rows, f"q('{metric}', {columns})") if rows else None
        return found if found and isfinite(found.mean) else None

    def _meant(self, case: dict[str, str]) -> dict[str, str | list[str]]:
        """One value for each column, in the words of the records. Columns that an alias names it decides on."""
        found = [(column, self.aliases.get(column, {}).get(value, value)) for column, value in case.items()]
        meant: dict[str, str | list[str]] = {k: meaning for k, meaning in found if isinstance(meaning, str)}
        for _, meaning in found:
            meant |= meaning if isinstance(meaning, dict) else {}
        return meant

    def _note(self, name: str, columns: dict[str, Any], found: Evidence, value: float) -> None:
        """List it among the numbers that the claim rests on."""
        name = found.measured_as.rsplit(":", 2)[0] or name  # without the counts
        asked = {column: value for column, value in columns.items() if column not in ("table", "aggregate")}
        meant = self._meant({column: value for column, value in asked.items() if isinstance(value, str)})
        case = " ".join(value for value in meant.values() if isinstance(value, str))
        number = "(in the records)" if found.metric in TIMED else f"{value:.3f}"
        self.used.append((f"{case} {number}" if name == "accuracy" else f"{name} {case} {number}", found))

    def all(self, truths: Iterable[Any]) -> Any:
        """False if one is known to be false, else unknown if one is unknown, else True."""
        found = self.tally.count(truths)
        known = [bool(t) for t in found if not isinstance(t, Unknown)]
        whole = len(known) == len(found) or (self.partly and bool(known))
        return False if not all(known) else True if whole else Unknown()

    def max(self, *values: Any, key: Any = None) -> Any:
        """The one with the largest mean; unknown if one is."""
        values = tuple(values[0]) if len(values) == 1 else values
        ranks = [key(v) if key else v for v in values]
        unknown = [rank for rank in ranks if isinstance(rank, Unknown)]
        if unknown:
            return unknown[0]
        best = max(range(len(ranks)), key=lambda n: _mean(ranks[n]))
        others = [rank for n, rank in enumerate(ranks) if n != best]
        if key and any(isinstance(ranks[best] > other, Unknown) for other in others):  # which it is, is not known
            return Unknown()
        return values[best]

    def min(self, *values: Any) -> Any:
        """The one with the smallest mean; unknown if one is."""
        values = tuple(values[0]) if len(values) == 1 else values
        unknown = [value for value in values if isinstance(value, Unknown)]
        return unknown[0] if unknown else min(values, key=_mean)

    def sum(self, values: Iterable[Any]) -> Any:
        """The sum; unknown if one is."""
        total: Any = 0
        for value in values:
            total = value + total if isinstance(value, Unknown) else total + value
        return total

    def truth(self, expression: str) -> bool | None:
        """Whether the expression holds; None if that is not known."""
        names = {name: getattr(self, name) for name in ("q", "sd", "all", "max", "min", "sum")}
        try:
            return bool(
                eval(expression, {"__builtins__": {"zip": zip, "int": int, "abs": abs}, **names, **CONSTANTS})
            )  # our own file, no one else's
        except NotMeasured:
            return None


def _mean(value: Any) -> float:
    return value.mean if isinstance(value, Number) else value


# ---- what comes of it


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
class Finding:
    """What our records say of one claim.

    Attributes:
        points: where the means point: for, against, or nowhere.
        why: the reason of the verdict.
        grade, scale, seeds: of the numbers that it rests on, the least of them.
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
    hold: int
    measured: int
    asked: int
    detail: str
    printed: str
    passed_over: str = ""

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """The smaller, the better it is founded."""
        grade = RANK.index(Grade(self.grade)) if self.grade else len(RANK)
        return self.verdict is Outcome.NOT_MEASURED, grade, -self.measured, -self.seeds

    @property
    def told(self) -> str:
        """The verdict in a line, with what it rests on."""
        if self.verdict is Outcome.NOT_MEASURED:
            return f"{self.verdict} ({self.why})" if self.why else str(self.verdict)
        counted = f", {self.hold} of {self.measured} hold" if self.measured else ""
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
    undecided: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Finding]:
    """Evaluate every claim of a paper, at each scale by itself; the best founded finding stands.

    Args:
        records: ours, of one scale or several, averages included.
        fixed: claim -> columns that its queries leave open. With several such sets it is found once for each, and its
            statement says what sets them apart.
        aliases: what the expressions call values.
        undecided: scale -> claim -> why its runs do not decide it, whichever way their numbers point, or have none.
    """
    ours = records[(records["paper"] == paper) & (records["control"] == "")]
    shelves = {str(scale): Shelf.of(part) for scale, part in ours.groupby("scale")} or {"": Shelf.of(ours)}
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
                Finding(
                    **about,
                    scale=scale,
                    **_outcome(
                        claim["inequality"],
                        Evaluator(shelf, columns, aliases or {}),
                        (undecided or {}).get(scale, {}).get(claim["claim_id"], ""),
                    ),
                )
                for scale, shelf in shelves.items()
            ]
            best, *others = sorted(several, key=lambda finding: finding.rank)
            told = [other.told for other in others if other.verdict is not Outcome.NOT_MEASURED]
            found.append(replace(best, passed_over="; ".join(told)))
    return found


def _outcome(expression: str, plain: Evaluator, why_not: str) -> dict[str, Any]:
    """What the numbers decide of a finding: on means, and then with their noise."""
    truth, partly = plain.truth(expression), False
    if truth is None:
        plain, partly = replace(plain, partly=True, referee=Referee(), tally=Tally(), used=[]), True
        truth = plain.truth(expression)
    used, tally, differences = [found for _, found in plain.used], plain.tally, plain.referee.differences
    random = [found for found in used if found.metric not in COUNTED]
    grade = max((found.grade for found in used), key=RANK.index, default=None)
    seeds = min((found.seeds for found in random or used), default=0)
    referee = Referee(Spread.pooled(differences), ALPHA / max(len(differences), 1))
    known = replace(plain, referee=referee, tally=Tally(), used=[]).truth(expression)
    verdict, why = _verdict(truth, known, grade, seeds if random else SEEDS, why_not)
    if partly and verdict is Outcome.SUPPORTED:
        verdict, why = Outcome.FOR, f"{tally.asked - tally.measured} comparisons were not measured"
    return {
        "verdict": verdict,
        "points": "" if truth is None else "for" if truth else "against",
        "why": why,
        "grade": str(grade or ""),
        "seeds": seeds,
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
    why = grade if grade is not Grade.AS_PUBLISHED else f"{seeds} seeds, of which {SEEDS} are needed"
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
