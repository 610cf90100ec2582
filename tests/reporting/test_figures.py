"""Figures: drawn in every format, from what there is, always the same."""

from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.figure import Figure

from common.codehash import ROOT
from common.errors import InputError
from common.records import COLUMNS
from reporting.accuracies import probes
from reporting.canvas import legend_of_all
from reporting.counts import class_counts
from reporting.figures import FIGURES, FORMATS, caption, in_words, write_figure
from reporting.mosaics import by_method, mosaic
from reporting.points import style_map
from reporting.translated import READ_AFTER

FEDINB = yaml.safe_load((ROOT / "config" / "papers" / "fedinb.yaml").read_text())
FEDDVA = yaml.safe_load((ROOT / "config" / "papers" / "feddva.yaml").read_text())
COMMON_GROUND = yaml.safe_load((ROOT / "config" / "papers" / "common.yaml").read_text())
PADPAF = yaml.safe_load((ROOT / "config" / "papers" / "padpaf.yaml").read_text())
COUNTS = ["dataset", "ssl", "split", "client", "style", "class", "images"]
POINTS = ["dataset", "ssl", "split", "silhouette", "client", "style", "x", "y"]


def _counts() -> pd.DataFrame:
    rows = [
        ("digit", "simclr", s, k, "ab"[k // 3], c, (k * 7 + c) % 5)
        for s in ("iid", "dirichlet-0.2")
        for k in range(6)
        for c in range(4)
    ]
    return pd.DataFrame(rows, columns=COUNTS).astype(str)


def _points() -> pd.DataFrame:
    g = np.random.default_rng(0)
    rows = [
        ("digit", "simclr", s, 0.42, k, "ab"[k // 3], *g.normal(size=2))
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


def _simpson() -> pd.DataFrame:
    """A line and a cloud of two clients in every panel."""
    rows = [
        {"variant": variant, "panel": panel, "client": client, "x": x, "y": client - x}
        for variant in ("", "cluttered")
        for panel in ("data", "generated", "single regression", "private biases")
        for client in (1, 2)
        for x in (0.0, 1.0)
    ]
    return pd.DataFrame(rows)


def _images(clients: int = 9) -> dict[str, np.ndarray]:
    """Everything that `diptych extract samples` can find, of so many clients of each model."""
    rng, arrays = np.random.default_rng(0), {}

    def pictures(*shape: int) -> np.ndarray:
        return rng.integers(0, 256, (*shape, 3, 4, 4), dtype=np.uint8)

    for model in ("padpaf/default", "padpaf/conditional", "padpaf/vae", "ditto/default", "ditto-fedprox/default"):
        for k in range(clients):
            arrays |= {f"{model}/client/{k}/style": np.array(f"style {k}"), f"{model}/client/{k}/real": pictures(20)}
            for layout in ("style-by-row", "content-by-row", "both"):
                arrays[f"{model}/grid/{k}/{layout}"] = pictures(2, 3)
                arrays[f"{model}/after-1/grid/{k}/{layout}"] = pictures(2, 3)
        arrays |= {f"{model}/restyle/{key}": pictures(2, 32) for key in ("source", "reconstructed", "restyled")}
        arrays |= {f"{model}/restyle/clients": np.array([[0, 0], [0, 3]]), f"{model}/restyle/test": pictures(16)}
        arrays[f"{model}/restyle/test-restyled"] = pictures(clients, 16)
    return arrays


def _codes() -> pd.DataFrame:
    g = np.random.default_rng(0)
    both = [(encoder, code) for encoder in ("shared-encoder", "own-encoder") for code in "zc"]
    rows = [(*of, 0.3, k, f"style {k}", *g.normal(size=2)) for of in both for k in range(3) for _ in range(5)]
    return pd.DataFrame(rows, columns=["encoder", "code", "silhouette", "client", "style", "x", "y"]).astype(str)


def _rounds() -> pd.DataFrame:
    """Accuracy by round and its deviation, of two methods and a variant, under both splits of FedDVA."""
    cell = dict.fromkeys(COLUMNS, "") | {"paper": "feddva", "table": "accuracy", "dataset": "mnist", "seed": "1"}
    rows = [
        cell
        | {"split": split, "method": method, "variant": variant, "setting": f"rounds={r}", "metric": metric, "value": v}
        for split in ("client-marks", "label-skew")
        for method, variant in (("feddva", ""), ("fedavg", ""), ("fedavg", "on-feddva"))
        for r in (2, 4, 10)
        for metric, v in (("accuracy", 0.05 * r), ("accuracy_std_over_clients", 0.1))
    ]
    return in_words(pd.DataFrame(rows, columns=COLUMNS), FEDDVA["words"])


def _decoded() -> dict[str, np.ndarray]:
    rng, arrays = np.random.default_rng(0), {}
    for k in range(4):
        prefix = f"feddva/reconstruction/client/{k}"
        arrays |= {f"{prefix}/style": np.array(f"style {k}")}
        arrays |= {f"{prefix}/real": rng.integers(0, 256, (20, 1, 4, 4), dtype=np.uint8)}
        arrays[f"feddva/reconstruction/manifold/{k}"] = rng.integers(0, 256, (8, 8, 1, 4, 4), dtype=np.uint8)
    return arrays


def _translated() -> dict[str, np.ndarray]:
    """Grids of domain 0 and of its translations to 60, three rows of ten classes, of each method that is shown."""
    shown = ("fedinb/default", "fedinb-indae/j=200", "fedinb-hist-indae/default", "fedstargan/sync_step=16")
    return {
        f"{method}/{kind}": np.full((3, 10, 1, 4, 4), shade, dtype=np.uint8)
        for method in shown
        for kind, shade in (("real/0", 50), ("translated/0/60", 200))
    }


def _searches() -> pd.DataFrame:
    """Two layers, of which the first ends after four iterations for one digit and after three for the other."""
    iterations = [(1, digit, n) for digit, longest in ((0, 4), (1, 3)) for n in range(1, longest + 1)]
    iterations += [(2, digit, n) for digit in (0, 1) for n in (1, 2)]
    rows = [
        {"method": method, "round": round, "class": digit, "iteration": n, "objective": round + n / 10}
        for method in ("fedinb-indae", "fedinb-hist", "fedinb")
        for round, digit, n in iterations
    ]
    return pd.DataFrame(rows).astype(str)


def _distances() -> pd.DataFrame:
    """Distances and costs before, between and after layers of INB and IndAEINB with two J, each run for two tables."""
    rows = []
    for dataset in ("rotated-mnist", "rotated-fmnist"):
        for method in ("fedinb", "fedinb-indae", "fedinb-hist-indae"):
            for variant in ("", "j=50", "j=300"):
                run = {"dataset": dataset, "split": "translation", "method": method, "variant": variant}
                for n, setting in enumerate(("final", "start", "after=2", "after=10", "after=1")):
                    cost = {"final": 90, "start": 0, "after=10": 80, "after=2": 20, "after=1": 10}[setting]
                    rows += [run | {"setting": setting, "metric": "parameters", "value": cost}]
                    rows += [run | {"setting": setting, "metric": m, "value": 100 - cost} for m in ("wd", "fid")]
                    rows += [run | {"setting": setting, "metric": "wd_exact", "value": -n}]
                for control, metric, value in (
                    ("other", "wd_between", 7),
                    ("identity", "wd_between", 50),
                    ("identity", "wd", 40),
                    ("other", "wd_exact_between", 3),
                ):
                    row = run | {"metric": metric, "control": control}
                    rows += [
                        row | {"setting": "final", "value": value},
                        row | {"setting": "test_samples=5", "value": 99},
                    ]
    accuracies = [
        {"dataset": dataset, "method": method, "variant": variant, "domain": domain, "sync_steps": steps,
         "metric": "accuracy", "setting": f"rounds={n}", "protocol": protocol, "value": n / 40}
        for dataset in ("rotated-mnist", "rotated-fmnist")
        for method, variant in (("fedavg", ""), ("feddirt", "l10-k10"), ("feddirt", "shared"))
        for domain in ("75", "90")
        for steps in ("10", "100")
        for n in (10, 20)
        for protocol in ("", "test-images")
    ]  # fmt: skip
    blank = dict.fromkeys(COLUMNS, "") | {"paper": "fedinb", "seed": "1"}
    rows = [
        blank | {"run": "/".join(row.get(k, "") for k in ("dataset", "method", "variant", "sync_steps"))} | row
        for row in rows + accuracies
    ]
    return pd.DataFrame([row | {"table": table} for row in rows for table in ("table5", "figure2")], columns=COLUMNS)


COMMON = ("local", "fedavg", "ditto", "padpaf")


def _common() -> pd.DataFrame:
    """Accuracies and bytes by round, probes of codes with their floors, and what a judge says, of a few methods."""
    rows = []
    for n, (method, split) in enumerate((m, s) for m in COMMON for s in ("equal", "skewed")):
        run = {"paper": "common", "dataset": "natural", "split": split, "method": method, "seed": "1"}
        for r in (4, 8):
            rows += [
                run | {"setting": f"rounds={r}", "metric": "accuracy", "value": r / 10},
                run | {"setting": f"rounds={r}", "metric": "bytes", "value": 0 if method == "local" else r * 1e6},
            ]
        for code, control in (("content", ""), ("style", ""), ("content", "pixels"), ("content", "shuffled-labels")):
            probe = run | {"metric": "accuracy", "protocol": "sound", "control": control}
            of = f"probe=linear;features={'own-content' if method == 'local' and code == 'content' else code};target="
            if code == "content" or method == "padpaf":
                rows.append(probe | {"setting": f"{of}label", "value": 0.1 * (n + 1)})
                rows.append(probe | {"setting": f"{of}domain", "value": 0.9 - 0.1 * n})
        judged = run | {"setting": "images=asked", "control": "ceiling"}
        rows += [
            judged | {"metric": "label_agreement", "value": 0.95},
            judged | {"metric": "style_agreement", "value": 0.99},
        ]
    frame = pd.DataFrame([dict.fromkeys(COLUMNS, "") | row for row in rows], columns=COLUMNS)
    return in_words(frame, {})


def _ranks() -> pd.DataFrame:
    """Of twelve methods in six blocks by two measures."""
    g = np.random.default_rng(0)
    rows = [
        {"measure": measure, "called": f"method {k}", "block": f"block {b}", "rank": rank + 1.0}
        for measure in ("accuracy, own", "generated, FD")
        for b in range(6)
        for k, rank in enumerate(g.permutation(12))
    ]
    return pd.DataFrame(rows)


def _sheet(styles: int = 3) -> dict[str, np.ndarray]:
    """Grids of three images of ten classes in some styles, by two methods; what they ought to be is known."""
    arrays = {}
    for m, method in enumerate(("feddva/default", "fedavg/stargan", "newcomer/odd")):
        for a in range(styles):
            arrays[f"{method}/real/{a}"] = np.full((3, 10, 1, 4, 4), 10 * a, dtype=np.uint8)
            for b in range(styles):
                arrays[f"{method}/translated/{a}/{b}"] = np.full((3, 10, 1, 4, 4), 100 + 10 * m + b, dtype=np.uint8)
                arrays[f"{method}/counterpart/{a}/{b}"] = np.full((3, 10, 1, 4, 4), 200 + b, dtype=np.uint8)
    return arrays


def _data(name: str) -> Any:
    if name.startswith("common-"):
        return {"common-ranks": _ranks, "common-bytes": _common, "common-codes": _common}.get(name, _sheet)()
    if name.startswith("fedinb-"):
        kind = FEDINB["figures"][name.removeprefix("fedinb-")].get("data", "records")
        return {"samples": _translated, "searches": _searches, "records": _distances}[kind]()
    if name.startswith("feddva-"):
        kind = FEDDVA["figures"][name.removeprefix("feddva-")].get("data", "records")
        return {"code-map": _codes, "samples": _decoded, "records": _rounds, "class-counts": _counts}[kind]()
    if name.startswith("padpaf-"):
        kind = PADPAF["figures"][name.removeprefix("padpaf-")].get("data", "records")
        few = partial(_images, 9 if name in ("padpaf-figure20", "padpaf-figure21") else 4)  # these show the last ones
        return {"points": _simpson, "samples": few, "records": _probes}[kind]()
    return {"fedstyle-figure4": _points, "fedstyle-figure5": _counts}.get(name, _records)()


def _probes() -> pd.DataFrame:
    """Probes of content and style, at the end and after two rounds, on each of PaDPaF's data sets."""
    rows = []
    for dataset, target in (("mnist", "label"), ("cifar10", "label"), ("mnist", "client"), ("celeba", "identity")):
        for features, value in (("content", 0.9), ("style", 0.4)):
            for suffix in ("", ";round=5", ";round=10") if target == "label" else ("",):
                setting = f"probe=linear;features={features};target={target}{suffix}"
                given = {"paper": "padpaf", "dataset": dataset, "method": "padpaf", "metric": "accuracy"}
                rows.append(
                    dict.fromkeys(COLUMNS, "") | given | {"setting": setting, "protocol": "published", "value": value}
                )
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.mark.parametrize(("name", "target"), [("padpaf-figure18", "identity"), ("padpaf-figure14", "client")])
def test_what_is_remembered_of_shuffled_people_is_shown_beside_what_is_read_of_them(name, target):
    rows = _probes()
    of_content = rows["setting"].eq(f"probe=linear;features=content;target={target}")
    shuffled = rows[of_content].assign(control="shuffled-labels", value=0.7)
    figure = FIGURES[name](pd.concat([rows, shuffled]))
    legend = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    heights = [round(bar.get_height(), 3) for bar in figure.axes[0].patches if bar.get_height()]
    assert ("content (shuffled-labels)" in legend) == (0.7 in heights) == (target == "identity")
    plt.close(figure)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_the_same_every_time(name, tmp_path):
    for file in ("one.svg", "two.svg"):
        write_figure(name, _data(name), "what it is", [tmp_path / file])
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert not plt.get_fignums(), "no figure stays open"


@pytest.mark.parametrize("name", ["fedstyle-figure5", "fedstyle-figure-lambda", "padpaf-figure16"])
def test_a_figure_is_the_same_bytes_in_every_format(name, tmp_path):
    """Cells, curves and images."""
    for file in ("one", "two"):
        write_figure(name, _data(name), "what it is", [tmp_path / f"{file}.{form}" for form in FORMATS])
    for form, start in {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}.items():
        content = (tmp_path / f"one.{form}").read_bytes()
        assert content == (tmp_path / f"two.{form}").read_bytes()
        assert content.startswith(start)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_of_nothing_says_so(name, tmp_path):
    full = _data(name)
    empty = {} if isinstance(full, dict) else full.iloc[:0]
    if name == "fedstyle-figure-lambda":  # the paper's curves are there in any case
        return
    figure = FIGURES[name](empty)
    assert len(figure.axes) == 1
    assert figure.axes[0].texts[0].get_text()
    plt.close(figure)
    write_figure(name, empty, "what it is", [tmp_path / "figure.png"])


def test_legends_call_variants_as_tables_do():
    figure = FIGURES["feddva-figure6"](_rounds())
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "FedDVA",
        "FedAvg",
        "FedAvg, on FedDVA",
    ]
    plt.close(figure)


def test_figure_5_shows_the_partition():
    figure = class_counts(_counts())
    for axis, split in zip(figure.axes, ("iid", "dirichlet-0.2"), strict=False):
        part = _counts()[_counts()["split"] == split]
        drawn = axis.collections[0].get_array().reshape(4, 6)
        for row in part.to_dict("records"):
            assert drawn[int(row["class"]), int(row["client"])] == int(row["images"])
    plt.close(figure)


def test_data_sets_stand_in_rows_of_their_own():
    """A client of one is not a client of another."""
    counts = pd.concat([_counts(), _counts().assign(dataset="other", images="9")])
    figure = class_counts(counts)
    drawn = {axis.get_title(): axis.collections[0].get_array() for axis in figure.axes if axis.get_title()}
    assert {title: bool((images == 9).all()) for title, images in drawn.items()} == {
        "Ho, digit": False,
        "He@0.2, digit": False,
        "Ho, other": True,
        "He@0.2, other": True,
    }
    plt.close(figure)
    figure = style_map(pd.concat([_points(), _points().assign(dataset="other", silhouette="-0.1")]))
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[0] == "digit, Ho\nsilhouette of 6 clients 0.42"
    assert titles[2] == "other, Ho\nsilhouette of 6 clients -0.10"
    plt.close(figure)


def test_as_many_styles_as_all_data_sets_of_the_paper_have_can_be_told_apart():
    """Digits, Office-Home and Adaptiope have ten together; within a panel no two look alike."""
    points = [
        _points().assign(dataset=f"{n}", style=[f"{n} {style}" for style in _points()["style"]]) for n in range(6)
    ]
    figure = style_map(pd.concat(points))
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 12
    marks = [handle.get_marker() for handle in legend.legend_handles]
    assert all(one != other for one, other in zip(marks[::2], marks[1::2], strict=True)), "two of a panel"
    plt.close(figure)


def test_a_png_says_what_it_was_drawn_with(tmp_path):
    write_figure("fedstyle-figure5", _counts(), "Scale x (3 seeds): small.", [tmp_path / "figure.png"])
    assert caption(tmp_path / "figure.png") == "Scale x (3 seeds): small."


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


# ---- PaDPaF's


def test_a_mosaic_has_its_images_where_they_belong():
    grid = np.arange(2 * 3, dtype=np.uint8).reshape(2, 3, 1, 1, 1) * np.ones((1, 1, 3, 4, 5), dtype=np.uint8)
    picture = mosaic(grid)
    assert picture.shape == (2 * 5, 3 * 6, 3)
    assert picture[7, 14].tolist() == [5, 5, 5], "second row, third column"
    assert picture[4, 0].tolist() == [255, 255, 255], "a white line between"


def test_grids_show_every_client_once_for_each_layout():
    figure = FIGURES["padpaf-figure13"](_images())
    titles = [axis.get_title() for axis in figure.axes if axis.images]
    assert len(titles) == 27
    assert sum(title.startswith("4: style 3") for title in titles) == 3
    plt.close(figure)
    workers = FIGURES["padpaf-figure21"](_images())
    assert {axis.get_title().split(":")[0] for axis in workers.axes if axis.images} == {"7", "8", "9"}
    plt.close(workers)


def test_restyling_shows_the_last_pair_of_different_clients():
    figure = FIGURES["padpaf-figure15"](_images())
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[:3] == ["without labels, 1: style 0", "reconstructed", "as 4: style 3"]
    assert titles[3].startswith("conditional")
    plt.close(figure)


def test_probes_show_the_printed_numbers_and_the_rounds():
    figure = FIGURES["padpaf-figure4"](_probes())
    bars, curves = figure.axes
    (printed,) = (drawn.get_segments()[0] for drawn in bars.collections)
    assert printed[:, 1].tolist() == pytest.approx([0.981, 0.981])
    assert printed[:, 0].tolist() == pytest.approx([-0.4, 0.4]), "over the published protocol alone"
    assert {"content, the paper"} <= {text.get_text() for text in figure.legends[0].get_texts()}
    assert sorted({x for line in curves.lines for x in line.get_xdata()}) == [5, 10]
    plt.close(figure)


# ---- FedINB's


@pytest.mark.parametrize(
    ("paper", "figures_of"),
    [
        (name, config["figures"])
        for name, config in (("fedinb", FEDINB), ("feddva", FEDDVA), ("padpaf", PADPAF), ("common", COMMON_GROUND))
    ],
)
def test_every_figure_of_a_paper_can_be_drawn(paper, figures_of):
    assert {f"{paper}-{figure}" for figure in figures_of} == {name for name in FIGURES if name.startswith(f"{paper}-")}


def test_distances_are_drawn_in_the_order_of_what_was_sent():
    figure = FIGURES["fedinb-figure2"](_distances())
    panels = {axis.get_title(): axis for axis in figure.axes}
    assert set(panels) == {"(a) auto-encoders", "(b) J of IndAEINB", "(c) histograms", "(e) V of HistIndAEINB",
                           "(f) FedStarGAN"}  # fmt: skip
    curves = {line.get_label(): line for line in panels["(b) J of IndAEINB"].lines[:-2]}
    assert set(curves) == {"J = 50", "J = 100"}
    for line in curves.values():
        assert line.get_xdata().tolist() == [0, 10, 20, 80, 90]
        assert line.get_ydata().tolist() == [100, 90, 80, 20, 10]
    identity, others = (set(line.get_ydata()) for line in panels["(b) J of IndAEINB"].lines[-2:])
    assert identity == {40}
    assert [*others] == [pytest.approx(7 * 40 / 50)], "of whom a domain's own are no distance away, as of translations"
    plt.close(figure)


def test_figures_say_which_distance_they_show():
    for name, word in (("fedinb-figure2", "Sinkhorn"), ("fedinb-figure4", "Fréchet")):
        figure = FIGURES[name](_distances())
        assert word in figure.get_supylabel()
        plt.close(figure)


def test_layers_follow_one_another_in_figure_15():
    figure = FIGURES["fedinb-figure15"](_searches())
    assert [axis.get_title() for axis in figure.axes] == ["INB", "HistINB", "IndAEINB"]
    for axis in figure.axes:
        searches = [line for line in axis.lines if line.get_linewidth() == 0.9]
        drawn = {(line.get_color(), tuple(line.get_xdata()), tuple(line.get_ydata())) for line in searches}
        assert drawn == {
            ("C0", (1, 2, 3, 4), (1.1, 1.2, 1.3, 1.4)),
            ("C0", (5, 6), (2.1, 2.2)),
            ("C1", (1, 2, 3), (1.1, 1.2, 1.3)),
            ("C1", (5, 6), (2.1, 2.2)),
        }, "a search that ends early is not joined with the next, which begins with everyone's"
        assert axis.get_legend_handles_labels()[1] == ["0", "1"]
    plt.close(figure)


def test_accuracy_is_drawn_against_iterations_with_the_printed_numbers():
    figure = FIGURES["fedinb-figure14"](_distances())
    axis = next(a for a in figure.axes if a.get_title() == "rotated-mnist, 75°\naggregated every 100")
    curves = [line for line in axis.lines if len(line.get_xdata()) == 2]
    assert len(curves) == 3
    assert all(curve.get_xdata().tolist() == [1000, 2000] for curve in curves)
    assert all(curve.get_ydata().tolist() == [0.25, 0.5] for curve in curves)
    crosses = {float(line.get_ydata()[0]) for line in axis.lines if line.get_marker() == "x"}
    assert crosses == {0.801, 0.909}, "Table 3: FedAvg and FedDIRT, L10-K10"
    plt.close(figure)


def test_printed_accuracies_stand_where_they_are_read():
    """App. E.2: on FashionMNIST at 75 degrees after half of the iterations, where tables read ours, too."""
    after = FEDINB["evaluation"]["generalisation"]["after"]
    assert {(dataset, at): share for dataset, of in after.items() for at, share in of.items()} == READ_AFTER
    figure = FIGURES["fedinb-figure14"](_distances())
    at = {
        axis.get_title().partition("\n")[0]: {
            x for line in axis.lines if line.get_marker() == "x" for x in line.get_xdata()
        }
        for axis in figure.axes
        if axis.get_title().endswith("every 100")
    }
    assert at == {
        "rotated-mnist, 75°": {2000}, "rotated-mnist, 90°": {2000},
        "rotated-fmnist, 75°": {1000}, "rotated-fmnist, 90°": {2000},
    }  # fmt: skip
    plt.close(figure)


def test_newcomers_are_drawn_among_the_methods_of_a_paper_in_colours_of_their_own():
    records = _distances().query("metric == 'accuracy' and method == 'fedavg'")
    newcomers = [records.assign(method=f"mine{n}", run=records["run"] + f"/{n}") for n in range(12)]
    figure = FIGURES["fedinb-figure14"](pd.concat([records, *newcomers]))
    handles = {line.get_label(): line.get_color() for line in figure.legends[0].get_lines()}
    assert {"FedAvg", "mine0", "mine11"} <= set(handles)
    assert len(set(handles.values())) == 14
    plt.close(figure)


def test_translations_stand_below_their_originals():
    figure = FIGURES["fedinb-figure3"](_translated())
    panels = [axis for axis in figure.axes if axis.images]
    assert [axis.get_title().split("\n")[0] for axis in panels] == ["(a) HistIndAEINB", "(b) FedStarGAN-16"]
    picture = panels[0].images[0].get_array()
    assert picture.shape == (4 * 5, 10 * 5, 3)
    assert [int(picture[5 * row, 0, 0]) for row in range(4)] == [50, 50, 200, 200]
    plt.close(figure)


def test_translations_by_each_images_own_statistics_stand_beside_and_below_the_others():
    key = "fedstargan/sync_step=16/instance-normed/0/60"
    figure = FIGURES["fedinb-figure3"](_translated() | {key: np.full((3, 10, 1, 4, 4), 120, dtype=np.uint8)})
    panels = {axis.get_title().split("\n")[0]: axis.images[0].get_array() for axis in figure.axes if axis.images}
    assert list(panels) == ["(a) HistIndAEINB", "(b) FedStarGAN-16", "(b) FedStarGAN-16, norms by image"]
    assert [int(picture[15, 0, 0]) for picture in panels.values()] == [200, 200, 120]
    plt.close(figure)
    own = {f"fedavg/stargan/instance-normed/0/{b}": np.full((3, 10, 1, 4, 4), 90 + b, np.uint8) for b in range(3)}
    figure = FIGURES["common-rotations"](_sheet() | own)
    rows = {axis.get_ylabel(): axis for axis in figure.axes if axis.get_ylabel()}
    (name,) = [name for name in rows if name.endswith(", norms by image")]
    assert name.removesuffix(", norms by image") in rows
    assert int(rows[name].images[0].get_array()[0, 0, 0]) == 91, "as the second style"
    plt.close(figure)


def test_methods_are_compared_after_the_same_round():
    """PaDPaF's run goes on to 300, the others' end after 120."""
    grids = {level: np.full((2, 3, 3, 8, 8), level, dtype=np.uint8) for level in (10, 120, 200)}
    at = {"padpaf/default": 10, "padpaf/default/after-120": 120, "ditto/default": 200}
    arrays = {f"{prefix}/grid/0/both": grids[level] for prefix, level in at.items()}
    arrays |= {f"{prefix}/client/0/style": np.array("a") for prefix in at}
    arrays |= {f"{prefix}/client/0/real": np.zeros((20, 3, 8, 8), dtype=np.uint8) for prefix in at}
    drawn = by_method(["padpaf/default", "ditto/default", "fedavg/default"], 120)(arrays)
    shown = {axis.get_title(): int(axis.get_images()[0].get_array()[0, 0, 0]) for axis in drawn.axes}
    plt.close(drawn)
    assert shown["padpaf"] == 120
    assert shown["ditto"] == 200
    assert len(shown) == 3, "one method was not run"


# ---- the common ground's


def _drawn(figure: Figure) -> dict[str, list[tuple[float, float]]]:
    """By label, the points of lines and clouds of all panels."""
    found: dict[str, list[tuple[float, float]]] = {}
    for axis in figure.axes:
        for line in axis.lines:
            found.setdefault(str(line.get_label()), []).extend(map(tuple, line.get_xydata()))
        for cloud in axis.collections:
            found.setdefault(str(cloud.get_label()), []).extend(map(tuple, cloud.get_offsets().tolist()))
    return found


def test_accuracy_stands_over_the_bytes_that_were_sent_by_then_and_who_sends_none_is_a_line():
    figure = FIGURES["common-bytes"](_common())
    drawn = _drawn(figure)
    assert drawn["FedAvg"] == [(4, 0.4), (8, 0.8)] * 2, "one panel for each split"
    assert {y for _, y in drawn["local (sends nothing)"]} == {0.8}
    assert [axis.get_title() for axis in figure.axes] == ["natural, equal", "natural, skewed"]
    plt.close(figure)


def test_what_has_crossed_before_a_run_began_counts():
    """As FedDIRT's translators, which are most of what it takes."""
    records = _common()
    records["run"] = records["split"] + "/" + records["method"]
    before = records[(records["metric"] == "bytes") & (records["method"] == "fedavg")].drop_duplicates("run")
    before = before.assign(metric="bytes_before", setting="", value=100_000_000)
    drawn = _drawn(figure := FIGURES["common-bytes"](pd.concat([records, before], ignore_index=True)))
    assert drawn["FedAvg"] == [(104, 0.4), (108, 0.8)] * 2
    plt.close(figure)


def _with_a_bad_seed(records: pd.DataFrame, last: str) -> pd.DataFrame:
    """A second seed at 0 everywhere, which diverges before the last setting."""
    bad = records.assign(
        seed="2", run=records["run"] + "2", value=records["value"].where(records["metric"] != "accuracy", 0.0)
    )
    return pd.concat([records, bad.assign(value=bad["value"].mask(bad["setting"] == last))], ignore_index=True)


def test_a_line_ends_where_a_seed_diverges_and_rises_not():
    """Means over the seeds that are left would be 0.2 and 0.8 here, and below 0.125 and 0.5."""
    drawn = _drawn(figure := FIGURES["common-bytes"](_with_a_bad_seed(_common(), "rounds=8")))
    assert drawn["FedAvg"] == [(4, 0.2)] * 2
    plt.close(figure)
    figure = FIGURES["fedinb-figure14"](_with_a_bad_seed(_distances(), "rounds=20"))
    lines = [line for axis in figure.axes for line in axis.lines if line.get_marker() == "."]
    assert {tuple(line.get_ydata()) for line in lines} == {(0.125,)}
    plt.close(figure)
    drawn = _drawn(figure := FIGURES["fedinb-figure2"](_with_a_bad_seed(_distances(), "final")))
    assert {x for x, _ in drawn["J = 50"]} == {0, 10, 20, 80}
    plt.close(figure)
    drawn = _drawn(figure := FIGURES["feddva-figure6"](_with_a_bad_seed(_rounds(), "rounds=10")))
    assert drawn["FedDVA"] == [(2, 0.05), (4, 0.1)]
    plt.close(figure)


def test_who_was_scored_once_has_no_curve():
    records = _common()
    once = records[(records["split"] == "equal") & (records["setting"] == "rounds=8")].assign(split="late")
    figure = FIGURES["common-bytes"](pd.concat([records, once]))
    assert [axis.get_title() for axis in figure.axes] == ["natural, equal", "natural, skewed"]
    plt.close(figure)
    alone = FIGURES["common-bytes"](once)
    assert [axis.get_title() for axis in alone.axes] == ["natural, late"], "there is nothing else to show"
    plt.close(alone)


def test_codes_stand_where_the_probes_say_with_chance_and_the_judge_as_lines():
    figure = FIGURES["common-codes"](_common())
    drawn = _drawn(figure)
    np.testing.assert_allclose(drawn["local"], [(0.9, 0.1), (0.8, 0.2)], err_msg="its own content: there is no other")
    np.testing.assert_allclose(drawn["PaDPaF"], [(0.3, 0.7), (0.2, 0.8)])
    np.testing.assert_allclose(drawn["_"], [(0.3, 0.7), (0.2, 0.8)], err_msg="codes of style: PaDPaF's alone")
    assert {y for _, y in drawn["judge, of held-out images"]} == {0.95}
    assert {round(y, 9) for _, y in drawn["chance"]} == {0.4, 0.5}, "the mean over methods, a panel for each split"
    plt.close(figure)


def test_panels_of_a_data_set_have_one_scale_whose_numbers_stand_beside_them_and_an_empty_one_says_so():
    records = _common()
    other = records[records["split"] == "equal"].assign(dataset="rotations")
    other["value"] = pd.to_numeric(other["value"]) / 2
    figure = FIGURES["common-codes"](pd.concat([records, other]))
    figure.canvas.draw()
    above, below = figure.axes[:2], figure.axes[2:]
    for row in (above, below):
        scales = [axis.get_ylim() for axis in row]
        np.testing.assert_allclose(scales, [(0.0575, 0.9925), (0.02875, 0.49625)], err_msg="0.1 to 0.95, and a margin")
    assert all(any(label.get_visible() and label.get_text() for label in axis.get_yticklabels()) for axis in below)
    assert [bool(axis.get_ylabel()) for axis in figure.axes] == [True, False] * 2
    assert [bool(axis.get_xlabel()) for axis in figure.axes] == [False] * 2 + [True] * 2
    empty = {axis.get_title() for axis in figure.axes if "not measured" in {text.get_text() for text in axis.texts}}
    assert empty == {"rotations, skewed"}
    plt.close(figure)


def test_critical_differences_name_every_method_with_its_mean_rank():
    ranks = _ranks()
    figure = FIGURES["common-ranks"](ranks)
    means = ranks.groupby(["measure", "called"])["rank"].mean()
    for axis, measure in zip(figure.axes, ("accuracy, own", "generated, FD"), strict=True):
        assert axis.get_title() == f"{measure}: 6 blocks, critical difference 6.80"
        texts = {text.get_text() for text in axis.texts}
        for called, mean in means[measure].items():
            assert {f"{called} {mean:.1f}", f"{mean:.1f} {called}"} & texts
        bars = [line.get_xdata() for line in axis.lines if len({*line.get_ydata()}) == 1 and line.get_ydata()[0] < 0]
        assert max(map(len, bars)) > 5
        assert all(list(bar) == sorted(bar) for bar in bars), "the same picture, whatever strings are hashed to"
    plt.close(figure)


@pytest.mark.parametrize(("styles", "each"), [(3, 10), (5, 4)])
def test_a_sheet_has_the_same_contents_in_every_style_below_what_they_ought_to_be(styles, each):
    figure = FIGURES["common-rotations"](_sheet(styles))
    rows = ["0, as it is", "the style's own", "what it ought to be", "FedDVA", "FedAvg, StarGAN", "newcomer, odd"]
    axes = np.array(figure.axes).reshape(len(rows), styles - 1)
    assert [axis.get_ylabel() for axis in axes[:, 0]] == rows
    assert [axis.get_title() for axis in axes[0]] == [f"as {b}" for b in range(1, styles)]
    for b in range(1, styles):
        shades = [int(axis.images[0].get_array()[0, 0, 0]) for axis in axes[:, b - 1]]
        assert shades == [0, 10 * b, 200 + b, 100 + b, 110 + b, 120 + b]
        assert axes[0, b - 1].images[0].get_array().shape == (5, 5 * each, 3)
    plt.close(figure)


def test_a_legend_names_what_is_in_any_panel_and_each_once():
    figure, axes = plt.subplots(1, 2)
    for axis, names in zip(axes, (("a", "b"), ("b", "c")), strict=True):
        for name in names:
            axis.plot([0, 1], label=name)
    legend_of_all(figure)
    (legend,) = figure.legends
    plt.close(figure)
    assert [text.get_text() for text in legend.texts] == ["a", "b", "c"]


def test_probes_are_drawn_by_round_where_there_are_several_with_one_legend_beside_the_bars():
    """One round alone is the end; and without an end there is nothing to draw."""
    asked = {"paper": "padpaf", "dataset": "mnist", "method": "padpaf", "metric": "accuracy", "protocol": "published"}
    blank = dict.fromkeys(COLUMNS, "") | asked | {"seed": "1", "value": 0.5}
    probe = "probe=linear;features=content;target=label"

    def drawn(*rounds: str) -> Figure:
        rows = [blank | {"setting": f"{probe}{';' * bool(n)}{n}"} for n in rounds]
        return probes("mnist", "label")(pd.DataFrame(rows, columns=COLUMNS))

    assert len(drawn("", "round=2").axes) == 1
    both = drawn("", "round=1", "round=2")
    assert len(both.axes) == 2
    assert [axis.get_legend() for axis in both.axes] == [None, None]
    assert [text.get_text() for text in both.legends[0].get_texts()] == ["content", "content, the paper"]
    for figure in (drawn("round=1", "round=2"), drawn()):
        assert figure.axes[0].texts[0].get_text().startswith("nothing of this was measured")
    plt.close("all")
