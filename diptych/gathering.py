"""Putting the records of a study together."""

from pathlib import Path

import pandas as pd

from common.errors import choose
from common.files import written
from common.records import COLUMNS, EVIDENCE
from diptych.published import Reference
from diptych.study import Study, load_study
from reporting.records import read_rows


def kept(study: Study, files: list[Path]) -> pd.DataFrame:
    """Of records that `gather` wrote of this scale before, those of trained runs that are still asked for and specified
    as they were. Another scale may ask for the same run, but tables and claims are of one.

    They stay under the tables that they were for, and how a run that another starts from is specified is not looked at.

    Raises:
        InputError: a file is no table of records.
    """
    rows = pd.concat([pd.DataFrame(columns=COLUMNS), *map(read_rows, files)], ignore_index=True)
    today = {run: study.specs[run].digest for run in {*rows["run"]} & study.specs.keys()}
    trained = rows["wall_s"] != ""  # what is counted takes no time
    return rows[trained & (rows["scale"] == study.name) & (rows["spec"] == rows["run"].map(today))]


def gather(scale: str, parts: list[Path], out: Path, measured: list[Path], paper: str = "") -> None:
    """Write the records of all runs of a scale, once for each table that a run is for.

    Args:
        parts: what `diptych evaluate` wrote, or this, of other runs. Runs that the scale does not ask for are left out.
        measured: what this wrote before; what is `kept` of it, and is of no run of the parts, stays.
        paper: whose runs alone; all papers' otherwise.

    Raises:
        InputError: a part is no table of records, or the scale has no such paper.
    """
    study = load_study(scale)
    if paper:
        choose("--paper", paper, study.papers)
    reference = Reference.of(study)
    new = _of(paper, pd.concat([read_rows(part) for part in parts], ignore_index=True))
    alone = new["table"] != ""  # what is for one table only says so itself, and may be of a run's name
    by_run = dict(tuple(new[~alone].groupby("run", sort=False)))
    before = _of(paper, kept(study, measured))
    found = [before[~before["run"].isin(by_run)]]
    for cell in study.cells:
        if cell.spec.run not in by_run:
            continue
        rows = by_run[cell.spec.run].copy()
        rows["table"] = cell.table
        rows.loc[rows["setting"] == "", "setting"] = cell.setting
        played = cell.stand_ins | ({"all"} if cell.stand_ins else set())  # a number over all styles is over these, too
        rows["stand_in"] = ["yes" if style in played else "" for style in rows["style"]]
        how_far = reference.of_cell(cell)
        rows[EVIDENCE] = [how_far.get(said, said) for said in rows[EVIDENCE].itertuples(index=False, name=None)]
        found.append(rows)
    found.append(new[alone & (new["scale"] == scale)])
    with written(out) as part:
        pd.concat(found, ignore_index=True)[COLUMNS].to_csv(part, index=False)


def _of(paper: str, rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["paper"] == paper] if paper else rows
