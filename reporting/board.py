"""The board: of every printed number, figure and claim, what was measured, how close to the paper, what came out."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from common.errors import InputError
from common.files import written
from reporting.claims import Finding, Outcome
from reporting.evidence import Grade
from reporting.verdict import OF_OURS, Verdict
from reporting.wording import percent, plural, tallied

VERDICTS = [v for v in Verdict if v not in OF_OURS]
COUNTS = ["printed", "configured", "measured", *map(str, Grade), *map(str, VERDICTS)]
"""What is counted of the printed cells of a table, in the order of the columns."""
NOT_AT_HAND = {"office-home": "Office-Home", "adaptiope": "Adaptiope", "svhn": "SVHN"}
"""Data that no record is of, as a cell's data set, or its style, is called."""
NOTE = (
    "Made from all records below `results/reference` by `diptych board results/reference --out docs/board.md --readme "
    "README.md`; a test holds it to them. [What the words mean](verdicts.md). Of several runs the best evidence "
    "counts. *Configured* is what `--config scale=paper` would measure."
)


@dataclass(frozen=True)
class Board:
    """What is known of the papers.

    Attributes:
        tables: a row for each table with printed numbers: paper, table, title, seeds and COUNTS.
        cells: paper and table -> its cells, as `reporting.tables.cells_of` has them, with the column `configured`.
        findings: of every claim.
        figures: a row for each figure with data in it: paper, figure, shows, configured, drawn (where), grade.
    """

    tables: pd.DataFrame
    cells: dict[tuple[str, str], pd.DataFrame]
    findings: list[Finding]
    figures: pd.DataFrame

    @property
    def claims(self) -> pd.DataFrame:
        """Paper by outcome: how many findings."""
        found = pd.DataFrame({"paper": f.claim.rpartition("-")[0], "verdict": str(f.verdict)} for f in self.findings)
        counted = pd.crosstab(found["paper"], found["verdict"]).reindex(columns=[str(o) for o in Outcome], fill_value=0)
        return counted.reindex(found["paper"].unique())

    @property
    def of_papers(self) -> pd.DataFrame:
        """COUNTS of each paper."""
        return self.tables.groupby("paper", sort=False)[COUNTS].sum()

    @property
    def totals(self) -> list[str]:
        """Four lines: numbers, those of them that need no data that were not at hand, claims, figures."""
        numbers = ": ".join(numbers_told(_counts(self.of_papers.sum())))
        reached = counted(pd.concat(at_hand(cells) for cells in self.cells.values()))
        measured = reached["measured"] / reached["printed"]
        whole = reached[Grade.AS_PUBLISHED] / max(1, reached["measured"])
        findings = findings_told((f.claim, f.verdict) for f in self.findings)
        drawn = (self.figures["drawn"] != "").sum()
        return [
            f"{numbers}.",
            f"Without {', '.join(NOT_AT_HAND.values())}, which were not at hand: {numbers_told(reached)[0]}, which is "
            f"{percent(measured)}; as published are {percent(whole)} of these.",
            f"{findings}.",
            f"{plural(len(self.figures), 'figure')}, {drawn} of them drawn.",
        ]


def _counts(row: pd.Series) -> dict[str, int]:
    return {str(kind): int(count) for kind, count in row.items()}


def numbers_told(counts: Mapping[str, int]) -> tuple[str, str]:
    """How many printed numbers there are and how many of them are measured; and the verdicts on them."""
    measured = f"{plural(counts['printed'], 'printed number')}, {counts['measured']:,} of them measured"
    grades = tallied(counts, map(str, Grade))
    return f"{measured} ({grades})" if grades else measured, tallied(counts, map(str, VERDICTS))


def findings_told(found: Iterable[tuple[str, str]]) -> str:
    """How many findings there are on how many claims, and what they are, given each with its claim."""
    claims, verdicts = zip(*found, strict=True)
    outcomes = tallied(Counter(verdicts), map(str, Outcome))
    return f"{plural(len(verdicts), 'finding')} on {plural(len({*claims}), 'claim')}: {outcomes}"


def at_hand(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells that need none of NOT_AT_HAND; FedStyle's means over digits in all styles need SVHN."""
    of = cells.reindex(columns=["dataset", "style"])
    means = (of["dataset"] == "digit") & (of["style"] == "all")
    return cells[~(of.isin(list(NOT_AT_HAND)).any(axis=1) | means)]


def counted(cells: pd.DataFrame) -> dict[str, int]:
    """COUNTS of the printed ones of some cells."""
    printed = cells[cells["paper"] != ""]
    counts = {
        "printed": len(printed),
        "configured": printed["configured"].sum(),
        "measured": (printed["seeds"] > 0).sum(),
    }
    counts |= {str(grade): (printed["grade"] == grade).sum() for grade in Grade}
    counts |= {str(verdict): (printed["verdict"] == verdict).sum() for verdict in VERDICTS}
    return {kind: int(count) for kind, count in counts.items()}


def row_of(paper: str, table: str, title: str, cells: pd.DataFrame) -> dict[str, object]:
    """The row of a table: its printed cells counted."""
    seeds = cells["seeds"][(cells["paper"] != "") & (cells["seeds"] > 0)]
    span = "–".join(dict.fromkeys(str(n) for n in (seeds.min(), seeds.max()))) if len(seeds) else ""
    return {"paper": paper, "table": table, "title": title, "seeds": span, **counted(cells)}


def markdown(board: Board, titles: dict[str, str]) -> str:
    """The board for reading. `titles`: of the papers, in their order."""
    lines = ["# The board", "", NOTE, "", *(f"- {line}" for line in board.totals), "", "## Printed numbers", ""]
    of_papers = board.of_papers.rename(index=lambda paper: f"[{titles[paper]}](#{paper})")
    lines += [_table(_used(of_papers)), "", "## Claims", "", _table(_used(board.claims)), ""]
    for paper in titles:
        tables = board.tables[board.tables["paper"] == paper].set_index("table")
        lines += [f"## {paper}", ""]
        if len(tables):
            lines += [_table(_used(tables[["title", *COUNTS[:6], "seeds", *COUNTS[6:]]])), ""]
        lines += [*_claims(f for f in board.findings if f.claim.startswith(f"{paper}-")), ""]
        lines += [_table(board.figures[board.figures["paper"] == paper].set_index("figure").drop(columns="paper")), ""]
    return "\n".join(lines)


def _used(counts: pd.DataFrame) -> pd.DataFrame:
    """Without the columns in which nothing is counted; zeros are blank."""
    columns = [c for c in counts if not pd.api.types.is_integer_dtype(counts[c]) or counts[c].any()]
    return counts[columns].replace(0, "")


def _table(rows: pd.DataFrame) -> str:
    return rows.to_markdown(disable_numparse=True)


def _claims(found: Iterable[Finding]) -> list[str]:
    return [f"- **{f.claim}** {f.told}: {f.statement}." for f in found]


START, END = "<!-- the board: made by `diptych board` -->", "<!-- the end of the board -->"
"""Between these lines of a page its table of the papers is written."""


def summary(board: Board, papers: Mapping[str, str]) -> str:
    """A row for each paper: what was measured of it, and what came out. `papers`: name -> what stands for it."""
    columns = ["paper", "printed numbers measured", "as published", "verdicts on them", "claims"]
    rows = []
    for paper, called in papers.items():
        claims = tallied(_counts(board.claims.T[paper]), map(str, Outcome))
        if paper not in board.of_papers.index:
            rows.append([called, "none printed", "", "", claims])
            continue
        counts = _counts(board.of_papers.T[paper])
        verdicts = tallied(counts, [str(verdict) for verdict in VERDICTS if verdict is not Verdict.NOT_MEASURED])
        measured = f"{counts['measured']:,} of {counts['printed']:,}"
        rows.append([called, measured, f"{counts[Grade.AS_PUBLISHED]:,}", verdicts, claims])
    return pd.DataFrame(rows, columns=columns).to_markdown(index=False, disable_numparse=True)


def with_summary(page: str, board: Board, papers: Mapping[str, str]) -> str:
    """A page with this table between START and END.

    Raises:
        InputError: it has no such lines.
    """
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise InputError(f"there is no place for the board: it needs the lines '{START}' and '{END}'")
    return f"{before}{start}\n\n{summary(board, papers)}\n\n{end}{after}"


def write_board(board: Board, titles: dict[str, str], file: Path) -> None:
    """Write the board as Markdown."""
    with written(file) as part:
        part.write_text(markdown(board, titles))
