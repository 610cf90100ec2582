"""Tables: the published cells, ours in the same places, and the verdict on each."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from common.files import written
from reporting.evidence import Evidence, evidence
from reporting.records import PUBLISHED, published, read_csv
from reporting.verdict import Printed, Spread, Verdict, verdict, within_seeds

Key = tuple[Any, ...]
Rows = dict[Key, dict[Any, Any]]
"""The published rows by the keys of their cells."""
Found = dict[Key, list[Evidence]]
"""Our evidence by the keys of a cell, best first."""
Spreads = dict[tuple[str, str], Spread]
CONTROLS = {
    "untrained": "floor: untrained encoder",
    "shuffled-labels": "floor: shuffled labels",
    "floor": "floor: held-out real images",
    "brighter": "floor: the same, brighter by 13 of 255",
    "noisy": "floor: the same with noise of 0.1",
    "shifted": "floor: the same, shifted by a pixel",
    "copy": "control: the real images themselves",
    "other-client": "control: another client's real images",
    "noise": "control: noise",
    "pixels": "control: pixels",
    "reconstruction": "control: nothing exchanged",
    "identity": "control: not translated",
    "rotation": "control: turned by the angle in between",
    "other": "control: other images of the target",
    "blur-0.5": "control: other images of the target, blurred by half a pixel",
    "blur-1": "control: other images of the target, blurred by 1 pixel",
    "blur-2": "control: other images of the target, blurred by 2 pixels",
    "ceiling": "ceiling: real images",
}
SAID = [
    *("ours", "std", "seeds", "paper", "difference", "verdict", "why"),
    *("grade", "scale", "differs", "budget", "passed_over", "note", "measured_as"),
]
"""What is said of a cell. `grade` to `budget` are of the best evidence on it, `passed_over` names what is not."""
CEILING = "ceiling: trained with labels"
MARKS = {
    Verdict.AGREES: "✓",
    Verdict.DISAGREES: "✗",
    Verdict.UNDECIDED: "?",
    Verdict.TREND_HOLDS: "↑",
    Verdict.TREND_FAILS: "↓",
    Verdict.WITHIN_NOISE: "≈",
    Verdict.NOT_COMPARABLE: "·",
}
LEGEND = (
    "Each cell: ours (paper's, difference) verdict. As published and with three seeds or more: ✓ agrees, ✗ disagrees, "
    "? undecided. Else: ↑ the trend holds, above or below the reference row as in the paper, ↓ it fails, ≈ within "
    "noise, · not comparable. – not measured. ± is the standard deviation over seeds, given from three seeds on. By "
    "which tests, docs/verdicts.md says; why a cell came out as it did, the CSV."
)


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

    @property
    def keys(self) -> list[str]:
        """All columns that place a cell."""
        return self.blocks + self.rows + self.columns


def cells_of(layout: Layout, records: pd.DataFrame, why: Callable[[dict[str, str]], str | None]) -> pd.DataFrame:
    """One row per cell, the published ones first: keys, our best number and the paper's, difference, verdict and notes.

    Args:
        records: ours, with averages, of one scale or several.
        why: a cell's keys -> the reason why this scale does not measure it, None if there is none.
    """
    return judged_cells(layout, found_in(layout, records), why)


def judged_cells(layout: Layout, groups: Found, why: Callable[[dict[str, str]], str | None]) -> pd.DataFrame:
    """The same from the evidence on its cells."""
    paper = pd.concat([published(layout.paper, layout.table), *_quoted(layout)], ignore_index=True)
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
                "std": ours.std if ours and ours.seeds >= 3 else None,
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
    seeds = f"{ours.seeds} seed{'s' if ours.seeds > 1 else ''}"
    return f"{ours.mean:.6g} at {ours.scale}, {ours.grade}, {seeds}"


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
    return tuple((place | blank | layout.reference)[k] for k in layout.keys)


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
    ours = records
    where = layout.where or {"table": [layout.table], "metric": ["accuracy"], "client": [""]}
    for column, wanted in where.items():
        ours = ours[ours[column].isin(wanted)]
    supervised = (ours["ssl"] == "supervised") & (ours["control"] == "")
    plain = ours[(ours["control"] == "") & ~supervised]
    return pd.concat([plain, *_control_rows(layout, ours, plain, supervised)], ignore_index=True)


def _control_rows(
    layout: Layout, ours: pd.DataFrame, plain: pd.DataFrame, supervised: pd.Series
) -> Iterator[pd.DataFrame]:
    label = layout.rows[0]
    rest = dict.fromkeys(layout.rows[1:], "")
    for control, name in CONTROLS.items():
        rows = ours[(ours["control"] == control) & (ours["ssl"] != "supervised")]
        if not layout.reference:  # a row of controls for each row
            last = layout.rows[-1]
            yield rows.assign(**{last: (rows[last] + f" [{name}]").str.strip()})
            continue
        if "method" in layout.rows:
            rows = rows[rows["method"] == layout.reference["method"]]
            rows = rows[rows["variant"] == layout.reference.get("variant", "")]
        yield rows.assign(**{label: name}, **rest)
    for ssl in plain["ssl"].unique():
        yield ours[supervised].assign(**{label: CEILING}, **rest, ssl=ssl)


def _ordered(layout: Layout, printed: Rows, groups: Found) -> list[Key]:
    """Published cells in the paper's order, then ours: block by block, further methods before controls."""
    controls = [*CONTROLS.values(), CEILING]
    extra = sorted(
        (key for key in groups if key not in printed),
        key=lambda key: controls.index(key[len(layout.blocks)]) + 1 if key[len(layout.blocks)] in controls else 0,
    )
    return [*printed, *extra]


def _is_erratum(note: str) -> bool:
    return any(mark in note for mark in ("ERRATUM", "SUSPECT", "CONFLICT", "last digit"))


# ---- writing them down


def _number(value: float) -> str:
    """Fractions with three digits, as the papers print them; counts whole."""
    return f"{value:.0f}" if value == round(value) and abs(value) > 1 else f"{value:.3f}"


def _text(cell: pd.Series) -> str:
    """A cell as a reader sees it: ours, the paper's and the difference, and the verdict's mark."""
    paper = f"({cell['paper']})" if cell["paper"] else ""
    if cell["verdict"] == Verdict.NOT_MEASURED:
        return f"– {paper}"
    if cell["verdict"] == Verdict.DIVERGED:
        return f"diverged {paper}"
    ours = _number(cell["ours"]) + (f"±{cell['std']:.3f}" if pd.notna(cell["std"]) else "")
    if not paper:
        return ours
    sign = "+" if cell["difference"] >= 0 else "−"
    inside = f"({cell['paper']}, {sign}{_number(abs(cell['difference']))})"
    return f"{ours} {inside} {MARKS.get(Verdict(cell['verdict']), '')}".strip()


def _index(keys: pd.DataFrame) -> pd.Index:
    """An index with a level for each column; with one column a plain one, which pandas prints without brackets."""
    return pd.MultiIndex.from_frame(keys) if len(keys.columns) > 1 else pd.Index(keys.iloc[:, 0])


def _grid(layout: Layout, cells: pd.DataFrame) -> pd.DataFrame:
    """Rows and columns of cell texts, in the order in which they first appear."""
    index, columns = _index(cells[layout.rows]), _index(cells[layout.columns])
    rows, heads = index.unique(), columns.unique()
    texts = np.full((len(rows), len(heads)), "", dtype=object)
    texts[rows.get_indexer(index), heads.get_indexer(columns)] = cells["text"]
    return pd.DataFrame(texts, index=rows, columns=heads)


def _joined(key: Any) -> str:
    return " ".join(part for part in ([key] if isinstance(key, str) else key) if part)


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


def markdown(layout: Layout, cells: pd.DataFrame, about: str) -> str:
    """The table for reading: a grid for each block, then legend, notes and the paper's errata."""
    cells, notes = _with_texts(cells)
    lines = [f"# {layout.table.replace('table', 'Table ')}: {layout.title}", "", about, "", LEGEND]
    for block, part in cells.groupby(layout.blocks, sort=False) if layout.blocks else [((), cells)]:
        grid = _grid(layout, part)
        grid.index = pd.Index([_joined(row) for row in grid.index], name=" ".join(layout.rows))
        grid.columns = [_joined(column) for column in grid.columns]
        lines += ["", f"## {_joined(block)}" if block else "", "", grid.to_markdown()]
    if layout.note:
        lines += ["", "## Note", "", layout.note]
    if ways := sorted({way for cell in cells["measured_as"] for way in cell.split()}):
        lines += ["", "## How it was measured", "", *(f"- `{way}`" for way in ways)]
    reasons = cells[cells["verdict"] == Verdict.NOT_MEASURED].groupby("why", sort=False).size()
    if len(reasons):
        lines += ["", "## Not measured", "", *(f"- {n} cells: {reason}" for reason, n in reasons.items())]
    if notes:
        lines += ["", "## Notes on printed numbers", "", *(f"{n}. {note}" for n, note in enumerate(notes, start=1))]
    if errata := errata_of(layout.paper, layout.table):
        lines += ["", "## Errata of the paper", "", *(f"- {erratum}" for erratum in errata)]
    return "\n".join(lines) + "\n"


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
    "–": "--",
}


def _stacked(setting: re.Match[str]) -> str:
    """The keys of a setting one below the other, which keeps columns narrow."""
    keys = setting[0].replace(";", r";\\")
    return rf"\shortstack[l]{{{keys}}}"


def latex(layout: Layout, cells: pd.DataFrame, about: str) -> str:
    """The table for a paper: one booktabs table with its blocks one below the other; its first line says what it needs.

    Settings of several keys, such as `phase=new-clients;rounds=1`, stand one key below the other.
    """
    cells, _ = _with_texts(cells)
    grid = _grid(Layout(**{**vars(layout), "rows": layout.blocks + layout.rows}), cells)
    text = grid.map(lambda cell: cell.split(" [")[0]).to_latex(
        escape=True,
        multicolumn_format="c",
        longtable=True,
        caption=re.sub(r"([&%$#_{}])", r"\\\1", f"{layout.title}. {about} {layout.note}".strip()),
        label=f"tab:{layout.paper}-{layout.table}",
    )
    for symbol, command in _LATEX.items():
        text = text.replace(symbol, command)
    text = re.sub(r"(?<=& )[^\s&]+=[^\s&]+;[^\s&]+", _stacked, text)
    return f"% in the preamble: {LATEX_PACKAGES}\n{text}"


def write_table(layout: Layout, cells: pd.DataFrame, about: str, file: Path) -> None:
    """Write `<file>.md`, and the same as CSV and LaTeX beside it."""
    for suffix, content in (
        (".csv", cells.to_csv(index=False)),
        (".md", markdown(layout, cells, about)),
        (".tex", latex(layout, cells, about)),
    ):
        with written(file.with_suffix(suffix)) as part:
            part.write_text(content)
