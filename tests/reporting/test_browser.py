"""The report in a browser: headless Chromium, as the system has it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diptych.reported import material
from reporting.report import write_report
from tests.reporting.conftest import REFERENCE

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e '.[browser]'")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SIZES = {"desktop": (1280, 900), "tablet": (768, 1024), "phone": (360, 740)}
WIDER = """() => [...document.querySelectorAll("body *")].filter((element) => {
    for (let around = element.parentElement; around; around = around.parentElement)
        if (getComputedStyle(around).overflowX === "auto") return false;  // which one can scroll
    const box = element.getBoundingClientRect();
    return box.width && box.right > innerWidth + 1;
}).map((element) => element.outerHTML.slice(0, 200))"""
"""What is wider than the window."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # which root cannot have
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=sandbox)
        yield browser
        browser.close()


class Visit:
    """A page that one has opened, with all that went wrong on it and all that it asked for."""

    def __init__(self, browser: Any, file: Path, size: str = "desktop", **settings: Any) -> None:
        width, height = SIZES[size]
        self.page = browser.new_page(viewport={"width": width, "height": height}, **settings)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def at(self, selector: str) -> Any:
        return self.page.locator(selector)


@pytest.fixture
def visit(chromium, report) -> Iterator[Visit]:
    visit = Visit(chromium, report)
    yield visit
    outside = [url for url in visit.requests if not url.startswith(("file:", "data:"))]
    assert not outside
    assert {url.partition("#")[0] for url in visit.requests if url.startswith("file:")} == {report.as_uri()}
    assert not visit.complaints
    visit.page.close()


def _open_everything(visit: Visit) -> None:
    visit.page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    visit.page.wait_for_timeout(100)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_wider_than_the_window(chromium, report, size, scheme):
    visit = Visit(chromium, report, size, color_scheme=scheme)
    _open_everything(visit)
    assert visit.page.evaluate(WIDER) == []
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.at(".squares a").first.click()
    assert visit.page.evaluate(WIDER) == []  # with a cell's drawer open
    assert not visit.complaints
    visit.page.close()


def test_light_and_dark_differ(chromium, report):
    colours = set()
    for scheme in ("light", "dark"):
        visit = Visit(chromium, report, color_scheme=scheme)
        colours.add(visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        visit.page.close()
    assert len(colours) == 2


def test_a_cell_leads_to_its_provenance_and_back(visit):
    square = visit.at(".squares a.v-undecided").first
    square.click()
    drawer = visit.at(".drawer:visible")
    assert drawer.count() == 1
    assert drawer.get_attribute("id") == square.get_attribute("href")[1:]
    link = drawer.locator("a[href^='#run-']").first
    run = link.inner_text()
    link.click()
    assert visit.at(".drawer:visible").count() == 0
    provenance = visit.at("details.run:target").inner_text()
    assert run in provenance
    assert "commit" in provenance
    assert visit.page.evaluate("document.querySelector('.run:target').open")
    visit.page.go_back()
    assert visit.at(".drawer:visible").count() == 1
    visit.page.keyboard.press("Escape")
    assert visit.at(".drawer:visible").count() == 0


def test_it_filters_by_paper_verdict_method_and_words(visit):
    cells = visit.at("td.cell:not(.dim)")
    everything = cells.count()
    visit.at("#paper").select_option("padpaf")
    padpaf = cells.count()
    assert 0 < padpaf < everything
    assert visit.at("section#paper-fedinb").is_hidden()
    visit.at("#paper").select_option("")
    visit.at(".chip:has(input[value=undecided])").click()
    assert cells.count() == visit.at("td.cell[data-verdict=undecided]").count() > 0
    assert visit.at("#found").inner_text().startswith(f"{cells.count()} cells")
    assert visit.at(".squares a.v-undecided.dim").count() == 0
    assert visit.at(".squares a.v-within-noise:not(.dim)").count() == 0
    visit.at("button[type=reset]").click()
    assert cells.count() == everything
    visit.at("#method").select_option("ditto")
    assert {cell.get_attribute("data-methods") for cell in cells.all()} == {"ditto"}
    visit.at("button[type=reset]").click()
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("ditto client-3")
    assert 0 < cells.count() < padpaf
    visit.at("#search").fill("no such words")
    assert cells.count() == 0
    assert visit.at("section.paper:visible").count() == 0


def test_it_can_be_used_by_keyboard(visit):
    keyboard = visit.page.keyboard
    focused = "document.activeElement"
    keyboard.press("Tab")
    assert visit.page.evaluate(f"{focused}.className") == "skip"
    keyboard.press("Enter")
    for _ in range(40):  # at most so many stops lie before the first square: the map is one stop a block
        keyboard.press("Tab")
        if visit.page.evaluate(f"{focused}.matches('.squares a')"):
            break
    first = visit.page.evaluate(f"{focused}.getAttribute('href')")
    keyboard.press("ArrowRight")
    second = visit.page.evaluate(f"{focused}.getAttribute('href')")
    assert second not in (None, first)
    keyboard.press("ArrowDown")
    keyboard.press("ArrowUp")
    assert visit.page.evaluate(f"{focused}.getAttribute('href')") == second
    keyboard.press("Enter")
    assert visit.page.evaluate(f"{focused}.id") == second[1:]
    assert visit.at(".drawer:visible").count() == 1
    keyboard.press("Escape")
    assert visit.at(".drawer:visible").count() == 0
    assert visit.page.evaluate(f"{focused}.getAttribute('href')") == second


def test_a_link_to_a_cell_can_be_sent(chromium, report):
    visit = Visit(chromium, report)
    name = visit.at("td.cell").nth(5).get_attribute("id").removeprefix("at-")
    visit.page.goto(f"{report.as_uri()}#{name}")
    assert visit.at(".drawer:visible").count() == 1
    visit.at(".drawer:visible .there").click()
    assert visit.at(f"#at-{name}").is_visible()
    visit.page.close()


def test_it_works_without_scripts(chromium, report):
    visit = Visit(chromium, report, java_script_enabled=False)
    assert visit.at(".filters").is_hidden()
    visit.at(".squares a").first.click()
    assert visit.at(".drawer:visible").count() == 1
    visit.at(".drawer:visible .close").click()
    assert visit.at(".drawer:visible").count() == 0
    visit.page.close()


def test_it_prints(visit):
    paper = visit.page.pdf(format="A4", print_background=True)
    assert paper.startswith(b"%PDF")
    visit.page.emulate_media(media="print")
    assert visit.at(".filters").is_hidden()
    visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert visit.at("details.table:not([open])").count() == 0
    visit.page.set_viewport_size({"width": 1032, "height": 703})  # A4, landscape, without its margins
    assert visit.page.evaluate(WIDER) == []
    visit.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert visit.at("details.table[open]").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_the_whole_of_what_we_measured_fits_the_window(chromium, tmp_path, size):
    write_report(material([REFERENCE]), tmp_path / "report.html")
    visit = Visit(chromium, tmp_path / "report.html", size)
    _open_everything(visit)
    assert visit.page.evaluate(WIDER) == []
    assert not visit.complaints
    visit.page.close()
