"""Tables as a reader sees them: nothing that was measured is lost, controls stand apart, what is empty is named."""

import re
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from common.codehash import ROOT
from diptych.outputs import named
from diptych.study import load_study
from reporting.cells import CONTROLS
from reporting.grid import APART, Grid, grids, shared
from reporting.layout import Layout
from reporting.looks import CELLS
from reporting.records import read_csv
from reporting.tables import grids_of, markdown
from reporting.verdict import BESTS, Verdict
from reporting.wording import name_of, names, with_spread

TABLES = sorted((ROOT / "results" / "reference").glob("*/tables/*.csv"))
IDS = [f"{file.parent.parent.name}/{file.stem}" for file in TABLES]
NUMBERS = ["ours", "std", "difference", "budget"]


def _cells(file: Path) -> pd.DataFrame:
    cells = read_csv(file)
    return cells.assign(**{column: pd.to_numeric(cells[column]) for column in NUMBERS})


def _layout(file: Path) -> Layout:
    published = not file.stem.startswith("common-")  # which no paper is, and no scale of papers has
    return named(load_study("paper" if published else "reference-common"), file.stem)


def _rows(text: str) -> list[tuple[str, list[list[str]]]]:
    """The tables of a page: the heading above each, and its rows without heads."""
    found: list[tuple[str, list[list[str]]]] = []
    heading = ""
    inside = False
    for line in text.partition("\n## How to read it\n")[0].splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|:"):
            found.append((heading, []))
            inside = True
        elif inside and line:
            found[-1][1].append([cell.strip() for cell in line.strip("|").split("|")])
        else:
            inside = False
    return found


def _places(several: list[Grid]) -> Counter[int]:
    """Where the cells are, in what is shown and what is folded away."""
    parts = chain.from_iterable([grid.part, *grid.folded] for grid in several)
    return Counter(n for part in parts for _, row in part.rows for n in row if n is not None)


@pytest.mark.parametrize("file", TABLES, ids=IDS)
def test_every_measured_cell_of_the_csv_is_on_the_page(file):
    """Ours, and the verdict's mark where the paper prints a number, which stands behind it, or ours is of the best."""
    cells = _cells(file)
    expected = Counter[str]()
    for _, cell in cells[cells["verdict"] != Verdict.NOT_MEASURED].iterrows():
        mark = f" {CELLS[cell['verdict']].mark}" if cell["paper"] or cell["verdict"] in BESTS else ""
        paper = f" ({cell['paper']})" if cell["paper"] else ""
        expected[with_spread(cell["ours"], cell["std"], cell["unit"]) + mark + paper] += 1
    texts = [text for _, rows in _rows(file.with_suffix(".md").read_text()) for _, *row in rows for text in row]
    assert Counter(re.sub(r" \[\d+\]$", "", text) for text in texts if text and not text.startswith("–")) == expected


@pytest.mark.parametrize("file", TABLES, ids=IDS)
def test_every_cell_is_shown_or_folded_away_once_and_nothing_measured_is_folded(file):
    cells, layout = _cells(file), _layout(file)
    several = grids_of(layout, cells)
    assert _places(several) == Counter(range(len(cells)))
    for grid in several:
        for part in grid.folded:
            hidden = [n for _, row in part.rows for n in row if n is not None]
            assert (cells["verdict"].iloc[hidden] == Verdict.NOT_MEASURED).all()
        for _, row in grid.part.rows:
            assert any(n is not None and cells["verdict"].iloc[n] != Verdict.NOT_MEASURED for n in row)
        assert bool(grid.missing) == bool(grid.folded)


@pytest.mark.parametrize("file", TABLES, ids=IDS)
def test_a_control_never_stands_among_methods(file):
    controls = set(read_csv(file)["control"]) - {""}
    words = names(_layout(file).words)
    starts = tuple(name_of("control", control, words).short for control in controls)
    apart = [row[0] for heading, rows in _rows(file.with_suffix(".md").read_text()) if heading == APART for row in rows]
    others = [
        row[0] for heading, rows in _rows(file.with_suffix(".md").read_text()) if heading != APART for row in rows
    ]
    assert all(name.startswith(starts) for name in apart)
    assert not any(name.startswith(("floor", "ceiling", "control")) for name in others)
    assert bool(apart) == bool(controls)
    for table in file.with_suffix(".tex").read_text().split(r"\begin{longtable}")[1:]:
        methods, _, below = table.partition(rf"\emph{{{APART}}}")
        assert not re.search(r"^(floor|ceiling|control)", methods, re.MULTILINE)
        rows = [line for line in below.splitlines() if " & " in line]
        assert all(line.startswith(starts) for line in rows)


@pytest.mark.parametrize("file", TABLES, ids=IDS)
def test_heads_and_rows_are_words_and_tell_apart(file):
    for grid in grids_of(_layout(file), _cells(file)):
        for heads in (grid.whole.heads, [name for name, _ in grid.whole.rows]):
            assert len(set(heads)) == len(heads)
            assert not any(re.search(r"_|;|\w=\w", level) for head in heads for level in head)
            assert max(len(level) for head in heads for level in head) <= 40, "what is longer has a short name"


# ---- small tables, by hand

COLUMNS = ["block", "method", "variant", "style", "control", "verdict"]


def _small(*rows: str) -> pd.DataFrame:
    """Rows such as `block method variant style control`, with `-` for nothing; a `!` behind it: not measured."""
    said = [[("" if word == "-" else word) for word in row.rstrip("!").split()] for row in rows]
    verdicts = [Verdict.NOT_MEASURED if row.endswith("!") else Verdict.AGREES for row in rows]
    return pd.DataFrame([[*row, verdict] for row, verdict in zip(said, verdicts, strict=True)], columns=COLUMNS)


def _grids(cells: pd.DataFrame) -> list[Grid]:
    return grids(cells, ["block"], ["method", "variant"], ["style"], {})


def test_blocks_methods_and_controls_stand_apart_in_the_order_of_the_cells():
    cells = _small("p a - x -", "p a - y -", "q a - x -", "q b v x -", "p - - x noise", "q - - x noise")
    found = _grids(cells)
    assert [grid.title for grid in found] == ["p", f"p · {APART}", "q", f"q · {APART}"]
    assert [grid.part.rows for grid in found] == [
        [(("a",), [0, 1])],
        [(("control: noise",), [4])],
        [(("a",), [2]), (("b", "v"), [3])],
        [(("control: noise",), [5])],
    ]
    assert [grid.part.stub for grid in found] == ["Method", "Control", "Method, variant", "Control"]


def test_rows_and_columns_without_a_number_are_folded_and_named():
    (grid,) = _grids(_small("p a - x -", "p a - y - !", "p b - x - !", "p b v y - !", "p c v x -"))
    assert grid.part.heads == [("x",)]
    assert grid.part.rows == [(("a",), [0]), (("c", "v"), [4])]
    assert grid.missing == "Not measured here: y; b."
    assert [[row for _, row in part.rows] for part in grid.folded] == [[[1], [None], [3], [None]], [[2], [None]]]


def test_heads_with_one_beginning_are_named_together():
    cells = _small("p a u x - !", "p a v x - !", "p a w x -", "p b u x - !", "p b v x - !")
    (grid,) = _grids(cells)
    assert grid.missing == "Not measured here: a u, v; b."


def test_of_one_beginning_the_plain_one_is_named_by_itself():
    (grid,) = _grids(_small("p a - x - !", "p a u x - !", "p a v x - !", "p a w x -"))
    assert grid.missing == "Not measured here: a; a u, v."


def test_controls_of_several_rows_are_told_apart_where_methods_are_of_one():
    cells = _small("p a u x -", "p a v x -", "p a - x noise", "p b - x noise")
    _, controls = _grids(cells)
    assert controls.part.rows == [(("control: noise", "a"), [2]), (("control: noise", "b"), [3])]


def test_a_block_of_nothing_says_so():
    (grid,) = _grids(_small("p a - x - !", "p b - x - !"))
    assert grid.missing == "Nothing of it was measured here."
    assert not grid.part.rows


def test_what_is_the_same_everywhere_is_not_said_of_every_row_unless_a_row_had_no_name():
    cells = _small("p a u x -", "p a v x -", "p - - x noise")
    assert shared(cells, ["method", "variant"], ["block", "style"], {}) == {"method": "a", "block": "p"}
    cells = _small("p a - x -", "p a v x -")
    assert shared(cells, ["method", "variant"], ["block", "style"], {}) == {"block": "p"}
    assert shared(cells, ["method", "variant"], ["style"], names({"variant": {"": "plain"}})) == {"method": "a"}


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_lost_whatever_was_measured(seed):
    """Random tables with holes in them."""
    random = np.random.default_rng(seed)
    methods = "abc"[: random.integers(1, 4)]
    every = [(b, m, v, s, "-") for b in "pq" for m in methods for v in "-uv" for s in "xyz"]
    every += [(b, m, "u", s, c) for b in "pq" for m in "-abc" for s in "xyz" for c in CONTROLS[:2]]
    chosen = [every[n] for n in sorted(random.choice(len(every), size=random.integers(1, 80), replace=False))]
    cells = _small(*(f"{' '.join(row)}{' !' if random.random() < 0.6 else ''}" for row in chosen))
    found = _grids(cells)
    assert _places(found) == Counter(range(len(cells)))
    for grid in found:
        shown = [n for _, row in grid.part.rows for n in row if n is not None]
        inside = [n for _, row in grid.whole.rows for n in row if n is not None]
        assert {n for n in inside if cells["verdict"][n] != Verdict.NOT_MEASURED} <= set(shown)
        assert {cells["control"][n] != "" for n in inside} == {grid.controls}


def test_short_names_are_explained_below():
    layout = named(load_study("paper"), "psfedgan-attackers")
    cells = _cells(next(file for file in TABLES if file.stem == "psfedgan-attackers"))
    grid, _, below = markdown(layout, cells, "about").partition("## Names\n")
    for short, long in (("among own", "accuracy if the judge may choose"), ("SSIM", "structural similarity")):
        assert f" {short} |" in grid
        assert long not in grid
        assert f"- {short}: {long}" in below
