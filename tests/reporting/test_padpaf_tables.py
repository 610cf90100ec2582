"""PaDPaF's Table 1 and claims: the corrected mean, the best extractor's distance, and whose numbers are meant."""

import pandas as pd
import pytest

from common.records import COLUMNS
from diptych.study import load_study
from reporting.claims import findings
from reporting.records import published, with_families
from reporting.tables import Layout, cells_of, markdown

PRINTED = published("padpaf", "table1")


def _layout() -> Layout:
    layout = load_study("digits").papers["padpaf"].tables["table1"]
    return Layout(paper="padpaf", table="table1", **layout.model_dump())


def _record(**columns) -> dict:
    given = {"paper": "padpaf", "table": "table1", "dataset": "mnist", "seed": "1", "status": "ok", "unit": "score"}
    return dict.fromkeys(COLUMNS, "") | given | columns


def _distances(extractor: str, shift: float = 0.0) -> list[dict]:
    """The printed distances, the mean as it should be."""
    rows = []
    for row in PRINTED.to_dict("records"):
        value = float(row["value"])
        if row["method"] == "ditto-fedprox" and row["client"] == "all":
            value = 81.342
        keys = {key: row[key] for key in ("method", "client", "style", "aggregate")}
        rows.append(_record(metric=f"fid:{extractor}-abc:1-generated:1-train", value=value + shift, **keys))
    return rows


def _records(*parts: list[dict]) -> pd.DataFrame:
    return with_families(pd.DataFrame([row for part in parts for row in part], columns=COLUMNS))


def _cells(records: pd.DataFrame) -> pd.DataFrame:
    return cells_of(_layout(), records, lambda place: None)


def test_the_mean_is_compared_as_it_should_have_been():
    cells = _cells(_records(_distances("inception")))
    mean = cells[(cells["method"] == "ditto-fedprox") & (cells["client"] == "all")].iloc[0]
    assert mean["paper"] == "53.55, should be 81.34"
    assert mean["difference"] == pytest.approx(0, abs=0.01)
    assert (cells["verdict"] == "agrees").all()
    assert "printed 53.55; 81.34" in markdown(_layout(), cells, "a scale")


def test_another_extractor_can_only_show_a_trend():
    cells = _cells(_records(_distances("domain-classifier")))
    assert set(cells["verdict"]) == {"trend only", "not comparable"}
    assert "`fid:domain-classifier-abc:1-generated:1-train`" in markdown(_layout(), cells, "a scale")


def test_inception_stands_in_the_cells_where_both_were_measured():
    cells = _cells(_records(_distances("domain-classifier", shift=100), _distances("inception")))
    assert (cells["difference"].abs() < 0.01).all()


def _claims(records: pd.DataFrame) -> dict[str, str]:
    config = load_study("digits").papers["padpaf"]
    return {f.claim: f.verdict for f in findings("padpaf", records, config.claims, config.aliases)}


def test_the_claims_on_distances_follow_the_numbers():
    verdicts = _claims(_records(_distances("inception")))
    assert {verdicts[f"padpaf-0{n}"] for n in (4, 5, 6, 7)} == {"supported"}
    worse = [
        row | {"value": row["value"] + 500} if row["method"] == "padpaf" else row for row in _distances("inception")
    ]
    assert {_claims(_records(worse))[f"padpaf-0{n}"] for n in (4, 5, 6)} == {"contradicted"}
    assert verdicts["padpaf-01"] == verdicts["padpaf-18"] == "not measured"


def test_the_claims_on_probes_and_transfers_find_their_numbers():
    setting = "probe=linear;features={};target={}"
    rows = [
        _record(metric="accuracy", setting=setting.format(*names), protocol=protocol, value=value, role=role)
        | {"method": "padpaf"}
        for *names, role, value in (
            ("content", "label", "", 0.979), ("style", "label", "", 0.5),
            ("content", "client", "generated", 0.8), ("style", "client", "generated", 0.9),
        )
        for protocol in ("published", "sound")
    ]  # fmt: skip
    for variant, value in (("", 0.4), ("conditional", 0.95)):
        rows.append(
            _record(
                method="padpaf",
                metric="label_agreement",
                variant=variant,
                split="eight-clients",
                style="all",
                value=value,
            )
        )
    verdicts = _claims(_records(rows))
    assert {verdicts[f"padpaf-{n}"] for n in ("01", "02", "08", "09", "16", "17")} == {"supported"}


def test_numbers_of_the_text_stand_in_the_tables_of_what_they_are_about():
    tables = load_study("digits").papers["padpaf"].tables
    setting = "probe=linear;features=style;target=client"
    ours = _record(
        method="padpaf", metric="accuracy", setting=setting, protocol="published", role="generated", value=0.93
    )
    ours |= {"split": "eight-clients", "unit": "fraction", "aggregate": "none"}
    probes = Layout(paper="padpaf", table="probes", **tables["probes"].model_dump())
    cells = cells_of(probes, _records([ours]), lambda place: None)
    printed = cells[cells["paper"] != ""].set_index("setting")["paper"].to_dict()
    assert {key.split("features=")[1]: value for key, value in printed.items()} == {
        "content;target=label": "0.981", "content;target=client": "0.826", "style;target=client": "0.933"}  # fmt: skip
    assert cells[cells["ours"].notna()]["verdict"].tolist() == ["agrees"]
    simpson = Layout(paper="padpaf", table="simpson", **tables["simpson"].model_dump())
    rows = cells_of(simpson, _records([]), lambda place: None)
    assert dict(zip(rows["method"], rows["paper"], strict=True)) == {
        "linear-regression": "0.182", "linear-regression-routed": "0.004"}  # fmt: skip
