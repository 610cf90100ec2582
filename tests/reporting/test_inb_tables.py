"""FedINB's tables and claims: printed cells in their places, and whose numbers the claims mean."""

import pandas as pd
import pytest

from common.records import COLUMNS
from diptych.study import load_study
from reporting.cells import cells_of
from reporting.claims import findings
from reporting.expressions import Evaluator, Shelf, Unknown
from reporting.layout import Layout
from reporting.records import PUBLISHED, published, read_csv, read_records
from reporting.tables import markdown

FEDINB = load_study("reference-fedinb").papers["fedinb"]
GENERALISATION, ITERATIONS = ("table1", "table2", "table3", "table4"), ("table5", "table6")
FILLED_BY = {"table1": "table3", "table2": "table4"}
"""Tables 1 and 2 are parts of 3 and 4, whose experiments fill both."""


def _record(**columns) -> dict:
    given = {"paper": "fedinb", "seed": "1", "status": "ok", "style": "all", "aggregate": "none", "unit": "score"}
    given |= {"scale": "paper", "budget": "1"}
    return dict.fromkeys(COLUMNS, "") | given | columns


def _frame(rows: list[dict]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS).astype({"value": float})


def _thrice(rows: list[dict]) -> pd.DataFrame:
    """Three seeds that say the same."""
    return _frame([row | {"seed": seed} for row in rows for seed in "123"])


def _layout(table: str) -> Layout:
    return Layout(paper="fedinb", table=table, **FEDINB.tables[table].model_dump())


def _as_if_measured(table: str) -> list[dict]:
    """The printed cells in the columns of our records, and beside them what must not stand in their places."""
    rows = []
    for row in published("fedinb", table).to_dict("records"):
        cell = _record(**{k: row[k] for k in COLUMNS if k in row and k not in ("kind", "seed", "style")})
        cell |= {"table": FILLED_BY.get(table, table), "run": f"{row['method']} {row['variant']} {row['sync_steps']}"}
        if table in GENERALISATION:
            cell |= {"setting": ""}
            rows += [cell | {"setting": "rounds=7", "value": -1}, cell | {"protocol": "test-images", "value": -2}]
        rows.append(cell)
    return rows


@pytest.mark.parametrize("table", [*GENERALISATION, *ITERATIONS])
def test_every_printed_cell_finds_its_number(table):
    cells = cells_of(_layout(table), _thrice(_as_if_measured(table)), lambda place: None)
    assert len(cells) == len(published("fedinb", table))
    assert (cells["verdict"] == "agrees").all()
    assert (cells["difference"].abs() < 1e-9).all()


@pytest.mark.parametrize("table", FEDINB.tables)
def test_every_table_is_written_of_nothing(table):
    cells = cells_of(_layout(table), _frame([]), lambda place: "left out")
    assert len(cells) == len(published("fedinb", table))
    if len(cells):
        assert "left out" in markdown(_layout(table), cells, "about")


def test_the_errata_stand_under_their_tables():
    for table, said in {"table1": "10-batch columns", "table3": "L10 set-ups lose", "table6": "3 runs"}.items():
        text = markdown(_layout(table), cells_of(_layout(table), _frame([]), lambda place: None), "about")
        assert said in text.split("## Errata of the paper")[1]


@pytest.mark.parametrize(("share", "expected"), [(1.0099, "agrees"), (0.9901, "agrees"), (1.0101, "disagrees")])
def test_iterations_may_be_off_by_a_percent(share, expected):
    rows = [row | {"value": float(row["value"]) * share} for row in _as_if_measured("table5")]
    cells = cells_of(_layout("table5"), _thrice(rows), lambda place: None)
    assert set(cells["verdict"]) == {expected}


def _translated(**columns) -> dict:
    given = {"dataset": "rotated-mnist", "split": "translation", "table": "figure2", "metric": "wd"}
    return _record(**given | {"method": "fedinb-hist-indae", "setting": "final", "value": 20.0} | columns)


def test_translation_shows_methods_and_the_controls_of_one(tmp_path):
    fid = "fid:domain-classifier-abc:9-translated:9-test"
    rows = [_translated(), _translated(variant="k=30", value=21.0), _translated(metric=fid, value=40.0)]
    rows += [_translated(setting="after=3", value=-1.0), _translated(split="released", table="readings", value=-1.0)]
    rows += [_translated(control=control, value=n) for n, control in enumerate(("identity", "rotation", "other"), 1)]
    rows += [_translated(control="other", value=9.0, method="fedinb")]
    _frame(rows).to_csv(tmp_path / "records.csv", index=False)
    cells = cells_of(_layout("translation"), read_records(tmp_path / "records.csv"), lambda place: None)
    found = {(c["control"], c["method"], c["variant"], c["metric"]): c["ours"] for c in cells.to_dict("records")}
    assert found == {
        ("", "fedinb-hist-indae", "", "wd"): 20.0, ("", "fedinb-hist-indae", "k=30", "wd"): 21.0,
        ("", "fedinb-hist-indae", "", "fid"): 40.0, ("identity", "", "", "wd"): 1.0,
        ("rotation", "", "", "wd"): 2.0, ("other", "", "", "wd"): 3.0,
    }  # fmt: skip


def test_distances_by_test_images_stand_beside_controls_on_as_many():
    on = {"table": "test-images", "variant": "test_images=50000", "metric": "wd_exact", "setting": "test_samples=5000"}
    rows = [_translated(**on), _translated(**on | {"control": "blur-1", "value": 9.0})]
    rows += [_translated(**on | {"control": "other", "variant": "k=30", "value": -1.0})]
    cells = cells_of(_layout("test-images"), _frame(rows), lambda place: None)
    found = {(c["control"], c["method"], c["setting"]): c["ours"] for c in cells.to_dict("records")}
    on = "test_samples=5000"
    assert found == {("", "fedinb-hist-indae", on): 20.0, ("blur-1", "", on): 9.0}


def test_every_seed_counts_once_though_one_is_for_two_tables():
    rows = [_translated(seed="1", value=10.0, table=table) for table in ("figure2", "table6")]
    cells = cells_of(_layout("translation"), _frame([*rows, _translated(seed="2", value=30.0)]), lambda place: None)
    assert cells["ours"].tolist() == [20.0]
    assert cells["seeds"].tolist() == [2]


# ---- claims


def _verdicts(rows: list[dict], fixed: dict | None = None, aliases: dict | None = None) -> dict[str, str]:
    fixed, aliases = (FEDINB.claims, FEDINB.aliases) if fixed is None else (fixed, aliases)
    return {f.claim: f.verdict for f in findings("fedinb", _thrice(rows), fixed, aliases)}


def test_the_papers_claims_on_the_papers_numbers():
    """Which way they point: printed deviations are those of three seeds around the printed mean; hours are minutes."""
    rows = []
    for table in (*GENERALISATION, *ITERATIONS, "text"):
        for row in published("fedinb", table).to_dict("records"):
            value, apart = float(row["value"]), float(row["std"] or 0)
            value *= 60 if row["unit"] == "hours" else 1
            cell = _record(**{k: row[k] for k in COLUMNS if k in row})
            rows += [cell | {"seed": str(n), "value": value + n * apart} for n in (-1, 0, 1)]
    said = {"yes": "for", "no": "against", "not-printed": ""}
    claims = read_csv(PUBLISHED / "claims.csv").query("paper == 'fedinb'")
    expected = {c["claim_id"]: said[c["published_holds"]] for c in claims.to_dict("records")}
    assert len(expected) == 30
    assert {f.claim: f.points for f in findings("fedinb", _frame(rows), {}, {})} == expected


HIST, INDAE, STARGAN = "fedinb-hist-indae", "fedinb-indae", "fedstargan"
HOLDING = [
    ("wd", "fedinb", "", "final", 25), ("wd", "fedinb-ae", "", "final", 21), ("wd", INDAE, "", "final", 20),
    ("parameters", "fedinb", "", "final", 9), ("parameters", "fedinb-ae", "", "final", 7),
    ("parameters", INDAE, "", "final", 7), ("wd", INDAE, "j=10", "final", 40), ("wd", INDAE, "j=50", "final", 20.5),
    ("wd", INDAE, "j=200", "final", 20), ("wd", "fedinb-hist", "", "final", 25.1),
    ("parameters", "fedinb-hist", "", "final", 8), ("wd", HIST, "", "final", 20.2),
    ("wd", STARGAN, "sync_step=128", "start", 70), ("wd", STARGAN, "sync_step=128", "final", 70),
    ("wd", STARGAN, "sync_step=16", "final", 71), ("wd", STARGAN, "sync_step=16", "start", 300),
    ("train_time", HIST, "", "", 5), ("train_time", STARGAN, "sync_step=128", "", 150),
    ("train_time", STARGAN, "sync_step=16", "", 1), ("parameters", STARGAN, "sync_step=16", "final", 20),
    ("parameters", STARGAN, "sync_step=128", "final", 20), ("parameters", HIST, "", "final", 5),
    ("parameters", HIST, "k=30", "final", 15), ("wd", HIST, "k=30", "final", 20.2),
    ("parameters", HIST, "", "after=1", 0.75), ("parameters", HIST, "k=20", "after=1", 1.5),
    ("parameters", HIST, "v=100", "after=1", 0.35), ("parameters", HIST, "v=50", "after=1", 0.3),
    ("fid", INDAE, "", "start", 90), ("fid", "fedinb", "", "start", 30),
    ("wd", HIST, "test_images=50000", "final", 19), ("wd", HIST, "test_images=50000", "test_samples=10000", 19.1),
]  # fmt: skip
"""Metric, method, variant, setting and value that make the claims on translating Rotated MNIST true."""
HOLDING_FMNIST = [
    ("parameters", "", 5), ("parameters", "k=30", 15), ("wd", "", 30), ("wd", "k=30", 30), ("wd", "j=200", 30),
    ("wd", "j=50", 32), ("wd", "j=30", 35), ("wd", "v=50", 40), ("wd", "v=100", 31),
]  # fmt: skip
"""Metric, variant and value of HistIndAEINB that do so on Rotated FashionMNIST."""
COUNTS = [
    _translated(
        method=method, variant=variant, metric="iterations", digit=digit, value=value * j / 100,
        setting=f"j={j};k=10;l=10",
    )
    for j, variant in ((100, ""), (300, "j=300"))
    for method, value in (("fedinb", 1602), ("fedinb-hist", 1603), (INDAE, 1583))
    for digit in (*"0123456789", "all")
]  # fmt: skip
CLAIMS = [f"fedinb-{n:02}" for n in range(9, 31) if n not in (26, 27)]


def _holding() -> list[dict]:
    """Every row once, as a run for two tables has it, and with runs beside them that no claim means."""
    names = ("metric", "method", "variant", "setting", "value")
    rows = COUNTS + [_translated(**dict(zip(names, row, strict=True))) for row in HOLDING]
    rows += [
        _translated(dataset="rotated-fmnist", metric=metric, variant=variant, value=value)
        for metric, variant, value in HOLDING_FMNIST
    ]
    rows += [row | {"table": "table5"} for row in rows]
    return rows + [row | {"split": "released", "value": -1.0} for row in rows]


def test_the_claims_on_translation_find_their_numbers():
    verdicts = _verdicts(_holding())
    assert {claim: verdicts[claim] for claim in CLAIMS} == dict.fromkeys(CLAIMS, "supported")
    assert {verdicts[f"fedinb-{n}"] for n in (26, 27)} == {"not measured"}


def test_numbers_that_grow_with_v_otherwise_than_in_a_line_contradict_that_they_do():
    wrong = {"method": HIST, "metric": "parameters", "variant": "v=50", "setting": "after=1"}
    rows = [row | {"value": 0.2} if all(row[k] == v for k, v in wrong.items()) else row for row in _holding()]
    assert _verdicts(rows)["fedinb-28"] == "contradicted"


WRONG = {
    "fedinb-10": {"method": INDAE, "metric": "iterations", "digit": "7", "setting": "j=100;k=10;l=10"},
    "fedinb-11": {"method": "fedinb-hist", "metric": "iterations", "digit": "all", "setting": "j=300;k=10;l=10"},
    "fedinb-14": {"method": INDAE, "metric": "wd", "variant": ""},
    "fedinb-15": {"method": INDAE, "metric": "wd", "variant": "j=200"},
    "fedinb-16": {"method": "fedinb-hist", "metric": "parameters"},
    "fedinb-18": {"method": STARGAN, "metric": "wd", "variant": "sync_step=128", "setting": "final"},
    "fedinb-20": {"method": HIST, "metric": "train_time"},
    "fedinb-22": {"method": HIST, "metric": "parameters", "variant": "k=30", "dataset": "rotated-fmnist"},
    "fedinb-24": {"method": HIST, "metric": "wd", "variant": "j=200", "dataset": "rotated-fmnist"},
    "fedinb-25": {"method": HIST, "metric": "wd", "variant": "v=100", "dataset": "rotated-fmnist"},
    "fedinb-28": {"method": HIST, "metric": "parameters", "variant": "k=20"},
    "fedinb-29": {"method": "fedinb", "metric": "fid"},
    "fedinb-30": {"method": HIST, "metric": "wd", "setting": "test_samples=10000"},
}


@pytest.mark.parametrize("claim", WRONG)
def test_a_claim_on_translation_is_contradicted_by_its_numbers(claim):
    rows = [
        row | {"value": row["value"] * 10} if all(row[k] == v for k, v in WRONG[claim].items()) else row
        for row in _holding()
    ]
    assert _verdicts(rows)[claim] == "contradicted"


def test_claims_on_generalisation_are_of_the_published_protocol_at_the_end():
    rows = [row for table in GENERALISATION[2:] for row in _as_if_measured(table)]
    verdicts = _verdicts(rows)
    assert {verdicts[f"fedinb-0{n}"] for n in (1, 2, 3, 4, 6, 8)} == {"supported"}
    assert verdicts["fedinb-05"] == "contradicted"
    assert verdicts["fedinb-07"] == "undecided", "no test says whether deviations of three seeds differ"


# ---- aliases


def _evaluator(aliases: dict, fixed: dict | None = None) -> Evaluator:
    cases = (("", "final", 1.0), ("j=50", "final", 2.0), ("j=50", "start", 3.0), ("other", "final", 2.0))
    records = _frame([_record(metric="wd", variant=v, setting=s, value=value) for v, s, value in cases])
    return Evaluator(Shelf.of(records), fixed or {}, aliases)


@pytest.mark.parametrize(
    ("meaning", "expected"),
    [
        ("final", 1.0),
        ({"variant": "j=50", "setting": "final"}, 2.0),
        ({"variant": ["j=50", "other"], "setting": "final"}, 2.0),
        ({"variant": "j=50", "setting": ["start"]}, 3.0),
        ({"variant": ["j=51"]}, None),
        ({"setting": "final", "method": "another"}, None),
    ],
)
def test_an_alias_may_be_of_several_columns(meaning, expected):
    found = _evaluator({"setting": {"j=50": meaning}}).q("wd", setting="j=50")
    assert (None if isinstance(found, Unknown) else found) == expected


def test_an_alias_decides_over_what_a_claim_leaves_open():
    aliases = {"setting": {"j=50": {"variant": "j=50", "setting": "final"}}}
    assert _evaluator(aliases, {"variant": ""}).q("wd", setting="j=50") == 2.0
    assert _evaluator(aliases, {"variant": ""}).q("wd", setting="final") == 1.0


def test_one_of_several_names_may_be_an_alias():
    aliases = {"setting": {"j=50": {"variant": "j=50", "setting": "final"}}}
    assert _evaluator(aliases).q("wd", setting=("nothing", "j=50")) == 2.0


def test_the_deviation_is_that_of_the_seeds():
    values = {"1": 0.2, "2": 0.4, "3": 0.9}
    records = _frame([_record(metric="accuracy", method=m, seed=s, value=v) for s, v in values.items() for m in "ab"])
    one = records[(records["method"] == "a") | (records["seed"] == "3")].reset_index(drop=True)
    evaluator = Evaluator(Shelf.of(one))
    assert evaluator.sd("accuracy", method="a").of.std == pytest.approx((0.13) ** 0.5)
    assert isinstance(evaluator.sd("accuracy", method="b"), Unknown), "a single seed has none"
    assert isinstance(evaluator.sd("accuracy", method="z"), Unknown)
