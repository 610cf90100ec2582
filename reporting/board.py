"""The board: of every printed number, figure and claim, what was measured, how close to the paper, what came out."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from common.files import written
from reporting.claims import Finding, Outcome
from reporting.evidence import Grade
from reporting.verdict import Verdict

VERDICTS = [v for v in Verdict if v is not Verdict.NOT_PUBLISHED]
COUNTS = ["printed", "configured", "measured", *map(str, Grade), *map(str, VERDICTS)]
"""What is counted of the printed cells of a table, in the order of the columns."""
NOTE = (
    "Made from all records below `results/reference` by `diptych board results/reference --out docs/board.md`; a test "
    "holds it to them. [What the words mean](verdicts.md). Of several runs the best evidence counts. *Configured* is "
    "what `--config scale=paper` would measure."
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
        """Three lines: numbers, claims, figures."""
        cells, claims, figures = self.of_papers.sum(), self.claims.sum(), self.figures
        verdicts = ", ".join(f"{cells[v]} {v}" for v in map(str, VERDICTS) if cells[v])
        outcomes = ", ".join(f"{claims[o]} {o}" for o in map(str, Outcome) if claims[o])
        return [
            f"{cells['printed']} printed numbers, {cells['measured']} of them measured "
            f"({', '.join(f'{cells[g]} {g}' for g in map(str, Grade))}): {verdicts}.",
            f"{claims.sum()} findings on {len({f.claim for f in self.findings})} claims: {outcomes}.",
            f"{len(figures)} figures, {(figures['drawn'] != '').sum()} of them drawn.",
        ]


def row_of(paper: str, table: str, title: str, cells: pd.DataFrame) -> dict[str, object]:
    """The row of a table: its printed cells counted."""
    printed = cells[cells["paper"] != ""]
    seeds = printed["seeds"][printed["seeds"] > 0]
    span = "–".join(dict.fromkeys(str(n) for n in (seeds.min(), seeds.max()))) if len(seeds) else ""
    counts = {"printed": len(printed), "configured": int(printed["configured"].sum()), "measured": len(seeds)}
    counts |= {str(grade): int((printed["grade"] == grade).sum()) for grade in Grade}
    counts |= {str(verdict): int((printed["verdict"] == verdict).sum()) for verdict in VERDICTS}
    return {"paper": paper, "table": table, "title": title, "seeds": span, **counts}


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


def write_board(board: Board, titles: dict[str, str], file: Path) -> None:
    """Write the board as Markdown."""
    with written(file) as part:
        part.write_text(markdown(board, titles))
