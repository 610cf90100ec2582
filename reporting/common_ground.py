"""Figures of the study of all methods on one protocol: accuracy against bytes, content against style, ranks."""

import itertools
from collections.abc import Iterator

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from reporting.canvas import PAPER, empty, legend_of_all, lines_of, of_every_seed
from reporting.ranks import NO_RANKS, critical_difference, nemenyi
from reporting.wording import name_of

MB = 1e6


def _panels(rows: pd.DataFrame) -> tuple[Figure, Iterator[tuple[Axes, pd.DataFrame]]]:
    """A panel for each data set, side by side, and split, one above the other; and the rows of each."""
    datasets, splits = (list(dict.fromkeys(rows[column])) for column in ("dataset", "split"))
    figure, axes = plt.subplots(
        len(splits),
        len(datasets),
        figsize=(3.6 * len(datasets) + (2.2 if len(splits) > 1 else 4.4), 3.2 * len(splits)),
        squeeze=False,
        sharex="col",
        sharey="col",
        layout="constrained",
    )

    def each() -> Iterator[tuple[Axes, pd.DataFrame]]:
        for (row, split), (column, dataset) in itertools.product(enumerate(splits), enumerate(datasets)):
            axis = axes[row, column]
            axis.set_title(f"{name_of('dataset', dataset, {}).short}, {split}", fontsize=9)
            part = rows[(rows["dataset"] == dataset) & (rows["split"] == split)]
            if part.empty:
                axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center", color=PAPER, fontsize=9)
            yield axis, part

    return figure, each()


def _label_outer(figure: Figure) -> None:
    """Say once what an axis is; its numbers stand in each column, which has a scale of its own."""
    for axis in figure.axes:
        place = axis.get_subplotspec()
        assert place is not None  # they are all of one grid
        axis.set_xlabel(axis.get_xlabel() if place.is_last_row() else "")
        axis.set_ylabel(axis.get_ylabel() if place.is_first_col() else "")


# ---- accuracy against bytes


def against_bytes(records: pd.DataFrame) -> Figure:
    """The mean accuracy of clients' own models against all that has crossed the channel until then, round by round, and
    in the runs that a run goes on from.

    Who sends nothing is a line across.
    """
    rows = _with_bytes_before(_common(records))
    rows = rows[rows["metric"].isin(["accuracy", "bytes"]) & rows["setting"].str.fullmatch(r"rounds=\d+")]
    rows = rows.assign(round=rows["setting"].str.removeprefix("rounds=").astype(int))
    keys = ["dataset", "split", "called", "round"]
    rows = of_every_seed(rows, ["dataset", "split", "called", "metric"], "round")
    curves = rows.pivot_table(values="value", index=keys, columns="metric", sort=False).reset_index()
    if "bytes" not in curves or "accuracy" not in curves:
        return empty()
    curves = curves.dropna()
    several = curves.groupby(["dataset", "split", "called"])["round"].transform("size") > 1
    curves = curves[several] if several.any() else curves  # who was scored once, as late clients are, has no curve
    looks = lines_of(curves)
    figure, panels = _panels(curves)
    for axis, part in panels:
        for called, curve in part.groupby("called", sort=False):
            colour, marker, dash = looks[str(called)]
            if (curve["bytes"] == 0).all():
                axis.axhline(curve["accuracy"].iloc[-1], color=colour, ls=":", lw=1, label=f"{called} (sends nothing)")
            else:
                x, y = curve["bytes"] / MB, curve["accuracy"]
                axis.plot(x, y, color=colour, marker=marker, ls=dash, ms=3, lw=1, label=called)
        axis.set(xscale="log", xlabel="MB that have crossed the channel", ylabel="accuracy, mean over clients")
        _few_ticks(axis)
    _label_outer(figure)
    legend_of_all(figure)
    return figure


def _with_bytes_before(rows: pd.DataFrame) -> pd.DataFrame:
    """With what has crossed before a run added to what crosses in it."""
    before = rows[rows["metric"] == "bytes_before"].drop_duplicates("run").set_index("run")["value"]
    return rows.assign(value=rows["value"] + rows["run"].map(before).fillna(0).where(rows["metric"] == "bytes", 0))


def _few_ticks(axis: Axes) -> None:
    """Plain numbers: the powers of ten, and 2 and 5 of each if there are few powers."""
    low, high = axis.get_xlim()
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,)))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())


def _common(records: pd.DataFrame) -> pd.DataFrame:
    rows = records[(records["paper"] == "common") & (records["client"] == "")]
    return rows.assign(value=pd.to_numeric(rows["value"]))


# ---- content against style

CODES = {"features=content": "content", "features=own-content": "content", "features=style": "style"}
TARGETS = {"target=label": "label", "target=domain": "style"}
FACES = {"content": "0.4", "style": "none"}


def content_against_style(records: pd.DataFrame) -> Figure:
    """What a code says of the label against what it says of the style: content filled, style hollow, a look a method;
    and a line to content from the cross where it was before it was trained.

    Grey lines: chance, and dashed what a judge trained on all clients' images reads from images that it has not seen.
    """
    said = _said(_common(records))
    if said.empty:
        return empty()
    methods = said[said["control"] == ""]
    looks = lines_of(methods)
    figure, panels = _panels(said)
    for axis, part in panels:
        chance = part[part["control"] == "shuffled-labels"]
        _lines(axis, chance, ":", "chance")
        _lines(axis, part[part["code"] == "judge"], "--", "judge, of held-out images")
        content = part[part["code"] == "content"]
        pixels = content[content["control"] == "pixels"]
        axis.scatter(pixels["style"], pixels["label"], marker="+", color="0.4", s=22, linewidths=1, label="pixels")
        for called, points in part[part["control"] == ""].groupby("called", sort=False):
            colour, marker, _ = looks[str(called)]
            floor = content[(content["control"] == "untrained") & (content["called"] == called)]
            way = pd.concat([floor, points[points["code"] == "content"]])
            axis.plot(way["style"], way["label"], color=colour, lw=0.5, alpha=0.5, zorder=1)
            axis.scatter(floor["style"], floor["label"], marker="x", color=[colour], s=22, linewidths=1)
            for code in FACES:
                at, face = points[points["code"] == code], [colour] if code == "content" else "none"
                name = str(called) if code == "content" else "_"  # which no legend shows
                axis.scatter(
                    at["style"], at["label"], s=30, marker=marker, edgecolors=[colour], facecolors=face, label=name
                )
        axis.scatter([], [], marker="x", color="0.4", s=22, linewidths=1, label="its content, untrained")
        for code, face in FACES.items():
            axis.scatter([], [], edgecolors="0.4", facecolors=face, s=30, label=f"code of {code}")
        axis.set(xlabel="style read from the code", ylabel="label read from the code")
    _label_outer(figure)
    legend_of_all(figure)
    return figure


def _said(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each code of a method, control or judge: the accuracy of the `label` and of the `style`, means over seeds."""
    probes = rows[rows["setting"].str.startswith("probe=linear;features=") & (rows["protocol"] == "sound")]
    parts = probes["setting"].str.split(";", expand=True)
    if probes.empty:
        return pd.DataFrame()
    probes = probes.assign(code=parts[1].map(CODES), target=parts[2].map(TARGETS))
    judged = rows[(rows["control"] == "ceiling") & (rows["setting"] == "images=asked")]
    judged = judged.assign(
        code="judge", target=judged["metric"].map({"label_agreement": "label", "style_agreement": "style"})
    )
    everything = pd.concat([probes, judged])
    everything["called"] = everything["called"].where(everything["control"].isin(["", "untrained"]), "")
    keys = ["dataset", "split", "called", "control", "code"]
    said = everything.pivot_table(values="value", index=keys, columns="target", sort=False).reset_index()
    return said.dropna() if {"label", "style"} <= {*said} else pd.DataFrame()


def _lines(axis: Axes, rows: pd.DataFrame, dash: str, name: str) -> None:
    """Across at the mean accuracy of the label, and down at that of the style."""
    if len(rows):
        axis.axhline(rows["label"].mean(), color=PAPER, ls=dash, lw=1, label=name)
        axis.axvline(rows["style"].mean(), color=PAPER, ls=dash, lw=1)


# ---- ranks


def critical_differences(ranks: pd.DataFrame) -> Figure:
    """A diagram for each measure: mean ranks, and bars over methods that Nemenyi's test does not tell apart."""
    if ranks.empty:
        return empty(f"nothing is ranked at this scale:\n{NO_RANKS}")
    from scikit_posthocs import critical_difference_diagram  # two seconds, which only this figure need pay

    measures = list(dict.fromkeys(ranks["measure"]))
    by_measure = [ranks[ranks["measure"] == measure] for measure in measures]
    tables = [rows.pivot_table(values="rank", index="block", columns="called") for rows in by_measure]
    heights = [0.9 + 0.13 * table.shape[1] for table in tables]
    figure, axes = plt.subplots(
        len(tables),
        1,
        figsize=(8, sum(heights)),
        squeeze=False,
        layout="constrained",
        gridspec_kw={"height_ratios": heights},
    )
    for axis, measure, table in zip(axes.flat, measures, tables, strict=True):
        blocks, methods = table.shape
        cd = critical_difference(methods, blocks)
        drawn = critical_difference_diagram(
            table.mean(),
            nemenyi(table),
            ax=axis,
            label_fmt_left="{label} {rank:.1f}",
            label_fmt_right="{rank:.1f} {label}",
            label_props={"fontsize": 7},
            elbow_props={"linewidth": 0.6, "color": "0.15"},
            marker_props={"s": 8},
        )
        for (bar,) in drawn["crossbars"]:  # comes from a set, in whose order it would not be the same picture twice
            bar.set_xdata(sorted(bar.get_xdata()))
        axis.grid(visible=False)
        axis.set_xticks(range(1, methods + 1))
        axis.tick_params(labelsize=7)
        axis.set_title(f"{measure}: {blocks} blocks, critical difference {cd:.2f}", fontsize=9, pad=16)
    return figure
