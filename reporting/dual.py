"""FedDVA's figures that are drawn from numbers: maps of codes, accuracy over rounds, class fractions."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from reporting.mosaics import empty

METHODS = {"feddva": "FedDVA", "fedavg": "FedAvg", "fedavg-ft": "FedAvg+fine-tuning", "ditto": "Ditto"}
ENCODERS = {"shared-encoder": "by the shared encoders", "own-encoder": "by each client's own"}
NOTHING = "nothing of this was measured at this scale"


def code_map(points: pd.DataFrame) -> Figure:
    """Figure 5: t-SNE of z and of c, by the shared encoders and by each client's own; a colour per client."""
    if points.empty:
        return empty(NOTHING)
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


def by_round(split: str) -> Callable[[pd.DataFrame], Figure]:
    """Figures 6 and 7: accuracy of clients' own models after each round, with its deviation over clients."""

    def draw(records: pd.DataFrame) -> Figure:
        rows = records[(records["paper"] == "feddva") & (records["split"] == split) & (records["table"] == "accuracy")]
        rows = rows[(rows["control"] == "") & rows["setting"].str.fullmatch(r"rounds=\d+")]
        rows = rows.assign(round=[int(setting.removeprefix("rounds=")) for setting in rows["setting"]])
        keys = ["dataset", "method", "variant", "round"]
        names = {"accuracy": "accuracy", "accuracy_std_over_clients": "deviation"}
        rows = rows.assign(column=rows["metric"].map(names), value=rows["value"].astype(float))
        curves = rows.pivot_table(index=keys, columns="column", values="value", sort=False).reset_index()
        if curves.empty:
            return empty(NOTHING)
        datasets = list(dict.fromkeys(curves["dataset"]))
        figure, axes = plt.subplots(
            1, len(datasets), figsize=(5.5 * len(datasets), 3.4), squeeze=False, layout="constrained"
        )
        methods = list(dict.fromkeys(zip(curves["method"], curves["variant"], strict=True)))
        colours = dict(zip(methods, sns.color_palette("deep", len(methods)), strict=True))
        for axis, dataset in zip(axes[0], datasets, strict=True):
            for (method, variant), curve in curves[curves["dataset"] == dataset].groupby(
                ["method", "variant"], sort=False
            ):
                colour, low = colours[str(method), str(variant)], curve["accuracy"] - curve["deviation"]
                label = " ".join(filter(None, [METHODS.get(str(method), str(method)), str(variant)]))
                axis.plot(curve["round"], curve["accuracy"], color=colour, label=label, ls="--" if variant else "-")
                axis.fill_between(
                    curve["round"], low, curve["accuracy"] + curve["deviation"], color=colour, alpha=0.12, linewidth=0
                )
            axis.set(xlabel="communication round", ylabel="accuracy, deviation over clients", title=dataset)
        axes[0, -1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
        return figure

    return draw


def class_fractions(counts: pd.DataFrame) -> Figure:
    """Figure 8: the fractions of classes at each client, one bar for each."""
    if counts.empty:
        return empty(NOTHING)
    counts = counts.astype({"client": int, "class": int, "images": int})
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
