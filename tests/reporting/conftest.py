"""A small report: two scales of one paper and a table of another, from the records that we have."""

from pathlib import Path

import pandas as pd
import pytest

from common.codehash import ROOT
from common.files import written
from diptych.reported import material
from reporting.records import read_csv
from reporting.report import Material, write_report

REFERENCE = ROOT / "results" / "reference"


def records_of(name: str) -> pd.DataFrame:
    """Reference records as they are on disk."""
    return read_csv(REFERENCE / name / "records.csv.gz")


def distances() -> pd.DataFrame:
    """Those of PaDPaF's Table 1."""
    rows = records_of("padpaf").query("table == 'table1'")
    return rows[rows["metric"].str.startswith("fid:")]


def put(records: pd.DataFrame, folder: Path) -> Path:
    """Make a folder with these records in it."""
    with written(folder / "records.csv") as part:
        records.to_csv(part, index=False)
    return folder


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with records and figures, as a user has one; of one set-up of FedDIRT there are none."""
    folder = tmp_path_factory.mktemp("measured")
    put(records_of("fedinb-whole").query("variant != 'l10-k20'"), folder / "fedinb-whole")
    put(records_of("fedinb").query("table == 'table5' or table == 'table3'"), folder / "fedinb")
    put(distances(), folder / "padpaf")
    (folder / "fedinb-whole" / "figures").symlink_to(REFERENCE / "fedinb-whole" / "figures")
    return folder


@pytest.fixture(scope="session")
def content(measured: Path) -> Material:
    """What its report is made of."""
    return material([measured])


@pytest.fixture(scope="session")
def report(content: Material, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report, an HTML file."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    write_report(content, file)
    return file
