"""Expressions over records, as claims are written: what they compute, and what of it noise leaves open.

An expression asks for numbers by `q(metric, **columns)`, which are computed with seed by seed. A number that was not
measured is `Unknown`, which comparisons and sums pass on, so that `all` can still come to a conclusion from the numbers
that are there. A `Referee` decides comparisons: on means, or so that one is true or false only where a test over
seeds says so, and else as unknown as what was not measured.
"""

import ast
import copy
import itertools
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, isnan
from typing import Any

import numpy as np
import pandas as pd

from common.errors import InputError
from common.records import IDENTITY
from reporting.evidence import Evidence, Key, Row, as_rows, merged
from reporting.verdict import ALPHA, SEEDS, TIMED, BySeed, Spread, above_zero, is_counted, wider
from reporting.wording import ROUNDING

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
CENSORED = frozenset({"rounds_to_target"})
"""Metrics that two methods have alike when neither gets there, of which nobody knows who would be first."""
Metrics = frozenset[str]
Scales = frozenset[str]
Kind = tuple[Metrics, Scales]
"""What a difference is between; those of one kind may share a spread."""
Columns = dict[str, str | list[str]]
Aliases = dict[str, dict[str, str | Columns]]
"""Column -> what the expressions call a value -> what the records call it: a value of the same column, or columns."""


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


class Hidden(Unknown):
    """A truth that the noise leaves open. It was measured, so that nobody may conclude without it."""


class NotMeasured(Exception):
    """An expression needs the truth of something that is unknown."""


Truth = bool | Unknown


@dataclass
class Referee:
    """Decides comparisons: on means; or, given spreads, by tests.

    Attributes:
        spreads: of each kind of differences within seeds, as far as they share one; None to decide on means.
        level: at which a comparison is called false.
        strict: at which one is called true that is counted: of several of which some are enough.
        counting: whether it is.
        differences: of each kind, what was compared with zero so far, where chance is in it; what has the same noise
            once.
        seeds: of each comparison so far with chance in it, those of deviations included, how many it rests on.
        truths: how many were counted so far.
    """

    spreads: Mapping[Kind, Spread] | None = None
    level: float = ALPHA
    strict: float = ALPHA
    counting: bool = False
    differences: dict[Kind, list[BySeed]] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    truths: int = 0

    def above_zero(self, difference: "Number", *, or_equal: bool) -> Truth:
        """Whether a difference is."""
        values, mean = [*difference.values.values()], difference.mean
        plain = mean >= ROUNDING or (or_equal and mean > -ROUNDING)
        if not difference.random:
            return plain
        known = self.differences.setdefault(difference.kind, [])
        if not any(_same_noise(difference.values, others) for others in known):
            known.append(difference.values)
        self.seeds.append(len(values))
        if self.spreads is None:
            return plain
        p = above_zero(values, self.spreads.get(difference.kind, Spread()))
        tie = len(values) > 1 and max(map(abs, values)) < ROUNDING  # seed by seed; a single one may be chance
        if tie and not difference.metrics & CENSORED:
            return plain
        return self._decided(p)

    def wider(self, one: Evidence, other: Evidence, *, or_equal: bool) -> Truth:
        """Whether a deviation over seeds is above another one."""
        fewest = min(one.seeds, other.seeds)
        self.seeds.append(fewest)
        if self.spreads is None:
            return one.std > other.std or (or_equal and one.std == other.std)
        return self._decided(wider(one, other)) if fewest >= SEEDS else Hidden()

    def counted(self, truths: Iterable[Any]) -> list[Any]:
        """The truths as a list, each found at the level of those that are counted; what is no truth passes, too.

        That r of n hold takes tests at 5 % / (n - r + 1) (Benjamini and Heller 2008): 5 % / n is strict enough.
        """
        before, self.counting = self.counting, True
        found = list(truths)
        self.counting = before
        self.truths += sum(isinstance(truth, bool) for truth in found)
        return found

    def _decided(self, p: float) -> Truth:
        true = p < (self.strict if self.counting else ALPHA)
        return True if true else False if 1 - p < self.level else Hidden()  # also where it is NaN


def _same_noise(values: BySeed, others: BySeed) -> bool:
    """Whether two comparisons have the same residuals up to their sign, as both sides of `abs` and of a chain have.

    A spread knows no more of them together than of one.
    """
    if values.keys() != others.keys():
        return False
    several = np.asarray([[found[seed] for seed in values] for found in (values, others)])
    one, other = several - several.mean(axis=1, keepdims=True)
    apart = min(np.abs(one - other).max(), np.abs(one + other).max())
    return bool(apart <= ROUNDING * np.abs(several).max())


@dataclass(frozen=True, eq=False)
class Number:
    """A measured number: arithmetic pairs seeds, and a comparison is decided by a referee.

    Attributes:
        values: by seed.
        metrics: what it is computed from, as far as chance is in it.
        scales: those that no comparison may mix; none where it may.
    """

    values: dict[str, float]
    metrics: Metrics
    scales: Scales
    referee: Referee

    @property
    def kind(self) -> Kind:
        """What it shares its spread with: as in tables, numbers of the same metrics and scale."""
        return self.metrics, self.scales

    @property
    def random(self) -> bool:
        """Whether chance is in it; if not, one seed stands for all."""
        return bool(self.metrics)

    @property
    def mean(self) -> float:
        """Over seeds."""
        return sum(self.values.values()) / len(self.values)

    def _with(self, other: Any, operate: Callable[[float, float], float]) -> "Number | Unknown":
        if isinstance(other, Unknown):
            return NotImplemented  # which says for itself what comes of it
        if isinstance(other, ExtremeNumber):
            return other._with(self, lambda theirs, mine: operate(mine, theirs))
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
        metrics, scales = self.metrics, self.scales
        if isinstance(other, Number):
            metrics, scales = metrics | other.metrics, scales | other.scales
        if len(scales) > 1:
            return Unknown()
        return Number({seed: operate(*pair) for seed, pair in pairs.items()}, metrics, scales, self.referee)

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
        if isinstance(other, Unknown):
            return NotImplemented
        difference = (self - other) * sign
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
        if isinstance(difference, Unknown):
            return difference
        if difference.random:
            self.referee.seeds.append(len(difference.values))
        return all(abs(d) < 1e-12 for d in difference.values.values())

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Size:
    """The absolute value of a number. That it is small is two comparisons, as in TOST: noise makes it no smaller."""

    of: Number

    def _within(self, bound: Any, compare: Callable[[Any, Any], Truth]) -> Truth:
        return _every([compare(self.of, bound), compare(self.of * -1, bound)])

    def __le__(self, bound: Any) -> Any:
        return self._within(bound, operator.le)

    def __lt__(self, bound: Any) -> Any:
        return self._within(bound, operator.lt)


@dataclass(frozen=True)
class Deviation:
    """The standard deviation over seeds of a number, which is compared with others."""

    of: Evidence
    referee: Referee

    def __gt__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Unknown) else self.referee.wider(self.of, other.of, or_equal=False)

    def __ge__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Unknown) else self.referee.wider(self.of, other.of, or_equal=True)

    def __lt__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Unknown) else other > self

    def __le__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Unknown) else other >= self


@dataclass(frozen=True, eq=False)
class Extreme:
    """The largest or the smallest of several, in a comparison: noise hides which of them it is, so that each is asked.

    The largest is below a bound if every one is. It is above if one is, which is counted: the more there are, the more
    are so by chance.
    """

    referee: Referee
    members: tuple[Any, ...]
    largest: bool

    def _compared(self, compare: Callable[[Any, Any], Truth], bound: Any, *, every: bool) -> Truth:
        truths = (compare(member, bound) for member in self.members)
        return _every([*truths]) if every else _one(self.referee.counted(truths))

    def __gt__(self, other: Any) -> Any:
        return self._compared(operator.gt, other, every=not self.largest)

    def __ge__(self, other: Any) -> Any:
        return self._compared(operator.ge, other, every=not self.largest)

    def __lt__(self, other: Any) -> Any:
        return self._compared(operator.lt, other, every=self.largest)

    def __le__(self, other: Any) -> Any:
        return self._compared(operator.le, other, every=self.largest)


@dataclass(frozen=True, eq=False)
class ExtremeNumber(Extreme, Number):
    """Of numbers. Python asks it first, as a subclass, on either side of a comparison."""

    def _with(self, other: Any, operate: Callable[[float, float], float]) -> Number | Unknown:
        """Arithmetic with each of them: what it turns round has the largest as its smallest.

        A factor or a divisor is taken to have one sign.
        """
        if isinstance(other, Unknown):
            return NotImplemented
        at = other.mean if isinstance(other, Number) else float(other)
        grows = operate(2.0, at) > operate(1.0, at)
        found = tuple(member._with(other, operate) for member in self.members)
        return _extreme(found, largest=self.largest is grows)


@dataclass(frozen=True, eq=False)
class ExtremeDeviation(Extreme, Deviation):
    """Of deviations."""


class PartOfSeveral(Extreme, Unknown):
    """The largest or the smallest of several of which some were not measured.

    Which it is nobody knows, but those that were can tell already that it is not below a bound, or above it.
    """

    def _compared(self, compare: Callable[[Any, Any], Truth], bound: Any, *, every: bool) -> Truth:
        before = copy.deepcopy(self.referee)
        truth = super()._compared(compare, bound, every=every)
        if isinstance(truth, bool):
            return truth
        vars(self.referee).update(vars(before))  # nothing rests on what it heard
        return Unknown()

    def _is_unknown(self, *_: Any) -> Unknown:
        return Unknown()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __abs__ = _is_unknown
    __eq__ = __ne__ = _is_unknown


def _every(truths: list[Truth]) -> Truth:
    """Whether all hold: False if one does not, else unknown if one is."""
    return False if any(truth is False for truth in truths) else _unknown(truths, otherwise=True)


def _one(truths: list[Truth]) -> Truth:
    """Whether one holds: True if one does, else unknown if one is."""
    return True if any(truth is True for truth in truths) else _unknown(truths, otherwise=False)


def _unknown(truths: list[Truth], *, otherwise: bool) -> Truth:
    """What is unknown of several: what noise hides, which was measured, before what was not."""
    unknown = [truth for truth in truths if isinstance(truth, Unknown)]
    hidden = [truth for truth in unknown if isinstance(truth, Hidden)]
    return next(iter([*hidden, *unknown]), otherwise)


@dataclass(frozen=True, eq=False)
class Count:
    """How many of several comparisons hold.

    Attributes:
        least, most: between so many and so many.
        open: what is unknown of them; False if nothing is.
    """

    least: int
    most: int
    open: Truth

    def _known(self, compare: Callable[[float, float], bool], bound: float) -> Truth:
        truths = {compare(self.least, bound), compare(self.most, bound)}
        return truths.pop() if len(truths) == 1 else self.open

    def __gt__(self, bound: float) -> Any:
        return self._known(operator.gt, bound)

    def __ge__(self, bound: float) -> Any:
        return self._known(operator.ge, bound)

    def __eq__(self, number: Any) -> Any:
        if self.least < self.most and self.least <= number <= self.most:
            return self.open
        return self.least == number == self.most

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Argmax:
    """That which has the largest of several numbers, which is asked for by `==`.

    Attributes:
        ranks: the numbers, by what has them.
    """

    ranks: Mapping[Any, Any]

    def __eq__(self, name: Any) -> Any:
        """Whether the named one's is above each of the others: not so if one is above it, and of two that are level
        it is neither."""
        return _every([self.ranks[name] > rank for other, rank in self.ranks.items() if other != name])

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Tally:
    """How many comparisons below `all` or `sum` were measured, and how many of them hold."""

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
    """The records of one paper and experiment with averages, without controls, to be found by their columns.

    Attributes:
        cells: of each record, a number for the cell that it is of, under whatever tables that stands.
        index: column -> value -> the rows that have it.
        known: evidence by its rows, as far as it was asked for.
    """

    records: list[Row]
    cells: list[int]
    index: dict[str, dict[str, set[int]]]
    known: dict[tuple[int, ...], Evidence] = field(default_factory=dict)

    @classmethod
    def of(cls, records: pd.DataFrame, columns: Sequence[str] = IDENTITY) -> "Shelf":
        """All of these records, whose cells are told apart by these columns."""
        index: dict[str, dict[str, set[int]]] = {column: defaultdict(set) for column in columns}
        for column, rows in index.items():
            for number, value in enumerate(records[column]):
                rows[str(value)].add(number)
        cells: dict[Key, int] = {}
        keys = records[[column for column in columns if column not in ("table", "kind")]]
        numbers = [cells.setdefault(key, len(cells)) for key in keys.itertuples(index=False, name=None)]
        return cls(as_rows(records), numbers, index)

    def rows(self, columns: Mapping[str, str | list[str]]) -> set[int]:
        """The rows that have, in each column, the value or one of the values."""
        found = [self._of_column(column, wanted) for column, wanted in columns.items()]
        return set.intersection(*sorted(found, key=len))  # the fewest first: a step takes as long as what is left

    def _of_column(self, column: str, wanted: str | list[str]) -> set[int]:
        values = self.index[column]
        if isinstance(wanted, str):
            return values.get(wanted, set())
        return set().union(*(values.get(value, set()) for value in wanted))

    def evidence(self, rows: set[int], asked: str) -> Evidence:
        """What these rows say, who must say the same for the same seed.

        Raises:
            InputError: two cells match that are not the same, or that have no seed in common to show it.
        """
        key = tuple(sorted(rows))
        if key not in self.known:
            found = [self.records[row] for row in key]
            of_seeds = defaultdict(list)
            for row in found:
                if not isnan(row["value"]):  # of a seed that diverged
                    of_seeds[row["seed"]].append(row["value"])
            seeds = defaultdict(set)
            for number in key:
                seeds[self.cells[number]].add(self.records[number]["seed"])
            unlike = any(max(several) - min(several) > ROUNDING for several in of_seeds.values())
            if unlike or any(one.isdisjoint(other) for one, other in itertools.combinations(seeds.values(), 2)):
                raise InputError(f"{asked} matches several numbers; name more columns")
            self.known[key] = merged(found)
        return self.known[key]


@dataclass
class Evaluator:
    """Evaluates an expression over the records of one paper and experiment.

    Attributes:
        fixed: column values that every query of a claim gets where it names none.
        aliases: what the expressions call values.
        referee: decides comparisons.
        partly: whether `all` goes by what was measured, if anything was; what noise hides was.
        apart: whether what is computed with numbers of several scales is unknown; deviations are then, too.
    """

    shelf: Shelf
    fixed: Mapping[str, Any] = field(default_factory=dict)
    aliases: Aliases = field(default_factory=dict)
    referee: Referee = field(default_factory=Referee)
    partly: bool = False
    apart: bool = False
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
        metrics = frozenset() if is_counted(found) else frozenset({metric})
        return Number(found.values, metrics, frozenset({found.scale} if self.apart else ()), self.referee)

    def sd(self, metric: str, **columns: Any) -> Any:
        """The standard deviation over seeds of the one matching number; a single seed has none."""
        found = self._evidence(metric, columns)
        if found is None or found.seeds == 1 or self.apart:
            return Unknown()
        self._note(f"sd of {metric}", columns, found, found.std)
        return Deviation(found, self.referee)

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
        ways = dict.fromkeys(way.rsplit(":", 2)[0] for way in found.measured_as.split())  # without the counts
        name = " ".join(ways) or name
        asked = {column: value for column, value in columns.items() if column not in ("table", "aggregate")}
        meant = self._meant({column: value for column, value in asked.items() if isinstance(value, str)})
        case = " ".join(value for value in meant.values() if isinstance(value, str))
        digits = ".3f" if value == 0 or abs(value) >= 0.0005 else ".1e"
        number = "(in the records)" if found.metric in TIMED else f"{value:{digits}}"
        self.used.append((f"{case} {number}" if name == "accuracy" else f"{name} {case} {number}", found))

    def all(self, truths: Iterable[Any]) -> Any:
        """False if one is known to be false, else unknown if one is unknown, else True."""
        found = self.tally.count(truths)
        if not all(truth for truth in found if not isinstance(truth, Unknown)):
            return False
        measured = [truth for truth in found if not isinstance(truth, Unknown) or isinstance(truth, Hidden)]
        asked = measured if self.partly and measured else found
        return next((truth for truth in asked if isinstance(truth, Unknown)), True)

    def max(self, *values: Any, key: Any = None) -> Any:
        """The largest, or with a key the one of which that is the largest."""
        values = tuple(values[0]) if len(values) == 1 else values
        return _extreme(values, largest=True) if key is None else Argmax({value: key(value) for value in values})

    def min(self, *values: Any) -> Any:
        """The smallest."""
        return _extreme(tuple(values[0]) if len(values) == 1 else values, largest=False)

    def sum(self, values: Iterable[Any]) -> Any:
        """The sum, unknown if one is; of comparisons how many hold, as far as that is known."""
        found = self.referee.counted(values)
        if any(isinstance(value, bool | Hidden) for value in found):
            unknown = sum(isinstance(truth, Unknown) for truth in self.tally.count(found))
            held = sum(truth is True for truth in found)
            return Count(held, held + unknown, _unknown(found, otherwise=False))
        total: Any = 0
        for value in found:
            total = value + total if isinstance(value, Unknown) else total + value
        return total

    def truth(self, expression: str) -> bool | None:
        """Whether the expression holds; None if that is not known."""
        names = {name: getattr(self, name) for name in ("q", "sd", "all", "max", "min", "sum")}
        builtins = {"zip": zip, "int": int, "abs": abs, EVERY: _every}
        whole = ast.fix_missing_locations(_Whole().visit(ast.parse(expression, mode="eval")))
        try:  # our own file, no one else's
            return bool(eval(compile(whole, expression, "eval"), {"__builtins__": builtins, **names, **CONSTANTS}))
        except NotMeasured:
            return None

    def beyond_noise(self, expression: str) -> bool | None:
        """Whether it holds, or does not, by tests; None if noise leaves that open.

        To be asked after `truth`, which knows of how many numbers, and how noisy they are.
        """
        spreads = {kind: Spread.shared(several) for kind, several in self.referee.differences.items()}
        level, strict = (ALPHA / max(number, 1) for number in (len(self.referee.seeds), self.referee.truths))
        referee = Referee(spreads, level, strict)
        return replace(self, referee=referee, tally=Tally(), used=[]).truth(expression)


EVERY = "every"
"""What expressions call `_every`."""


class _Whole(ast.NodeTransformer):
    """Has all parts of `a and b` and of `a < b < c` asked.

    Python stops at the first that fails, so that what comes of a claim would depend on the order of its parts: how many
    comparisons it makes, and whether one that noise leaves open hides another that is false.
    """

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """`a and b and ...`."""
        self.generic_visit(node)
        return self._every(node.values) if isinstance(node.op, ast.And) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`a < b < ...`."""
        self.generic_visit(node)
        sides = itertools.pairwise([node.left, *node.comparators])
        parts: list[ast.expr] = [
            ast.Compare(left, [op], [right]) for (left, right), op in zip(sides, node.ops, strict=True)
        ]
        return self._every(parts) if len(parts) > 1 else node

    def _every(self, parts: list[ast.expr]) -> ast.AST:
        return ast.Call(ast.Name(EVERY, ast.Load()), [ast.List(parts, ast.Load())], [])


def _extreme(values: tuple[Any, ...], *, largest: bool) -> Any:
    """The largest or the smallest of numbers, constants among them, or of deviations, as far as they are known."""
    unknown, pick = [value for value in values if isinstance(value, Unknown)], max if largest else min
    measured = [value for value in values if isinstance(value, Number | Deviation)]
    if not measured:
        return unknown[0] if unknown else pick(values)
    referee, known = measured[0].referee, (Number, Deviation, Unknown)
    values = tuple(v if isinstance(v, known) else Number({"": v}, frozenset(), frozenset(), referee) for v in values)
    if unknown:
        return PartOfSeveral(referee, values, largest)
    best = pick(values, key=_mean)
    if isinstance(best, Deviation):
        return ExtremeDeviation(best.of, best.referee, values, largest)
    return ExtremeNumber(best.values, best.metrics, best.scales, best.referee, values, largest)


def _mean(value: Number | Deviation) -> float:
    return value.of.std if isinstance(value, Deviation) else value.mean
