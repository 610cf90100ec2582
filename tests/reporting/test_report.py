"""The report: what stands on the page is what the records say, and it needs nothing but itself."""

import base64
import io
import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from diptych.cli import main
from diptych.reported import material
from reporting.board import row_of
from reporting.grid import APART
from reporting.looks import CELLS, CLAIMS
from reporting.records import read_csv
from reporting.report import Report, write_report
from reporting.report.runs import Cost, Run
from reporting.verdict import Verdict
from reporting.wording import duration
from tests.reporting.conftest import REFERENCE, distances, put, records_of

VOID = {"meta", "link", "input", "img", "br", "path", "circle", "rect"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    text: list[str] = field(default_factory=list)

    @property
    def said(self) -> str:
        return " ".join("".join(self.text).split())


class Page(HTMLParser):
    """The elements of a page in order, each with all text that is in it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html, self.elements, self.open = html, list[Element](), list[Element]()
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.elements.append(element := Element(tag, {key: value or "" for key, value in attributes}))
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop().tag == tag

    def handle_data(self, data):
        for element in self.open:
            element.text.append(data)

    def named(self, identity: str) -> Element:
        (found,) = [element for element in self.elements if element.attributes.get("id") == identity]
        return found

    def of_class(self, *names: str) -> list[Element]:
        wanted = {*names}
        return [element for element in self.elements if wanted <= {*element.attributes.get("class", "").split()}]


@pytest.fixture(scope="module")
def page(report) -> Page:
    return Page(report.read_text())


@pytest.fixture(scope="module")
def cells(content):
    return [cell for paper in Report(content).papers for table in paper.tables for cell in table.cells]


def _rendered(folder: Path, file: Path) -> Page:
    write_report(material([folder]), file)
    return Page(file.read_text())


# ---- what stands on it


def test_every_verdict_is_on_the_page(page, content):
    """The cells of the page and its squares, against the tables' own data."""
    judged = pd.concat([table.cells for paper in content.papers for table in paper.tables])
    on_page = Counter(
        e.attributes["data-verdict"] for e in page.elements if e.tag == "td" and "data-verdict" in e.attributes
    )
    assert on_page == Counter(verdict.replace(" ", "-") for verdict in judged["verdict"])
    assert len(on_page) > 3
    squares = Counter(
        e.attributes["class"] for e in page.elements if e.attributes.get("data-for", "").startswith("at-")
    )
    printed = judged[judged["paper"] != ""]
    assert squares == Counter(f"mark v-{verdict.replace(' ', '-')}" for verdict in printed["verdict"])


def test_the_board_counts_as_the_one_in_docs_does(content):
    """Against `reporting.board`, which counts the rows of tables."""
    numbers = {anchor: counts for anchor, _, counts in Report(content).numbers}
    for paper in content.papers:
        for table in paper.tables:
            row = row_of(paper.name, table.layout.table, table.layout.title, table.cells)
            if row["printed"]:
                counts = numbers[f"{paper.name}-{table.layout.table}"]
                assert counts == {kind: row[kind] for kind in counts}
    assert numbers["board"]["printed"] == sum(n["printed"] for key, n in numbers.items() if key.startswith("paper-"))


def test_every_claim_is_on_the_page(page, content):
    found = Counter(
        e.attributes["data-verdict"] for e in page.elements if e.tag == "li" and "data-verdict" in e.attributes
    )
    assert found == Counter(str(f.verdict).replace(" ", "-") for paper in content.papers for f in paper.claims)


def test_a_cell_says_ours_the_papers_and_what_it_rests_on(page, measured):
    """Against the records themselves: one cell of FedINB's Table 3 at the scale that has it as published."""
    rows = records_of("fedinb-whole")
    rows = rows[(rows["table"] == "table3") & (rows["method"] == "feddirt") & (rows["metric"] == "accuracy")]
    rows = rows[(rows["variant"] == "l10-k10") & (rows["domain"] == "75") & (rows["sync_steps"] == "1")]
    rows = rows[(rows["setting"] == "") & (rows["protocol"] == "")]
    ours, spread = pd.to_numeric(rows["value"]).agg(["mean", "std"])
    (drawer,) = [
        e
        for e in page.of_class("drawer")
        if e.attributes["aria-label"] == "FedDIRT · L10-K10 · 75° · every batch" and "FedINB, Table 3" in e.said
    ]
    assert f"ours{ours:.4f}±{spread:.4f}" in drawer.said.replace(" ", "")
    assert "paper0.924" in drawer.said.replace(" ", "")
    assert f"difference{ours - 0.924:.4f}".replace("-", "−") in drawer.said.replace(" ", "")
    for _, row in rows.iterrows():
        assert f"{row['seed']}: {float(row['value']):.3f}" in drawer.said
        assert row["run"] in drawer.said
        provenance = next(e for e in page.of_class("run") if row["run"] in e.said and row["scale"] in e.said)
        assert row["commit"] in provenance.said
        assert row["spec"] in provenance.said
        assert row["sources_sha256"] in provenance.said
        assert f"snakemake --cores 2 results/{row['scale']}/runs/{row['run']}/provenance.json" in provenance.said


def test_controls_stand_apart_and_what_was_not_measured_is_folded_away(page):
    """The same blocks as in the tables' files."""
    block, apart, others = "", set(), set()
    for element in page.elements:
        if "scroll" in element.attributes.get("class", "").split():
            block = element.attributes.get("aria-label", "")
        elif element.tag == "th" and element.attributes.get("scope") == "row" and block:
            (apart if block.endswith(APART) else others).add(element.said)
    assert apart
    assert all(name.startswith(("floor: ", "ceiling: ", "control: ")) for name in apart)
    assert not any(name.startswith(("floor: ", "ceiling: ", "control: ")) for name in others)
    folded = page.of_class("folded")
    assert any(e.said.startswith("Not measured here: FedDIRT L") for e in folded), "Table 3 of FedINB"


def test_a_changed_record_changes_the_page(page, measured, tmp_path):
    rows = distances()
    folder = put(rows, tmp_path / "changed")
    place = (rows["method"] == "padpaf") & (rows["client"] == "client-1") & (rows["variant"] == "")
    place &= (rows["control"] == "") & (rows["setting"] == "")
    assert place.sum() == rows["seed"].nunique()
    title = "PaDPaF · client-1"

    def drawer(of: Page) -> str:
        return next(e for e in of.of_class("drawer") if e.attributes["aria-label"] == title).said

    assert drawer(_rendered(folder, tmp_path / "same.html")) == drawer(page)
    rows.loc[place, "value"] = "1234"
    put(rows, folder)
    changed = drawer(_rendered(folder, tmp_path / "other.html"))
    assert "1,234" in changed
    assert changed != drawer(page)


def test_the_same_records_make_the_same_page(content, report, tmp_path):
    write_report(content, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == report.read_bytes()


def test_costs_are_those_of_the_runs(page, content):
    runs = content.records[content.records["run"] != ""].drop_duplicates(["scale", "run"])
    runs = runs[~runs["run"].str.contains(" ")]
    report = Report(content)
    assert report.total("wall_s") == pytest.approx(pd.to_numeric(runs["wall_s"]).sum())
    assert sum(cost.total("bytes_up") for paper in report.papers for cost in paper.costs) == report.total("bytes_up")
    assert len(page.of_class("run")) == len(runs)
    assert duration(report.total("wall_s")) in page.of_class("tiles")[0].said


def test_memory_is_told_in_bytes_of_which_a_record_has_mebibytes(content):
    """1024 MiB are 1,073,741,824 bytes."""
    origin = content.records.query("wall_s != ''").iloc[0].to_dict()
    run = Run(origin | {"peak_memory_mb": "1024.0"})
    assert dict(run.provenance)["memory"] == "1.07 GB"
    assert Cost("fedavg", [Run(origin | {"peak_memory_mb": "512.0"}), run]).memory == 1_073_741_824


def test_a_mean_over_styles_rests_on_all_its_runs(tmp_path):
    rows = records_of("fedstyle").query("table == 'table1' and method == 'fedavg' and variant == ''")
    (paper,) = Report(material([put(rows, tmp_path)])).papers
    means = [
        cell for table in paper.tables for cell in table.cells if cell.evidence and cell.said.get("style") == "all"
    ]
    assert means
    for cell in means:
        assert cell.evidence[0].runs
        assert {run.split("/")[-1] for _, run in cell.evidence[0].runs} == {seed for seed, _ in cell.evidence[0].seeds}


def test_figures_are_in_the_file(page):
    pictures = [e for e in page.elements if e.tag == "img"]
    originals = list((REFERENCE / "fedinb-whole" / "figures").glob("*.png"))
    curves = [e for e in page.elements if e.attributes.get("id", "").endswith("-budget")]
    assert [figure.attributes["id"] for figure in curves] == ["fedinb-budget", "padpaf-budget"]
    assert len(pictures) - len(curves) == len(originals) > 0
    for picture in pictures:
        kind, _, data = picture.attributes["src"].partition(";base64,")
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        assert kind == f"data:image/{image.format.lower()}"
        assert (str(image.width), str(image.height)) == (picture.attributes["width"], picture.attributes["height"])
        assert picture.attributes["alt"]


def test_what_rests_on_less_training_leads_to_the_curves_over_the_budget(page, content):
    reduced = [
        paper.name
        for paper in Report(content).papers
        for table in paper.tables
        for cell in table.cells
        if cell.evidence and cell.evidence[0].evidence.grade == "reduced"
    ]
    links = [e.attributes["href"] for e in page.elements if e.attributes.get("href", "").endswith("-budget")]
    assert sorted(links) == sorted(f"#{paper}-budget" for paper in reduced)
    assert links


# ---- it needs nothing else


def test_it_loads_nothing(page):
    for element in page.elements:
        for key in ("src", "href", "srcset", "action", "data", "poster"):
            if element.tag != "details" and (link := element.attributes.get(key)):
                assert link.startswith(("#", "data:")), (element.tag, link[:80])
    code = "".join(e.said for e in page.elements if e.tag in ("style", "script"))
    assert not re.search(r"url\(|@import|\bfetch\(|XMLHttpRequest|\bimport\(|https?://", code)


def test_links_lead_somewhere_and_names_are_unique(page):
    names = Counter(e.attributes["id"] for e in page.elements if "id" in e.attributes)
    assert names.most_common(1)[0][1] == 1
    targets = {e.attributes["href"][1:] for e in page.elements if e.attributes.get("href", "").startswith("#")}
    assert len(targets) > 100
    assert targets <= {*names}


def test_nothing_is_left_open(page):
    assert not page.open


def test_text_is_escaped(tmp_path):
    rows = distances().head(3)
    odd = "<script>alert(1)</script>&\"'"
    rows = pd.concat([rows, rows.head(1).assign(client=odd)]).assign(hardware=odd)
    page = _rendered(put(rows, tmp_path), tmp_path / "report.html")
    assert sum(e.tag == "script" for e in page.elements) == 1
    assert any(odd in e.attributes["aria-label"] for e in page.of_class("drawer"))
    assert any(odd in e.said for e in page.elements if e.tag == "th")
    assert any(odd in e.said for e in page.of_class("run"))


def test_verdicts_differ_by_mark_not_by_colour_alone():
    for looks in (CELLS, CLAIMS):
        assert len({look.mark for look in looks.values()}) == len(looks)
    assert {*CELLS} == {*Verdict}


# ---- what it is given


def test_folders_can_be_named_one_by_one(measured, content):
    several = material(sorted(measured.iterdir()))
    pd.testing.assert_frame_equal(several.records, content.records)
    assert several.figures == content.figures


def test_records_by_paper_stand_before_those_of_all_which_may_be_older(measured, tmp_path):
    """As after `snakemake fedinb` in a folder in which `tables` was made before."""
    shutil.copytree(measured / "padpaf", tmp_path / "digits")
    (tmp_path / "digits" / "figures").symlink_to(measured / "fedinb-whole" / "figures")
    newer = read_csv(tmp_path / "digits" / "records.csv").assign(value="7")
    (tmp_path / "digits" / "records").mkdir()
    newer.to_csv(tmp_path / "digits" / "records" / "padpaf.csv", index=False)
    for folder in (tmp_path / "digits", tmp_path):
        found = material([folder])
        assert set(found.records["value"]) == {7.0}
        assert found.figures == sorted((tmp_path / "digits" / "figures").glob("*.png"))
    assert found.figures


def _refused(capsys, *arguments: object) -> str:
    assert main(["report", *map(str, arguments)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    return said


def test_bad_input_is_one_sentence(tmp_path, capsys):
    out = tmp_path / "report.html"
    (tmp_path / "empty").mkdir()
    assert "there are no records in it" in _refused(capsys, tmp_path / "empty", "--out", out)
    assert "is no folder" in _refused(capsys, tmp_path / "missing", "--out", out)
    assert "--out: must end in .html" in _refused(capsys, tmp_path / "empty", "--out", tmp_path / "report.pdf")
    put(records_of("fedinb-whole").drop(columns="value"), tmp_path / "odd")
    assert "missing: value" in _refused(capsys, tmp_path / "odd", "--out", out)
    assert not out.exists()


def test_the_command_says_where_the_page_is(measured, tmp_path, capsys):
    shutil.copytree(measured / "padpaf", tmp_path / "padpaf")
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "padpaf"), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"open {out} in a browser\n"
    assert out.stat().st_size > 10_000
