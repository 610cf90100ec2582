"""Tables written down: for reading, for a paper, and as CSV."""

import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pandas as pd

from common.files import written
from reporting.grid import APART, NOTHING, Grid, Part, grids, shared
from reporting.layout import ABILITY, MEASURE, Layout
from reporting.looks import CELLS
from reporting.records import PUBLISHED, read_csv
from reporting.verdict import Verdict
from reporting.wording import called, capital, name_of, names, plural, table_name, with_spread

UNMARKED = {Verdict.DIVERGED, Verdict.NOT_PUBLISHED}
"""Verdicts that the cell itself says."""
LEGEND = (
    "Each cell: our number, ± its standard deviation over seeds where there are three or more; {theirs}. Reasons, "
    "differences, how runs differ from the published ones, and what is not shown: in the CSV beside this."
)
THEIRS = "the verdict's mark, and in brackets the paper's number (how verdicts come about: docs/verdicts.md)"
OF_MEASURES = "marked are the best of a column, among methods, and what is within noise of it"
LACKING = "not able to, or not measured: the reasons stand below"
"""How a cell is read."""
NO_MARKS = "No number is marked as the best: that needs two methods in a column with three seeds or more each."


def _text(cell: pd.Series) -> str:
    """A cell as a reader sees it: ours and the verdict's mark, and the paper's number in brackets."""
    verdict = Verdict(cell["verdict"])
    ours = "" if verdict is Verdict.NOT_MEASURED else with_spread(cell["ours"], cell["std"], cell["unit"])
    mark = "" if verdict in UNMARKED else CELLS[verdict].mark
    return " ".join(filter(None, [ours, mark, f"({cell['paper']})" if cell["paper"] else ""]))


def _with_texts(cells: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The cells with their texts, notes numbered, and the notes."""
    notes = list(dict.fromkeys(note for note in cells["note"] if note))
    marks = [f" [{notes.index(note) + 1}]" if note else "" for note in cells["note"]]
    texts = [_text(cell) + mark for (_, cell), mark in zip(cells.iterrows(), marks, strict=True)]
    return cells.assign(text=texts), notes


def _tables_named(where: str) -> set[str]:
    """The tables in `Table 4 vs Table 1`, `Tables 1, 2` or `Tables 1-3`."""
    named = re.findall(r"Table (\d)|Tables (\d(?:(?:-|, | and )\d)*)", where)
    spans = [span for one, several in named for span in re.findall(r"(\d)(?:-(\d))?", one or several)]
    return {f"table{n}" for first, last in spans for n in range(int(first), int(last or first) + 1)}


def errata_of(paper: str, table: str) -> list[str]:
    """What is wrong in a published table, one sentence each."""
    errata = read_csv(PUBLISHED / "errata.csv")
    touched = errata[(errata["paper"] == paper) & errata["where"].map(lambda where: table in _tables_named(where))]
    return [
        f"{row['where']}: printed {row['printed']}; {row['recomputed_or_issue']}"
        + (f" ({row['comment']})" if row["comment"] else "")
        for row in touched.to_dict("records")
    ]


def grids_of(layout: Layout, cells: pd.DataFrame) -> list[Grid]:
    """The table block by block."""
    if cells.empty:
        return []
    return grids(cells, layout.blocks, layout.rows, layout.columns, names(layout.words), aligned=bool(layout.measures))


def said_once(layout: Layout, cells: pd.DataFrame) -> str:
    """What holds for all of a table, and so stands over it."""
    words = names(layout.words)
    values = shared(cells, layout.rows, layout.columns, words).items()
    return ", ".join(name_of(column, value, words).short for column, value in values if value)


def glossary(layout: Layout, cells: pd.DataFrame) -> dict[str, str]:
    """Short names that stand in the table, and the long ones."""
    words = names(layout.words)
    used = [name_of(column, value, words) for column in layout.keys for value in cells[column].unique() if value]
    return {name.short: name.long for name in used if name.long}


def _legend(layout: Layout, cells: pd.DataFrame) -> list[str]:
    """How a cell is read: the marks that are in the table."""
    there = {*cells["verdict"]}
    marks = [look for verdict, look in CELLS.items() if verdict in there and verdict not in UNMARKED]
    theirs = THEIRS if (cells["paper"] != "").any() else "the paper prints none of them"
    if layout.measures:
        theirs = OF_MEASURES
        marks = [replace(k, means=LACKING) if k.verdict == Verdict.NOT_MEASURED else k for k in marks]
    return [
        LEGEND.format(theirs=theirs),
        *([""] if marks else []),
        *(f"- {k.mark} {k.verdict}: {k.means}" for k in marks),
    ]


def title_of(layout: Layout) -> str:
    """Its number, if it has one in the paper, and what it shows."""
    name = table_name(layout.table)
    return f"{name}: {layout.title}" if name.startswith("Table ") else layout.title


def markdown(layout: Layout, cells: pd.DataFrame, about: str) -> str:
    """The table for reading: a grid for each block; below them all that explains them, and the paper's errata."""
    cells, notes = _with_texts(cells)
    once = said_once(layout, cells) if len(cells) else ""
    lines = [f"# {title_of(layout)}", *(["", f"All of it: {once}."] if once else [])]
    block, several = "", grids_of(layout, cells)
    shown = any(grid.part.rows for grid in several)
    if not shown:
        lines += ["", _nothing(cells)]
    for grid in several if shown else ():
        lines += ["", f"## {grid.block}"] if grid.block != block else []
        lines += ["", f"### {APART}"] if grid.controls else []
        lines += ["", _grid(grid.part, cells["text"].tolist())] if grid.part.rows else []
        lines += ["", grid.missing] if grid.missing else []
        block = grid.block
    if shown:
        lines += ["", "## How to read it", "", *_legend(layout, cells)]
    if layout.measures and shown:
        lines += ["", "## Best", "", *_bests(layout, cells)]
    if told := glossary(layout, cells):
        lines += ["", "## Names", "", *(f"- {short}: {long}" for short, long in told.items())]
    if layout.note:
        lines += ["", "## Note", "", layout.note]
    lines += ["", "## How it was measured", "", about]
    if ways := sorted({way for cell in cells["measured_as"] for way in cell.split()}):
        lines += ["", *(f"- `{way}`" for way in ways)]
    reasons = cells[cells["verdict"] == Verdict.NOT_MEASURED].groupby("why", sort=False).size()
    if len(reasons):
        lines += ["", "## Not measured", "", *(f"- {plural(n, 'cell')}: {reason}" for reason, n in reasons.items())]
    if notes:
        lines += ["", "## Notes on printed numbers", "", *(f"{n}. {note}" for n, note in enumerate(notes, start=1))]
    if errata := errata_of(layout.paper, layout.table):
        lines += ["", "## Errata of the paper", "", *(f"- {erratum}" for erratum in errata)]
    return "\n".join(lines) + "\n"


def _bests(layout: Layout, cells: pd.DataFrame) -> list[str]:
    """What is better, and by which test the best of each column was found; or that nothing is marked."""
    words = names(layout.words)
    low = [f"{m.ability} {m.name}" for m in layout.asked if m.better == "low" and m.name in {*cells[MEASURE]}]
    lines = [f"Smaller is better: {', '.join(low)}."] if low and not layout.ranked_over else []
    said: dict[str, list[str]] = {}
    for cell in cells[cells["verdict"] == Verdict.BEST].to_dict("records"):
        column = called(layout.columns, [cell[k] for k in layout.columns], words)
        said.setdefault(cell["why"], []).append(" ".join(column))
    if len(said) == 1:
        return [*lines, *(f"{capital(why)}." for why in said)]
    return [*lines, *(f"- {', '.join(where)}: {why}" for why, where in said.items())] if said else [*lines, NO_MARKS]


def _nothing(cells: pd.DataFrame) -> str:
    """What stands in the place of a table of which nothing was measured: where the paper's numbers are to be seen."""
    printed = plural(int((cells["paper"] != "").sum()), "number")
    where = f" What the paper prints ({printed}) is in the CSV beside this and in the report."
    return NOTHING + (where if (cells["paper"] != "").any() else "")


def _grid(part: Part, texts: list[str]) -> str:
    heads = [part.stub, *map(", ".join, part.heads)]
    rows = [[", ".join(name), *("" if n is None else texts[n] for n in cells)] for name, cells in part.rows]
    return pd.DataFrame(rows, columns=heads).to_markdown(
        index=False, disable_numparse=True, colalign=("left", *["right"] * len(part.heads))
    )


LATEX_PACKAGES = r"\usepackage{amssymb, booktabs, longtable, multirow}"
_LATEX = {
    "✓": r"$\checkmark$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "≈": r"$\approx$",
    "✗": r"$\times$",
    "·": r"$\cdot$",
    "±": r"$\pm$",
    "−": "$-$",
    "°": r"$^\circ$",
    "–": "--",
    "★": r"$\bigstar$",
    "☆": r"$\star$",
}


NARROW = 16
"""Letters of a column's head in LaTeX that stand on one line."""


def latex(layout: Layout, cells: pd.DataFrame, about: str) -> str:
    """The table for a paper: one for each block, controls below methods. Its first line says what it needs.

    Of measures one for each ability: all of them side by side are wider than a page.
    """
    if layout.measures:
        layout = replace(layout, blocks=[*layout.blocks, ABILITY], columns=[k for k in layout.columns if k != ABILITY])
    cells, _ = _with_texts(cells)
    texts = [text.split(" [")[0] for text in cells["text"]]
    blocks: dict[str, list[Grid]] = {}
    for grid in grids_of(layout, cells):
        blocks.setdefault(grid.block, []).append(grid)
    tables = [
        _latex_block(layout, several, texts, f"{about} {layout.note}".strip() if n == 0 else "", n)
        for n, several in enumerate(blocks.values())
    ]
    text = "\n".join(tables)
    for symbol, command in _LATEX.items():
        text = text.replace(symbol, command)
    return f"% in the preamble: {LATEX_PACKAGES}\n{text}"


def _latex_block(layout: Layout, several: list[Grid], texts: list[str], about: str, n: int) -> str:
    """Methods, and below them controls, with the columns of both."""
    parts = [grid.part for grid in several if grid.part.rows]
    said = [layout.title, several[0].block, about, *(grid.missing for grid in several)]
    caption = re.sub(r"([&%$#_{}])", r"\\\1", ". ".join(part.removesuffix(".") for part in said if part) + ".")
    if not parts:
        return f"\\noindent {caption}\n"
    heads = list(dict.fromkeys(head for part in parts for head in part.heads))
    labels, rows = list[str](), list[list[str]]()
    for grid in several:
        if grid.controls and grid.part.rows:
            labels, rows = [*labels, APART], [*rows, [""] * len(heads)]
        for name, cells in grid.part.rows:
            at = dict(zip(grid.part.heads, cells, strict=True))
            labels.append(", ".join(name))
            rows.append(["" if (place := at.get(head)) is None else texts[place] for head in heads])
    levels = max(map(len, heads))
    padded = [(*head, *[""] * (levels - len(head))) for head in heads]
    columns = pd.MultiIndex.from_tuples(padded) if levels > 1 else pd.Index([name for (name,) in heads])
    frame = pd.DataFrame(rows, index=pd.Index(labels, name=parts[0].stub), columns=columns)
    text = frame.to_latex(
        escape=True,
        longtable=True,
        column_format="l" + "r" * len(heads),
        multicolumn_format="c",
        caption=caption,
        label=f"tab:{layout.paper}-{layout.table}{f'-{n + 1}' if n else ''}",
    )
    for level in {level for head in heads for level in head if len(level) > NARROW}:
        stacked = r"\shortstack[r]{" + r"\\".join(textwrap.wrap(level, NARROW)) + "}"
        text = re.sub(rf"(?<=& ){re.escape(level)}(?= (?:&|\\\\))", stacked.replace("\\", r"\\"), text)
    apart = f"\\midrule\n\\multicolumn{{{len(heads) + 1}}}{{l}}{{\\emph{{{APART}}}}} \\\\"
    return re.sub(rf"^{APART} [& ]*\\\\$", lambda _: apart, text, flags=re.MULTILINE)


def write_table(layout: Layout, cells: pd.DataFrame, about: str, file: Path) -> None:
    """Write `<file>.md`, and the same as CSV and LaTeX beside it."""
    for suffix, content in (
        (".csv", cells.to_csv(index=False)),
        (".md", markdown(layout, cells, about)),
        (".tex", latex(layout, cells, about)),
    ):
        with written(file.with_suffix(suffix)) as part:
            part.write_text(content)
