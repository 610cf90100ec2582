"""Figures as the page shows them: what the paper's shows, and ours within the page."""

import base64
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from reporting.records import PUBLISHED, read_csv
from reporting.report.anchors import slug
from reporting.report.material import Paper
from reporting.wording import capital

WIDEST = 1400
"""Pixels to which figures are scaled down."""
QUALITY = 70
"""Of figures, as WebP has it, from 0 to 100."""
UNCAPTIONED = {"fedstyle-stylised": "uncaptioned-A", "fedstyle-style-epochs": "uncaptioned-B"}
"""Figures that have no number in their paper, as figures.csv calls them."""


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


def figures_of(paper: Paper, files: list[Path]) -> list[FigureView]:
    """Those of a paper, in its order."""
    own = [file for file in files if file.stem.startswith(f"{paper.name}-")]
    return [_figure(paper, file) for file in sorted(own, key=lambda file: _natural(file.stem))]


def budget_figure(paper: Paper) -> FigureView | None:
    """What the paper's main claims are about against the share of its training, over all scales, if it was measured."""
    if paper.budgets.empty:
        return None
    import matplotlib.pyplot as plt

    from reporting.budgets import over_budget
    from reporting.canvas import theme

    theme()
    figure = over_budget(paper.budgets, paper.curves)
    figure.savefig(drawn := io.BytesIO(), dpi=120, metadata={"Software": None})
    plt.close(figure)
    image, width, height = _embedded(drawn.getvalue())
    return FigureView(
        id=f"{paper.name}-budget",
        name="Against the budget",
        shows="each number of a run, by the share of the published training that it has had; ◆ is the paper's",
        theirs=[],
        image=image,
        width=width,
        height=height,
        of="every scale",
    )


def figures_missing(paper: Paper, figures: list[FigureView]) -> list[dict[Any, Any]]:
    """The paper's figures, diagrams aside, that are not among these."""
    drawn = {row["figure"] for figure in figures for row in figure.theirs}
    published = _published(paper)
    rows = published[published["panel"].isin(["", "a"])].drop_duplicates("figure")
    return [row for row in rows.to_dict("records") if row["kind"] != "diagram" and row["figure"] not in drawn]


def _published(paper: Paper) -> pd.DataFrame:
    figures = read_csv(PUBLISHED / "figures.csv")
    return figures[figures["paper"] == paper.name]


def _figure(paper: Paper, file: Path) -> FigureView:
    name = file.stem.removeprefix(f"{paper.name}-")
    of = file.parent.parent.name
    number = name.removeprefix("figure").removeprefix("-")
    published = _published(paper)
    theirs = published[published["figure"] == UNCAPTIONED.get(f"{paper.name}-{number}", number)]
    title = f"Figure {number}" if number.isdigit() else capital(number.replace("-", " "))
    image, width, height = _embedded(file.read_bytes())
    return FigureView(
        id=f"{paper.name}-{name}-{slug(of)}",
        name=title,
        shows=paper.shows.get(name, ""),
        theirs=theirs.to_dict("records"),
        image=image,
        width=width,
        height=height,
        of=of,
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """The key to sort by in which figure 9 comes before figure 10."""
    return [(int(part or 0) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


def _embedded(content: bytes) -> tuple[str, int, int]:
    """A picture in PNG as a data URI, and its width and height: scaled down, as WebP where that is smaller."""
    from PIL import Image

    kind = "png"
    with Image.open(io.BytesIO(content)) as opened:
        picture = opened.convert("RGB")
    if picture.width > WIDEST:
        picture = picture.resize((WIDEST, round(picture.height * WIDEST / picture.width)))
    picture.save(smaller := io.BytesIO(), "WEBP", quality=QUALITY)
    if len(smaller.getvalue()) < len(content):
        content, kind = smaller.getvalue(), "webp"
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}", picture.width, picture.height
