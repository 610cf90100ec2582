"""PaDPaF's Table 1 and claims: the corrected mean, the best extractor's distance, and whose numbers are meant."""

import pandas as pd
import pytest

from common.records import COLUMNS
from diptych.outputs import findings_of
from diptych.study import load_study
from reporting.cells import cells_of
from reporting.claims import findings
from reporting.layout import Layout
from reporting.records import published, with_families
from reporting.tables import markdown

PRINTED = published("padpaf", "table1")


def _layout() -> Layout:
    layout = load_study("digits").papers["padpaf"].tables["table1"]
    return Layout(paper="padpaf", table="table1", **layout.model_dump())


def _record(**columns) -> dict:
    given = {"paper": "padpaf", "table": "table1", "dataset": "mnist", "seed": "1", "status": "ok", "unit": "score"}
    given |= {"scale": "paper", "budget": "1"}
    return dict.fromkeys(COLUMNS, "") | given | columns


def _distances(extractor: str, shift: float = 0.0) -> list[dict]:
    """The printed distances, the mean as it should be."""
    rows = []
    for row in PRINTED.to_dict("records"):
        value = float(row["value"])
        if row["method"] == "ditto-fedprox" and row["client"] == "all":
            value = 81.342
        keys = {key: row[key] for key in ("method", "client", "style", "aggregate")} | {"split": "eight-clients"}
        rows.append(_record(metric=f"fid:{extractor}-abc:1-generated:1-train", value=value + shift, **keys))
    return rows


def _records(*parts: list[dict]) -> pd.DataFrame:
    """Three seeds that say the same."""
    rows = [row | {"seed": seed} for part in parts for row in part for seed in "123"]
    return with_families(pd.DataFrame(rows, columns=COLUMNS))


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
    assert set(cells["verdict"]) == {"trend holds", "not comparable"}
    assert set(cells["grade"]) == {"stand-in"}
    assert "`fid:domain-classifier-abc:1-generated:1-train`" in markdown(_layout(), cells, "a scale")


def test_inception_stands_in_the_cells_where_both_were_measured():
    cells = _cells(_records(_distances("domain-classifier", shift=100), _distances("inception")))
    assert (cells["difference"].abs() < 0.01).all()


def test_the_best_extractor_is_chosen_where_numbers_are_compared_and_not_for_a_whole_file():
    """Ditto, of which Inception is not known, stays out of the table in which PaDPaF's is."""
    inception, judge = (f"fid:{name}-abc:1-generated:1-train" for name in ("inception", "domain-classifier"))
    measured = {
        ("padpaf", "table1", "mnist", "paper"): [inception, judge],
        ("ditto", "table1", "mnist", "paper"): [judge],
        ("ditto", "table1", "mnist", "digits"): [judge],
        ("padpaf", "table1", "cifar10", "paper"): [judge],
        ("padpaf", "adaptation", "mnist", "paper"): [judge],
    }
    place = ["method", "table", "dataset", "scale"]
    rows = [_record(**dict(zip(place, at, strict=True)), metric=way) for at, ways in measured.items() for way in ways]
    found = with_families(pd.DataFrame(rows, columns=COLUMNS)).query("metric == 'fid'")
    assert [*found[[*place, "measured_as", "stand_in"]].itertuples(index=False, name=None)] == [
        ("padpaf", "table1", "mnist", "paper", inception, ""),
        ("ditto", "table1", "mnist", "digits", judge, "yes"),
        ("padpaf", "table1", "cifar10", "paper", judge, "yes"),
        ("padpaf", "adaptation", "mnist", "paper", judge, "yes"),
    ]


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
    rows += _agreements("", {"": 0.4, "conditional": 0.95})
    verdicts = _claims(_records(rows))
    assert {verdicts[f"padpaf-{n}"] for n in ("01", "02", "08", "09", "16")} == {"supported"}
    assert verdicts["padpaf-17"] == "not measured", "which is about test images"


def _agreements(setting: str, of_variant: dict[str, float]) -> list[dict]:
    columns = {"method": "padpaf", "metric": "label_agreement", "split": "eight-clients", "style": "all"}
    return [_record(variant=v, setting=setting, value=value, **columns) for v, value in of_variant.items()]


def test_what_befalls_test_images_decides_the_claim_about_them():
    """padpaf-17: generated images may say the opposite."""
    rows = _agreements("images=test", {"": 0.3, "conditional": 0.2}) + _agreements("", {"": 0.4, "conditional": 0.95})
    assert _claims(_records(rows))["padpaf-17"] == "contradicted"


@pytest.mark.parametrize(
    ("differs", "seen", "verdict"),
    [
        ("training.rounds", None, "undecided"),
        ("training.rounds", 0.104, "undecided"),
        ("training.rounds", 0.52, "against"),
        ("", None, "contradicted"),
    ],
)
def test_runs_decide_about_labels_if_they_are_as_published_or_have_learnt_what_a_label_is(differs, seen, verdict):
    rows = _agreements("", {"": 0.4, "conditional": 0.2})
    if seen is not None:
        row = _agreements("samples=seen-labels;judge=mnist-classifier", {"conditional": seen})
        rows += [row[0] | {"metric": "accuracy"}]
    records = _records([row | {"differs": differs, "scale": "reference-padpaf"} for row in rows])
    found = {f.claim: f for f in findings_of("padpaf", load_study("reference-padpaf").papers["padpaf"], records)}
    assert found["padpaf-16"].verdict == verdict
    assert "conditional 0.200" in found["padpaf-16"].detail
    assert "seen-labels" not in found["padpaf-16"].detail
    assert found["padpaf-13"].verdict == "not measured"


def test_what_lifts_a_doubt_is_no_comparison_of_the_claim():
    """p = 0.03, which would not refuse the first of two comparisons."""
    rows = []
    for seed, agreement in zip("123", (0.88, 0.865, 0.845), strict=True):
        seen = _agreements("samples=seen-labels;judge=mnist-classifier", {"conditional": agreement - 0.3})
        rows += [row | {"seed": seed} for row in _agreements("", {"conditional": agreement})]
        rows += [row | {"seed": seed, "metric": "accuracy"} for row in seen]
    records = with_families(pd.DataFrame([row | {"scale": "reference-padpaf"} for row in rows], columns=COLUMNS))
    config = load_study("reference-padpaf").papers["padpaf"]
    doubted = {f.claim: f for f in findings_of("padpaf", config, records)}
    free = {f.claim: f for f in findings("padpaf", records, config.claims, config.aliases)}
    assert doubted["padpaf-16"] == free["padpaf-16"]
    assert free["padpaf-16"].verdict == "contradicted"


def test_claims_about_labels_wait_for_them():
    undecided = load_study("digits").papers["padpaf"].undecided
    assert undecided.keys() == {"padpaf-13", "padpaf-15", "padpaf-16", "padpaf-17"}


def test_figures_are_of_300_rounds_and_the_table_of_120_of_them():
    """App. C.2, and Fig. 7."""
    study = load_study("paper")
    runs = {
        run: spec for run, spec in study.specs.items() if run.startswith("padpaf/mnist_eight") and spec.seed == 2011
    }
    rounds = {run.split("/", 2)[2]: spec.training.rounds for run, spec in runs.items()}
    long = {"padpaf/default/2011", "padpaf/conditional/2011", "padpaf/conditional-own-labels/2011"}
    assert {run for run, n in rounds.items() if n == 300} == long
    assert {n for run, n in rounds.items() if run not in long | {"padpaf/vae/2011"}} == {120}
    table = study.papers["padpaf"].evaluation["fid"]["after"]
    assert table == 120
    assert all(table in spec.snapshots for spec in runs.values() if spec.training.rounds == 300)
    own = runs["padpaf/mnist_eight-clients/padpaf/conditional-own-labels/2011"]
    assert (own.algorithm["fake_labels"], own.data.classes_per_client) == ("own", 0.5)


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
