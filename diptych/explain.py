"""From a cell of a table to its settings: the runs that fill it, where each setting stands, how it differs from the
paper's, and the commands that make the cell by hand."""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from common.algorithms import algorithm_module
from common.errors import InputError, quoted
from common.records import COLUMNS
from diptych import configuration
from diptych.configuration import merged
from diptych.outputs import named, runs_for
from diptych.published import NAMES, differing, flat
from diptych.study import Cell, Place, Study, unseeded
from diptych.tuning import CHOSEN
from reporting.cells import cells_of
from reporting.layout import ABILITY, MEASURE, Layout
from reporting.wording import name_of, names

LISTED = 12
"""Cells that are named where several are meant."""


@dataclass(frozen=True)
class Setting:
    """A setting of a run.

    Attributes:
        key: dotted.
        where: file and line, or what else says so.
        published: what the paper has in its place; empty if it is the same.
    """

    key: str
    value: Any
    where: str
    published: str = ""


def explain(study: Study, table: str, row: str, column: str) -> str:
    """All of it, line by line.

    Args:
        table: such as fedstyle-table1.
        row, column: words that are among those of the cell's block and row, and of its column.

    Raises:
        InputError: there is no such table; no cell has these words, or several have that are of different runs; or
            nothing is run for it at this scale.
    """
    layout = named(study, table)
    printed = _printed(layout)
    theirs = _runs_of(study, layout)
    if not printed:
        theirs = [run for run in theirs if _about(layout, run)]
    others = _of_runs(layout, [run for run in theirs if _about(layout, run)], column)
    found = _having(layout, printed, row, column) or _having(layout, others, row, column)
    place = _the_cell(layout, found, printed or others, row, column)
    runs = list(runs_for(layout, place, theirs))
    if not runs:
        why = study.why_left_out(place) or "none of its experiments has it"
        raise InputError(f"{table}: nothing is run for {_titled(layout, place)} at the scale '{study.name}': {why}")
    lines = [f"{table}: {_titled(layout, place)}, at the scale {study.name}"]
    for cell in runs:
        lines += ["", *_run(study, cell)]
    return "\n".join([*lines, "", "By hand", *_by_hand(study, table, runs)])


# ---- which cell is meant


def _runs_of(study: Study, layout: Layout) -> list[Cell]:
    """The runs of a table's paper, of the first seed."""
    first = study.scale.seeds[0]
    return [c for c in study.cells if c.spec.labels["paper"] == layout.paper and c.spec.seed == first]


def _about(layout: Layout, run: Cell) -> bool:
    """Whether a table is about a run, whatever was measured of it."""
    labels = run.spec.labels
    return all(labels[axis] in values for axis, values in layout.where.items() if axis in labels)


def _printed(layout: Layout) -> list[dict[str, str]]:
    """The keys of every cell that the paper prints."""
    cells = cells_of(layout, pd.DataFrame(columns=COLUMNS), lambda place: None)
    return [{key: str(row[key]) for key in layout.keys} for row in cells.to_dict("records")]


def _of_runs(layout: Layout, runs: Iterable[Cell], column: str) -> list[dict[str, str]]:
    """The keys of every cell of runs that the paper does not print: what their labels say, and where an axis is no
    label the table's measures, or what the paper prints beside the same labels; where it prints nothing, whatever is
    asked for, all of which is of the same runs."""
    labels = [run.spec.labels for run in runs]
    keys = layout.blocks + layout.rows + layout.columns
    places = dict.fromkeys(tuple(of.get(axis, "") for axis in keys) for of in labels)
    free = [axis for axis in keys if not any(axis in of for of in labels)]
    measures = [{ABILITY: measure.ability, MEASURE: measure.name} for measure in layout.asked]
    asked = [dict.fromkeys([axis for axis in free if axis in layout.columns][-1:], column)]
    printed = _printed(layout)

    def beside(place: dict[str, str]) -> list[dict[str, str]]:
        alike = [p for p in printed if all(p[axis] == place[axis] for axis in layout.columns if axis not in free)]
        return [dict(values) for values in dict.fromkeys(tuple((axis, p[axis]) for axis in free) for p in alike)]

    known = [dict(zip(keys, place, strict=True)) for place in places]
    return [place | of for place in known for of in measures or beside(place) or asked]


def _having(layout: Layout, places: list[dict[str, str]], row: str, column: str) -> list[dict[str, str]]:
    """Cells whose row and column have these words."""
    asked = _words(row), _words(column)
    return [p for p in places if any(asked[0] <= row and asked[1] <= column for row, column in _named(layout, p))]


def _the_cell(
    layout: Layout, found: list[dict[str, str]], places: list[dict[str, str]], row: str, column: str
) -> dict[str, str]:
    """The keys of the one cell that was found; of several the one that has no other words, in its column before its
    row."""
    asked = _words(row), _words(column)
    found = [p for p in found if asked[1] in (column for _, column in _named(layout, p))] or found
    exact = [p for p in found if asked in _named(layout, p)] or found
    if not exact:
        raise InputError(f"no cell of {layout.paper}-{layout.table} has the words '{row}' in its row and '{column}' in "
                         f"its column; some that there are: {_listed(layout, places)}")  # fmt: skip
    if len(exact) > 1:
        raise InputError(f"'{row}', '{column}': {len(exact)} cells are meant; add words: {_listed(layout, exact)}")
    return exact[0]


def _named(layout: Layout, place: dict[str, str]) -> list[tuple[set[str], set[str]]]:
    """The words of a cell's block and row, and of its column: those of the records, and those of the table."""
    known = names(layout.words)
    told = {key: name_of(key, value, known).short if value else "" for key, value in place.items()}
    axes = layout.blocks + layout.rows, layout.columns
    rows, columns = ([_words(" ".join(of[key] for key in keys)) for of in (place, told)] for keys in axes)
    return list(zip(rows, columns, strict=True))


def _words(text: str) -> set[str]:
    return {*re.split(r"[\s;,=|]+", text.lower())} - {""}


def _titled(layout: Layout, place: dict[str, str]) -> str:
    parts = (" ".join(filter(None, (place[k] for k in keys))) for keys in (layout.blocks + layout.rows, layout.columns))
    return " | ".join(parts)


def _listed(layout: Layout, places: list[dict[str, str]]) -> str:
    more = f", and {len(places) - LISTED} more" if len(places) > LISTED else ""
    return "; ".join(_titled(layout, place) for place in places[:LISTED]) + more


# ---- its runs


def _run(study: Study, cell: Cell) -> Iterator[str]:
    """A run with its settings."""
    table = [
        (s.key, _shown(s.value), s.where, f"paper: {s.published}" if s.published else "") for s in settings(study, cell)
    ]
    widths = [max(len(row[n]) for row in table) for n in range(3)]
    run = unseeded(cell.spec.run)
    yield f"Run {run}, seeds {', '.join(map(str, study.seeds[run]))}"
    if cell.spec.start:
        yield f"  starts from what {cell.spec.start} has left"
    for *columns, published in table:
        row = "  ".join(text.ljust(width) for text, width in zip(columns, widths, strict=True))
        yield f"  {row}  {published}".rstrip()
    yield "  All else has the defaults of docs/settings.md."


def settings(study: Study, cell: Cell) -> list[Setting]:
    """Whatever is configured of a run, or is not as published, in the order of the specification."""
    specs = [spec.model_dump(mode="json", exclude=NAMES) for spec in (cell.spec, cell.published)]
    other, origins = set(differing(*specs)), _origins(study, cell)
    ours, theirs = (dict(flat(spec)) for spec in specs)
    return [
        Setting(
            ".".join(key),
            ours.get(key),
            origins.get(key, "not set"),
            (_shown(theirs[key]) if key in theirs else "its default") if ".".join(key) in other else "",
        )
        for key in {**ours, **theirs}
        if key in origins or ".".join(key) in other
    ]


def _origins(study: Study, cell: Cell) -> dict[tuple[str, ...], str]:
    """Key -> where the layer stands that says so last."""
    paper, content, origins = cell.spec.labels["paper"], dict[str, Any](), dict[tuple[str, ...], str]()
    for place, overlay in study.layers(paper, cell.point):
        content = merged(content, overlay)
        origins |= {key: _stands(study, paper, place, key, cell) for key, _ in flat(overlay)}
    held = dict(flat(content))
    return {key: where for key, where in origins.items() if key in held}


def _stands(study: Study, paper: str, place: Place, key: tuple[str, ...], cell: Cell) -> str:
    """File and line of a key of a layer: in the scale's file, if it is there, else in the paper's."""
    match place[0]:
        case "setting":
            return f"the cell's own setting, {cell.setting}"
        case "method":
            return f"{algorithm_module(cell.spec.algorithm['name']).replace('.', '/')}.py"
        case "tuned":
            tuning = study.papers[paper].tuning
            return _chosen(configuration.tuned(tuning.chosen_at, paper), str(place[1])) if tuning else ""
    scale, file = (
        configuration.CONFIG / "scales" / f"{study.name}.yaml",
        configuration.CONFIG / "papers" / f"{paper}.yaml",
    )
    tried = [(scale, ("papers", paper, *place)), (file, place)]
    if place == ("defaults",):
        tried.insert(1, (scale, place))
    lines = ((path, line(path, (*start, *key))) for path, start in tried)
    return next(f"{path.relative_to(configuration.CONFIG.parent)}:{number}" for path, number in lines if number)


def line(file: Path, place: Place) -> int | None:
    """The line on which the value at this place of a YAML file stands, where an anchor is meant its own; None if it has
    none."""
    node, number = _tree(file), None
    for step in place:
        if (found := _child(node, step)) is None:
            return None
        number, node = found
    return number


@cache
def _tree(file: Path) -> yaml.Node:
    node = yaml.compose(file.read_text(), yaml.SafeLoader)
    assert node is not None, f"{file} has been read before"
    return node


def _child(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    """The line and the value of a key or an item; a mapping has those that `<<` merges into it, too."""
    if isinstance(node, yaml.SequenceNode):
        found = node.value[step] if isinstance(step, int) and step < len(node.value) else None
        return (found.start_mark.line + 1, found) if found else None
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    for key, value in pairs:
        if key.value == step:
            return key.start_mark.line + 1, value
    for key, value in pairs:
        if key.tag == "tag:yaml.org,2002:merge":
            others = value.value if isinstance(value, yaml.SequenceNode) else [value]
            if found := next(filter(None, (_child(other, step) for other in others)), None):
                return found
    return None


def _chosen(file: Path, method: str) -> str:
    """The line of a search's records that has the choice for a method."""
    with open(file, newline="") as lines:
        reader = csv.DictReader(lines)
        number = next(reader.line_num for row in reader if (row["method"], row["chosen"]) == (method, CHOSEN))
    return f"{file.relative_to(configuration.CONFIG.parent)}:{number}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) and value else quoted(value)


# ---- how to make it


def _with_starts(study: Study, run: str) -> list[str]:
    """A run, after all that it goes on from."""
    start = study.specs[run].start
    return [*(_with_starts(study, start) if start else []), run]


def _by_hand(study: Study, table: str, runs: list[Cell]) -> Iterator[str]:
    """The commands, for one seed; and the one that does it all."""
    scale, paper = f"--scale {study.name}", runs[0].spec.labels["paper"]
    for name in dict.fromkeys(name for cell in runs for name in _with_starts(study, cell.spec.run)):
        yield f"  diptych train {name} {scale} --out runs/{name}"
    judge = study.papers[paper].judge
    judged = {run.spec.run.split("/")[1]: run.spec.run for run in runs if judge and judge.judges(run.spec)}
    for condition, name in judged.items():
        seed = name.rpartition("/")[2]
        yield f"  diptych judge {name} {scale} --out judges/{paper}/{condition}/{seed}.safetensors"
    folders = " ".join(f"runs/{cell.spec.run}" for cell in runs)
    yield f"  diptych evaluate {folders}{' --judges judges' if judged else ''} --out measured.csv"
    yield f"  diptych records measured.csv {scale} --out records.csv"
    yield f"  diptych table {table} {scale} --records records.csv --out {table}.md"
    yield "All seeds and the rest of the table"
    yield f"  snakemake --cores 8 results/{study.name}/tables/{table}.md --config scale={study.name}"
