"""Reading records and published numbers, and the averages that papers print."""

import csv
import gzip
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.core.groupby import SeriesGroupBy

from common.codehash import ROOT
from common.errors import InputError
from common.records import COLUMNS, IDENTITY

PUBLISHED = ROOT / "results" / "paper"
_CASE = [
    "paper",
    "table",
    "dataset",
    "clients_per_style",
    "ssl",
    "protocol",
    "method",
    "variant",
    "setting",
    "metric",
    "unit",
    "control",
    "domain",
    "digit",
    "role",
    "sync_steps",
    "scale",
    "seed",
]
"""What an average over styles and splits keeps apart."""
_PLACE = ["paper", "table", "dataset", "clients_per_style"]
"""Where the styles and splits are the same."""

CELL = [*IDENTITY, "control", "scale", "seed", "run"]
"""What there is one number for."""


def read_csv(file: Path, first: int | None = None) -> pd.DataFrame:
    """A CSV file as text, with empty strings where it is empty; `1` and `75` in key columns stay what they are.

    Args:
        first: so many rows alone.
    """
    try:
        rows = pd.read_csv(file, dtype=str, keep_default_na=False, nrows=first)
    except (OSError, EOFError, zlib.error, ValueError, pd.errors.ParserError) as error:
        raise InputError(f"{file}: cannot be read as CSV ({' '.join(str(error).split())})") from error
    if not isinstance(rows.index, pd.RangeIndex):  # pandas takes the first of too many values for a line's name
        raise InputError(f"{file}: cannot be read as CSV (its lines have more values than there are columns)")
    return rows


def read_rows(file: Path) -> pd.DataFrame:
    """Records as text, as `diptych evaluate` writes them.

    Raises:
        InputError: the file cannot be read, has other columns, what no record has in one of them, or two values for one
            cell.
    """
    records = read_csv(file)
    missing = [column for column in COLUMNS if column not in records]
    if missing:
        raise InputError(f"{file}: these columns of a record are missing: {', '.join(missing)}")
    if more := sorted({*map(str, records)} - {*COLUMNS}):
        raise InputError(f"{file}: a record has no such columns: {', '.join(more)}")
    _refuse_short(file, records)
    for column in ("value", "budget"):
        known = pd.to_numeric(records[column], errors="coerce").notna() | (records[column] == "")
        _refuse_odd(file, records[column], known, f"a {column} must be a number or empty")
    budget, stand_in, seed = records["budget"], records["stand_in"], records["seed"]
    share = pd.to_numeric(budget).fillna(0.0)  # of an empty one nothing is known
    _refuse_odd(file, budget, np.isfinite(share) & (share >= 0), "a budget must be finite and not negative")
    _refuse_odd(file, stand_in, stand_in.isin(["", "yes"]), "a stand_in must be yes or empty")
    _refuse_odd(file, records["status"], records["status"].isin(["ok", "diverged"]), "a status must be ok or diverged")
    ok, value = records["status"] == "ok", records["value"]
    _refuse_odd(file, value, ok | (value == ""), "one that diverged has no value")
    _refuse_odd(file, value, ~ok | np.isfinite(pd.to_numeric(value)), "one that is ok must have a finite value")
    run = records["run"].str.fullmatch(r"([^/\s]+(/[^/\s]+){4}( |$))*")
    _refuse_odd(file, records["run"], run, "a run must be named paper/condition/method/variant/seed")
    whole = (records["run"] == "") | seed.str.fullmatch(r"[0-9]+")
    _refuse_odd(file, seed, whole, "the seed of a run must be a whole number")
    twice = records.drop_duplicates([*CELL, "value"])
    twice = twice[twice.duplicated(CELL)]
    if len(twice):
        row = twice.iloc[0]
        what = f"{row['metric']} of {row['run']}"
        raise InputError(f"{file}: line {twice.index[0] + 2}: {what} is there already, with another value")
    return records


def _refuse_short(file: Path, records: pd.DataFrame) -> None:
    """A line with fewer values than there are columns, as the last one of a file that was cut: pandas fills it up."""
    if (records.iloc[:, -1] != "").all():  # no line was filled up, so that none need be counted
        return
    with gzip.open(file, "rt", newline="") if file.suffix == ".gz" else open(file, newline="") as lines:
        reader = csv.reader(lines)
        short = next((reader.line_num for row in reader if 0 < len(row) < records.shape[1]), None)
    if short:
        raise InputError(f"{file}: line {short} has not as many values as the {records.shape[1]} columns")


def _refuse_odd(file: Path, column: pd.Series, known: pd.Series, must: str) -> None:
    if not known.all():
        row = [*known].index(False)
        raise InputError(f"{file}: line {row + 2}: {must}, got {column.iloc[row]!r}")


def read_records(file: Path) -> pd.DataFrame:
    """Our records, `value` as a number (NaN where a run diverged), averages over styles and splits included.

    Raises:
        InputError: the file is no table of records.
    """
    records = read_rows(file)
    records["value"] = pd.to_numeric(records["value"])
    return with_averages(with_families(reached(records)))


def reached(records: pd.DataFrame) -> pd.DataFrame:
    """The records without what it took to a target that not every seed has reached: those that have are quick."""
    counts = records[records["metric"].isin(["rounds_to_target", "bytes_to_target"])]
    cells = [column for column in [*IDENTITY, "scale"] if column not in ("kind", "metric", "unit")]
    seeds = counts.groupby(cells)["seed"].transform("nunique")
    until = counts[counts["metric"] == "bytes_to_target"]
    some = until.groupby(cells)["seed"].transform("nunique") < seeds[until.index]
    return records.drop(until.index[some])


PREFERRED = {"fid": ("inception", "domain-classifier")}
"""Of a metric that is measured in several ways, the ones that stand in the paper's cells, best first."""
_COMPARED = ["paper", "table", "dataset", "scale"]
"""Where trends and claims compare, all is measured in one way, since distances by two instruments have no difference.
Not so a file, parts of which may know the second way alone."""


def with_families(records: pd.DataFrame) -> pd.DataFrame:
    """A metric such as `fid:inception-...:...` once more under its family's name, `fid`, if it is the best one there.

    A new column, `measured_as`, keeps the full name; what is not measured in the published way is marked a stand-in.
    """
    records = records.assign(measured_as="")
    for family, ways in PREFERRED.items():
        rank = pd.Series(len(ways), index=records.index)
        for n, way in enumerate(ways):
            rank[records["metric"].str.startswith(f"{family}:{way}")] = n
        best = rank.groupby([records[column] for column in _COMPARED]).transform("min")
        chosen = records[(rank == best) & (rank < len(ways))]
        stand_in = chosen["stand_in"].mask(best[chosen.index] > 0, "yes")
        chosen = chosen.assign(measured_as=chosen["metric"], metric=family, stand_in=stand_in)
        records = pd.concat([records, chosen], ignore_index=True)
    return records


def published(paper: str, table: str) -> pd.DataFrame:
    """The published cells of one table (or `text`), in the paper's order; empty if the paper has no such table.

    Percentages become fractions.
    """
    file = PUBLISHED / f"{paper.replace('-', '')}_{table}.csv"
    if not file.exists():
        return pd.DataFrame(columns=COLUMNS)
    rows = read_csv(file)
    percent = rows["unit"] == "percent"
    for row in rows.index[percent]:
        rows.loc[row, ["value", "printed"]] = f"{round(float(rows.loc[row, 'value']) / 100, 6):g}"
        rows.loc[row, "std"] = f"{round(float(rows.loc[row, 'std'] or 0) / 100, 6):g}"
    return rows.assign(unit=rows["unit"].where(~percent, "fraction"))


def with_averages(records: pd.DataFrame) -> pd.DataFrame:
    """The records and, for every case that has all its styles and splits, their mean.

    All are those of the file and those of the paper's table. A mean has style `all`, and split `all` if it is over
    several, in which case the mean over the styles of each split that has them all stands beside it, which no paper
    prints (aggregate `mean of split`), in the paper's order of splits.
    """
    members = _members(records)
    if members.empty:
        return records
    tables = members[["paper", "table"]].drop_duplicates().itertuples(index=False)
    printed = [_members(published(paper, table)) for paper, table in tables]
    there = pd.concat([members, *printed]).groupby(_PLACE)[["style", "split"]].nunique()
    several = members.join(there["split"].gt(1).rename("several"), on=_PLACE)["several"]
    means = _means(members, _CASE, there.prod(axis=1))
    means["split"] = means["split"].mask(several[means.index], "all")
    of_splits = _means(members[several], [*_CASE, "split"], there["style"]).assign(aggregate="mean of split")
    order = [*pd.concat([*printed, members])["split"].unique()]
    of_splits = of_splits.sort_values("split", key=lambda splits: splits.map(order.index), kind="stable")
    return pd.concat([records, means, of_splits], ignore_index=True)


def _means(members: pd.DataFrame, case: list[str], expected: pd.Series) -> pd.DataFrame:
    """The mean of each case that has as many members as are expected at its place, at the index of its first one.

    Of the published training it has had what the member has that had least. One diverged member makes it diverged.
    """
    cases = members.groupby(case, sort=False)
    first = members.drop_duplicates(case)  # in the order of the cases
    averages = first.assign(
        style="all",
        aggregate="mean",
        value=cases["value"].apply(lambda values: values.mean(skipna=False)).to_numpy(),
        status=_one_of(cases["status"], "diverged", "ok"),
        source="",
        stand_in=_one_of(cases["stand_in"], "yes", ""),
        differs=cases["differs"].agg(lambda keys: " ".join(sorted({*" ".join(keys).split()}))).to_numpy(),
        run=cases["run"].agg(lambda runs: " ".join(sorted({*runs}))).to_numpy(),
        budget=cases["budget"].agg(lambda shares: min(shares, key=lambda share: float(share or -1))).to_numpy(),
    )
    sizes = members.drop_duplicates([*_CASE, "style", "split"]).groupby(case, sort=False).size()
    return averages[sizes.to_numpy() == first.join(expected.rename("expected"), on=_PLACE)["expected"].to_numpy()]


def _members(records: pd.DataFrame) -> pd.DataFrame:
    """The records that averages over styles and splits are of."""
    members = records[(records["protocol"] != "") & (records["client"] == "") & (records["aggregate"] == "none")]
    return members[members["style"] != "all"]


def _one_of(cases: SeriesGroupBy, value: str, otherwise: str) -> np.ndarray:
    """For each case, `value` if one of its members has it."""
    return np.where(cases.agg(lambda members: bool((members == value).any())), value, otherwise)
