"""What holds of every workflow that has come to its end."""

from pathlib import Path

import pandas as pd
import yaml

from tests.checkout import Checkout

EVERY_RECORD = ("run", "scale", "seed", "code", "spec", "versions", "hardware", "metric")
"""Columns that no record leaves empty."""
TRAINED = ("sources_sha256", "wall_s")
"""Columns that no record of a run leaves empty; what is counted of a specification needs no images and no time."""

TIMES = "common-times"
"""The table of seconds and memory, which are never the same twice."""


def results(checkout: Checkout) -> Path:
    """Where everything of scale `tiny` is."""
    return checkout.path / "results" / "tiny"


def check_same(one: Checkout, other: Checkout, kind: str) -> None:
    """Both have the same files of a kind, such as `tables`, with the same in them, but for seconds and memory."""
    ours, theirs = (
        {file.name: file.read_bytes() for file in (results(checkout) / kind).iterdir() if file.is_file()}
        for checkout in (one, other)
    )
    assert ours
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name] and not name.startswith(TIMES)] == []


def check_runs(checkout: Checkout) -> None:
    """Every run that was asked for is there, trained by its own method, and measured."""
    folders = [file.parent for file in (results(checkout) / "runs").rglob("provenance.json")]
    for folder in folders:
        spec = yaml.safe_load((folder / "spec.yaml").read_text())
        assert spec["algorithm"]["name"] == folder.parts[-3]
        assert spec["run"].split("/") == list(folder.parts[-5:])
    names = {str(folder.relative_to(results(checkout) / "runs")) for folder in folders}
    assert names == set(checkout.run("diptych", "runs", "--scale", "tiny").split())
    assert names <= set(_records(checkout)["run"])


def check_records(checkout: Checkout) -> None:
    """Every record says where it comes from."""
    records = _records(checkout)
    counted = pd.read_csv(results(checkout) / "counted.csv")
    for column in EVERY_RECORD:
        assert (records[column] != "").all(), column
    for column in TRAINED:
        assert (records[column] == "").sum() == len(counted), column
    assert set(records["dirty"]) <= {"True", "False"}


def _records(checkout: Checkout) -> pd.DataFrame:
    return pd.read_csv(results(checkout) / "records.csv", dtype=str, keep_default_na=False)
