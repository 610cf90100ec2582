"""Figures, each a function of records (or of a run's small tables), the published numbers in grey beside ours."""

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from common.errors import InputError
from common.files import written
from reporting.attacks import by_factor, losses_of_attackers, losses_of_users
from reporting.dual import by_round, class_fractions, code_map
from reporting.mosaics import (
    by_client,
    by_method,
    eavesdropped,
    empty,
    in_every_style,
    manifolds,
    marked,
    new_clients,
    restyled,
    translated,
)
from reporting.records import published
from reporting.translated import AGAINST_COST, against_cost, objectives, over_iterations

FORMATS = ("png", "pdf", "svg")
DPI = 150
SPLITS = {"iid": "Ho", "dirichlet-0.2": "He@0.2", "dirichlet-0.8": "He@0.8"}
SSL = {"simclr": "SimCLR", "simsiam": "SimSiam"}
OURS, PAPER = sns.color_palette("deep")[0], "0.6"


def _theme() -> None:
    sns.set_theme(style="whitegrid", context="paper", font_scale=1.1)
    plt.rcParams.update({"svg.hashsalt": "diptych", "axes.spines.top": False, "axes.spines.right": False})


def _spread(rows: pd.DataFrame) -> str | None:
    """What error bars show: the standard deviation over seeds, from three seeds on."""
    return "sd" if rows["seed"].nunique() >= 3 else None


def _ours(records: pd.DataFrame, **columns: str) -> pd.DataFrame:
    rows = records[(records["control"] == "") & (records["client"] == "")]
    for column, value in columns.items():
        rows = rows[rows[column] == value]
    return rows


def style_map(points: pd.DataFrame) -> Figure:
    """Figure 4: t-SNE of style features, a panel per objective and split, a colour per client, a marker per style."""
    if points.empty:
        return empty("no run has style features")
    points = points.astype({"x": float, "y": float, "client": int})
    styles = dict(zip(points["style"].unique(), "osD^vPX", strict=False))
    grid = sns.relplot(
        points,
        x="x",
        y="y",
        row="ssl",
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
    for (ssl, split), axis in grid.axes_dict.items():
        score = float(points[(points["ssl"] == ssl) & (points["split"] == split)]["silhouette"].iloc[0])
        axis.set_title(f"{SSL.get(ssl, ssl)}, {SPLITS.get(split, split)}\nsilhouette by client {score:.2f}")
    grid.set(xlabel="", ylabel="", xticks=[], yticks=[])
    handles = [Line2D([], [], marker=mark, color="0.3", linestyle="", label=style) for style, mark in styles.items()]
    title = f"{points['client'].nunique()} clients,\na colour each"
    grid.figure.legend(handles=handles, title=title, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return grid.figure


def class_counts(counts: pd.DataFrame) -> Figure:
    """Figure 5: training images by client and class, a panel per split; clients of a style stand together."""
    if counts.empty:
        return empty("no run with several clients per style")
    splits = list(dict.fromkeys(counts["split"]))
    counts = counts.astype({"client": int, "class": int, "images": int})
    figure, axes = plt.subplots(
        1, len(splits), figsize=(5 * len(splits), 3.4), squeeze=False, sharey=True, layout="constrained"
    )
    top = counts["images"].max()
    for axis, split in zip(axes[0], splits, strict=True):
        part = counts[counts["split"] == split]
        grid = part.pivot_table(index="class", columns="client", values="images", aggfunc="first")
        sns.heatmap(
            grid,
            ax=axis,
            vmin=0,
            vmax=top,
            cmap="viridis",
            xticklabels=max(1, grid.shape[1] // 10),
            cbar=axis is axes[0][-1],
            cbar_kws={"label": "images"},
        )
        styles = part.drop_duplicates("client").sort_values("client")["style"].tolist()
        edges = [n for n in range(1, len(styles)) if styles[n] != styles[n - 1]]
        axis.vlines(edges, *axis.get_ylim(), color="white", linewidth=2)
        for style in dict.fromkeys(styles):
            members = [n for n, s in enumerate(styles) if s == style]
            axis.text(np.mean(members) + 0.5, -0.15, style, ha="center", va="bottom", fontsize=8)
        axis.set_title(SPLITS.get(split, split), pad=16)
    return figure


def stylised(records: pd.DataFrame) -> Figure:
    """The first figure without a caption: personalisation with the stylised feature and without it."""
    ours = _ours(records, method="fedstyle", protocol="personalization", metric="accuracy", aggregate="mean")
    labels = {
        "": "content + stylised, G trained",
        "shuffled-style": "the same, styles of other images",
        "frozen-generator": "content + stylised, G frozen",
        "content-only": "content only",
    }
    ours = ours[ours["table"].isin(["table1", "table2", "table3"]) & ours["variant"].isin(labels)]
    if ours.empty:
        return empty("FedStyle was not measured at this scale")
    ours = ours.assign(
        feature=ours["variant"].map(labels),
        case=[f"{d} @{n}" for d, n in zip(ours["dataset"], ours["clients_per_style"], strict=True)],
        ssl=ours["ssl"].map(SSL),
    )
    grid = sns.catplot(
        ours,
        kind="bar",
        x="case",
        y="value",
        hue="feature",
        hue_order=list(labels.values()),
        col="ssl",
        height=3.2,
        errorbar=_spread(ours),
    )
    grid.set(xlabel="", ylabel="personalisation accuracy (average)")
    for axis in grid.axes.flat:
        _published_average(axis, ours)
    grid.set_titles("{col_name}")
    return grid.figure


def _published_average(axis: plt.Axes, ours: pd.DataFrame) -> None:
    """Grey lines at the paper's averages (with the stylised feature)."""
    ssl = next((key for key, name in SSL.items() if name in axis.get_title()), "")
    for n, case in enumerate(dict.fromkeys(ours["case"])):
        dataset, _, clients = case.partition(" @")
        table = published("fedstyle", {"1": "table1", "5": "table2", "10": "table3"}[clients])
        keys = {
            "dataset": dataset,
            "ssl": ssl,
            "protocol": "personalization",
            "method": "fedstyle",
            "aggregate": "mean",
        }
        for column, value in keys.items():
            table = table[table[column] == value]
        for value in table["value"].astype(float):
            axis.hlines(value, n - 0.4, n - 0.13, color=PAPER, linestyle="--", linewidth=1.5)


def sweep(table: str, key: str, label: str) -> Callable[[pd.DataFrame], Figure]:
    """A figure of averages against one setting, ours and the paper's, a panel per protocol."""

    def draw(records: pd.DataFrame) -> Figure:
        parts = {
            "ours": _ours(records, table=table, metric="accuracy", aggregate="mean", variant="", paper="fedstyle"),
            "paper": published("fedstyle", table).query("aggregate == 'mean'"),
        }
        curves = pd.concat([part.assign(whose=whose) for whose, part in parts.items()])
        if curves.empty:
            return empty("nothing of this was measured at this scale")
        curves = curves.assign(
            x=[float(dict(pair.split("=") for pair in s.split(";"))[key]) for s in curves["setting"]],
            value=curves["value"].astype(float),
            curve=[
                f"{d}, {SSL.get(s, s)} ({w})"
                for d, s, w in zip(curves["dataset"], curves["ssl"], curves["whose"], strict=True)
            ],
        )
        names = sorted(curves["curve"].unique(), key=lambda name: name.endswith("(paper)"))
        papers = [name for name in names if name.endswith("(paper)")]
        greys = sns.color_palette("Greys_d", len(papers))
        grid = sns.relplot(
            curves,
            kind="line",
            x="x",
            y="value",
            hue="curve",
            hue_order=names,
            palette=[*sns.color_palette("deep", len(names) - len(papers)), *greys],
            style="curve",
            style_order=names,
            dashes=[(4, 2) if name in papers else "" for name in names],
            markers=["o"] * len(names),
            col="protocol",
            height=3.2,
            aspect=1.3,
            errorbar=_spread(curves),
        )
        ticks = sorted(curves["x"].unique())
        grid.set(xlabel=label, ylabel="accuracy (average over styles)")
        for axis in grid.axes.flat:
            axis.set_xscale(**({"value": "log"} if ticks[0] else {"value": "symlog", "linthresh": 1}))
            axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
            axis.set_xticks([], minor=True)
        grid.set_titles("{col_name}")
        grid.legend.set_title("")
        return grid.figure

    return draw


def probes(dataset: str, target: str) -> Callable[[pd.DataFrame], Figure]:
    """Accuracy of linear probes on content and style features: by round where there are snapshots, and at the end."""

    def draw(records: pd.DataFrame) -> Figure:
        rows = records[(records["paper"] == "padpaf") & (records["dataset"] == dataset) & (records["variant"] == "")]
        rows = rows[(rows["metric"] == "accuracy") & (rows["method"] == "padpaf") & (rows["client"] == "")]
        rows = rows[rows["setting"].str.match(f"probe=.*target={target}") & (rows["control"] != "shuffled-labels")]
        if rows.empty:
            return empty("nothing of this was measured at this scale")
        parts = rows["setting"].map(lambda text: dict(pair.split("=") for pair in text.split(";")))
        rows = rows.assign(
            features=parts.map(lambda p: p["features"]) + rows["control"].map(lambda c: f" ({c})" if c else ""),
            round=[int(p.get("round", 0)) for p in parts],
            case=rows["protocol"]
            + rows["role"].map(lambda r: f",\n{r} images" if r else "")
            + parts.map(lambda p: f",\ntop {p['top_k']}" if "top_k" in p else ""),
        )
        curves, ends = rows[rows["round"] > 0], rows[rows["round"] == 0]
        figure, axes = plt.subplots(1, 2 if len(curves) else 1, figsize=(9 if len(curves) else 5, 3.2), squeeze=False)
        sns.barplot(ends, x="case", y="value", hue="features", ax=axes[0, 0], errorbar=_spread(ends))
        axes[0, 0].set(xlabel="", ylabel=f"accuracy of {target}", ylim=(0, 1))
        for printed in _printed_probes(dataset, target):
            axes[0, 0].axhline(printed, color=PAPER, linestyle="--", linewidth=1)
        if len(curves):
            sns.lineplot(curves, x="round", y="value", hue="features", marker="o", ax=axes[0, 1], legend=False)
            axes[0, 1].set(xlabel="round (published protocol)", ylabel="", ylim=(0, 1))
        figure.tight_layout()
        return figure

    return draw


def _printed_probes(dataset: str, target: str) -> list[float]:
    """The accuracies that the text gives."""
    text = published("padpaf", "text")
    mine = text[(text["dataset"] == dataset) & (text["metric"] == "accuracy")]
    return [float(v) for v in mine[mine["setting"].str.contains(f"target={target}", regex=False)]["value"]]


def simpson(variant: str, panels: dict[str, str]) -> Callable[[pd.DataFrame], Figure]:
    """Points and regression lines on Simpson's paradox, a colour for each client."""

    def draw(points: pd.DataFrame) -> Figure:
        points = points[points["variant"] == variant].astype({"x": float, "y": float, "client": int})
        if points.empty:
            return empty("nothing of this was measured at this scale")
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


DEFAULT, CONDITIONAL = "padpaf/default", "padpaf/conditional"
RECONSTRUCTION = "feddva/reconstruction"
MODELS = {DEFAULT: "without labels", CONDITIONAL: "conditional"}
ALL = ("style-by-row", "content-by-row", "both")
FIGURES: dict[str, Callable[[Any], Figure]] = {
    "fedstyle-figure4": style_map,
    "fedstyle-figure5": class_counts,
    "fedstyle-figure-stylised": stylised,
    "fedstyle-figure-style-epochs": sweep("style-epochs", "style_epochs", "E_s, epochs of style extraction"),
    "fedstyle-figure-lambda": sweep("table4", "lambda", "lambda, weight of the style-infused loss"),
    "padpaf-figure3": simpson(
        "",
        {
            "data": "data, a colour for each client",
            "generated": "samples of the linear GAN",
            "single regression": "one regression for all",
            "private biases": "federated weight, private biases",
        },
    ),
    "padpaf-figure4": probes("mnist", "label"),
    "padpaf-figure5": probes("cifar10", "label"),
    "padpaf-figure6": by_client(CONDITIONAL, ["content-by-row"]),
    "padpaf-figure7": by_method(["padpaf/default", "ditto/default", "ditto-fedprox/default"], 120),
    "padpaf-figure8": by_client("padpaf/vae", ["both"]),
    "padpaf-figure9": simpson(
        "cluttered",
        {"single regression": "one regression for all", "private biases": "federated weight, private biases"},
    ),
    "padpaf-figure10": by_client(DEFAULT, ["both", "style-by-row"]),
    "padpaf-figure11": by_client(CONDITIONAL, ["content-by-row", "style-by-row"]),
    "padpaf-figure12": new_clients(CONDITIONAL, 1),
    "padpaf-figure13": by_client(CONDITIONAL, ALL),
    "padpaf-figure14": probes("mnist", "client"),
    "padpaf-figure15": restyled(MODELS),
    "padpaf-figure16": in_every_style(MODELS),
    "padpaf-figure17": by_client(DEFAULT, ["style-by-row"], slice(1, None)),
    "padpaf-figure18": probes("celeba", "identity"),
    "padpaf-figure19": by_client(DEFAULT, ALL, slice(0, 3)),
    "padpaf-figure20": by_client(DEFAULT, ALL, slice(3, 6)),
    "padpaf-figure21": by_client(DEFAULT, ALL, slice(6, 10)),
    "feddva-figure3": marked(RECONSTRUCTION),
    "feddva-figure4": marked(RECONSTRUCTION),
    "feddva-figure5": code_map,
    "feddva-figure6": by_round("client-marks"),
    "feddva-figure7": by_round("label-skew"),
    "feddva-figure8": class_fractions,
    "feddva-figure10": manifolds(RECONSTRUCTION),
    "feddva-figure11": manifolds(RECONSTRUCTION),
    "psfedgan-figure3": by_factor,
    "psfedgan-figure4": eavesdropped("ps-fedgan/default"),
    "psfedgan-figure5": losses_of_users,
    "psfedgan-figure6": losses_of_attackers(
        {
            "user": "user and cloud",
            "attacker-a1;r=1": "A1, r = 1",
            "attacker-a1;r=1-1e-7": "A1, r = 1-1e-7",
            "attacker-a1;r=0.9999": "A1, r = 0.9999",
            "attacker-a1;r=1;masks=own": "A1, r = 1, own masks",
            "attacker-fresh": "fresh generator",
        }
    ),
    "psfedgan-figure7": eavesdropped("ps-fedgan/default"),
    "psfedgan-figure8": eavesdropped("ps-fedgan/default"),
    **{f"fedinb-figure{n}": against_cost(*shown) for n, shown in AGAINST_COST.items()},
    "fedinb-figure3": translated(
        {
            "fedinb-hist-indae/default": "(a) HistIndAEINB",
            "fedstargan/sync_step=16": "(b) FedStarGAN-16",
            "fedstargan/sync_step=16;width=16": "(b) FedStarGAN-16, narrow",
            "fedstargan/sync_step=128": "(c) FedStarGAN-128",
            "fedstargan/sync_step=128;width=16": "(c) FedStarGAN-128, narrow",
        },
        "0",
        "60",
        rows=2,
    ),
    "fedinb-figure12": translated(
        {
            "fedinb/default": "(a) INB, J = 100",
            "fedinb-indae/j=200": "(b) IndAEINB, J = 200",
            "fedinb-hist-indae/default": "(c) HistIndAEINB, J = 100",
        },
        "0",
        "60",
        rows=3,
    ),
    "fedinb-figure13": translated({"fedinb-hist-indae/default": "HistIndAEINB"}, "0", "60", rows=3),
    "fedinb-figure14": over_iterations,
    "fedinb-figure15": objectives,
    "fedinb-figure16": objectives,
}


def write_figure(name: str, data: Any, about: str, files: Sequence[Path]) -> None:
    """Draw a figure from its data and save it in the format of each file's name.

    Raises:
        InputError: there is no such format.
    """
    forms = {file: file.suffix.lstrip(".") for file in files}
    for file, form in forms.items():
        if form not in FORMATS:
            raise InputError(f"{file}: unknown format '{form}'; allowed: {', '.join(FORMATS)}")
    _theme()
    figure = FIGURES[name](data)
    per_line = int(figure.get_figwidth() * 20)  # letters of this size to an inch
    figure.text(0, -0.02, textwrap.fill(about, per_line), fontsize=7, color="0.4", va="top")
    figure.set_dpi(DPI)
    figure.draw_without_rendering()  # lays it out: once, and not twice for each format
    figure.set_layout_engine("none")
    box = figure.get_tightbbox().padded(mpl.rcParams["savefig.pad_inches"])
    for file, form in forms.items():
        with written(file) as part:
            # no dates, so that the same records give the same bytes
            metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[form]
            figure.savefig(part, format=form, dpi=DPI, bbox_inches=box, metadata=metadata)
    plt.close(figure)
