"""What records become: tables and claims, laid out as a study says."""

from pathlib import Path

import pandas as pd

from common.errors import choose
from diptych.study import Paper, Study, load_study, names_in
from reporting.claims import Finding, findings, write_claims
from reporting.tables import Layout, cells_of, write_table


def layout_of(paper: str, table: str, config: Paper) -> Layout:
    """The layout of a table as it is configured."""
    return Layout(paper=paper, table=table, **config.tables[table].model_dump())


def table(study: Study, name: str, records: pd.DataFrame, out: Path) -> None:
    """Write a table, such as fedstyle-table1, as Markdown, CSV and LaTeX."""
    layouts = {f"{paper}-{table}": (paper, table) for paper, config in study.papers.items() for table in config.tables}
    paper, which = layouts[choose("table", name, layouts)]
    cells = cells_of(layout_of(paper, which, study.papers[paper]), records, study.why_left_out)
    write_table(layout_of(paper, which, study.papers[paper]), cells, study.about(paper), out)


def claims(study: Study, paper: str, records: pd.DataFrame, out: Path) -> None:
    """Write what the records say of a paper's claims, as Markdown and CSV."""
    config = study.papers[choose("paper", paper, study.papers)]
    write_claims(paper, findings_of(paper, config, records), study.about(paper), out)


def findings_of(paper: str, config: Paper, records: pd.DataFrame) -> list[Finding]:
    """What records of one scale or several say of a paper's claims. Of which a scale is too small, its file says."""
    studies = {str(s): load_study(s) for s in records["scale"].unique() if s in names_in("scales")}
    undecided = {s: study.papers[paper].undecided for s, study in studies.items() if paper in study.papers}
    return findings(paper, records, config.claims, config.aliases, undecided)
