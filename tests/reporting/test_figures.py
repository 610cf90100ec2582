"""Figures: drawn in every format, from what there is, always the same."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from common.errors import InputError
from common.records import COLUMNS
from reporting import figures
from reporting.figures import FIGURES, FORMATS, write_figure

COUNTS = ["ssl", "split", "client", "style", "class", "images"]
POINTS = ["ssl", "split", "silhouette", "client", "style", "x", "y"]


def _counts() -> pd.DataFrame:
    rows = [
        ("simclr", s, k, "ab"[k // 3], c, (k * 7 + c) % 5)
        for s in ("iid", "dirichlet-0.2")
        for k in range(6)
        for c in range(4)
    ]
    return pd.DataFrame(rows, columns=COUNTS).astype(str)


def _points() -> pd.DataFrame:
    g = np.random.default_rng(0)
    rows = [
        ("simclr", s, 0.42, k, "ab"[k // 3], *g.normal(size=2))
        for s in ("iid", "dirichlet-0.8")
        for k in range(6)
        for _ in range(5)
    ]
    return pd.DataFrame(rows, columns=POINTS).astype(str)


def _records() -> pd.DataFrame:
    cell = dict.fromkeys(COLUMNS, "") | {
        "paper": "fedstyle",
        "metric": "accuracy",
        "aggregate": "mean",
        "method": "fedstyle",
    }
    rows = []
    for n, (protocol, ssl) in enumerate(
        (p, s) for p in ("generalization", "personalization") for s in ("simclr", "simsiam")
    ):
        case = cell | {"protocol": protocol, "ssl": ssl, "dataset": "digit", "seed": "1"}
        rows += [
            case | {"table": "table4", "setting": f"lambda={v}", "value": 0.5 + 0.01 * n + v / 100} for v in (0.1, 1.0)
        ]
        rows += [
            case | {"table": "style-epochs", "setting": f"lambda=1.0;style_epochs={v}", "value": 0.6 + v / 100}
            for v in (0, 2)
        ]
        rows += [
            case | {"table": "table1", "clients_per_style": "1", "variant": v, "value": 0.7}
            for v in ("", "content-only")
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _data(name: str) -> pd.DataFrame:
    return {"fedstyle-figure4": _points, "fedstyle-figure5": _counts}.get(name, _records)()


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_the_same_bytes_every_time(name, tmp_path):
    for file in ("one", "two"):
        write_figure(name, _data(name), "what it is", [tmp_path / f"{file}.{form}" for form in FORMATS])
    for form, start in {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}.items():
        content = (tmp_path / f"one.{form}").read_bytes()
        assert content == (tmp_path / f"two.{form}").read_bytes()
        assert content.startswith(start)
    assert not plt.get_fignums(), "no figure stays open"


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_of_nothing_says_so(name, tmp_path):
    empty = _data(name).iloc[:0]
    if name == "fedstyle-figure-lambda":  # the paper's curves are there in any case
        return
    figure = FIGURES[name](empty)
    assert len(figure.axes) == 1
    assert figure.axes[0].texts[0].get_text()
    plt.close(figure)
    write_figure(name, empty, "what it is", [tmp_path / "figure.png"])


def test_figure_5_shows_the_partition():
    figure = figures.class_counts(_counts())
    for axis, split in zip(figure.axes, ("iid", "dirichlet-0.2"), strict=False):
        part = _counts()[_counts()["split"] == split]
        drawn = axis.collections[0].get_array().reshape(4, 6)
        for row in part.to_dict("records"):
            assert drawn[int(row["class"]), int(row["client"])] == int(row["images"])
    plt.close(figure)


def test_published_numbers_are_drawn_beside_ours():
    figure = FIGURES["fedstyle-figure-lambda"](_records())
    drawn = {round(float(y), 3) for axis in figure.axes for line in axis.lines for y in line.get_ydata()}
    assert {0.549, 0.535, 0.639, 0.651} <= drawn, "Table 4 at lambda = 0.5"
    assert {0.501, 0.51} <= drawn
    plt.close(figure)


def test_a_format_that_there_is_not(tmp_path):
    with pytest.raises(InputError, match="unknown format 'gif'; allowed: png, pdf, svg"):
        write_figure("fedstyle-figure5", _counts(), "", [tmp_path / "figure.png", tmp_path / "figure.gif"])
    assert not list(tmp_path.iterdir())
