"""The report: everything that records say, as one HTML file that needs nothing else."""

import base64
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from common.files import written
from reporting.board import counted
from reporting.cells import SAID, Found, Layout
from reporting.claims import Finding, Outcome
from reporting.evidence import Evidence, Grade
from reporting.grid import Grid
from reporting.looks import CELLS, CLAIMS, Look
from reporting.records import PUBLISHED, read_csv
from reporting.tables import glossary, grids_of, said_once
from reporting.verdict import SEEDS
from reporting.wording import (
    axis,
    capital,
    decimals,
    duration,
    name_of,
    names,
    percent,
    plain,
    plural,
    shown,
    size,
    table_name,
    with_spread,
)

WIDEST = 1400
"""Pixels to which figures are scaled down."""
QUALITY = 70
"""Of figures, as WebP has it, from 0 to 100."""
SIMPSON = "/simpson/"
"""In the names of runs that are regressions on Simpson's paradox, all of which one rule measures."""
UNCAPTIONED = {"fedstyle-stylised": "uncaptioned-A", "fedstyle-style-epochs": "uncaptioned-B"}
"""Figures that have no number in their paper, as figures.csv calls them."""

Untrained = tuple[str, str, str]
"""Scale, run and metric of a number that needed no training."""


@dataclass(frozen=True)
class Table:
    """A table: its layout, its cells with what is said of each and whether it is `configured`, and the evidence by the
    keys of a cell, best first."""

    layout: Layout
    cells: pd.DataFrame
    found: Found


@dataclass(frozen=True)
class Paper:
    """A paper: its tables, what was found of its claims, and what its figures here show, by name."""

    name: str
    title: str
    tables: list[Table]
    claims: list[Finding]
    shows: dict[str, str]


@dataclass(frozen=True)
class Material:
    """What a report is made of.

    Attributes:
        records: ours, of one scale or several.
        about: scale -> what it is.
        figures: PNG files, named <paper>-<figure>.
    """

    records: pd.DataFrame
    papers: list[Paper]
    about: dict[str, str]
    figures: list[Path]


def write_report(material: Material, file: Path) -> None:
    """Write one HTML file that needs no other."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("reporting"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": plain, "plural": plural, "duration": duration, "size": size}
    page = environment.get_template("report.html").render(report=Report(material))
    with written(file) as part:
        part.write_text(page, encoding="utf-8")


def _slug(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text)


# ---- runs


class Run:
    """A run, and where its numbers come from: the first of its records."""

    def __init__(self, origin: dict[Any, Any]) -> None:
        self.origin = origin
        self.name, self.scale = str(origin["run"]), str(origin["scale"])
        self.paper, self.method = str(origin["paper"]), str(origin["method"])
        self.id = run_id(self.scale, self.name)

    @property
    def trained(self) -> bool:
        """Whether it has a folder of its own; not so regressions, and what only a specification is asked."""
        return self.origin["wall_s"] != "" and SIMPSON not in self.name

    @property
    def again(self) -> str:
        """The command that makes it again."""
        if SIMPSON in self.name:
            return f"diptych simpson --scale {self.scale} --out records.csv --points points.csv"
        if not self.trained:
            return f"diptych count --scale {self.scale} --out records.csv"
        return f"diptych train {self.name} --scale {self.scale} --out FOLDER"

    def number(self, column: str) -> float:
        """A cost; 0 if it was not measured."""
        return float(self.origin[column] or 0)

    @property
    def provenance(self) -> list[tuple[str, str]]:
        """What its records say of where they come from, in words."""
        origin = self.origin
        dirty = " with changes that were not committed" if origin["dirty"] == "True" else ""
        told = [
            ("scale", self.scale),
            ("seed", origin["seed"]),
            ("commit", origin["commit"] + dirty),
            ("code", origin["code"]),
            ("specification", origin["spec"]),
            ("images, SHA-256", origin["sources_sha256"]),
            ("versions", origin["versions"]),
            ("hardware", origin["hardware"]),
            ("differs in", ", ".join(origin["differs"].split()) or "nothing, as published"),
            ("share of the published training", percent(float(origin["budget"] or "nan"))),
            ("time", duration(self.number("wall_s")) if origin["wall_s"] else ""),
            ("memory", size(1e6 * self.number("peak_memory_mb")) if origin["peak_memory_mb"] else ""),
            ("sent by clients", size(self.number("bytes_up")) if origin["bytes_up"] else ""),
            ("sent to clients", size(self.number("bytes_down")) if origin["bytes_down"] else ""),
        ]
        return [(key, value) for key, value in told if value]


def run_id(scale: str, run: str) -> str:
    """The anchor of a run."""
    return f"run-{_slug(f'{scale}-{run}')}"


# ---- cells


@dataclass(frozen=True)
class Told:
    """A piece of evidence as the page shows it. `counted`: what it says needed no training."""

    evidence: Evidence
    paper: str
    printed: float | None
    counted: bool

    @property
    def number(self) -> str:
        """Ours, with its spread from three seeds on."""
        ours = self.evidence
        return with_spread(ours.mean, ours.std if ours.seeds >= SEEDS else None, ours.unit)

    @property
    def budget(self) -> str:
        """The share of the published training."""
        return percent(self.evidence.budget)

    @property
    def seeds(self) -> list[tuple[str, str]]:
        """The number of each."""
        return [(seed, self._shown(value)) for seed, value in self.evidence.values.items()]

    @property
    def runs(self) -> list[tuple[str, str]]:
        """Anchor and name of each."""
        return [(run_id(self.evidence.scale, run), run) for run in self.evidence.runs]

    @property
    def again(self) -> list[str]:
        """The commands that measure it again, with all that they need before."""
        scale, runs = self.evidence.scale, self.evidence.runs
        names = sorted({f"{self.paper}/{run.split('/')[1 if SIMPSON in run else 2]}" for run in runs})
        files = ["counted"] if self.counted else names
        return [f"snakemake --cores 8 results/{scale}/records/{name}.csv --config scale={scale}" for name in files]

    @property
    def dots(self) -> list[float]:
        """Where on the line the seeds are, between 0 and 1."""
        return [self._at(value) for value in self.evidence.values.values() if isfinite(value)]

    @property
    def printed_at(self) -> float | None:
        """Where on the same line the paper's number is."""
        return None if self.printed is None else self._at(self.printed)

    @property
    def ends(self) -> tuple[str, str]:
        """The smallest and the largest number on the line."""
        low, high = self._range
        return self._shown(low), self._shown(high)

    def _shown(self, value: float) -> str:
        return shown(value, unit=self.evidence.unit)

    @cached_property
    def _range(self) -> tuple[float, float]:
        numbers = [value for value in self.evidence.values.values() if isfinite(value)]
        numbers += [] if self.printed is None else [self.printed]
        return (min(numbers), max(numbers)) if numbers else (0.0, 0.0)

    def _at(self, value: float) -> float:
        low, high = self._range
        return (value - low) / (high - low) if high > low else 0.5


@dataclass(frozen=True)
class Cell:
    """A cell: what is said of it, and on what evidence."""

    id: str
    said: dict[str, Any]
    place: list[tuple[str, str]]
    evidence: list[Told]
    method: str

    @property
    def look(self) -> Look:
        """Of its verdict."""
        return CELLS[self.said["verdict"]]

    @property
    def printed(self) -> str:
        """The paper's number."""
        return self.said["paper"]

    @property
    def ours(self) -> str:
        """Our number, with its spread from three seeds on."""
        return with_spread(self.said["ours"], self.said["std"], self.said["unit"]) if self.evidence else ""

    @property
    def difference(self) -> str:
        """Ours less the paper's, to the digit that ours has."""
        value = self.said["difference"]
        if value is None or not isfinite(value):
            return ""
        number = shown(value, decimals(self.said["ours"], self.said["std"], self.said["unit"]))
        return number if number.startswith("−") else f"+{number}"

    @property
    def title(self) -> str:
        """Where it stands, in a line."""
        return " · ".join(value for _, value in self.place) or self.id

    @property
    def tip(self) -> str:
        """All of it in a line."""
        numbers = [self.ours and f"ours {self.ours}", self.printed and f"paper {self.printed}", self.look.verdict]
        return f"{self.title}: {', '.join(filter(None, numbers))}"


@dataclass(frozen=True)
class Score:
    """What is counted of cells that the paper prints."""

    cells: list[Cell]

    @classmethod
    def of(cls, cells: Iterable[Cell]) -> "Score":
        """Of those of them that it prints."""
        return cls([cell for cell in cells if cell.printed])

    @property
    def printed(self) -> int:
        """How many there are."""
        return len(self.cells)

    @property
    def measured(self) -> int:
        """How many of them have a number."""
        return sum(bool(cell.evidence) for cell in self.cells)

    @property
    def tally(self) -> dict[Look, int]:
        """How often each verdict comes."""
        return tally(cell.look for cell in self.cells)

    @property
    def grades(self) -> dict[str, int]:
        """How many have evidence of each grade."""
        return {grade: self.counts[grade] for grade in Grade if self.counts[grade]}

    @cached_property
    def counts(self) -> dict[str, int]:
        """The board's, of them."""
        return counted(pd.DataFrame([cell.said for cell in self.cells], columns=[*SAID, "configured"]))


class TableView:
    """A table as the page shows it."""

    def __init__(self, table: Table, counted: Set[Untrained]) -> None:
        self.table, self.layout, self.counted = table, table.layout, counted
        self.id = f"{table.layout.paper}-{_slug(table.layout.table)}"
        self.name, self.title, self.note = table_name(table.layout.table), table.layout.title, table.layout.note
        self.words = names(table.layout.words)
        self.grids = grids_of(table.layout, table.cells)
        self.once, self.glossary = said_once(table.layout, table.cells), glossary(table.layout, table.cells)
        self.cells = [self._cell(n, row) for n, row in enumerate(table.cells.to_dict("records"), start=1)]
        self.score = Score.of(self.cells)

    def _cell(self, n: int, row: dict[Any, Any]) -> Cell:
        said = {str(key): None if pd.isna(value) else value for key, value in row.items()}
        key = tuple(row[column] for column in self.layout.keys)
        printed = None if said["difference"] is None else said["ours"] - said["difference"]
        told = [
            Told(
                found,
                self.layout.paper,
                printed,
                any((found.scale, run, found.metric) in self.counted for run in found.runs),
            )
            for found in self.table.found.get(key, [])
        ]
        place = [(axis(k), name_of(k, row[k], self.words).short) for k in self.layout.keys if row[k]]
        return Cell(f"{self.id}-{n}", said, place, told, self._method(row, told))

    def _method(self, row: dict[Any, Any], told: list[Told]) -> str:
        """What was run for a cell, or what the paper has run."""
        if told and told[0].evidence.runs:
            return told[0].evidence.runs[0].split("/")[2]
        return row.get("method", "")

    def squares(self, grid: Grid) -> list[list[Cell | None]]:
        """The cells of a block that the paper prints, in rows of one length."""
        places = [[None if n is None else self.cells[n] for n in row] for _, row in grid.whole.rows]
        rows = [[cell if cell and cell.printed else None for cell in row] for row in places]
        kept = [column for column in zip(*rows, strict=True) if any(column)]
        return [list(row) for row in zip(*kept, strict=True) if any(row)]

    @property
    def ways(self) -> list[str]:
        """How it was measured, where there are several ways."""
        return sorted({way for cell in self.cells for way in (cell.said["measured_as"] or "").split()})

    @property
    def missing(self) -> list[tuple[str, int]]:
        """Why cells were not measured, and how many."""
        reasons = Counter(cell.said["why"] for cell in self.cells if not cell.evidence)
        return [(reason, n) for reason, n in reasons.most_common() if reason]

    @property
    def again(self) -> list[str]:
        """The commands that make it again, a scale each."""
        scales = dict.fromkeys(told.evidence.scale for cell in self.cells for told in cell.evidence)
        name = f"{self.layout.paper}-{self.layout.table}"
        return [f"snakemake --cores 8 results/{s}/tables/{name}.md --config scale={s}" for s in scales]


def tally(looks: Iterable[Look]) -> dict[Look, int]:
    """How often each comes, firmest first."""
    counted = Counter(looks)
    return {look: counted[look] for look in [*CELLS.values(), *CLAIMS.values()] if counted[look]}


# ---- claims, figures, errata, costs


@dataclass(frozen=True)
class ClaimView:
    """A claim as the page shows it."""

    finding: Finding
    known: frozenset[str] = field(repr=False)

    @property
    def look(self) -> Look:
        """Of its verdict."""
        return CLAIMS[self.finding.verdict]

    @property
    def id(self) -> str:
        """Its anchor; a claim that is asked in several ways has several."""
        apart = re.search(r" \[(.*)\]$", self.finding.statement)
        return f"claim-{_slug(' '.join([self.finding.claim, *(apart.groups() if apart else ())]))}"

    @property
    def numbers(self) -> tuple[str, list[str]]:
        """How many comparisons hold, and the numbers one by one."""
        first, *rest = [plain(part) for part in self.finding.detail.split("; ")]
        return (first, rest) if "comparisons" in first or not rest else ("Its numbers", [first, *rest])

    @property
    def basis(self) -> str:
        """The reason of the verdict, and on what kind of runs."""
        found = self.finding
        if found.verdict is Outcome.NOT_MEASURED:
            return found.why
        why = found.why if found.why != found.grade else ""
        points = f"its means point {found.points}" if found.verdict is Outcome.UNDECIDED and found.points else ""
        where = f"{found.grade}, at scale {found.scale}, {plural(found.seeds, 'seed')}"
        return "; ".join(filter(None, [where, why, points]))

    @property
    def methods(self) -> list[str]:
        """Those that its numbers are of."""
        return sorted(self.known & {*re.findall(r"[\w-]+", self.finding.detail)})


@dataclass(frozen=True)
class FigureView:
    """A figure: what the paper's shows, and ours."""

    id: str
    name: str
    shows: str
    theirs: list[dict[Any, Any]]
    image: str
    width: int
    height: int
    of: str


def _embedded(file: Path) -> tuple[str, int, int]:
    """A picture as a data URI, and its width and height: scaled down, as WebP where that is smaller."""
    from PIL import Image

    content, kind = file.read_bytes(), "png"
    with Image.open(file) as opened:
        picture = opened.convert("RGB")
    if picture.width > WIDEST:
        picture = picture.resize((WIDEST, round(picture.height * WIDEST / picture.width)))
    picture.save(smaller := io.BytesIO(), "WEBP", quality=QUALITY)
    if len(smaller.getvalue()) < len(content):
        content, kind = smaller.getvalue(), "webp"
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}", picture.width, picture.height


@dataclass(frozen=True)
class Cost:
    """What the runs of a method took."""

    method: str
    runs: list[Run]

    def total(self, column: str) -> float:
        """Over the runs."""
        return sum(run.number(column) for run in self.runs)

    @property
    def memory(self) -> float:
        """The largest of them, in bytes."""
        return 1e6 * max(run.number("peak_memory_mb") for run in self.runs)


class PaperView:
    """A paper as the page shows it."""

    def __init__(self, paper: Paper, report: "Report") -> None:
        self.paper, self.report = paper, report
        self.name, self.title = paper.name, paper.title
        self.id = f"paper-{paper.name}"
        self.tables = [TableView(table, report.counted) for table in paper.tables if len(table.cells)]
        self.score = Score([cell for table in self.tables for cell in table.score.cells])
        self.runs = [run for run in report.runs if run.paper == paper.name]

    @property
    def trained(self) -> int:
        """How many runs there are."""
        return sum(run.trained for run in self.runs)

    @cached_property
    def claims(self) -> list[ClaimView]:
        """Firmest verdicts first, else in the paper's order."""
        claims = [ClaimView(finding, frozenset(self.report.methods)) for finding in self.paper.claims]
        return sorted(claims, key=lambda claim: list(CLAIMS.values()).index(claim.look))

    @property
    def claim_tally(self) -> dict[Look, int]:
        """How often each verdict on a claim comes."""
        return tally(claim.look for claim in self.claims)

    @cached_property
    def figures(self) -> list[FigureView]:
        """Those that are there, in the paper's order."""
        files = [file for file in self.report.material.figures if file.stem.startswith(f"{self.name}-")]
        return [self._figure(file) for file in sorted(files, key=lambda file: _natural(file.stem))]

    def _figure(self, file: Path) -> FigureView:
        name = file.stem.removeprefix(f"{self.name}-")
        of = file.parent.parent.name
        number = name.removeprefix("figure").removeprefix("-")
        theirs = self._published[self._published["figure"] == UNCAPTIONED.get(f"{self.name}-{number}", number)]
        title = f"Figure {number}" if number.isdigit() else capital(number.replace("-", " "))
        image, width, height = _embedded(file)
        return FigureView(
            id=f"{self.name}-{name}-{_slug(of)}",
            name=title,
            shows=self.paper.shows.get(name, ""),
            theirs=theirs.to_dict("records"),
            image=image,
            width=width,
            height=height,
            of=of,
        )

    @property
    def figures_missing(self) -> list[dict[Any, Any]]:
        """The paper's figures, diagrams aside, that are not among the results."""
        drawn = {row["figure"] for figure in self.figures for row in figure.theirs}
        rows = self._published[self._published["panel"].isin(["", "a"])].drop_duplicates("figure")
        return [row for row in rows.to_dict("records") if row["kind"] != "diagram" and row["figure"] not in drawn]

    @cached_property
    def _published(self) -> pd.DataFrame:
        figures = read_csv(PUBLISHED / "figures.csv")
        return figures[figures["paper"] == self.name]

    @property
    def errata(self) -> list[dict[Any, Any]]:
        """What is wrong in the paper, the gravest first."""
        errata = read_csv(PUBLISHED / "errata.csv")
        rows = errata[errata["paper"] == self.name].to_dict("records")
        return sorted(rows, key=lambda row: ["high", "medium", "low"].index(row["severity"]))

    @cached_property
    def costs(self) -> list[Cost]:
        """By method, the longest first."""
        by_method: dict[str, list[Run]] = {}
        for run in self.runs:
            if run.trained:
                by_method.setdefault(run.method, []).append(run)
        costs = [Cost(method, runs) for method, runs in by_method.items()]
        return sorted(costs, key=lambda cost: -cost.total("wall_s"))


def _natural(name: str) -> list[tuple[int, str]]:
    """The key to sort by in which figure 9 comes before figure 10."""
    return [(int(part or 0) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


@dataclass(frozen=True)
class ScaleView:
    """A scale: what it is, and its runs."""

    name: str
    about: str
    runs: list[Run]
    stand_ins: list[str]

    def values(self, column: str) -> list[str]:
        """What its records have in a column, each once."""
        return sorted({run.origin[column] for run in self.runs} - {""})

    @property
    def trained(self) -> int:
        """How many of them were trained."""
        return sum(run.trained for run in self.runs)

    @property
    def seconds(self) -> float:
        """What its runs took, one after the other."""
        return sum(run.number("wall_s") for run in self.runs)


class Report:
    """All that the template asks for."""

    cell_looks, claim_looks = tuple(CELLS.values()), tuple(CLAIMS.values())

    def __init__(self, material: Material) -> None:
        self.material = material

    @cached_property
    def runs(self) -> list[Run]:
        """Each once, in the order of the records."""
        records = self.material.records
        named = records[(records["run"] != "") & ~records["run"].str.contains(" ")]  # means have several
        first = named.sort_values("wall_s", key=lambda times: times == "", kind="stable").drop_duplicates(
            ["scale", "run"]
        )
        return [Run(row) for row in first.sort_index().astype(str).to_dict("records")]

    @cached_property
    def counted(self) -> frozenset[Untrained]:
        """What follows from specifications."""
        rows = self.material.records.query("wall_s == '' and dataset != 'simpson'")
        return frozenset(zip(rows["scale"], rows["run"], rows["metric"], strict=True))

    @cached_property
    def methods(self) -> list[str]:
        """All that cells are of."""
        return sorted({cell.method for cell in self.cells} - {""})

    @cached_property
    def cells(self) -> list[Cell]:
        """Of all tables."""
        return [cell for paper in self.papers for table in paper.tables for cell in table.cells]

    @cached_property
    def score(self) -> Score:
        """Of all papers."""
        return Score.of(self.cells)

    @cached_property
    def papers(self) -> list[PaperView]:
        """Those that print most come first."""
        papers = [PaperView(paper, self) for paper in self.material.papers]
        return sorted(papers, key=lambda paper: -paper.score.printed)

    @property
    def numbers(self) -> list[tuple[str, str, dict[str, int]]]:
        """Anchor, name and counts: of all, of every paper, and of each of its tables."""
        rows = [("board", "all", self.score.counts)]
        for paper in self.papers:
            tables = [table for table in paper.tables if table.score.printed]
            rows += [(paper.id, paper.title.partition(":")[0], paper.score.counts)] if tables else []
            rows += [(table.id, table.name, table.score.counts) for table in tables]
        return rows

    @cached_property
    def scales(self) -> list[ScaleView]:
        """In the order of the records."""
        records = self.material.records
        return [
            ScaleView(
                name=scale,
                about=self.material.about.get(scale, ""),
                runs=[run for run in self.runs if run.scale == scale],
                stand_ins=_stand_ins(records[records["scale"] == scale]),
            )
            for scale in records["scale"].unique()
        ]

    @property
    def filters(self) -> dict[Look, int]:
        """How often each verdict comes, on all cells and claims; those of one name are one."""
        counted = Counter(look.slug for look in self._everything())
        looks = {look.slug: look for look in [*self.claim_looks, *self.cell_looks]}
        order = dict.fromkeys(look.slug for look in [*self.cell_looks, *self.claim_looks])
        return {looks[slug]: counted[slug] for slug in order if counted[slug]}

    def _everything(self) -> Iterator[Look]:
        yield from (cell.look for cell in self.cells)
        yield from (claim.look for paper in self.papers for claim in paper.claims)

    @property
    def claim_tally(self) -> dict[Look, int]:
        """How often each verdict on a claim comes."""
        return tally(claim.look for paper in self.papers for claim in paper.claims)

    @property
    def trained(self) -> int:
        """How many runs there are."""
        return sum(run.trained for run in self.runs)

    def total(self, column: str) -> float:
        """Of a cost, over all runs."""
        return sum(run.number(column) for run in self.runs)


def _stand_ins(records: pd.DataFrame) -> list[str]:
    """Which images play which styles, where they are not the paper's."""
    rows = records[(records["stand_in"] == "yes") & (records["source"] != "") & (records["style"] != "all")]
    return [
        f"{source} plays {', '.join(part['style'].unique())}" for source, part in rows.groupby("source", sort=False)
    ]
