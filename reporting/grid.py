"""Tables as a reader sees them: by block, controls apart from methods, names in words, what is empty folded away."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from reporting.verdict import Verdict
from reporting.wording import Words, axis, called, capital

Heads = tuple[str, ...]
"""A name in words, level by level."""
Row = list[int | None]
"""Where in the table of cells the cells of a row are, column by column; None where there is none."""
APART = "Floors, ceilings and controls"
"""What stands over their rows."""
NOTHING = "Nothing of it was measured here."
"""What stands in the place of a block, or a table, in which nothing was."""


@dataclass(frozen=True)
class Part:
    """Rows and columns of a block.

    Attributes:
        stub: what the rows are.
        heads: of the columns.
        rows: each with its name.
    """

    stub: str
    heads: list[Heads]
    rows: list[tuple[Heads, Row]]

    def some(self, rows: Iterable[int], columns: Iterable[int]) -> "Part":
        """These of its rows and columns."""
        at = list(columns)
        kept = [(name, [cells[n] for n in at]) for name, cells in (self.rows[n] for n in rows)]
        return Part(self.stub, [self.heads[n] for n in at], kept)


@dataclass(frozen=True)
class Grid:
    """Methods or controls of a block.

    Attributes:
        block: its name; empty if the table has one block only.
        controls: whether its rows are floors, ceilings and controls, else methods.
        whole: all its rows and columns.
        measured: the numbers of the rows, and of the columns, in which something was measured.
    """

    block: str
    controls: bool
    whole: Part
    measured: tuple[list[int], list[int]]

    @property
    def title(self) -> str:
        """What stands over it."""
        return " · ".join(filter(None, [self.block, APART if self.controls else ""]))

    @property
    def part(self) -> Part:
        """What is shown: the rows and columns in which something was measured."""
        return self.whole.some(*self.measured)

    @property
    def folded(self) -> list[Part]:
        """What is not: columns in which nothing was measured, and what is left of the rows in which nothing was."""
        rows, columns = self.measured
        down, across = range(len(self.whole.rows)), range(len(self.whole.heads))
        parts = [
            self.whole.some(down, [n for n in across if n not in columns]),
            self.whole.some([n for n in down if n not in rows], columns),
        ]
        return [part for part in parts if part.rows and part.heads]

    @property
    def missing(self) -> str:
        """A sentence on the rows and columns in which nothing was measured; empty if there are none."""
        if not self.part.rows:
            return NOTHING
        rows, columns = self.measured
        names = [name for name, _ in self.whole.rows]
        lines = [*_gathered(self.whole.heads, columns), *_gathered(names, rows)]
        return f"Not measured here: {'; '.join(lines)}." if lines else ""


def _gathered(heads: list[Heads], measured: list[int]) -> Iterator[str]:
    """The other heads, those with the same beginning in one; a beginning of which nothing was measured is enough."""
    by_first: dict[str, list[str]] = {}
    for first, *rest in (head for n, head in enumerate(heads) if n not in measured):
        by_first.setdefault(first, []).append(" ".join(rest))
    kept = {heads[n][0] for n in measured}
    for first, rests in by_first.items():
        if first not in kept or "" in rests:
            yield first
        if first in kept and any(rests):
            yield f"{first} {', '.join(filter(None, rests))}"


def shared(cells: pd.DataFrame, rows: list[str], columns: list[str], words: Words) -> dict[str, str]:
    """What has one value in all of a table, with it: it need not be said of every row and column.

    Unless nothing else says which row, or column, it is. A control may leave open whose it is.
    """
    of = cells[cells["control"] == ""] if (cells["control"] == "").any() else cells
    first = {column: of[column].iloc[0] for column in [*rows, *columns]}
    unsaid = {column: (cells["control"] != "") & (cells[column] == "") for column in first}
    once = {column: value for column, value in first.items() if ((cells[column] == value) | unsaid[column]).all()}
    for axes in (rows, columns):
        left = [column for column in axes if column not in once]
        if not all(called(left, values, words) for values in of[left].drop_duplicates().itertuples(index=False)):
            for column in [column for column in axes if once.get(column)][-1:]:
                del once[column]
    return once


def grids(
    cells: pd.DataFrame, blocks: list[str], rows: list[str], columns: list[str], words: Words, aligned: bool = False
) -> list[Grid]:
    """The cells of a table, block by block and in each methods before controls, in the order of the cells.

    Args:
        aligned: whether all blocks have their columns in the order of the table's first cells, controls as well.
    """
    once = shared(cells, rows, columns, words)
    rows, columns = ([column for column in axes if column not in once] for axes in (rows, columns))
    found: dict[tuple[Heads, bool], list[int]] = {}
    for n, cell in enumerate(cells.to_dict("records")):
        found.setdefault((_values(cell, blocks), cell["control"] != ""), []).append(n)
    order = {block: n for n, block in enumerate(dict.fromkeys(block for block, _ in found))}
    across = list(dict.fromkeys(_values(cell, columns) for cell in cells.to_dict("records"))) if aligned else []
    measured = {n for n, verdict in enumerate(cells["verdict"]) if verdict != Verdict.NOT_MEASURED}
    made = []
    for block, controls in sorted(found, key=lambda key: (order[key[0]], key[1])):
        part = cells.iloc[found[block, controls]]
        down = ["control", *rows] if controls else rows
        whole = _part(part, found[block, controls], down, columns, across, words)
        made.append(Grid(", ".join(called(blocks, block, words)), controls, whole, _where(whole, measured)))
    return made


def _where(whole: Part, measured: set[int]) -> tuple[list[int], list[int]]:
    """The rows and the columns with a cell that was measured."""
    rows = [n for n, (_, cells) in enumerate(whole.rows) if measured.intersection(cells)]
    columns = [n for n in range(len(whole.heads)) if measured.intersection(cells[n] for _, cells in whole.rows)]
    return rows, columns


def _values(cell: dict[Any, Any], columns: list[str]) -> Heads:
    return tuple(cell[column] for column in columns)


def _part(
    cells: pd.DataFrame, places: list[int], rows: list[str], columns: list[str], order: list[Heads], words: Words
) -> Part:
    """All rows and columns of some cells, of which `places` says where they are; columns in this order, if given."""
    at = {
        (_values(cell, rows), _values(cell, columns)): n
        for n, cell in zip(places, cells.to_dict("records"), strict=True)
    }
    down, there = (list(dict.fromkeys(keys)) for keys in zip(*at, strict=True))
    across = [head for head in order if head in there] or there
    heads = [called(columns, head, words) or ("all",) for head in across]
    named = [(called(rows, row, words) or ("all",), [at.get((row, head)) for head in across]) for row in down]
    used = [column for n, column in enumerate(rows) if any(row[n] for row in down)] or rows[:1]
    return Part(capital(", ".join(map(axis, used))), heads, named)
