"""Claims: sentences of a paper as expressions over records, and what our records say of them.

An expression asks for numbers by `q(metric, **columns)`. A number that was not measured is `Unknown`, which comparisons
and sums pass on, so that `all` and `any` can still come to a conclusion from the numbers that are there.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from common.errors import InputError
from common.files import written
from common.records import IDENTITY
from reporting.records import PUBLISHED, read_csv

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
SHOWN = 8
"""Numbers that are listed with a claim; all of them are in the tables."""


class Unknown:
    """A number that was not measured, or a truth that depends on one."""

    def _pass_on(self, *_: Any) -> "Unknown":
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _pass_on
    __lt__ = __le__ = __gt__ = __ge__ = _pass_on
    __eq__ = _pass_on  # type: ignore[assignment]
    __ne__ = _pass_on  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise NotMeasured


class NotMeasured(Exception):
    """An expression needs the truth of something that was not measured."""


@dataclass
class Tally:
    """How many comparisons below `all` and `any` were measured, and how many of them hold."""

    asked: int = 0
    measured: int = 0
    hold: int = 0

    def count(self, truths: Iterable[Any]) -> list[Any]:
        """Note the truths and return them as a list."""
        found = list(truths)
        known = [bool(truth) for truth in found if not isinstance(truth, Unknown)]
        self.asked, self.measured, self.hold = (
            self.asked + len(found),
            self.measured + len(known),
            self.hold + sum(known),
        )
        return found


Index = dict[str, dict[str, set[int]]]


def index_of(records: pd.DataFrame) -> Index:
    """Column -> value -> the rows that have it."""
    return {
        column: {str(value): set(map(int, rows)) for value, rows in records.groupby(column).indices.items()}
        for column in IDENTITY
    }


@dataclass
class Evaluator:
    """Evaluates expressions over the records of one paper.

    Attributes:
        records: of one paper, averages included, controls left out.
        index: of the records.
        fixed: column values that every query of a claim gets where it names none.
        aliases: what the expressions call values.
    """

    records: pd.DataFrame
    index: Index
    fixed: Mapping[str, Any] = field(default_factory=dict)
    aliases: Aliases = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    used: list[str] = field(default_factory=list)

    def q(self, metric: str, **columns: Any) -> Any:
        """The mean over seeds of the one matching number; a tuple matches any of its members.

        Without `variant` the default form of a method is meant, as in the published rows; without `client`, no single
        one.

        Raises:
            InputError: two cells match that are not the same.
        """
        by_seed, name = self._by_seed(metric, columns)
        return Unknown() if by_seed is None else self._note(name, columns, float(by_seed.mean()))

    def sd(self, metric: str, **columns: Any) -> Any:
        """The standard deviation over seeds of the one matching number; under three seeds it is not known."""
        by_seed, name = self._by_seed(metric, columns)
        if by_seed is None or len(by_seed) < 3:
            return Unknown()
        return self._note(f"sd of {name}", columns, float(by_seed.std()))

    def _by_seed(self, metric: str, columns: dict[str, Any]) -> tuple[pd.Series | None, str]:
        """The matching number of each seed, None if it was not measured; and the metric's name, with its extractor."""
        asked = {"metric": metric, "variant": "", "client": "", **self.fixed, **columns}
        options = [[wanted] if isinstance(wanted, str) else list(wanted) for wanted in asked.values()]
        cases = (dict(zip(asked, case, strict=True)) for case in itertools.product(*options))
        rows = self.records.iloc[sorted(set().union(*(self._rows(self._meant(case)) for case in cases)))]
        if rows.empty or rows["value"].isna().any():
            return None, metric
        values = rows.groupby("seed")["value"].agg(["min", "max"])
        if (values["max"] - values["min"] > 1e-9).any():
            raise InputError(f"claims.csv: q('{metric}', {columns}) matches several numbers; name more columns")
        if "measured_as" in rows and rows["measured_as"].iloc[0]:
            metric = rows["measured_as"].iloc[0].rsplit(":", 2)[0]  # without the counts
        return values["min"], metric

    def _meant(self, case: dict[str, str]) -> dict[str, str | list[str]]:
        """One value for each column, in the words of the records. Columns that an alias names it decides on."""
        found = [(column, self.aliases.get(column, {}).get(value, value)) for column, value in case.items()]
        meant: dict[str, str | list[str]] = {k: meaning for k, meaning in found if isinstance(meaning, str)}
        for _, meaning in found:
            meant |= meaning if isinstance(meaning, dict) else {}
        return meant

    def _rows(self, columns: dict[str, str | list[str]]) -> set[int]:
        """The rows that have, in each column, the value or one of the values."""
        named = {column: [wanted] if isinstance(wanted, str) else wanted for column, wanted in columns.items()}
        return set.intersection(
            *(set().union(*(self.index[column].get(v, set()) for v in values)) for column, values in named.items())
        )

    def _note(self, name: str, columns: dict[str, Any], value: float) -> float:
        """The value, listed among the numbers that the claim rests on."""
        case = " ".join(v for k, v in columns.items() if isinstance(v, str) and k not in ("table", "aggregate"))
        self.used.append(f"{case} {value:.3f}" if name == "accuracy" else f"{name} {case} {value:.3f}")
        return value

    def all(self, truths: Iterable[Any]) -> Any:
        """False if one is known to be false, else unknown if one is unknown, else True."""
        found = self.tally.count(truths)
        known = [bool(t) for t in found if not isinstance(t, Unknown)]
        return False if not all(known) else Unknown() if len(known) < len(found) else True

    def max(self, *values: Any, key: Any = None) -> Any:
        """The largest; unknown if one is."""
        values = tuple(values[0]) if len(values) == 1 else values
        ranks = [key(v) if key else v for v in values]
        unknown = [rank for rank in ranks if isinstance(rank, Unknown)]
        return unknown[0] if unknown else max(zip(ranks, values, strict=True), key=lambda pair: pair[0])[1]

    def min(self, *values: Any) -> Any:
        """The smallest; unknown if one is."""
        values = tuple(values[0]) if len(values) == 1 else values
        unknown = [value for value in values if isinstance(value, Unknown)]
        return unknown[0] if unknown else min(values)

    def sum(self, values: Iterable[Any]) -> Any:
        """The sum; unknown if one is."""
        total: Any = 0
        for value in values:
            total = value + total if isinstance(value, Unknown) else total + value
        return total

    def abs(self, value: Any) -> Any:
        """The absolute value; unknown of what is."""
        return value if isinstance(value, Unknown) else abs(value)

    def truth(self, expression: str) -> bool | None:
        """Whether the expression holds; None if that was not measured."""
        names = {name: getattr(self, name) for name in ("q", "sd", "all", "max", "min", "sum", "abs")}
        try:
            return bool(
                eval(expression, {"__builtins__": {"zip": zip, "int": int}, **names, **CONSTANTS})
            )  # our own file, no one else's
        except NotMeasured:
            return None


VERDICTS = {True: "supported", False: "contradicted", None: "not measured"}


@dataclass(frozen=True)
class Finding:
    """What our records say of one claim."""

    claim: str
    section: str
    statement: str
    verdict: str
    detail: str
    printed: str


def findings(
    paper: str,
    records: pd.DataFrame,
    fixed: Mapping[str, Columns | list[Columns]],
    aliases: Aliases | None = None,
    undecided: dict[str, str] | None = None,
) -> list[Finding]:
    """Evaluate every claim of a paper.

    Args:
        fixed: claim -> columns that its queries leave open. With several such sets it is found once for each, and its
            statement says what sets them apart.
        aliases: what the expressions call values.
        undecided: claim -> why these numbers do not decide it.
    """
    ours = records[(records["paper"] == paper) & (records["control"] == "")]
    index, claims = index_of(ours), read_csv(PUBLISHED / "claims.csv")
    found = []
    for claim in claims[claims["paper"] == paper].to_dict("records"):
        given = fixed.get(claim["claim_id"], {})
        cases = given if isinstance(given, list) else [given]
        for columns in cases:
            evaluator = Evaluator(ours, index, columns, aliases or {})
            truth, why_not = evaluator.truth(claim["inequality"]), (undecided or {}).get(claim["claim_id"])
            verdict, numbers = VERDICTS[truth], _detail(evaluator, truth)
            if why_not and truth is not None:
                verdict, numbers = "undecided", f"{why_not}; {numbers}"
            found.append(
                Finding(
                    claim=claim["claim_id"],
                    section=claim["section"],
                    statement=claim["statement"] + _set_apart(columns, cases),
                    verdict=verdict,
                    detail=numbers,
                    printed={"yes": "holds", "no": "does not hold"}.get(claim["published_holds"], "not printed"),
                )
            )
    return found


def _set_apart(columns: Columns, cases: list[Columns]) -> str:
    """The values of columns that differ between the cases of a claim, in brackets."""
    odd = [value for column, value in columns.items() if any(case.get(column) != value for case in cases)]
    words = (" or ".join(filter(None, [value] if isinstance(value, str) else value)) for value in odd)
    return f" [{', '.join(words)}]" if odd else ""


def _detail(evaluator: Evaluator, truth: bool | None) -> str:
    t, used = evaluator.tally, list(dict.fromkeys(evaluator.used))
    more = f"; and {len(used) - SHOWN} more" if len(used) > SHOWN else ""
    numbers = "; ".join(used[:SHOWN]) + more
    if truth is None and not t.measured:
        return "none of its numbers was measured"
    counted = f"{t.hold} of {t.measured} measured comparisons hold" if t.measured else ""
    missing = f", {t.asked - t.measured} more were not measured" if t.asked > t.measured else ""
    return "; ".join(filter(None, [counted + missing, numbers]))


def write_claims(paper: str, found: list[Finding], about: str, file: Path) -> None:
    """Write `claims.md`, and the same as CSV beside it."""
    table = pd.DataFrame([vars(finding) for finding in found])
    lines = [f"# Claims of {paper}", "", about, ""]
    for outcome in ("supported", "contradicted", "undecided", "not measured"):
        part = table[table["verdict"] == outcome]
        if part.empty:
            continue
        lines += [f"## {outcome.capitalize()} ({len(part)} of {len(table)})", ""]
        for row in part.to_dict("records"):
            lines += [
                f"- **{row['claim']}** ({row['section']}; on the paper's own numbers: {row['printed']}). "
                f"{row['statement']}.",
                f"  {row['detail']}.",
            ]
        lines.append("")
    with written(file) as part_file:
        part_file.write_text("\n".join(lines))
    with written(file.with_suffix(".csv")) as part_file:
        table.to_csv(part_file, index=False)
