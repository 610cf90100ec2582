"""Whether what lies in a folder of results is what its records, the configuration and the code of today make."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pandas as pd

from common.algorithms import algorithm_modules, training_code
from common.errors import InputError
from diptych import counted, outputs, propositions, simpson
from diptych.board import board_of, titles
from diptych.configuration import names_in
from diptych.drawing import figure
from diptych.study import Study, load_study
from reporting.board import write_board
from reporting.figures import FORMATS, caption
from reporting.records import read_records

RECORDS = "*/records.csv*"
"""The records below a folder of several scales, such as results/reference."""


class State(StrEnum):
    """Of a run: what would come of it today."""

    SAME = "as today's specification and code make them"
    OTHER_CODE = "of the same specification, code has changed since"
    OTHER_SPEC = "of a specification that is no longer asked for"


@dataclass(frozen=True)
class Verified:
    """What was found of a folder.

    Attributes:
        runs: a row for each run with its state.
        outputs: file -> whether it is that of the records.
    """

    runs: pd.DataFrame
    outputs: dict[Path, bool]

    @property
    def stale(self) -> list[Path]:
        """Files that are not what the records make."""
        return [file for file, same in self.outputs.items() if not same]

    @property
    def report(self) -> str:
        """Line by line."""
        lines = []
        for folder, part in self.runs.groupby("folder"):
            counted = Counter(part["state"])
            lines += [f"{folder}: {len(part)} runs"] + [f"  {counted[s]} {s}" for s in State if counted[s]]
        lines.append(f"{len(self.outputs) - len(self.stale)} of {len(self.outputs)} files are those of the records")
        return "\n".join([*lines, *(f"  not so: {file}" for file in self.stale)])


def verify(folder: Path, board: Path | None = None) -> Verified:
    """Compare the records, tables, claims, captions and board of a folder of several scales with what makes them.

    Raises:
        InputError: there are no records in it.
    """
    runs: list[dict[str, str]] = []
    same: dict[Path, bool] = {}
    for file in _records_in(folder):
        records, study = _read(file)
        runs += [{"folder": file.parent.name, **row} for row in _runs(records)]
        with tempfile.TemporaryDirectory() as made:
            for output in _laid_out(file.parent):
                same |= _same(study, output, records, Path(made))
        for output in _drawn_of_records(file.parent, study):
            same[output] = caption(output) == study.about(output.stem.partition("-")[0])
    if board is not None:
        with tempfile.TemporaryDirectory() as made:
            write_board(board_of(folder), titles(), Path(made) / board.name)
            same[board] = _content(board) == _content(Path(made) / board.name)
    return Verified(pd.DataFrame(runs, columns=["folder", "scale", "run", "state"]), same)


def remake(folder: Path) -> list[Path]:
    """Make the tables, claims and figures that are in a folder of several scales, and that its records make, anew.

    Returns:
        what was made: Markdown files, beside which others of the same stem are made with them, and PNG files.

    Raises:
        InputError: there are no records in it.
    """
    made = []
    for file in _records_in(folder):
        records, study = _read(file)
        for output in _laid_out(file.parent):
            _make(study, output, records, output)
            made.append(output)
        for output in _drawn_of_records(file.parent, study):
            figure(study, output.stem, file, [f for end in FORMATS if (f := output.with_suffix(f".{end}")).exists()])
            made.append(output)
    return made


def _records_in(folder: Path) -> list[Path]:
    files = sorted(folder.glob(RECORDS))
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    if any(folder.glob(Path(RECORDS).name)):
        raise InputError(f"{folder}: is the folder of one scale; the one that it lies in is asked for")
    if not files:
        raise InputError(f"{folder}: there are no records in it; it must hold <name>/records.csv or records.csv.gz")
    return files


def _read(file: Path) -> tuple[pd.DataFrame, Study]:
    """Records, and the study that they are of."""
    records = read_records(file)
    if records.empty:
        raise InputError(f"{file}: there is no record in it")
    return records, load_study(records["scale"].iloc[0])


def _runs(records: pd.DataFrame) -> Iterator[dict[str, str]]:
    """The state of every run that records are of, of several measurements the furthest from today's; averages have no
    run, or several."""
    columns = ["scale", "run", "seed", "spec", "code"]
    measured = records[records["run"].str.fullmatch(r"\S+")][columns].drop_duplicates()
    for (scale, run, seed), rows in measured.groupby(columns[:3], sort=False):
        today = _today(str(scale), str(run), int(str(seed)))
        states = {_state(today, row["spec"], row["code"]) for row in rows.to_dict("records")}
        yield {"scale": str(scale), "run": str(run), "state": next(s for s in reversed(State) if s in states)}


def _state(today: set[tuple[str, str]], spec: str, code: str) -> State:
    codes = {its_code for its_spec, its_code in today if its_spec == spec}
    return State.OTHER_SPEC if not codes else State.SAME if code in codes else State.OTHER_CODE


def _today(scale: str, run: str, seed: int) -> set[tuple[str, str]]:
    """Digests of the specification that this run has today, and of the code that makes its records: by training, by
    counting, or, of Simpson's paradox and of propositions, by neither."""
    paper, condition, _, variant, _ = run.split("/")
    if condition == propositions.CONDITION:
        return {(stated.digest, stated.code) for stated in propositions.PROPOSITIONS if stated.run == run}
    if (paper, condition) == ("padpaf", "simpson"):
        case = next(part for part in (variant.partition(";")[0], "") if part in simpson.CASES)
        return {(simpson.digest(case, seed), simpson.code())}
    made = set()
    for asking in {scale, "paper"} & set(names_in("scales")):  # what is counted is of the published specification
        spec = load_study(asking).specs.get(run)
        if spec and (name := str(spec.algorithm["name"])) in algorithm_modules():
            codes = training_code(name, overheard=spec.overheard), counted.code(spec)
            made |= {(spec.digest, code) for code in codes}
    return made


def _same(study: Study, output: Path, records: pd.DataFrame, made: Path) -> dict[Path, bool]:
    """Whether the tables or claims in a file, and in those beside it, are what the records make."""
    _make(study, output, records, made / output.name)
    files = [output.with_suffix(suffix) for suffix in (".md", ".csv", ".tex")]
    return {file: _content(file) == _content(made / file.name) for file in files if (made / file.name).exists()}


def _make(study: Study, output: Path, records: pd.DataFrame, out: Path) -> None:
    """Make anew what such a file of tables or of claims holds."""
    if output.parent.name == "tables":
        outputs.table(study, outputs.named(study, output.stem), records, out)
    else:
        outputs.claims(study, output.stem, records, out)


def _laid_out(folder: Path) -> list[Path]:
    """Tables and claims in a folder."""
    return sorted([*folder.glob("tables/*.md"), *folder.glob("claims/*.md")])


def _drawn_of_records(folder: Path, study: Study) -> Iterator[Path]:
    """Figures in a folder that are drawn from records alone; of others the runs may be gone."""
    for file in sorted((folder / "figures").glob("*.png")):
        paper, _, name = file.stem.partition("-")
        drawn = study.papers[paper].figures.get(name) if paper in study.papers else None
        if drawn is not None and drawn.data in ("records", "ranks"):
            yield file


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""
