"""Putting the records of a study together."""

from pathlib import Path
from typing import Any

import pandas as pd

from common.files import written
from common.records import COLUMNS
from diptych.study import load_study
from reporting.records import read_rows


def gather(scale: str, parts: list[Path], out: Path) -> None:
    """Write the records of all runs of a scale, once for each table that a run is for.

    Args:
        parts: what `diptych evaluate` wrote. Runs that the scale does not ask for are left out.

    Raises:
        InputError: a part is no table of records.
    """
    study = load_study(scale)
    measured = pd.concat([read_rows(part) for part in parts], ignore_index=True)
    alone = measured["table"] != ""  # what is for one table only says so itself, and may be of a run's name
    by_run = dict(tuple(measured[~alone].groupby("run", sort=False)))
    found = []
    for cell in study.cells:
        if cell.spec.run not in by_run:
            continue
        rows = by_run[cell.spec.run].copy()
        rows["table"] = cell.table
        rows.loc[rows["setting"] == "", "setting"] = cell.setting
        played = cell.stand_ins | ({"all"} if cell.stand_ins else set())  # a number over all styles is over these, too
        rows["stand_in"] = ["yes" if style in played else "" for style in rows["style"]]
        found.append(rows)
    found.append(measured[alone])
    everything: Any = pd.concat(found, ignore_index=True) if found else measured
    with written(out) as part:
        everything[COLUMNS].to_csv(part, index=False)
