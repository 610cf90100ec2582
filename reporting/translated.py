"""FedINB's figures that are drawn from numbers: distances against cost, objectives and accuracy over iterations."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reporting.canvas import empty, of_every_seed
from reporting.records import published
from reporting.wording import name_of

VARIANTS = ("hist", "ae", "indae", "hist-ae", "hist-indae")
METHODS = ("fedinb", *(f"fedinb-{variant}" for variant in VARIANTS), "fedstargan", "feddirt", "fedavg")
NAMES = {method: name_of("method", method, {}).short for method in METHODS}
"""Of the methods, in the order in which they are drawn."""
Series = tuple[str, str]
"""A method and its variant."""
DISTANCES = {
    "wd": "Wasserstein distance\n(as published: Sinkhorn, stopped early)",
    "fid": "Fréchet distance",
}
LEVELS = {"identity": ("--", "not translated"), "other": (":", "other images of the target")}
"""Controls, and how they are drawn."""

READ_AFTER = {("rotated-fmnist", "75"): 0.5}
"""The share of the iterations after which Tables 3 and 4 are read, where it is not all (App. E.2: 1,500 of 3,000)."""


@dataclass(frozen=True)
class Panel:
    """A panel: its title, and what each curve in it is called and is of."""

    title: str
    curves: dict[str, Series]


def _autoencoders(title: str, prefix: str, variant: str = "") -> Panel:
    """INB without an auto-encoder, with one for all domains, and with one for each."""
    methods = (prefix, f"{prefix}-ae", f"{prefix}-indae")
    return Panel(title, {NAMES[method]: (method, variant) for method in methods})


def _sweep(title: str, method: str, letter: str, values: list[int]) -> Panel:
    """One setting of a method changed; in the default form it has no name."""
    base = {"J": 100, "K": 10, "V": 500}[letter]
    curves = {f"{letter} = {v}": (method, "" if v == base else f"{letter.lower()}={v}") for v in values}
    return Panel(title, curves)


def _bins(title: str, method: str, values: list[int]) -> Panel:
    """Histograms of V bins against the sorted samples themselves."""
    plain = method.replace("-hist", "")
    return Panel(title, {NAMES[plain]: (plain, "")} | _sweep(title, method, "V", values).curves)


HIST = "fedinb-hist-indae"
STARGAN = {
    f"FedStarGAN-{n}{note}": ("fedstargan", f"sync_step={n}{width}")
    for n in (16, 128)
    for note, width in (("", ""), (", narrow", ";width=16"))
}
J_OF_INDAE = _sweep("(b) J of IndAEINB", "fedinb-indae", "J", [10, 30, 50, 100, 200])
HISTOGRAMS = Panel("(c) histograms", {"INB": ("fedinb", ""), "HistINB, V = 500": ("fedinb-hist", "")})
COMPARED = ("figure2", "figure9", "table6")
"""Whose runs are compared: those of Table 5 may be of more seeds."""
AGAINST_COST: dict[int, tuple[str, str, list[Panel]]] = {
    2: (
        "wd",
        "rotated-mnist",
        [
            _autoencoders("(a) auto-encoders", "fedinb"),
            J_OF_INDAE,
            HISTOGRAMS,
            _sweep("(d) V of HistINB", "fedinb-hist", "V", [50, 100, 500]),
            _sweep("(e) V of HistIndAEINB", HIST, "V", [10, 50, 100, 500]),
            Panel("(f) FedStarGAN", {NAMES[HIST]: (HIST, "")} | STARGAN),
        ],
    ),
    4: (
        "fid",
        "rotated-mnist",
        [
            _autoencoders("(a) auto-encoders", "fedinb"),
            J_OF_INDAE,
            HISTOGRAMS,
            Panel("(d) FedStarGAN", {NAMES[m]: (m, "") for m in (HIST, "fedinb-hist")} | STARGAN),
        ],
    ),
    5: (
        "wd",
        "rotated-mnist",
        [
            _autoencoders("sorted samples, J = 100", "fedinb"),
            _autoencoders("histograms, V = 500, J = 100", "fedinb-hist"),
            _autoencoders("sorted samples, J = 300", "fedinb", "j=300"),
        ],
    ),
    6: (
        "wd",
        "rotated-mnist",
        [
            _sweep("J of INB", "fedinb", "J", [100, 300]),
            _sweep("J of HistINB", "fedinb-hist", "J", [100, 300]),
            _sweep("J of IndAEINB", "fedinb-indae", "J", [10, 30, 50, 100, 200, 300]),
        ],
    ),
    7: (
        "wd",
        "rotated-mnist",
        [
            _sweep("K of IndAEINB", "fedinb-indae", "K", [10, 30]),
            _sweep("K of HistIndAEINB", HIST, "K", [10, 20, 30]),
        ],
    ),
    8: (
        "wd",
        "rotated-mnist",
        [
            _bins("V of HistINB", "fedinb-hist", [50, 100, 500]),
            _bins("V of HistIndAEINB", HIST, [10, 50, 100, 500]),
        ],
    ),
    9: ("wd", "rotated-fmnist", [_sweep("J of HistIndAEINB", HIST, "J", [30, 50, 100, 200])]),
    10: ("wd", "rotated-fmnist", [_sweep("K of HistIndAEINB", HIST, "K", [10, 30])]),
    11: ("wd", "rotated-fmnist", [_sweep("V of HistIndAEINB", HIST, "V", [10, 50, 100, 500])]),
}
"""Figure -> the distance, the data set, and the panels."""


def against_cost(metric: str, dataset: str, panels: list[Panel]) -> Callable[[pd.DataFrame], Figure]:
    """A distance after every layer, or aggregation, by the numbers that one client and the server exchanged until then.

    Grey lines are controls: images as they are, and other images of the target domain in the place of another's.
    """

    def draw(records: pd.DataFrame) -> Figure:
        rows = _rows(records[records["table"].isin(COMPARED)], dataset=dataset, split="translation")
        curves = _curves(rows[rows["control"] == ""], metric)
        shown = [panel for panel in panels if any(series in curves for series in panel.curves.values())]
        if not shown:
            return empty()
        figure, axes = _grid_of(len(shown))
        levels = _levels(rows, metric)
        for axis, panel in zip(axes, shown, strict=True):
            for label, series in panel.curves.items():
                if series in curves:
                    curve = curves[series]
                    axis.plot(curve["parameters"], curve[metric], marker="o", markersize=3.5, label=label)
            for control, level in levels.items():
                axis.axhline(level, color="0.55", linestyle=LEVELS[control][0], linewidth=1)
            axis.set(title=panel.title, ylim=(0, 1.3 * axis.get_ylim()[1]))  # with room for the legend
            axis.ticklabel_format(axis="x", style="sci", scilimits=(0, 0))
            axis.legend(fontsize=7, framealpha=0.9, edgecolor="none", loc="upper right")
        _legend_of_levels(figure)
        images = name_of("dataset", dataset, {}).short
        figure.supxlabel(f"{images}: numbers exchanged by one client and the server", fontsize=9)
        figure.supylabel(DISTANCES[metric], fontsize=9, ha="center", multialignment="center")
        return figure

    return draw


def _rows(records: pd.DataFrame, **columns: str) -> pd.DataFrame:
    """FedINB's rows with these values; a run that is for several tables once."""
    rows = records[records["paper"] == "fedinb"]
    for column, value in columns.items():
        rows = rows[rows[column] == value]
    identity = ["run", "metric", "setting", "control", "domain", "digit", "protocol"]
    return rows.drop_duplicates(identity).assign(value=lambda kept: kept["value"].astype(float))


def _curves(rows: pd.DataFrame, metric: str) -> dict[Series, pd.DataFrame]:
    """By method and variant: what was exchanged and the distance, means over seeds, layer by layer."""
    rows = rows[rows["metric"].isin([metric, "parameters"])]
    if not set(rows["metric"]) >= {metric, "parameters"}:
        return {}
    rows = of_every_seed(rows, ["method", "variant", "metric"], "setting")
    keys = ["method", "variant", "setting"]
    points = rows.pivot_table(index=keys, columns="metric", values="value", aggfunc="mean").dropna().reset_index()
    return {
        (str(method), str(variant)): part.sort_values("parameters")
        for (method, variant), part in points.groupby(["method", "variant"], sort=False)
    }


def _levels(rows: pd.DataFrame, metric: str) -> dict[str, float]:
    """Controls as curves are: over all pairs of domains, of which those of a domain with itself are at no distance.

    Of others there are only pairs of two domains; which share they are of all say the images that are not translated.
    """
    final = rows[rows["setting"] == "final"]  # on as many test images as curves are
    means = final.groupby(["control", "metric"])["value"].mean()
    others = means.get(("other", f"{metric}_between"), means.get(("other", metric)))
    pairs = [means.get(("identity", wd)) for wd in ("wd", "wd_between")]
    found = {"identity": means.get(("identity", metric))}
    if others is not None and None not in pairs:
        found["other"] = others * pairs[0] / pairs[1]
    return {control: level for control, level in found.items() if level is not None}


def _legend_of_levels(figure: Figure) -> None:
    handles = [Line2D([], [], color="0.55", ls=style, label=label) for style, label in LEVELS.values()]
    figure.legend(handles=handles, loc="outside upper right", fontsize=7, frameon=False, ncols=len(handles))


def _grid_of(panels: int) -> tuple[Figure, list[Axes]]:
    """So many panels, two or three in a row."""
    columns = min(panels, 2 if panels == 4 else 3)
    rows = -(-panels // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3.5 * columns, 2.9 * rows), squeeze=False, layout="constrained")
    for axis in axes.flat[panels:]:
        axis.remove()
    return figure, list(axes.flat[:panels])


def objectives(searches: pd.DataFrame) -> Figure:
    """Figures 15 and 16: the divergence in every iteration of all layers, a panel per method, a line per digit."""
    if searches.empty:
        return empty()
    numbers = {"round": int, "class": int, "iteration": int, "objective": float}
    searches = searches.astype(numbers).sort_values(["round", "iteration"])
    there = [method for method in NAMES if (searches["method"] == method).any()]
    figure, axes = plt.subplots(1, len(there), figsize=(3.8 * len(there), 3), squeeze=False, layout="constrained")
    for axis, method in zip(axes[0], there, strict=True):
        rows = searches[searches["method"] == method]
        longest = rows.groupby("round")["iteration"].max()
        before = longest.cumsum() - longest  # iterations of earlier layers
        for (digit, layer), curve in rows.groupby(["class", "round"]):
            # a line of its own for each search: one that ends early is not joined with the next layer's
            label = digit if layer == longest.index[0] else "_"
            iteration = before[curve["round"]].to_numpy() + curve["iteration"]
            axis.plot(iteration, curve["objective"], color=f"C{digit}", lw=0.9, label=label)
        for start in before[1:]:
            axis.axvline(start + 0.5, color="0.85", linewidth=0.6, zorder=0)
        axis.set(title=NAMES[method], xlabel="iteration", yscale="log")
        axis.grid(visible=False, axis="x")
    axes[0, 0].set_ylabel("max K-sliced Wasserstein divergence")
    axes[0, -1].legend(title="digit", fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def over_iterations(records: pd.DataFrame) -> Figure:
    """Figure 14: accuracy on unseen domains by iteration (mini-batches); crosses are Tables 3 and 4's."""
    rows = _rows(records, metric="accuracy", protocol="", control="")
    rows = rows[rows["domain"].ne("") & rows["setting"].str.fullmatch(r"rounds=\d+")]
    if rows.empty:
        return empty()
    rounds = rows["setting"].str.removeprefix("rounds=").astype(int)
    rows = rows.assign(iteration=rounds * rows["sync_steps"].astype(int), series=rows["method"] + " " + rows["variant"])
    rows = of_every_seed(rows, ["dataset", "domain", "sync_steps", "series"], "iteration")
    places = list(dict.fromkeys(zip(rows["dataset"], rows["domain"], strict=True)))
    periods = sorted(rows["sync_steps"].unique(), key=int)
    drawn = sorted(rows["series"].unique())
    # ten that eyes tell apart better; with a newcomer there are more
    colours = dict(zip(drawn, sns.color_palette("deep" if len(drawn) <= 10 else "husl", len(drawn)), strict=True))
    figure, axes = plt.subplots(
        len(places), len(periods), figsize=(3.2 * len(periods), 2.4 * len(places)),
        squeeze=False, sharey="row", layout="constrained",
    )  # fmt: skip
    for line, (dataset, domain) in zip(axes, places, strict=True):
        for axis, period in zip(line, periods, strict=True):
            here = {"dataset": dataset, "domain": domain, "sync_steps": period}
            part = rows[(rows[list(here)] == pd.Series(here)).all(axis=1)]
            for series, curve in part.groupby("series"):
                means = curve.groupby("iteration")["value"].mean()
                axis.plot(means.index, means.to_numpy(), color=colours[str(series)], lw=1.2, marker=".")
            _printed(axis, here, colours, part["iteration"].max() * READ_AFTER.get((dataset, domain), 1))
            axis.set_title(f"{dataset}, {domain}°\naggregated every {period}", fontsize=8)
    figure.supxlabel("iteration", fontsize=9)
    figure.supylabel("accuracy", fontsize=9)
    handles = [Line2D([], [], color=colour, label=_name(series)) for series, colour in colours.items()]
    handles.append(Line2D([], [], color="0.3", marker="x", linestyle="", label="printed"))
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=8)
    return figure


def _name(series: str) -> str:
    method, _, variant = series.partition(" ")
    set_up = re.sub(r"^l\d+-k\d+", lambda found: found[0].upper(), variant)
    return f"{name_of('method', method, {}).short} {set_up}".strip()


def _printed(axis: Axes, here: dict[str, str], colours: dict[str, tuple[float, ...]], iteration: float) -> None:
    """The published accuracies, at the iteration after which they are read."""
    tables = pd.concat([published("fedinb", table) for table in ("table3", "table4")])
    for row in tables[(tables[list(here)] == pd.Series(here)).all(axis=1)].to_dict("records"):
        if (series := f"{row['method']} {row['variant']}") in colours:
            axis.plot(
                [iteration], [float(row["value"])], marker="x", color=colours[series], markersize=6, clip_on=False
            )
