"""Whether one of our numbers is told from another: what pages say by that word, and what anybody may ask of records."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan

import pandas as pd

from common.errors import InputError, choose
from common.records import IDENTITY
from reporting.expressions import Evaluator, Shelf
from reporting.verdict import BySeed, above_zero

COLUMNS = [*IDENTITY, "control"]
"""Those by which an expression may ask for a number."""


@dataclass(frozen=True)
class Comparison:
    """What records say of an expression that compares.

    Attributes:
        holds: by means over seeds; None if a number of it was not measured.
        told: whether that is beyond noise.
        differences: by seed, how far above the other side is what the expression says to be above; of each comparison
            that it makes, but for those that repeat the noise of another.
        numbers: those that it asks for, in words.
    """

    holds: bool | None
    told: bool
    differences: list[BySeed]
    numbers: list[str]

    @property
    def said(self) -> str:
        """In lines for a terminal."""
        by_seed = (", ".join(f"{seed}: {value:+.4g}" for seed, value in found.items()) for found in self.differences)
        if self.holds is None:
            verdict = "not measured, or not all of it"
        else:
            verdict = f"{'holds' if self.holds else 'does not hold'}, {'told' if self.told else 'not told'}"
        p = f" (one-sided p = {self.p:.2g})" if not isnan(self.p) else ""
        return "\n".join([*dict.fromkeys(self.numbers), *(f"by seed {values}" for values in by_seed), verdict + p])

    @property
    def p(self) -> float:
        """Of a single comparison the p-value against what its means say; NaN of several, and of one seed."""
        if len(self.differences) != 1:
            return nan
        above = above_zero(self.differences[0].values())
        return above if self.holds else 1 - above


def shelf(records: pd.DataFrame) -> Shelf:
    """Records to compare, averages included, of one experiment or several."""
    return Shelf.of(records, COLUMNS)


def compared(expression: str, among: Shelf, where: Mapping[str, str] | None = None) -> Comparison:
    """Ask records whether an expression holds, and whether noise leaves that open.

    A single comparison is told by a one-sided t-test on differences within seeds at 5 %, several as in a claim.

    Args:
        expression: as in results/paper/claims.csv, in the words of the records: `q('accuracy', method='ditto') >
            q('accuracy', method='fedavg')`. `variant`, `client` and `control` are empty where they are not named.
        among: the records.
        where: columns of every number that it asks for.

    Raises:
        InputError: the expression is none, compares nothing, or names what is not there; or a number of it is several.
    """
    fixed = {"control": "", **(where or {})}
    for column in [*fixed, *_columns(expression)]:
        choose("column", column, COLUMNS)
    asked = Evaluator(among, fixed)
    try:
        holds = asked.truth(expression)
    except (NameError, TypeError, AttributeError) as error:
        raise InputError(f"{expression}: {error}") from error
    differences = [values for several in asked.referee.differences.values() for values in several]
    told = holds is not None and asked.beyond_noise(expression) is not None
    return Comparison(holds, told, differences, [said for said, _ in asked.used])


def _columns(expression: str) -> list[str]:
    """Those that the queries of an expression name, which must compare something."""
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError as error:
        raise InputError(f"{expression}: {error.msg}") from error
    if not any(isinstance(node, ast.Compare) for node in ast.walk(tree)):
        raise InputError(f"{expression}: compares nothing")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) in ("q", "sd")]
    return [keyword.arg for call in calls for keyword in call.keywords if keyword.arg]
