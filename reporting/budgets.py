"""What a paper's main claims are about, against the share of the published training that it was measured after."""

import math
from collections.abc import Collection, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from reporting.canvas import PAPER, Line, empty, legend_of_all, lines_of, of_every_seed
from reporting.measures import chosen
from reporting.records import published
from reporting.verdict import SEEDS

Curves = Mapping[str, Mapping[str, Sequence[str]]]
"""The name of a quantity -> the columns of its records, and the values that are asked for."""
PLAIN = {"setting": [""], "role": [""], "client": [""], "aggregate": ["none"], "protocol": [""]}
"""What is asked for where nothing else is said."""
ABREAST = 3
"""Panels in a row of the figure at most."""
LATER = ["scale", "run", "method", "variant", *PLAIN]
"""What the same number of a run after other rounds has in common with it."""


def budget_points(records: pd.DataFrame, curves: Curves, started: Collection[str] = ()) -> pd.DataFrame:
    """A point for each number of a run: the `quantity`, `method`, `variant`, `scale`, `seed`, `share` and `value`.

    The `share` of a number at the end of a run is the run's budget; of one that the run scored after a round, with a
    setting such as `rounds=5`, as much less as its rounds were fewer. Where a seed diverged there is none of any.

    Args:
        started: runs that start from another one. Its training is part of their budget however few rounds they have
            had, so that only their ends are points.
    """
    ours = records[records["control"] == ""]
    ours = ours.assign(value=pd.to_numeric(ours["value"]).where(ours["status"] == "ok"))
    rounds = ours["setting"].str.extract(r"(?:^|;)rounds?=(\d+)$")[0].astype(float)
    ours = ours.assign(round=rounds, setting=ours["setting"].str.replace(r"(?:^|;)rounds?=\d+$", "", regex=True))
    ours = ours[ours["round"].isna() | ~ours["run"].isin(started)]
    parts = [chosen(ours, PLAIN | dict(where)).assign(quantity=name) for name, where in curves.items()]
    points = pd.concat(parts or [ours.iloc[:0].assign(quantity="")], ignore_index=True)
    alike = ["quantity", "budget", *(column for column in LATER if column != "run")]  # with the rounds of a lost run
    last = points.groupby(alike)["round"].transform("max")
    budget = pd.to_numeric(points["budget"])
    share = (budget * points["round"] / last).fillna(budget)
    points = points.assign(share=share).dropna(subset=["share"]).drop_duplicates(["quantity", *LATER, "share"])
    line = ["quantity", "scale", "method", "variant"]
    lost = points["value"].isna().groupby([points[column] for column in line]).transform("any")
    return pd.concat([points[~lost], of_every_seed(points[lost], line, "share")])


def over_budget(points: pd.DataFrame, curves: Curves) -> Figure:
    """A panel for each quantity that was measured: a line for each method and scale (named, if there are several),
    with the deviation over seeds from three on, and a diamond for what the paper prints, at all of its training.

    Args:
        points: of `budget_points`, with what methods are `called`.
    """
    measured = [name for name in curves if name in set(points["quantity"])]
    if not measured:
        return empty()
    lines, rows = lines_of(points), math.ceil(len(measured) / ABREAST)
    columns = math.ceil(len(measured) / rows)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4.2 * columns + 2.6, 3.4 * rows), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(measured) :]:
        axis.set_axis_off()
    for axis, name in zip(axes.flat, measured, strict=False):
        of_panel = points[points["quantity"] == name]
        for (method, _), line in of_panel.groupby(["called", "scale"], sort=False):
            _line(axis, line, lines[str(method)], str(method))
        _name_scales(axis, of_panel)
        _printed(axis, of_panel, curves[name], lines)
        axis.set(xscale="log", xlabel="share of the published training", title=name)
        axis.set_xlim(right=1.5)  # where the paper's training ends is in sight
        axis.title.set_fontsize(9)
        axis.xaxis.set_minor_formatter(NullFormatter())
    legend_of_all(figure)
    return figure


def _line(axis: Axes, points: pd.DataFrame, line: Line, called: str) -> None:
    """Means over seeds, and their deviation."""
    by_share = points.groupby("share")["value"].agg(["mean", "std", "count"])
    spread = by_share["std"].where(by_share["count"] >= SEEDS, np.nan)
    colour, marker, dash = line
    axis.errorbar(by_share.index, by_share["mean"], spread, c=colour, marker=marker, ls=dash, ms=3, lw=1, label=called)


def _name_scales(axis: Axes, points: pd.DataFrame) -> None:
    """Of several, each at the end of its highest line: they differ in more than the share."""
    means = points.groupby(["scale", "called", "share"])["value"].mean().reset_index()
    ends = {str(scale): rows.nlargest(1, ["share", "value"]).iloc[0] for scale, rows in means.groupby("scale")}
    for scale, end in ends.items() if len(ends) > 1 else ():
        axis.annotate(scale, (end["share"], end["value"]), (3, 4), textcoords="offset points", fontsize=5, color="0.4")


def _printed(axis: Axes, rows: pd.DataFrame, where: Mapping[str, Sequence[str]], lines: Mapping[str, Line]) -> None:
    """What the paper prints of the methods that are there, unless ours are stand-ins for it."""
    first = rows.iloc[0]
    text = chosen(published(first["paper"], "text"), {"setting": where.get("setting", PLAIN["setting"])})
    cells = pd.concat([published(first["paper"], first["table"]), text.assign(table=first["table"])])
    for column, values in where.items():
        these = chosen(cells, {column: values})
        if column not in PLAIN or len(these):  # how we measured it is not printed
            cells = these
    for (method, variant), group in cells.groupby(["method", "variant"]):
        ours = rows[(rows["method"] == method) & (rows["variant"] == variant) & (rows["stand_in"] == "")]
        if len(ours):
            colour, *_ = lines[ours["called"].iloc[0]]
            axis.scatter(1, group["value"].astype(float).mean(), marker="D", s=26, color=colour, edgecolors=PAPER)
