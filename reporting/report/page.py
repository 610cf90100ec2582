"""The page: papers with all that is shown of them, what is said over all of them, and the template that lays it out."""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2

from common.files import written
from reporting.looks import CELLS, CLAIMS, Look
from reporting.records import PUBLISHED, read_csv
from reporting.report.board import Score, tally
from reporting.report.cells import Cell
from reporting.report.claims import ClaimView
from reporting.report.figures import FigureView, budget_figure, figures_missing, figures_of
from reporting.report.material import Material, Paper
from reporting.report.runs import Cost, Run, ScaleView, stand_ins
from reporting.report.tables import TableView, Untrained
from reporting.wording import duration, plain, plural, size


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
    def budget(self) -> FigureView | None:
        """What its main claims are about, against the budget."""
        return budget_figure(self.paper)

    @cached_property
    def figures(self) -> list[FigureView]:
        """Those that are there: against the budget, and in the paper's order."""
        return [*filter(None, [self.budget]), *figures_of(self.paper, self.report.material.figures)]

    @property
    def figures_missing(self) -> list[dict[Any, Any]]:
        """The paper's figures, diagrams aside, that are not among the results."""
        return figures_missing(self.paper, self.figures)

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
                stand_ins=stand_ins(records[records["scale"] == scale]),
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
