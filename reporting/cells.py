"""Cells: the published ones of a table, ours in the same places, and the verdict on each."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any

import pandas as pd

from reporting.evidence import Evidence, Found, Key, evidence_by
from reporting.layout import Layout
from reporting.measures import POOLED, evidence_of, marked
from reporting.records import published
from reporting.verdict import SEEDS, Printed, Spread, verdict, within_seeds
from reporting.wording import plural

Rows = dict[Key, dict[Any, Any]]
"""The published rows by the keys of their cells."""
Spreads = dict[tuple[str, str], Spread]
SAID = [
    *("ours", "std", "unit", "seeds", "paper", "difference", "verdict", "why"),
    *("grade", "scale", "differs", "budget", "passed_over", "note", "measured_as"),
]
"""What is said of a cell. `grade` to `budget` are of the best evidence on it, `passed_over` names what is not."""
CONTROLS = [
    *("untrained", "shuffled-labels", "floor", "brighter", "noisy", "shifted", "copy", "other-client", "own-images"),
    *("noise", "pixels", "reconstruction", "identity", "rotation", "other", "blur-0.5", "blur-1", "blur-2", "ceiling"),
    *("counterpart", POOLED, "one-encoder", "same-images", "even-classes"),
]
"""Floors, ceilings and controls as records call them, in the order in which they are shown."""
CEILING = "supervised"
"""What is trained with labels, and so is the ceiling of what is trained without."""


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
    marks = marked(layout, groups) if layout.measures else {}
    rows = []
    for key in _ordered(layout, printed, groups):
        place = dict(zip(layout.keys, key, strict=True))
        row, found = printed.get(key), groups.get(key, [])
        ours, theirs = found[0] if found else None, _printed(row) if row else None
        judged = marks.get(key) or verdict(ours, theirs, *_trend(layout, key, printed, groups, spreads))
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
                "why": judged.why if ours or judged.why else why(place) or "no run for it",
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
    if layout.measures:
        return evidence_of(layout, records)
    return evidence_by(layout.keys, _measured(layout, records))


def _told(ours: Evidence) -> str:
    """Evidence in a line."""
    return f"{ours.mean:.6g} at {ours.scale}, {ours.grade}, {plural(ours.seeds, 'seed')}"


def _printed(row: dict[Any, Any]) -> Printed:
    """A published row as a number to compare with."""
    std, runs = float(row["std"] or 0), int(row["n_runs"] or 0)
    return Printed(float(row["value"]), row["metric"], row["unit"], std, runs, row["approx"] == "yes")


def _spreads(layout: Layout, printed: Rows, groups: Found) -> Spreads:
    """By scale and metric: of differences from the reference row, within seeds, shared by the printed rows."""
    differences = defaultdict(list)
    for key in printed:
        for ours in groups.get(key, []):
            if beside := _beside(ours, groups.get(_reference_key(layout, key), [])):
                differences[ours.scale, ours.metric].append(within_seeds(ours, beside))
    return {which: Spread.shared(several) for which, several in differences.items()}


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
    """Published cells in the paper's order, then ours: further methods before controls, unknown ones last."""
    order = {control: n for n, control in enumerate(["", *CONTROLS, CEILING])}
    ours = (key for key in groups if key not in printed)
    return [*printed, *sorted(ours, key=lambda key: order.get(key[-1], len(order)))]


def _is_erratum(note: str) -> bool:
    return any(mark in note for mark in ("ERRATUM", "SUSPECT", "CONFLICT", "last digit"))
