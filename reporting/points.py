"""Figures of points in the plane: maps of style features and of codes, and Simpson's paradox."""

from collections.abc import Callable
from itertools import cycle

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reporting.canvas import SPLITS, empty

MARKERS = "osD^vPX<>"
"""Of styles; beyond these they come again, in another data set's panel."""
ENCODERS = {"shared-encoder": "by the shared encoders", "own-encoder": "by each client's own"}


def style_map(points: pd.DataFrame) -> Figure:
    """Figure 4: t-SNE of style features, a panel per data set and split, a colour per client, a marker per style."""
    if points.empty:
        return empty("no run has style features")
    points = points.astype({"x": float, "y": float, "client": int, "silhouette": float})
    styles = dict(zip(points["style"].unique(), cycle(MARKERS), strict=False))
    grid = sns.relplot(
        points,
        x="x",
        y="y",
        row="dataset",
        col="split",
        hue="client",
        palette="husl",
        style="style",
        markers=styles,
        s=16,
        linewidth=0,
        height=3.2,
        legend=False,
        facet_kws={"sharex": False, "sharey": False},
    )
    for (dataset, split), axis in grid.axes_dict.items():
        part = points[(points["dataset"] == dataset) & (points["split"] == split)]
        title = f"{dataset}, {SPLITS.get(split, split)}"
        if len(part):
            title += f"\nsilhouette of {part['client'].nunique()} clients {part['silhouette'].iloc[0]:.2f}"
        axis.set_title(title)
    grid.set(xlabel="", ylabel="", xticks=[], yticks=[])
    handles = [Line2D([], [], marker=mark, color="0.3", linestyle="", label=style) for style, mark in styles.items()]
    where = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "frameon": False}
    grid.figure.legend(handles=handles, title="a colour for\neach client", **where)
    return grid.figure


def code_map(points: pd.DataFrame) -> Figure:
    """Figure 5: t-SNE of z and of c, by the shared encoders and by each client's own; a colour per client."""
    if points.empty:
        return empty()
    points = points.astype({"x": float, "y": float, "client": int, "silhouette": float})
    points["who"] = [f"{k + 1}: {style}" for k, style in zip(points["client"], points["style"], strict=True)]
    grid = sns.relplot(
        points,
        x="x",
        y="y",
        col="code",
        col_order=["z", "c"],
        row="encoder",
        row_order=[encoder for encoder in ENCODERS if encoder in set(points["encoder"])],
        hue="who",
        hue_order=sorted(points["who"].unique()),
        palette="deep",
        s=10,
        linewidth=0,
        height=3.4,
        facet_kws={"sharex": False, "sharey": False},
    )
    for (encoder, code), axis in grid.axes_dict.items():
        score = points[(points["encoder"] == encoder) & (points["code"] == code)]["silhouette"].iloc[0]
        name = "general z" if code == "z" else "personal c"
        axis.set_title(f"{name} {ENCODERS[encoder]}\nsilhouette by client {score:.2f}")
    grid.set(xlabel="", ylabel="", xticks=[], yticks=[])
    grid.legend.set_title("")
    return grid.figure


def simpson(variant: str, panels: dict[str, str]) -> Callable[[pd.DataFrame], Figure]:
    """Points and regression lines on Simpson's paradox, a colour for each client."""

    def draw(points: pd.DataFrame) -> Figure:
        points = points[points["variant"] == variant].astype({"x": float, "y": float, "client": int})
        if points.empty:
            return empty()
        data = points[points["panel"] == "data"]
        figure, axes = plt.subplots(
            1, len(panels), figsize=(3 * len(panels), 3), squeeze=False, sharex=True, sharey=True
        )
        colours = sns.color_palette("husl", data["client"].nunique())
        for axis, (panel, title) in zip(axes[0], panels.items(), strict=True):
            shown = points[points["panel"] == panel]
            lines = panel not in ("data", "generated")
            cloud = data if lines else shown
            sns.scatterplot(
                cloud, x="x", y="y", hue="client", palette=colours, s=9, linewidth=0, legend=False, ax=axis,
                alpha=0.4 if lines else 1,
            )  # fmt: skip
            for client, ends in shown.groupby("client") if lines else ():
                axis.plot(
                    ends["x"],
                    ends["y"],
                    color="0.2" if "single" in panel else colours[int(str(client)) - 1],
                    linewidth=2,
                )
            axis.set_title(title, fontsize=9)
        figure.tight_layout()
        return figure

    return draw
