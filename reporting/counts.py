"""Figures of what clients have: images by client and class."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reporting.canvas import SPLITS, empty


def class_counts(counts: pd.DataFrame) -> Figure:
    """Figure 5: training images by client and class, a row per data set and a panel per split; clients of a style stand
    together."""
    if counts.empty:
        return empty("no run with several clients per style")
    counts = _of_clients(counts)
    datasets, splits = (list(dict.fromkeys(counts[column])) for column in ("dataset", "split"))
    size = (5 * len(splits), 3.4 * len(datasets))
    figure, axes = plt.subplots(
        len(datasets), len(splits), figsize=size, squeeze=False, sharey="row", layout="constrained"
    )
    for row, dataset in zip(axes, datasets, strict=True):
        here = counts[counts["dataset"] == dataset]
        for axis, split in zip(row, splits, strict=True):
            if (part := here[here["split"] == split]).empty:
                axis.axis("off")
                continue
            _heat(axis, part, here["images"].max(), bar=axis is row[-1])
            axis.set_title(SPLITS.get(split, split) + (f", {dataset}" if len(datasets) > 1 else ""), pad=16)
    return figure


def _of_clients(counts: pd.DataFrame) -> pd.DataFrame:
    """Clients by their numbers from 1, as in records and on sheets of images."""
    counts = counts.astype({"client": int, "class": int, "images": int})
    return counts.assign(client=counts["client"] + 1)


def _heat(axis: Axes, part: pd.DataFrame, top: int, *, bar: bool) -> None:
    """Images by class and client, with the styles of clients above them."""
    grid = part.pivot_table(index="class", columns="client", values="images", aggfunc="first")
    sns.heatmap(
        grid,
        ax=axis,
        vmin=0,
        vmax=top,
        cmap="viridis",
        xticklabels=max(1, grid.shape[1] // 10),
        cbar=bar,
        cbar_kws={"label": "images"},
    )
    styles = part.drop_duplicates("client").sort_values("client")["style"].tolist()
    edges = [n for n in range(1, len(styles)) if styles[n] != styles[n - 1]]
    axis.vlines(edges, *axis.get_ylim(), color="white", linewidth=2)
    for style in dict.fromkeys(styles):
        members = [n for n, s in enumerate(styles) if s == style]
        axis.text(float(np.mean(members)) + 0.5, -0.15, style, ha="center", va="bottom", fontsize=8)


def class_fractions(counts: pd.DataFrame) -> Figure:
    """Figure 8: the fractions of classes at each client, one bar for each."""
    if counts.empty:
        return empty()
    counts = _of_clients(counts)
    datasets = list(dict.fromkeys(counts["dataset"]))
    figure, axes = plt.subplots(
        1, len(datasets), figsize=(5 * len(datasets), 3), squeeze=False, sharey=True, layout="constrained"
    )
    for axis, dataset in zip(axes[0], datasets, strict=True):
        grid = counts[counts["dataset"] == dataset].pivot_table(
            index="client", columns="class", values="images", aggfunc="first"
        )
        shares = grid.div(grid.sum(axis=1), axis=0)
        shares.plot.bar(stacked=True, width=0.9, ax=axis, colormap="tab10", legend=axis is axes[0, -1])
        axis.set(xlabel="client", ylabel="fraction of its images", title=dataset, ylim=(0, 1))
        axis.tick_params(axis="x", labelsize=7, rotation=0)
    axes[0, -1].legend(title="class", fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure
