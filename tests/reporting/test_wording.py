"""Numbers and names as a reader sees them."""

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from common.codehash import ROOT
from common.errors import InputError
from diptych.configuration import read_paper
from reporting.records import PUBLISHED, read_csv
from reporting.wording import (
    NAMES,
    Name,
    decimals,
    duration,
    name_of,
    names,
    plain,
    plural,
    shown,
    size,
    table_name,
    tallied,
    with_spread,
)

PAPERS = sorted(file.stem for file in (ROOT / "config" / "papers").glob("*.yaml"))
REFERENCE = ROOT / "results" / "reference"


# ---- numbers


@pytest.mark.parametrize(
    ("mean", "spread", "text"),
    [
        (0.87654, 0.0123, "0.877"),
        (0.87654, 0.123, "0.88"),
        (185.0, None, "185"),
        (1605.25, 12.3, "1,605"),
        (-1420.25, None, "−1,420"),
        (42.345, 3.21, "42.3"),
        (0.12345, None, "0.123"),
        (0.000234, None, "0.000234"),
        (0.0, None, "0"),
        (float("nan"), None, "diverged"),
    ],
)
def test_a_number_has_the_digits_that_its_spread_bears(mean, spread, text):
    assert shown(mean, decimals(mean, spread)) == text


@pytest.mark.parametrize("seed", range(20))
def test_rounding_moves_a_number_by_less_than_its_spread(seed):
    random = np.random.default_rng(seed)
    mean, spread = random.normal() * 10.0 ** random.integers(-3, 5), 10.0 ** random.uniform(-4, 2)
    text = shown(mean, decimals(mean, spread)).replace(",", "").replace("−", "-")
    assert abs(float(text) - mean) < spread or abs(mean) >= 100  # from there on whole numbers are enough


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (475434883.25, "count", "475,434,883"),
        (185.3333, "count", "185"),
        (40.6, "rounds", "41"),
        (2.0, "count", "2"),
        (1.64, "count", "1.64"),  # a mean of counts
        (0.5, "fraction", "0.500"),
        (0.0235, "fraction", "0.024"),
        (0.0, "fraction", "0.000"),
        (0.0235, "score", "0.0235"),
        (1.0, "score", "1"),
        (0.9996, "score", "1.000"),
        (2e-9, "score", "0"),
        (234.56, "decibel", "235"),
        (-4.5e-9, "score", "0"),
    ],
)
def test_without_a_spread_the_unit_says_how_many_digits(value, unit, text):
    assert shown(value, unit=unit) == text


@pytest.mark.parametrize("seed", range(20))
def test_a_spread_has_two_digits_and_its_number_ends_where_it_does(seed):
    random = np.random.default_rng(seed)
    mean, spread = random.normal() * 50, float(10.0 ** random.uniform(-4, 0.9))
    number, between, deviation = with_spread(mean, spread).replace("−", "-").partition(" ± ")
    assert between
    assert Decimal(number).as_tuple().exponent == Decimal(deviation).as_tuple().exponent
    assert float(deviation) == pytest.approx(spread, rel=0.06)
    assert len(Decimal(deviation).as_tuple().digits) in (1, 2, 3), "0.0996 becomes 0.100"
    assert float(number) == pytest.approx(mean, abs=0.5 * 10.0 ** Decimal(number).as_tuple().exponent + 1e-12)


@pytest.mark.parametrize(
    ("mean", "std", "unit", "text"),
    [
        (1577.67, 2.5, "count", "1,578 ± 2"),
        (0.98, 0.0, "fraction", "0.980 ± 0.000"),
        (0.98, 1e-16, "fraction", "0.980 ± 0.000"),  # what computing leaves is no spread
        (8.618, 4.993, "score", "8.6 ± 5.0"),
        (0.5, float("nan"), "fraction", "0.500"),
        (0.5, None, "fraction", "0.500"),
        (float("nan"), 0.1, "score", "diverged"),
    ],
)
def test_a_number_with_its_spread(mean, std, unit, text):
    assert with_spread(mean, std, unit) == text


# ---- names


def test_words():
    assert plain("probe=linear;features=content;target=label") == "probe linear, features content, target label"
    assert plain("first_step=0.02;j=10") == "first step = 0.02, j = 10"
    assert [plain(name) for name in ("client-marks", "client-3", "r=1-1e-7")] == [
        "client marks",
        "client-3",
        "r = 1-1e-7",
    ]
    assert [table_name(table) for table in ("table4", "table2-last", "test-images")] == [
        "Table 4",
        "Table 2, last",
        "Test images",
    ]
    assert (
        tallied({"agrees": 2, "undecided": 0, "disagrees": 1200}, ["disagrees", "agrees", "undecided"])
        == "1,200 disagrees, 2 agrees"
    )
    assert [plural(1, "seed"), plural(1200, "seed")] == ["1 seed", "1,200 seeds"]
    assert [duration(59), duration(600), duration(7200)] == ["59 s", "10 min", "2.0 h"]
    assert [size(999), size(1500), size(3.2e11)] == ["999 bytes", "1.5 kB", "320 GB"]
    assert [size(999.7), size(999.7e3)] == ["1 kB", "1 MB"], "no 1e+03"


def test_a_papers_own_words_come_first_and_parts_are_named_one_by_one():
    own = names({"variant": {"j=10": "J = 10", "x": ["short", "a longer name"]}, "method": {"fedavg": "the mean"}})
    assert name_of("method", "fedavg", own) == Name("the mean")
    assert name_of("method", "fedavg", {}) == NAMES["method"]["fedavg"] == Name("FedAvg")
    assert name_of("method", "my-own_method", own) == Name("my-own_method"), "as it is typed"
    assert name_of("variant", "j=10;x;other-one", own) == Name("J = 10, short, other one", "a longer name")
    assert name_of("sync_steps", "10", own) == Name("steps between syncs 10"), "a number says what it is of"


@pytest.mark.parametrize("paper", PAPERS)
def test_what_has_a_name_exists(paper):
    """In a record, in the papers' tables, or in the configuration or the code that makes records."""
    config = (ROOT / "config" / "papers" / f"{paper}.yaml").read_text()
    before, _, after = config.partition("\nwords:\n")
    makers = [file.read_text() for file in (ROOT / "evaluation").glob("*.py")]
    makers += [(ROOT / "diptych" / "simpson.py").read_text()]
    text = "\n".join([before, re.sub(r"\A(  .*\n|\n)*", "", after), *makers])
    files = [*REFERENCE.glob("*/records.csv.gz"), *PUBLISHED.glob("*_*.csv")]
    records = pd.concat([read_csv(file) for file in files], ignore_index=True)
    templates = re.findall(r"(\w+)=\{[\w.]+\}([-\w]*)", text)

    def put_together(part: str) -> bool:
        key, _, value = part.partition("=")
        ends = [ending for name, ending in templates if name == key and value.endswith(ending)]
        return any(f'"{value.removesuffix(ending)}"' in text for ending in ends)

    for column, called in read_paper(paper).words.items():
        known = records[column].dropna().unique() if column in records else []  # an ability, a measure
        there = {part for value in known for part in value.split(";")}
        for value in called:
            parts = value.split(";")
            assert all(part in there or part in text or put_together(part) for part in parts), f"{column}: {value}"


def test_every_method_of_the_papers_has_a_name():
    for file in PUBLISHED.glob("*_table*.csv"):
        for method in set(read_csv(file)["method"]) - {""}:
            assert name_of("method", method, {}).short != method, (file.stem, method)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"colour": {"red": "rot"}}, ["words", "unknown name 'colour'"]),
        ({"method": {"fedavg": ["FedAvg"]}}, ["words.method.fedavg"]),
        ({"method": {"fedavg": ["FedAvg", "averaging", "more"]}}, ["words.method.fedavg"]),
    ],
)
def test_words_of_another_form_are_refused(words, said):
    with pytest.raises(InputError) as error:
        read_paper("fedstyle", {"words": words})
    assert all(part in str(error.value) for part in said)
