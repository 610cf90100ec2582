"""From records to tables: verdicts, averages, every printed cell in its place, errata beneath."""

import itertools
import re
from dataclasses import replace
from functools import cache

import pandas as pd
import pytest

from common.records import COLUMNS
from diptych.study import load_study
from reporting.cells import cells_of
from reporting.layout import Layout
from reporting.records import PUBLISHED, published, read_csv, read_records, with_averages
from reporting.tables import _tables_named, errata_of, latex, markdown, write_table
from reporting.verdict import Verdict

TABLES = ["table1", "table2", "table3", "table4", "table5"]


# ---- records


def _record(**columns) -> dict[str, str | float]:
    blank = dict.fromkeys(COLUMNS, "")
    told = {"paper": "fedstyle", "kind": "result", "metric": "accuracy", "unit": "fraction", "aggregate": "none"}
    return blank | told | {"status": "ok", "seed": "1", "scale": "paper", "budget": "1"} | columns


@cache
def _as_if_measured(table: str, seeds: int = 1) -> pd.DataFrame:
    """The published cells of a table as if we had measured them, without the printed averages."""
    cells = published("fedstyle", table)
    rows = [
        _record(**{k: v for k, v in row.items() if k in COLUMNS and k != "kind"})
        | {"value": float(row["value"]), "seed": str(seed), "kind": row["kind"]}
        for row in cells[cells["aggregate"] == "none"].to_dict("records")
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _cells(table: str, records: pd.DataFrame) -> pd.DataFrame:
    return cells_of(_layout(table), records, lambda place: "left out")


def _layout(table: str) -> Layout:
    return Layout(paper="fedstyle", table=table, **load_study("paper").papers["fedstyle"].tables[table].model_dump())


def test_a_note_stands_under_the_table():
    """What Table 1 has to say of Ditto and APFL: below all blocks, and in the caption of the LaTeX."""
    cells, layout = _cells("table1", _as_if_measured("table1")), _layout("table1")
    assert "FedAvg's model by construction" in layout.note
    assert markdown(layout, cells, "about").partition("## Note\n")[2].strip().startswith(layout.note)
    assert layout.note in latex(layout, cells, "about")
    without = markdown(replace(layout, note=""), cells, "about")
    assert "## Note\n" not in without
    assert without == markdown(layout, cells, "about").replace(f"\n## Note\n\n{layout.note}\n", "")


def test_averages_by_hand():
    cell = {"table": "table1", "dataset": "digit", "method": "fedavg", "ssl": "simclr", "protocol": "generalization"}
    records = pd.DataFrame(
        [
            _record(**cell, split="iid", style=style, value=value, seed=seed)
            for seed, values in (("1", (0.1, 0.2, 0.6)), ("2", (0.3, 0.3, 0.9)))
            for style, value in zip("abc", values, strict=True)
        ]
        + [_record(**{**cell, "method": "fedper"}, split="iid", style="a", value=0.5)]  # b and c are missing
        + [_record(**{**cell, "method": "ditto"}, split="iid", style=s, value=0.5) for s in "ab"]
        + [_record(**{**cell, "method": "ditto"}, split="iid", style="c", value=float("nan")) | {"status": "diverged"}]
        + [_record(**cell, split="iid", style="a", value=0.0, client="client-1")]
    )  # fmt: skip
    means = with_averages(records).query("aggregate == 'mean'").set_index(["method", "seed"])
    assert means["value"]["fedavg", "1"] == pytest.approx(0.3)
    assert means["value"]["fedavg", "2"] == pytest.approx(0.5)
    assert "fedper" not in means.index.get_level_values(0), "an average lacks no member"
    assert means["status"]["ditto", "1"] == "diverged"
    assert set(means["style"]) == {"all"}


def test_our_averages_are_the_papers_but_for_its_errata():
    """Averages of printed cells against printed averages: they differ only where errata.csv or a note says so."""
    for table in ("table1", "table2", "table3"):
        ours = with_averages(_as_if_measured(table))
        cells = _cells(table, ours)
        averages = cells[(cells["style"] == "all") & (cells["paper"] != "")]
        assert len(averages) == (published("fedstyle", table)["aggregate"] == "mean").sum()
        off = averages[(averages["difference"].abs() > 0.0005 + 1e-9)]
        assert off.index.tolist() == averages[averages["note"].str.contains("mean of the cells")].index.tolist()


# ---- tables


@pytest.mark.parametrize("table", TABLES)
def test_every_printed_cell_is_in_its_place_once(table):
    printed, layout = published("fedstyle", table), _layout(table)
    cells = _cells(table, _as_if_measured(table).iloc[:0])
    assert len(cells) == len(printed)
    assert not cells.duplicated(layout.keys).any()
    merged = printed.merge(cells, on=layout.axes, suffixes=("_printed", ""))
    assert (merged["paper"] == merged["printed"].where(merged["printed"] != "", merged["value"])).all()
    assert (cells["verdict"] == Verdict.NOT_MEASURED).all()
    assert (cells["why"] == "left out").all()


@pytest.mark.parametrize("table", TABLES[:4])
def test_the_papers_own_numbers_agree_with_the_paper(table):
    cells = _cells(table, _as_if_measured(table, seeds=3))
    measured = cells[cells["ours"].notna()]
    assert len(measured) == len(_as_if_measured(table))
    assert (measured["verdict"] == Verdict.AGREES).all()
    assert (measured["grade"] == "as published").all()
    assert (measured["difference"].abs() < 1e-12).all()


def test_each_cell_shows_ours_the_verdict_and_theirs():
    records = _as_if_measured("table1", seeds=3).copy()
    chosen = (records["method"] == "fedavg") & (records["style"] == "usps") & (records["ssl"] == "simclr")
    chosen &= records["protocol"] == "generalization"
    records.loc[chosen, "value"] = [0.90, 0.92, 0.94]
    text = markdown(_layout("table1"), _cells("table1", records), "about")
    row = next(line for line in text.splitlines() if line.startswith("| FedAvg"))
    assert "0.920 ± 0.020 ? (0.964)" in row, "three seeds say neither that it is within a point, nor beyond"
    assert "0.980 ± 0.000 ✓ (0.980)" in row
    one = markdown(_layout("table1"), _cells("table1", _as_if_measured("table1")), "about")
    assert "±" not in one.split("## ", 1)[1].split("## How to read it")[0], "one seed has no spread"


def test_below_the_table_stands_how_to_read_it():
    """The marks that are in it, and no others; where the paper prints nothing, nothing of its numbers."""
    said = markdown(_layout("table1"), _cells("table1", _as_if_measured("table1", seeds=3)), "about")
    legend = said.partition("## How to read it\n\n")[2].partition("\n## ")[0].splitlines()
    assert legend[0].startswith(
        "Each cell: our number, ± its standard deviation over seeds where there are three or more;"
    )
    assert [line[:10] for line in legend[2:]] == ["- ✓ agrees", "- – not mea"[:10]]
    assert "in brackets the paper's number" in legend[0]
    ours = _as_if_measured("table1").assign(method="mine")
    cells = _cells("table1", ours).query("paper == ''")
    legend = markdown(_layout("table1"), cells, "about").partition("## How to read it\n\n")[2].partition("\n## ")[0]
    assert "the paper prints none of them" in legend
    assert "\n- " not in legend


@pytest.mark.parametrize(
    ("noise", "verdict"), [(0.0001, Verdict.TREND_HOLDS), (0.3, Verdict.WITHIN_NOISE), (0, Verdict.WITHIN_NOISE)]
)
def test_a_row_with_one_seed_is_judged_by_the_noise_of_the_others(noise, verdict):
    """Of FedPer, which has one, the paper's trend is there if that noise is small, and if nothing is known of it none
    is."""
    records = _as_if_measured("table1", seeds=3).assign(differs="training.rounds")
    records = records[(records["method"] != "fedper") | (records["seed"] == "0")]
    turned = records.groupby("method").ngroup() + records["seed"].astype(int)  # so that differences within seeds vary
    records = records.assign(value=records["value"] + noise * (turned % 3))
    cells = _cells("table1", records).query("method == 'fedper' and ours == ours")
    apart = cells[cells["verdict"] != Verdict.NOT_COMPARABLE]
    assert len(apart) == 7
    assert set(apart["verdict"]) == {verdict}


def test_of_several_scales_the_best_evidence_stands_in_a_cell_and_trends_stay_within_a_scale():
    """All of the paper's cells in a reduced scale; in a better one FedPer alone, which then has no row beside it."""
    reduced = _as_if_measured("table1", seeds=2).assign(scale="small", differs="training.rounds", budget="0.1")
    reduced["value"] = reduced["value"] - 0.1 + 1e-4 * reduced["seed"].astype(int)
    better = _as_if_measured("table1").query("method == 'fedper'").assign(scale="large", budget="0.5", differs="x.y")
    cells = _cells("table1", pd.concat([reduced, better], ignore_index=True)).query("ours.notna()")
    fedper = cells[cells["method"] == "fedper"]
    assert set(fedper["scale"]) == {"large"}
    assert set(fedper["verdict"]) == {Verdict.NOT_COMPARABLE}
    assert fedper["passed_over"].str.contains("at small, reduced, 2 seeds").all()
    others = cells[cells["method"] == "fedstyle"]
    assert set(others["scale"]) == {"small"}
    assert set(others["verdict"]) == {Verdict.TREND_HOLDS, Verdict.NOT_COMPARABLE}, (
        "where the paper's are a point apart"
    )
    assert (others["differs"] == "training.rounds").all()


def test_a_table_has_the_records_of_its_paper_alone():
    """Where several papers have a Table 1, as at the scale `digits`."""
    ours = _as_if_measured("table1")
    others = ours.assign(paper="psfedgan", method="another", value=0.1)
    both = _cells("table1", pd.concat([ours, others.assign(value=0.1), ours.assign(paper="padpaf")], ignore_index=True))
    pd.testing.assert_frame_equal(both, _cells("table1", ours))


def test_of_a_table_of_which_nothing_was_measured_the_page_says_so_once_and_where_the_papers_numbers_are():
    cells = _cells("table1", _as_if_measured("table1").iloc[:0])
    text = markdown(_layout("table1"), cells, "about")
    assert text.count("Nothing of it was measured here.") == 1
    assert f"What the paper prints ({len(published('fedstyle', 'table1'))} numbers) is in the CSV" in text
    assert "What the paper prints" not in markdown(_layout("table1"), cells.assign(paper=""), "about")
    assert "How to read it" not in text
    assert "|" not in text.partition("## Notes on printed")[0]
    assert f"- {len(cells)} cells: left out" in text
    assert "Nothing of it was measured here." in latex(_layout("table1"), cells, "about")


def test_controls_stand_below_and_fill_no_printed_cell():
    plain = _as_if_measured("table1")
    control = plain[plain["method"] == "fedavg"].assign(control="untrained", value=-1.0)
    ceiling = plain[(plain["method"] == "fedavg") & (plain["ssl"] == "simclr")].assign(ssl="supervised", value=0.99)
    cells = _cells("table1", pd.concat([plain, control, ceiling], ignore_index=True))
    assert (cells[cells["control"] == "untrained"]["ours"] == -1).all()
    assert (cells[cells["control"] == "supervised"]["ours"] == 0.99).all()
    assert set(cells[cells["control"] == "supervised"]["ssl"]) == {"simclr", "simsiam"}
    assert (cells[cells["paper"] != ""]["ours"].dropna() > 0).all()


def test_a_diverged_cell_says_so():
    records = _as_if_measured("table1").copy()
    records.loc[records["method"] == "apfl", ["value", "status"]] = [float("nan"), "diverged"]
    cells = _cells("table1", with_averages(records))
    assert (cells[cells["method"] == "apfl"]["verdict"] == Verdict.DIVERGED).all()
    text = markdown(_layout("table1"), cells, "about")
    assert all("diverged" in line for line in text.splitlines() if line.startswith("| APFL"))


def test_a_seed_that_diverged_tells_nothing_of_the_noise_of_rows_with_one():
    """APFL's second seed stands in its row beside one of FedAvg's; no two finite differences are in any row."""
    records = _as_if_measured("table1", seeds=2).assign(differs="training.rounds")
    records = records[(records["seed"] == "0") | records["method"].isin(["fedavg", "apfl"])].copy()
    records.loc[(records["method"] == "apfl") & (records["seed"] == "1"), "value"] = float("nan")
    cells = _cells("table1", records).query("ours.notna() and method not in ('apfl', 'fedavg')")
    assert set(cells["verdict"]) == {Verdict.WITHIN_NOISE, Verdict.NOT_COMPARABLE}


def test_an_average_over_some_of_the_papers_splits_is_none():
    """Who has measured two of three splits, or three of four styles, has none to hold against the paper's."""
    whole = _as_if_measured("table2")
    assert len(with_averages(whole).query("aggregate == 'mean' and split == 'all'"))
    for column in ("split", "style"):
        members = whole[whole["aggregate"] == "none"]
        some = members[members[column] != members[column].iloc[0]]
        assert some[column].nunique() >= 2
        some = pd.concat([some, some], ignore_index=True)  # a member that is there twice is no other one
        means = with_averages(some).query("aggregate == 'mean'")
        assert "office-home" not in {*means["dataset"]}


def test_means_of_each_split_stand_beside_the_mean_over_all():
    """By hand, of two styles and three splits, one of which lacks a style at first; of one split one mean is all."""
    cell = {"table": "table2", "dataset": "toy", "method": "fedavg", "ssl": "simclr", "protocol": "generalization"}
    values = {"iid": (0.1, 0.3), "dirichlet-0.2": (0.5, 0.6), "dirichlet-0.8": (0.7, -0.1)}
    records = pd.DataFrame(
        [
            _record(**cell, split=k, style=s, value=v)
            for k, row in values.items()
            for s, v in zip("ab", row, strict=True)
        ]
    )
    of_splits = {"iid": 0.2, "dirichlet-0.2": 0.55, "dirichlet-0.8": 0.3}
    means = with_averages(records).query("style == 'all'").set_index("split")
    assert means["value"].to_dict() == pytest.approx(of_splits | {"all": 0.35})
    assert means["aggregate"].to_dict() == dict.fromkeys(of_splits, "mean of split") | {"all": "mean"}
    backwards = with_averages(records[::-1]).query("style == 'all'")
    assert [*backwards["split"]] == ["all", *of_splits], "in the paper's order, whatever that of the records"
    means = with_averages(records[:-1]).query("style == 'all'").set_index("split")
    assert means["value"].to_dict() == pytest.approx({k: of_splits[k] for k in ("iid", "dirichlet-0.2")})
    assert {*means["aggregate"]} == {"mean of split"}, "over all splits there is none: one member is missing"
    means = with_averages(records[records["split"] == "iid"]).query("style == 'all'")
    assert means[["split", "aggregate"]].to_numpy().tolist() == [["iid", "mean"]]


def test_an_average_has_had_what_its_least_trained_member_had():
    members = _as_if_measured("table1").query("aggregate == 'none'").reset_index(drop=True)
    shares = {"mnist": "0.5", "svhn": "1e-1", "usps": "0.25"}
    members["budget"] = members["style"].map(shares).fillna("1")
    means = with_averages(members).query("aggregate == 'mean' and source == ''")
    assert {*means.query("dataset == 'digit'")["budget"]} == {"1e-1"}
    members.loc[members["style"] == "usps", "budget"] = ""
    means = with_averages(members).query("aggregate == 'mean' and source == ''")
    assert {*means.query("dataset == 'digit'")["budget"]} == {""}


@pytest.mark.parametrize(
    ("where", "tables"),
    [
        ("Table 1, SimCLR", "1"),
        ("Tables 1, 2 captions", "12"),
        ("Tables 1-3, column letters", "123"),
        ("Table 4 vs Table 1, SimSiam", "14"),
        ("Tables 1, 3-4 and 6", "1346"),
        ("Table 1, 8 clients, Figure 2", "1"),
        ("Sec. 4.2", ""),
    ],
)
def test_where_an_erratum_is(where, tables):
    assert _tables_named(where) == {f"table{n}" for n in tables}


@pytest.mark.parametrize("table", TABLES)
def test_the_errata_of_a_table_stand_under_it_and_under_no_other(table):
    errata = read_csv(PUBLISHED / "errata.csv")
    number = int(table[-1])
    expected = []
    for where in errata[errata["paper"] == "fedstyle"]["where"]:
        named: set[int] = set()
        for low, high in re.findall(r"Tables? (\d)(?:-(\d))?", where):
            named |= set(range(int(low), int(high or low) + 1))
        if number in named:
            expected.append(where)
    assert [text.split(": printed")[0] for text in errata_of("fedstyle", table)] == expected
    assert expected


def test_the_three_files_tell_the_same(tmp_path):
    cells = _cells("table1", with_averages(_as_if_measured("table1")))
    write_table(_layout("table1"), cells, "About 50 % & more", tmp_path / "fedstyle-table1.md")
    text, tex = ((tmp_path / f"fedstyle-table1.{form}").read_text() for form in ("md", "tex"))
    csv = pd.read_csv(tmp_path / "fedstyle-table1.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"fedstyle-table1.{f}" for f in ("csv", "md", "tex")]
    numbers = sorted(f"{value:.3f}" for value in csv["ours"].dropna())
    for content in (text.split("## How to read it")[0], tex):
        assert sorted(re.findall(r"(?<![\d.+−(-])(\d\.\d{3})(?= \S+ \()", content)) == numbers


def test_latex_compiles_in_principle():
    tex = latex(
        _layout("table1"), _cells("table1", with_averages(_as_if_measured("table1"))), "About 50 % & more_or_less"
    )
    packages, _, tex = tex.partition("\n")
    assert packages.startswith("% in the preamble: ")
    assert tex.count(r"\begin{") == tex.count(r"\end{") == 4
    assert tex.count("{") == tex.count("}")
    assert len(set(re.findall(r"\\label\{(.*?)\}", tex))) == 4
    for table in tex.split(r"\begin{longtable}")[1:]:
        columns = len(re.match(r"\{(\w+)\}", table)[1])
        body = [
            line
            for line in table.splitlines()
            if line.rstrip().endswith(r"\\")
            and r"\multicolumn" not in line
            and "caption" not in line
            and "label" not in line
        ]
        assert body
        assert all(len(re.findall(r"(?<!\\)&", line)) == columns - 1 for line in body)
    assert not re.search(r"(?<!\\)[%_]", re.sub(r"\\label\{[^}]*\}", "", tex)), "special characters are escaped"
    assert tex.isascii(), "symbols are commands"


def test_long_heads_are_stacked_in_latex_which_keeps_columns_narrow():
    layout = replace(_layout("table1"), words={"style": {"mnist": "handwritten digits of old forms"}})
    tex = latex(layout, _cells("table1", _as_if_measured("table1")), "handwritten digits of old forms")
    assert tex.count(r"& \shortstack[r]{handwritten\\digits of old\\forms} ") == 8, "twice in each of four blocks"
    assert tex.count("handwritten digits of old forms") == 2, "the caption is as it was, and it stands twice"


def test_nothing_warns(recwarn):
    markdown(_layout("table2"), _cells("table2", with_averages(_as_if_measured("table2"))), "about")
    assert not recwarn.list


def test_a_record_file_is_read_as_text(tmp_path):
    _as_if_measured("table1").assign(table="table1").to_csv(tmp_path / "records.csv", index=False)
    records = read_records(tmp_path / "records.csv")
    assert set(records["clients_per_style"]) == {"1"}
    assert records["value"].dtype == float
    assert (records["aggregate"] == "mean").any()


def test_rows_and_columns_come_in_the_papers_order():
    cells = _cells("table1", _as_if_measured("table1"))
    printed = published("fedstyle", "table1")
    assert list(dict.fromkeys(cells["method"])) == list(dict.fromkeys(printed["method"]))
    assert list(dict.fromkeys(zip(cells["dataset"], cells["style"], strict=True))) == list(
        dict.fromkeys(zip(printed["dataset"], printed["style"], strict=True))
    )
    assert all(a != b for a, b in itertools.pairwise(dict.fromkeys(cells["ssl"])))


def test_a_table_that_nothing_is_printed_or_measured_of_is_empty(tmp_path):
    layout = Layout(
        paper="fedstyle",
        table="nowhere",
        title="",
        blocks=[],
        rows=["method"],
        columns=["style"],
        where={},
        reference={},
    )
    cells = cells_of(layout, _as_if_measured("table1"), lambda _: None)
    assert cells.empty
    write_table(layout, cells, "about", tmp_path / "nowhere.md")
    assert (tmp_path / "nowhere.tex").stat().st_size
