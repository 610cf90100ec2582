"""The board and what lies under results/reference are what the records make."""

import shutil
from collections import defaultdict

import pandas as pd
import pytest
from PIL import Image

from common.codehash import ROOT
from diptych import counted
from diptych.board import _figures, board_of, linked, titles
from diptych.cli import main
from diptych.configuration import read_paper
from diptych.gathering import gather
from diptych.published import reference
from diptych.study import load_study
from diptych.verify import verify
from reporting.board import END, START, VERDICTS, markdown, with_summary
from reporting.evidence import RANK, Grade, read_base
from reporting.records import PUBLISHED, published, read_csv
from tests.digits import left_by

REFERENCE, BOARD = ROOT / "results" / "reference", ROOT / "docs" / "board.md"


@pytest.fixture(scope="module")
def board():
    return board_of(REFERENCE)


def test_the_board_is_that_of_the_records(board):
    assert markdown(board, titles()) == BOARD.read_text()


def test_the_readme_says_what_the_records_do(board):
    page = (ROOT / "README.md").read_text()
    assert with_summary(page, board, linked()) == page
    rows = page.partition(START)[2].partition(END)[0].strip().splitlines()[2:]
    assert len(rows) == len(titles())
    for (paper, title), row in zip(titles().items(), rows, strict=True):
        assert row.startswith(f"| [{title}](docs/{paper}.md) (")
        assert (ROOT / "docs" / f"{paper}.md").is_file()
        cells = [part[part["paper"] != ""] for (of, _), part in board.cells.items() if of == paper]
        told = [cell.strip() for cell in row.strip("|").split("|")][1:]
        if not cells:
            assert told[:3] == ["none printed", "", ""]
            continue
        printed = pd.concat(cells)
        measured = printed[printed["verdict"] != "not measured"]
        assert told[0] == f"{len(measured)} of {len(printed)}"
        assert told[1] == str((measured["grade"] == "as published").sum())
        assert sum(int(part.split()[0]) for part in told[2].split(", ")) == len(measured)


def test_a_page_is_brought_up_to_date_between_its_two_lines(tmp_path, capsys):
    shutil.copytree(REFERENCE / "untrained", tmp_path / "untrained")
    page, out = tmp_path / "page.md", tmp_path / "board.md"
    page.write_text(f"before\n{START}\nof old\n{END}\nafter\n")
    assert main(["board", str(tmp_path), "--out", str(out), "--readme", str(page)]) == 0
    first, *table, last = page.read_text().splitlines()
    assert (first, last) == ("before", "after")
    assert "of old" not in page.read_text()
    assert any(line.startswith("| [PS-FedGAN]") and "8 of 134" in line for line in table)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 4
    page.write_text("no such lines\n")
    out.unlink()
    assert main(["board", str(tmp_path), "--out", str(out), "--readme", str(page)]) == 2
    assert "there is no place for the board" in capsys.readouterr().err
    assert not out.exists()
    assert page.read_text() == "no such lines\n"


def test_every_printed_cell_is_on_it_once_with_one_verdict(board):
    for (paper, table), cells in board.cells.items():
        printed = cells[cells["paper"] != ""]
        row = board.tables.set_index(["paper", "table"]).loc[(paper, table)]
        quoted = len(printed) - len(published(paper, table))
        assert quoted == 0 or len(published(paper, table)) == 0
        assert row["printed"] == len(printed) == row[list(map(str, VERDICTS))].sum()
        assert row["measured"] == row[[str(grade) for grade in Grade]].sum() == (printed["seeds"] > 0).sum()
    files = {tuple(file.stem.split("_")) for file in PUBLISHED.glob("*_table*.csv")}
    assert files <= set(board.cells)


def test_what_needs_data_that_were_not_at_hand_is_counted_apart(board):
    """By the published files: FedStyle's means over digits have SVHN in them, PS-FedGAN's columns stand alone."""
    printed = pd.concat(published(paper, table) for paper, table in board.cells)
    far = printed["dataset"].isin(["office-home", "adaptiope", "svhn"]) | (printed["style"] == "svhn")
    far |= (printed["paper"] == "fedstyle") & (printed["style"] == "all")
    quoted = sum((cells["paper"] != "").sum() for key, cells in board.cells.items() if not len(published(*key)))
    assert f"not at hand: {(~far).sum() + quoted} printed numbers" in board.totals[1]


def test_the_best_evidence_stands_in_a_cell(board):
    """By brute force: nothing that measures a cell of FedINB's Table 3 is of a better grade than what stands in it."""
    base = read_base(REFERENCE).query("paper == 'fedinb' and table == 'table3' and metric == 'accuracy'")
    base = base.query("protocol == '' and setting == ''")
    for cell in board.cells["fedinb", "table3"].query("seeds > 0 and paper != ''").to_dict("records"):
        keys = ["method", "variant", "domain", "sync_steps"]
        rows = base[(base[keys] == pd.Series({k: cell[k] for k in keys})).all(axis=1)]
        best = min(Grade.REDUCED if differs else Grade.AS_PUBLISHED for differs in rows["differs"])
        assert RANK.index(Grade(cell["grade"])) == RANK.index(best)


def test_every_claim_and_figure_is_on_it(board):
    assert {f.claim for f in board.findings} == set(read_csv(PUBLISHED / "claims.csv")["claim_id"])
    assert all(f"**{f.claim}**" in BOARD.read_text() for f in board.findings)
    printed = read_csv(PUBLISHED / "figures.csv").query("kind != 'diagram'")
    numbered = {
        (row["paper"], f"figure{row['figure']}") for row in printed.to_dict("records") if row["figure"].isdecimal()
    }
    assert numbered <= set(zip(board.figures["paper"], board.figures["figure"], strict=True))


def test_a_figure_is_of_the_best_grade_that_it_was_drawn_of(tmp_path):
    """In whatever order the folders stand."""
    for name, source in (("a", "fedinb"), ("b", "fedinb-whole"), ("c", "fedinb")):
        (tmp_path / name / "figures").mkdir(parents=True)
        (tmp_path / name / "figures" / "fedinb-figure14.png").touch()
        shutil.copy(REFERENCE / source / "records.csv.gz", tmp_path / name)
    (row,) = (row for row in _figures("fedinb", read_paper("fedinb"), tmp_path) if row["figure"] == "figure14")
    assert (row["drawn"], row["grade"]) == ("a, b, c", Grade.AS_PUBLISHED)


def test_what_a_claim_rests_on_names_the_judges_and_not_how_many_images_they_saw(board):
    """Of distances whose seeds have judges of their own, as PaDPaF's have, each is named."""
    several = [f.detail for f in board.findings if f.detail.count("fid:domain-classifier-") > 1]
    assert several
    assert not any("-generated" in detail for detail in several)


def test_every_printed_cell_is_configured(board):
    assert all(cells[cells["paper"] != ""]["configured"].all() for cells in board.cells.values())


def test_tables_and_claims_are_those_of_the_records():
    found = verify(REFERENCE)
    assert found.stale == []
    assert len(found.outputs) > 80
    assert set(found.runs["folder"]) == {file.parent.name for file in REFERENCE.glob("*/records.csv.gz")}


def test_what_is_not_of_the_records_is_found(tmp_path, capsys):
    shutil.copytree(REFERENCE / "untrained", tmp_path / "untrained")
    assert main(["verify", str(tmp_path)]) == 0
    table = tmp_path / "untrained" / "tables" / "padpaf-simpson.csv"
    table.write_text(table.read_text().replace("agrees", "disagrees"))
    assert main(["verify", str(tmp_path)]) == 1
    assert f"not so: {table}" in capsys.readouterr().out


def test_a_figure_with_the_caption_of_another_day_is_found(tmp_path):
    shutil.copytree(REFERENCE / "fedstyle", tmp_path / "fedstyle", ignore=shutil.ignore_patterns("tables", "claims"))
    figure = tmp_path / "fedstyle" / "figures" / "fedstyle-figure-stylised.png"
    assert verify(tmp_path).outputs == {figure: True}
    with Image.open(figure) as image:
        image.save(figure)
        image.save(figure.with_name("somebodys.png"))  # which no paper has, and which is none of its business
    assert verify(tmp_path).stale == [figure]


def test_what_is_not_of_the_records_is_made_again(tmp_path):
    """A table, claims and a figure that somebody has changed; a page of notes is nobody's business."""
    folder = shutil.copytree(REFERENCE / "fedstyle", tmp_path / "fedstyle")
    for changed in ("tables/fedstyle-table5.tex", "claims/fedstyle.csv", "notes.md"):
        (folder / changed).write_text("mine")
    figure = folder / "figures" / "fedstyle-figure-stylised.png"
    with Image.open(figure) as image:
        image.save(figure)
    assert len(verify(tmp_path).stale) == 3
    assert main(["remake", str(tmp_path)]) == 0
    assert verify(tmp_path).stale == []
    for file in ("tables/fedstyle-table5.tex", "claims/fedstyle.csv"):
        assert (folder / file).read_bytes() == (REFERENCE / "fedstyle" / file).read_bytes()
    assert (folder / "notes.md").read_text() == "mine"
    assert not figure.with_suffix(".pdf").exists(), "only what was there"


def test_what_is_counted_at_a_small_scale_is_what_today_would_count(tmp_path):
    """Of the published specification, whatever the scale."""
    (tmp_path / "tiny").mkdir()
    counted.measure("tiny", tmp_path, tmp_path / "tiny" / "records.csv")
    assert set(verify(tmp_path).runs["state"]) == {"as today's specification and code make them"}


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, "as today's specification and code make them"),
        ({"code": "x"}, "of the same specification, code has changed since"),
        ({"spec": "x"}, "of a specification that is no longer asked for"),
    ],
)
def test_what_today_would_make_of_a_run(change, state, trained_today, tmp_path):
    (tmp_path / "tiny").mkdir()
    trained_today.assign(**change).to_csv(tmp_path / "tiny" / "records.csv", index=False)
    assert set(verify(tmp_path).runs["state"]) == {state}


@pytest.fixture(scope="module")
def trained_today(tmp_path_factory) -> pd.DataFrame:
    """The records of a run at a scale where it is not as published."""
    folder = tmp_path_factory.mktemp("today")
    left_by(load_study("tiny").specs["fedstyle/digit_1_iid_simclr/fedavg/default/2011"], folder / "run")
    assert main(["evaluate", str(folder / "run"), "--out", str(folder / "part.csv")]) == 0
    gather("tiny", [folder / "part.csv"], folder / "records.csv", [])
    return read_csv(folder / "records.csv")


def test_a_board_that_is_not_of_the_records_is_found(board, tmp_path, monkeypatch):
    monkeypatch.setattr("diptych.verify.board_of", lambda folder: board)  # which takes its time
    (tmp_path / "untrained").mkdir()
    shutil.copy(REFERENCE / "untrained" / "records.csv.gz", tmp_path / "untrained")
    page = tmp_path / "board.md"
    page.write_text(BOARD.read_text())
    assert verify(tmp_path, page).stale == []
    page.write_text(BOARD.read_text().replace("undecided", "decided", 1))
    assert verify(tmp_path, page).stale == [page]


def test_a_run_that_is_measured_in_parts_is_one_run_as_old_as_its_oldest_part(tmp_path):
    (tmp_path / "untrained").mkdir()
    records = read_csv(REFERENCE / "untrained" / "records.csv.gz").query("paper == 'padpaf' and variant == ''")
    (run,) = records["run"].unique()[:1]
    parts = records[records["run"] == run]
    assert len(parts) > 1
    rows = pd.concat([parts[:1].assign(code="x"), parts[1:]])
    rows.to_csv(tmp_path / "untrained" / "records.csv", index=False)
    (state,) = verify(tmp_path).runs["state"]
    assert state == "of the same specification, code has changed since"


@pytest.mark.parametrize("command", ["board", "verify", "remake"])
def test_a_folder_without_records(command, tmp_path, capsys):
    more = ["--out", str(tmp_path / "b.md")] if command == "board" else []
    assert main([command, str(tmp_path), *more]) == 2
    assert "there are no records in it" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["verify", "remake"])
def test_a_folder_of_one_scale_and_one_that_is_not_there(command, tmp_path, capsys):
    (tmp_path / "records.csv").touch()
    assert main([command, str(tmp_path)]) == main([command, str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path}: is the folder of one scale" in said
    assert f"{tmp_path / 'nowhere'}: there is no such folder" in said


@pytest.mark.parametrize("command", ["verify", "remake"])
def test_records_without_a_row(command, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    read_csv(REFERENCE / "untrained" / "records.csv.gz").iloc[:0].to_csv(tmp_path / "mine" / "records.csv", index=False)
    assert main([command, str(tmp_path)]) == 2
    assert "records.csv: there is no record in it" in capsys.readouterr().err


def test_records_of_no_run_are_verified(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    records = read_csv(REFERENCE / "untrained" / "records.csv.gz").assign(run="")
    records.to_csv(tmp_path / "mine" / "records.csv", index=False)
    assert main(["verify", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == "0 of 0 files are those of the records"


def test_figures_without_records_are_on_no_board(tmp_path):
    shutil.copytree(REFERENCE / "untrained", tmp_path / "untrained")
    for name in ("untrained", "others"):
        (tmp_path / name / "figures").mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "figures" / "fedinb-figure14.png").touch()
    figures = board_of(tmp_path).figures.set_index(["paper", "figure"])
    assert figures.loc[("fedinb", "figure14"), "drawn"] == "untrained"


def test_how_far_records_are_from_the_published_is_what_it_is_today():
    """Of each run that is specified as it was: keys that differ and share of the training, of the run or of a cell."""
    checked = 0
    for file in sorted(REFERENCE.glob("*/records.csv.gz")):
        rows = read_csv(file).query("wall_s != '' and dataset != 'simpson'")
        rows = rows[~rows["variant"].str.contains("first_step=")]  # renamed when the default became another
        if rows.empty:
            continue
        compared = reference(rows["scale"].iloc[0])
        cells = defaultdict(list)
        for cell in compared.study.cells:
            cells[cell.spec.run].append(cell)
        for (run, digest), of_run in rows.groupby(["run", "spec"]):
            if run not in cells or compared.study.specs[run].digest != digest:
                continue
            entries = compared.study.papers[run.split("/")[0]].evaluation
            asked = [(entry, cell) for entry in entries for cell in (None, *cells[run])]
            today = {tuple(compared.distance(compared.study.specs[run], *of).values()) for of in asked}
            assert {*zip(of_run["differs"], of_run["budget"], strict=True)} <= today, f"{file}: {run}"
            checked += 1
    assert checked > 1000


@pytest.mark.parametrize("folder", ["fedstyle", "fedstyle-long", "fedstyle-many", "fedstyle-objects"])
def test_what_ditto_shares_is_what_fedavg_does(folder):
    """To the last digit, as its own models leave it alone; unless one of the two is of other code, or other images.

    As of all runs, that holds on one kind of processor; between two a style's accuracy moves by up to a hundredth.
    """
    rows = read_csv(REFERENCE / folder / "records.csv.gz").query(
        "protocol == 'generalization' and metric == 'accuracy'"
    )
    rows = rows.query("control == '' and variant == '' and setting == '' and method in ['fedavg', 'ditto']")
    rows = rows.assign(value=rows["value"].astype(float))
    keys = ["table", "dataset", "split", "ssl", "style", "seed"]
    alike = rows.pivot_table("value", [*keys, "hardware"], "method").dropna()
    assert len(alike) >= 18
    assert (alike["ditto"] == alike["fedavg"]).all()
    anywhere = rows.pivot_table("value", keys, "method").dropna()
    assert (anywhere["ditto"] - anywhere["fedavg"]).abs().max() < 0.02
