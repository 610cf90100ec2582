"""Figures of accuracies: by feature, against a setting, of probes, and over rounds."""

import itertools
from collections.abc import Callable

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from reporting.canvas import PAPER, SSL, empty, legend_of_all, of_every_seed, spread
from reporting.records import published
from reporting.wording import name_of


def stylised(records: pd.DataFrame) -> Figure:
    """The first figure without a caption: personalisation with the stylised feature and without it."""
    ours = _ours(records, method="fedstyle", protocol="personalization", metric="accuracy", aggregate="mean")
    labels = {
        "": "content + stylised, G trained",
        "mean-style": "the same, one style for all images",
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
    shown = [label for variant, label in labels.items() if variant in set(ours["variant"])]
    grid = sns.catplot(
        ours,
        kind="bar",
        x="case",
        y="value",
        hue="feature",
        hue_order=shown,
        col="ssl",
        height=3.2,
        errorbar=spread(ours),
    )
    grid.set(xlabel="", ylabel="personalisation accuracy (average),\ndashed the paper's")
    for axis in grid.axes.flat:
        _published_average(axis, ours, 0.8 / len(shown))
    grid.set_titles("{col_name}")
    return grid.figure


def _published_average(axis: plt.Axes, ours: pd.DataFrame, width: float) -> None:
    """Grey lines at the paper's averages, which are with the stylised feature: across the first bar of a case."""
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
            axis.hlines(value, n - 0.4, n - 0.4 + width, color=PAPER, linestyle="--", linewidth=1.5)


def sweep(table: str, key: str, label: str) -> Callable[[pd.DataFrame], Figure]:
    """A figure of averages against one setting, ours and the paper's, a panel per protocol."""

    def draw(records: pd.DataFrame) -> Figure:
        parts = {
            "ours": _ours(records, table=table, metric="accuracy", aggregate="mean", variant="", paper="fedstyle"),
            "paper": published("fedstyle", table).query("aggregate == 'mean'"),
        }
        curves = pd.concat([part.assign(whose=whose) for whose, part in parts.items()])
        if curves.empty:
            return empty()
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
            errorbar=spread(curves),
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


def _ours(records: pd.DataFrame, **columns: str) -> pd.DataFrame:
    rows = records[(records["control"] == "") & (records["client"] == "")]
    for column, value in columns.items():
        rows = rows[rows[column] == value]
    return rows


def probes(dataset: str, target: str, *, shuffled: bool = False) -> Callable[[pd.DataFrame], Figure]:
    """Accuracy of linear probes on content and style features: by round where there are snapshots, and at the end.

    Args:
        shuffled: whether what is read of shuffled targets is shown, too: where it is no guess, but memory.
    """

    def draw(records: pd.DataFrame) -> Figure:
        rows = records[(records["paper"] == "padpaf") & (records["dataset"] == dataset) & (records["variant"] == "")]
        rows = rows[(rows["metric"] == "accuracy") & (rows["method"] == "padpaf") & (rows["client"] == "")]
        rows = rows[rows["setting"].str.match(f"probe=.*target={target}")]
        parts = rows["setting"].map(lambda text: dict(pair.split("=") for pair in text.split(";")))
        rows = rows.assign(
            code=parts.map(lambda p: p["features"]),
            features=parts.map(lambda p: p["features"]) + rows["control"].map(lambda c: f" ({c})" if c else ""),
            top=parts.map(lambda p: p.get("top_k", "")),
            round=[int(p.get("round", 0)) for p in parts],
            case=rows["protocol"]
            + rows["role"].map(lambda r: f",\n{r}\nimages" if r else "")
            + parts.map(lambda p: f",\ntop {p['top_k']}" if "top_k" in p else ""),
        )
        chance = rows.iloc[:0] if shuffled else rows[rows["control"] == "shuffled-labels"]
        rows = rows.drop(chance.index)
        curves, ends = rows[rows["round"] > 0], rows[rows["round"] == 0]
        if ends.empty:
            return empty()
        cases, names = (list(dict.fromkeys(ends[column])) for column in ("case", "features"))
        colours = dict(zip(names, sns.color_palette("deep"), strict=False))
        panels = 2 if len(set(curves["round"])) > 1 else 1  # one round is the end
        width = 1.5 + 4 * panels + 0.9 * max(0, len(cases) - 4)
        figure, axes = plt.subplots(1, panels, figsize=(width, 3.2), squeeze=False, layout="constrained")
        look = {"hue": "features", "hue_order": names, "palette": colours}
        sns.barplot(ends, x="case", order=cases, y="value", ax=axes[0, 0], errorbar=spread(ends), **look)
        axes[0, 0].set(xlabel="", ylabel=f"accuracy of {target}", ylim=(0, 1))
        axes[0, 0].set_title(name_of("dataset", dataset, {}).short, fontsize=9)
        for (code, top), printed in _printed_probes(dataset, target).items():
            theirs = ends[(ends["protocol"] == "published") & (ends["code"] == code) & (ends["top"] == top)]
            for case in theirs["case"].unique():
                ends_at = cases.index(case) - 0.4, cases.index(case) + 0.4
                axes[0, 0].hlines(printed, *ends_at, color=colours[code], ls="--", lw=1.3, label=f"{code}, the paper")
        if len(chance):
            axes[0, 0].axhline(chance["value"].mean(), color="0.5", ls=":", lw=1, label="shuffled labels")
        if panels == 2:
            shown = {"marker": "o", "errorbar": spread(curves), "legend": False, **look}
            sns.lineplot(curves, x="round", y="value", ax=axes[0, 1], **shown)
            axes[0, 1].set(xlabel="round (published protocol)", ylabel="", ylim=(0, 1))
        axes[0, 0].get_legend().remove()  # it lay over bars
        legend_of_all(figure)
        return figure

    return draw


def _printed_probes(dataset: str, target: str) -> dict[tuple[str, str], float]:
    """The accuracies that the text gives, by code and among how many of the likeliest the target has to be."""
    text = published("padpaf", "text")
    mine = text[(text["dataset"] == dataset) & (text["metric"] == "accuracy")]
    mine = mine[mine["setting"].str.contains(f"target={target}", regex=False)]
    asked = [dict(pair.split("=") for pair in setting.split(";")) for setting in mine["setting"]]
    return {(a["features"], a.get("top_k", "")): float(v) for a, v in zip(asked, mine["value"], strict=True)}


def by_round(split: str) -> Callable[[pd.DataFrame], Figure]:
    """Figures 6 and 7: accuracy of clients' own models after each round, with its deviation over clients, by what
    methods are `called`."""

    def draw(records: pd.DataFrame) -> Figure:
        rows = records[(records["paper"] == "feddva") & (records["split"] == split) & (records["table"] == "accuracy")]
        rows = rows[(rows["control"] == "") & rows["setting"].str.fullmatch(r"rounds=\d+")]
        rows = rows.assign(round=[int(setting.removeprefix("rounds=")) for setting in rows["setting"]])
        keys = ["dataset", "called", "variant", "round"]
        names = {"accuracy": "accuracy", "accuracy_std_over_clients": "deviation"}
        rows = rows.assign(column=rows["metric"].map(names), value=pd.to_numeric(rows["value"]))
        rows = of_every_seed(rows, ["dataset", "called", "variant", "metric"], "round")
        curves = rows.pivot_table(index=keys, columns="column", values="value", sort=False)
        if curves.empty:
            return empty()
        curves = curves.reindex(columns=list(names.values())).reset_index()  # a pooled run has no deviation
        datasets = list(dict.fromkeys(curves["dataset"]))
        figure, axes = plt.subplots(
            1, len(datasets), figsize=(5.5 * len(datasets), 3.4), squeeze=False, layout="constrained"
        )
        called = curves["called"].unique()
        palette = itertools.chain(sns.color_palette("deep"), sns.color_palette("pastel"), sns.color_palette("dark"))
        colours = dict(zip(called, palette, strict=False))
        for axis, dataset in zip(axes[0], datasets, strict=True):
            for name, curve in curves[curves["dataset"] == dataset].groupby("called", sort=False):
                colour, low = colours[name], curve["accuracy"] - curve["deviation"]
                style = "--" if curve["variant"].iloc[0] else "-"
                axis.plot(curve["round"], curve["accuracy"], color=colour, label=name, ls=style)
                axis.fill_between(
                    curve["round"], low, curve["accuracy"] + curve["deviation"], color=colour, alpha=0.12, linewidth=0
                )
            axis.set(xlabel="communication round", ylabel="accuracy, deviation over clients", title=dataset)
        legend_of_all(figure)
        return figure

    return draw
