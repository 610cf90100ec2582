"""Where the cells of a table stand, and what is measured in its columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ABILITY, MEASURE = "ability", "measure"
"""The columns that records get in a table of measures."""


@dataclass(frozen=True)
class Measure:
    """What a column of a table of measures is.

    Attributes:
        ability, name: what it is called.
        where: which records it is, column -> values.
        of: the columns that its number is the sum of; of other columns than `value`, once for each run.
        per: what the sum is divided by.
        unit: of the result; the records' own if empty.
        better: `high` or `low`, whichever is, so that the best are marked; None if none is to be.
        lacks: why a method that has the ability has no such number, where others have one.
    """

    ability: str
    name: str
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    of: Sequence[str] = ("value",)
    per: float = 1.0
    unit: str = ""
    better: str | None = None
    lacks: str = ""


@dataclass(frozen=True)
class Layout:
    """Where a cell stands, in record columns.

    Attributes:
        blocks, rows, columns: what chooses a block of the table, a row in it, and a column.
        where: which records are in the table, column -> values.
        reference: the row of a block from which trends are read.
        means: compare with means as printed, or as recomputed from the printed cells.
        quotes: numbers of the paper's text that belong into the table: `when` columns have these values, `set` these.
        note: what a reader has to know of our numbers.
        words: column -> value -> what a reader calls it, or a short and a long name of it.
        measures: ability -> measure -> what it is (`Measure`); the table then has one column for each of them, and the
            best methods are marked.
        unable: ability -> why a method has no number of it, where others have one.
        apart: column -> values of the methods that stand among the ceilings.
        ranked_over: columns that make a block, in which methods are ranked by their means over seeds; the table then
            holds mean ranks.
    """

    paper: str
    table: str
    title: str
    blocks: list[str]
    rows: list[str]
    columns: list[str]
    where: dict[str, list[str]]
    reference: dict[str, str]
    means: str = "printed"
    quotes: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""
    words: Mapping[str, Mapping[str, str | Sequence[str]]] = field(default_factory=dict)
    measures: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    unable: Mapping[str, str] = field(default_factory=dict)
    apart: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ranked_over: list[str] = field(default_factory=list)

    @property
    def axes(self) -> list[str]:
        """The columns that place a cell."""
        return self.blocks + self.rows + self.columns

    @property
    def keys(self) -> list[str]:
        """The same, and which control it is of; of none if it is empty."""
        return [*self.axes, "control"]

    @property
    def asked(self) -> Iterator[Measure]:
        """Its measures in order."""
        for ability, several in self.measures.items():
            yield from (Measure(ability, name, **said) for name, said in several.items())
