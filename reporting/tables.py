"""Tables: the published cells, ours in the same places, and the verdict on each."""

import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import pandas as pd

from common.files import written
from reporting.evidence import Evidence, evidence
from reporting.grid import APART, NOTHING, Grid, Part, grids, shared
from reporting.looks import CELLS
from reporting.records import PUBLISHED, published, read_csv
from reporting.verdict import SEEDS, Printed, Spread, Verdict, verdict, within_seeds
from reporting.wording import name_of, names, plural, table_name, with_spread

Key = tuple[Any, ...]
Rows = dict[Key, dict[Any, Any]]
"""The published rows by the keys of their cells."""
Found = dict[Key, list[Evidence]]
"""Our evidence by the keys of a cell, best first."""
Spreads = dict[tuple[str, str], Spread]
SAID = [
    *("ours", "std", "unit", "seeds", "paper", "difference", "verdict", "why"),
    *("grade", "scale", "differs", "budget", "passed_over", "note", "measured_as"),
]
"""What is said of a cell. `grade` to `budget` are of the best evidence on it, `passed_over` names what is not."""
CONTROLS = [
    *("untrained", "shuffled-labels", "floor", "brighter", "noisy", "shifted", "copy", "other-client", "noise"),
    *("pixels", "reconstruction", "identity", "rotation", "other", "blur-0.5", "blur-1", "blur-2", "ceiling"),
]
"""Floors, ceilings and controls as records call them, in the order in which they are shown."""
CEILING = "supervised"
"""What is trained with labels, and so is the ceiling of what is trained without."""
UNMARKED = {Verdict.DIVERGED, Verdict.NOT_PUBLISHED}
"""Verdicts that the cell itself says."""
LEGEND = (
    "Each cell: our number, ± its standard deviation over seeds where there are three or more; {theirs}. Reasons, "
    "differences, how runs differ from the published ones, and what is not shown: in the CSV beside this."
)
THEIRS = "the verdict's mark, and in brackets the paper's number (how verdicts come about: docs/verdicts.md)"
"""How a cell is read."""


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

    @property
    def axes(self) -> list[str]:
        """The columns that place a cell."""
        return self.blocks + self.rows + self.columns

    @property
    def keys(self) -> list[str]:
        """The same, and which control it is of; of none if it is empty."""
        return [*self.axes, "control"]


def cells_of(layout: Layout, records: pd.DataFrame, why: Callable[[dict[str, str]], str | None]) -> pd.DataFrame:
    """One row per cell, the published ones first: keys, our best number and the paper's, difference, verdict and notes.

    Args:
        records: ours, with averages, of one scale or several.
        why: a cell's keys -> the reason why this scale does not measure it, None if there is none.
    """
    return judged_cells(layout, found_in(layout, records), why)


def judged_cells(layout: Layout, groups: Found, why: Callable[[dict[str, str]], str | None]) -> pd.DataFrame:
    """The same from the evidence on its cells."""
    paper = pd.concat([published(layout.paper, layout.table), *_quoted(layout)], ignore_index=True).assign(control="")
    printed = {tuple(row[k] for k in layout.keys): row for row in paper.to_dict("records")}
    if layout.means == "recomputed":
        printed = {key: row | {"value": _recomputed(layout, row, paper)} for key, row in printed.items()}
    spreads = _spreads(layout, printed, groups)
    rows = []
    for key in _ordered(layout, printed, groups):
        place = dict(zip(layout.keys, key, strict=True))
        row, found = printed.get(key), groups.get(key, [])
        ours, theirs = found[0] if found else None, _printed(row) if row else None
        judged = verdict(ours, theirs, *_trend(layout, key, printed, groups, spreads))
        rows.append(
            place
            | {
                "ours": ours.mean if ours else None,
                "std": ours.std if ours and ours.seeds >= SEEDS else None,
                "unit": ours.unit if ours else row["unit"] if row else "",
                "seeds": ours.seeds if ours else 0,
                "paper": _as_printed(row) if row else "",
                "difference": ours.mean - theirs.value if ours and theirs else None,
                "verdict": str(judged.verdict),
                "why": (why(place) or "no run for it") if ours is None else judged.why,
                "grade": str(ours.grade) if ours else "",
                "scale": ours.scale if ours else "",
                "differs": " ".join(ours.differs) if ours else "",
                "budget": ours.budget if ours else None,
                "passed_over": "; ".join(map(_told, found[1:])),
                "note": row["note"] if row and _is_erratum(row["note"]) else "",
                "measured_as": ours.measured_as if ours else "",
            }
        )
    return pd.DataFrame(rows, columns=[*layout.keys, *SAID])


def found_in(layout: Layout, records: pd.DataFrame) -> Found:
    """All evidence on every cell of a table that has any, the best first."""
    measured = _measured(layout, records)
    return {key: evidence(group) for key, group in measured.groupby(layout.keys, sort=False)} if len(measured) else {}


def _told(ours: Evidence) -> str:
    """Evidence in a line."""
    return f"{ours.mean:.6g} at {ours.scale}, {ours.grade}, {plural(ours.seeds, 'seed')}"


def _printed(row: dict[Any, Any]) -> Printed:
    """A published row as a number to compare with."""
    std, runs = float(row["std"] or 0), int(row["n_runs"] or 0)
    return Printed(float(row["value"]), row["metric"], row["unit"], std, runs, row["approx"] == "yes")


def _spreads(layout: Layout, printed: Rows, groups: Found) -> Spreads:
    """By scale and metric: of differences from the reference row, within seeds, pooled over the printed rows."""
    differences = defaultdict(list)
    for key in printed:
        for ours in groups.get(key, []):
            if beside := _beside(ours, groups.get(_reference_key(layout, key), [])):
                differences[ours.scale, ours.metric].append(within_seeds(ours, beside))
    return {which: Spread.pooled(several) for which, several in differences.items()}


def _reference_key(layout: Layout, key: Key) -> Key:
    """The key of the cell that a trend is read from, for a cell that is not it; else that of none."""
    place = dict(zip(layout.keys, key, strict=True))
    if not layout.reference or all(place[k] == v for k, v in layout.reference.items()):
        return ()
    blank = {column: "" for column in layout.rows if column not in layout.reference}
    return tuple((place | blank | layout.reference | {"control": ""})[k] for k in layout.keys)


def _trend(
    layout: Layout, key: Key, printed: Rows, groups: Found, spreads: Spreads
) -> tuple[tuple[Evidence, Printed] | None, Spread]:
    """What a trend is read from, ours of the same scale and the paper's, and the noise of differences from it."""
    ours, reference = groups.get(key, [None])[0], _reference_key(layout, key)
    row, beside = printed.get(reference), _beside(ours, groups.get(reference, [])) if ours else None
    if ours is None or row is None or beside is None:
        return None, Spread()
    return (beside, _printed(row)), spreads.get((ours.scale, ours.metric), Spread())


def _beside(ours: Evidence, found: list[Evidence]) -> Evidence | None:
    """What the same scale has of the reference."""
    return next((other for other in found if other.scale == ours.scale and isfinite(other.mean)), None)


def _quoted(layout: Layout) -> Iterator[pd.DataFrame]:
    """Numbers that the text gives, as cells of this table."""
    for quote in layout.quotes:
        rows = published(layout.paper, "text")
        for column, wanted in quote["when"].items():
            rows = rows[rows[column].isin([wanted] if isinstance(wanted, str) else wanted)]
        yield rows.assign(printed="", **quote["set"])


def _recomputed(layout: Layout, row: dict[Any, Any], paper: pd.DataFrame) -> str:
    """A printed number, or for a mean the mean of the printed cells beside it."""
    if row["aggregate"] != "mean":
        return row["value"]
    beside = paper[paper["aggregate"] == "none"]
    for column in layout.blocks + layout.rows:
        beside = beside[beside[column] == row[column]]
    return str(round(beside["value"].astype(float).mean(), 3))


def _as_printed(row: dict[Any, Any]) -> str:
    """What the paper prints, and what it should have been if that is something else."""
    printed = row["printed"] or row["value"]
    try:
        wrong = abs(float(printed) - float(row["value"])) > 0.01 * abs(float(row["value"]))
    except ValueError:  # words
        return printed
    return f"{printed}, should be {float(row['value']):.2f}" if wrong and row["aggregate"] == "mean" else printed


def _measured(layout: Layout, records: pd.DataFrame) -> pd.DataFrame:
    """Our cells of this table, controls renamed to rows of their own."""
    ours = records[records["paper"] == layout.paper]
    where = layout.where or {"table": [layout.table], "metric": ["accuracy"], "client": [""]}
    for column, wanted in where.items():
        ours = ours[ours[column].isin(wanted)]
    supervised = (ours["ssl"] == "supervised") & (ours["control"] == "")
    plain = ours[(ours["control"] == "") & ~supervised]
    return pd.concat([plain, *_controls(layout, ours, plain, supervised)], ignore_index=True)


def _controls(layout: Layout, ours: pd.DataFrame, plain: pd.DataFrame, supervised: pd.Series) -> Iterator[pd.DataFrame]:
    """Their records. With a reference row its own stand for all, and say of no method that they are its."""
    rows = ours[ours["control"].isin(CONTROLS) & (ours["ssl"] != "supervised")]
    blank = dict.fromkeys(layout.rows, "") if layout.reference else {}
    if layout.reference and "method" in layout.rows:
        rows = rows[rows["method"] == layout.reference["method"]]
        rows = rows[rows["variant"] == layout.reference.get("variant", "")]
    yield rows.assign(**blank)
    for ssl in plain["ssl"].unique() if layout.reference else ():
        yield ours[supervised].assign(**blank, control=CEILING, ssl=ssl)


def _ordered(layout: Layout, printed: Rows, groups: Found) -> list[Key]:
    """Published cells in the paper's order, then ours: further methods before controls."""
    order = ["", *CONTROLS, CEILING]
    return [*printed, *sorted((key for key in groups if key not in printed), key=lambda key: order.index(key[-1]))]


def _is_erratum(note: str) -> bool:
    return any(mark in note for mark in ("ERRATUM", "SUSPECT", "CONFLICT", "last digit"))


# ---- writing them down


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
    """The tables in `Table 4 vs Table 1` or `Tables 1-3`."""
    spans = re.findall(r"Tables? (\d)(?:-(\d))?", where)
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
    return grids(cells, layout.blocks, layout.rows, layout.columns, names(layout.words)) if len(cells) else []


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


def _legend(cells: pd.DataFrame) -> list[str]:
    """How a cell is read: the marks that are in the table."""
    there = {*cells["verdict"]}
    marks = [look for verdict, look in CELLS.items() if verdict in there and verdict not in UNMARKED]
    theirs = THEIRS if (cells["paper"] != "").any() else "the paper prints none of them"
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
    if not any(grid.part.rows for grid in several):
        lines, several = [*lines, "", NOTHING], []
    for grid in several:
        lines += ["", f"## {grid.block}"] if grid.block != block else []
        lines += ["", f"### {APART}"] if grid.controls else []
        lines += ["", _grid(grid.part, cells["text"].tolist())] if grid.part.rows else []
        lines += ["", grid.missing] if grid.missing else []
        block = grid.block
    lines += ["", "## How to read it", "", *_legend(cells)]
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
}


NARROW = 16
"""Letters of a column's head in LaTeX that stand on one line."""


def latex(layout: Layout, cells: pd.DataFrame, about: str) -> str:
    """The table for a paper: one for each block, controls below methods. Its first line says what it needs."""
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
    columns = pd.MultiIndex.from_tuples([(*head, *[""] * (levels - len(head))) for head in heads])
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
