"""What all figures share: their look, what error bars show, and the figure of nothing."""

import itertools
from math import ceil

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

PAPER = "0.6"
"""The grey of published numbers."""
SPLITS = {"iid": "Ho", "dirichlet-0.2": "He@0.2", "dirichlet-0.8": "He@0.8"}
SSL = {"simclr": "SimCLR", "simsiam": "SimSiam"}


Line = tuple[tuple[float, float, float], str, str]
"""A colour, a marker and a dash."""
MARKERS = "osD^vPX"
DASHES = ("-", "--", "-.")


def lines_of(rows: pd.DataFrame) -> dict[str, Line]:
    """A line for each method by what it is `called`: colours that eyes tell apart, and where one comes again another
    marker and dash."""
    colours = sns.color_palette("colorblind")
    lines = zip(itertools.cycle(colours), itertools.cycle(MARKERS), itertools.cycle(DASHES), strict=False)
    return dict(zip(dict.fromkeys(rows["called"]), lines, strict=False))


def theme() -> None:
    """The look of every figure."""
    sns.set_theme(style="whitegrid", context="paper", font_scale=1.1)
    plt.rcParams.update({"svg.hashsalt": "diptych", "axes.spines.top": False, "axes.spines.right": False})


def spread(rows: pd.DataFrame) -> str | None:
    """What error bars show: the standard deviation over seeds, from three seeds on."""
    return "sd" if rows["seed"].nunique() >= 3 else None


def of_every_seed(rows: pd.DataFrame, line: list[str], at: str) -> pd.DataFrame:
    """What a line is drawn from: its rows at points (`at`, such as rounds) that each of its seeds has.

    A mean over the seeds that are left would rise where a bad one diverges.
    """
    there = rows.dropna(subset=["value"])
    seeds = rows.groupby(line)["seed"].nunique().rename("seeds")
    left = there.groupby([*line, at])["seed"].transform("nunique")
    return there[left == there[line].join(seeds, on=line)["seeds"]]


def legend_of_all(figure: Figure) -> None:
    """One legend for all panels, on their right: what is in one of them need not be in another."""
    handles = (zip(*axis.get_legend_handles_labels(), strict=True) for axis in figure.axes)
    found = {label: handle for of_panel in handles for handle, label in of_panel}
    columns = ceil(0.16 * len(found) / figure.get_figheight())  # a line of it is so many inches high
    figure.legend(found.values(), found.keys(), loc="outside right upper", frameon=False, fontsize=7, ncols=columns)


def empty(message: str = "nothing of this was measured at this scale") -> Figure:
    """A figure that says why there is nothing to see."""
    figure, axes = plt.subplots(figsize=(6, 2))
    axes.axis("off")
    axes.text(0.5, 0.5, message, ha="center", va="center", wrap=True)
    return figure
