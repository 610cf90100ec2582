"""What is gathered for a report."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from reporting.budgets import Curves
from reporting.claims import Finding
from reporting.evidence import Found
from reporting.layout import Layout


@dataclass(frozen=True)
class Table:
    """A table: its layout, its cells with what is said of each and whether it is `configured`, and the evidence by the
    keys of a cell, best first."""

    layout: Layout
    cells: pd.DataFrame
    found: Found


@dataclass(frozen=True)
class Paper:
    """A paper: its tables, what was found of its claims, what its figures here show, by name; and its curves over the
    budget, with their points, and what methods are `called`."""

    name: str
    title: str
    tables: list[Table]
    claims: list[Finding]
    shows: dict[str, str]
    curves: Curves
    budgets: pd.DataFrame


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
