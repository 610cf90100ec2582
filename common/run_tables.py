"""What the tables of a run's folder must be, as docs/run-folder.md has it: columns, types, and no row missing."""

import csv
import math
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import FailFast, Field, NonNegativeInt, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from common.errors import InputError, quoted
from common.spec import Spec

Row = dict[str, Any]


class History(TypedDict):
    """The work of a client in one phase of a round, by update."""

    round: NonNegativeInt
    client: NonNegativeInt
    stage: Literal["prologue", "round", "epilogue"]
    phase: NonNegativeInt
    update: NonNegativeInt
    steps: NonNegativeInt
    loss: float


class Scores(TypedDict):
    """How good a client was after a round; -1 is the server."""

    round: NonNegativeInt
    client: Annotated[int, Field(ge=-1)]
    score: str
    value: float
    style: NotRequired[str]
    part: NotRequired[Literal["", "train", "test"]]


class Traffic(TypedDict):
    """What crossed the channel under one name."""

    round: NonNegativeInt
    client: NonNegativeInt
    direction: Literal["up", "down"]
    name: str
    bytes: NonNegativeInt


PartitionRow = TypedDict(
    "PartitionRow", {"client": NonNegativeInt, "style": str, "class": NonNegativeInt, "images": NonNegativeInt}
)
Notes = TypedDict(
    "Notes",
    {
        "round": NonNegativeInt,
        "class": NonNegativeInt,
        "iteration": NonNegativeInt,
        "trials": float,
        "objective": float,
    },
)
ROWS: dict[str, Any] = {
    "history.csv": History,
    "scores.csv": Scores,
    "traffic.csv": Traffic,
    "partition.csv": PartitionRow,
    "notes.csv": Notes,
}
"""File -> what a row of it is."""


@cache
def _adapter(name: str) -> TypeAdapter[list[Row]]:
    return TypeAdapter(Annotated[list[ROWS[name]], FailFast()])  # type: ignore[valid-type, arg-type]


def read(file: Path) -> list[Row]:
    """The rows of one of the CSV files, with numbers as such.

    Raises:
        InputError: the file cannot be read, a column is missing, or a value is not what it must be.
    """
    try:
        with open(file, newline="") as lines:
            reader = csv.DictReader(lines, restkey="", strict=True)
            rows = list(reader)
            columns = list(reader.fieldnames or [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file}: cannot be read ({error})") from error
    if missing := ROWS[file.name].__required_keys__ - set(columns):
        raise InputError(f"{file}: must have the columns {', '.join(sorted(missing))}, got {', '.join(columns)}")
    for number, row in enumerate(rows, 2):
        if "" in row or None in row.values():
            raise InputError(f"{file}: line {number} has not as many values as the {len(columns)} columns")
    try:
        return _adapter(file.name).validate_python(rows)
    except ValidationError as error:
        problem = error.errors()[0]
        line, column = problem["loc"]
        message = problem["msg"].removeprefix("Input ")
        value = quoted(problem["input"])
        raise InputError(f"{file}: line {int(line) + 2}: {column} {message}, got {value}") from error


def check(file: Path, rows: list[Row], spec: Spec, provenance: Row) -> None:
    """Whether a finished run's rows fit its specification and the other files, and none is missing.

    Raises:
        InputError: they do not.
    """
    CHECKS.get(file.name, lambda *_: None)(str(file), rows, spec, provenance)


def _check_history(file: str, rows: list[Row], spec: Spec, provenance: Row) -> None:
    _check_within(file, rows, spec)
    clients = defaultdict(set)
    for row in rows:
        if row["stage"] == "round":
            clients[row["round"]].add(row["client"])
    _check_all_rounds(file, clients, range(1, spec.training.rounds + 1))
    _check_finite(file, rows, "loss")


def _check_scores(file: str, rows: list[Row], spec: Spec, provenance: Row) -> None:
    _check_within(file, rows, spec)
    curves: dict[tuple[str, str, str], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        if row.get("style"):
            _check_one_of(f"{file}: style", row["style"], spec.data.styles)
        curves[row["score"], row.get("style", ""), row.get("part", "")][row["round"]].add(row["client"])
    for clients in curves.values():
        _check_all_rounds(file, clients, spec.scored_rounds or sorted(clients))
    _check_finite(file, rows, "value")


def _check_traffic(file: str, rows: list[Row], spec: Spec, provenance: Row) -> None:
    _check_within(file, rows, spec)
    for direction in ("up", "down"):
        total = sum(row["bytes"] for row in rows if row["direction"] == direction)
        said = provenance.get(f"bytes_{direction}", total)
        if said != total:
            raise InputError(f"{file}: {total} bytes went {direction}, but provenance.json says {said}")


def _check_partition(file: str, rows: list[Row], spec: Spec, provenance: Row) -> None:
    classes: dict[int, list[int]] = defaultdict(list)
    images: dict[int, int] = defaultdict(int)
    for row in rows:
        _check_one_of(f"{file}: style", row["style"], spec.data.seen)
        classes[row["client"]].append(row["class"])
        images[row["client"]] += row["images"]
    if sorted(classes) != list(range(spec.data.clients)):
        raise InputError(f"{file}: must have the {spec.data.clients} clients from 0 on, got {len(classes)}")
    there = max(map(len, classes.values()))
    for client, seen in classes.items():
        if sorted(seen) != list(range(there)) or not images[client]:
            raise InputError(f"{file}: client {client} must have a row for each of {there} classes, and an image")


CHECKS: dict[str, Callable[[str, list[Row], Spec, Row], None]] = {
    "history.csv": _check_history,
    "scores.csv": _check_scores,
    "traffic.csv": _check_traffic,
    "partition.csv": _check_partition,
}


def _check_within(file: str, rows: list[Row], spec: Spec) -> None:
    """Rounds until the epilogue, and clients that there are."""
    for key, most in (("round", spec.training.rounds + 1), ("client", spec.data.clients - 1)):
        found = max((row[key] for row in rows), default=0)
        if found > most:
            raise InputError(f"{file}: {key} must be at most {most}, got {found}")


def _check_all_rounds(file: str, clients: dict[int, set[int]], rounds: Any) -> None:
    """Every one of these rounds, if any, and as many clients in each."""
    if not clients:
        return
    if odd := set(rounds) ^ clients.keys():
        raise InputError(f"{file}: must have the rounds {_span(rounds)}, got {_span(sorted(clients))}; see {min(odd)}")
    sizes = {len(of_round) for of_round in clients.values()}
    if len(sizes) > 1:
        raise InputError(f"{file}: rounds have between {min(sizes)} and {max(sizes)} clients, not as many each")


def _span(rounds: Any) -> str:
    return f"{min(rounds)}..{max(rounds)} ({len(rounds)})"


def _check_one_of(where: str, value: str, options: Any) -> None:
    if value not in options:
        raise InputError(f"{where}: must be one of {', '.join(options)}, got '{value}'")


def _check_finite(file: str, rows: list[Row], column: str) -> None:
    for number, row in enumerate(rows, 2):
        if not math.isfinite(row[column]):
            raise InputError(f"{file}: line {number}: {column} must be a finite number, got {row[column]}")
