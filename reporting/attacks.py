"""PS-FedGAN's figures that are drawn from numbers: what attackers reach, and the losses of generators."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reporting.canvas import empty, spread
from reporting.verdict import SEEDS


def _rows(records: pd.DataFrame, **columns: str) -> pd.DataFrame:
    rows = records[(records["paper"] == "psfedgan") & (records["control"] == "")]
    for column, value in columns.items():
        rows = rows[rows[column] == value]
    return rows.assign(value=rows["value"].astype(float))


def by_factor(records: pd.DataFrame) -> Figure:
    """Figure 3: how often the label that was asked for is read from A2's images, by the factor r on the bias."""
    rows = _rows(records, split="setup-2", metric="accuracy", role="attacker-a2")
    rows = rows[rows["setting"].str.fullmatch(r"r=[0-9.]+")]
    if rows.empty:
        return empty()
    rows = rows.assign(r=rows["setting"].str.removeprefix("r=")).sort_values("r", key=lambda r: r.astype(float))
    cloud = _rows(records, split="setup-2", metric="accuracy", role="cloud", setting="", client="")["value"].mean()
    figure, axis = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
    users, mean = rows[rows["client"] != ""], rows[rows["client"] == ""]
    sns.stripplot(users, x="r", y="value", color="0.6", size=4, alpha=0.5, jitter=False, ax=axis)
    means = mean.groupby("r", sort=False)["value"].agg(["mean", "std", "count"])
    deviation = means["std"].where(means["count"] >= SEEDS)
    several = ", deviation over seeds" if deviation.notna().any() else ""
    blue = sns.color_palette("deep")[0]
    axis.errorbar(range(len(means)), means["mean"], deviation, c=blue, marker="o", capsize=2, label=f"mean{several}")
    axis.axhline(cloud, color="0.2", ls="--", lw=1, label="the cloud")
    axis.axhline(0.1, color="0.6", ls=":", lw=1, label="guessing")
    axis.set(
        xlabel="r, on the bias of the first layer\n(a point for each user and seed)",
        ylabel="accuracy",
        ylim=(-0.05, 1.05),
    )
    axis.tick_params(axis="x", labelsize=8)
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def losses_of_users(records: pd.DataFrame) -> Figure:
    """Figure 5: the loss of every generator by round, a line for each user; the cloud's is the user's to the bit."""
    curves = _by_round(_rows(records, split="split-1", metric="generator_loss", role="user", method="ps-fedgan"))
    curves = curves[(curves["variant"] == "") & (curves["dataset"] == "mnist")]
    if curves.empty:
        return empty()
    figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
    order = sorted(curves["client"].unique(), key=lambda client: int(client.removeprefix("user-")))
    sns.lineplot(curves, x="round", y="value", hue="client", hue_order=order, palette="husl", errorbar=None, ax=axis)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set(xlabel="communication round", ylabel="loss of the generator")
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def losses_of_attackers(settings: dict[str, str]) -> Callable[[pd.DataFrame], Figure]:
    """Figure 6: the loss of attackers' generators against the user's, a panel for each user, with the deviation over
    seeds from three on."""

    def draw(records: pd.DataFrame) -> Figure:
        curves = _by_round(_rows(records, split="setup-1", metric="generator_loss", method="ps-fedgan"))
        who = curves["role"] + curves["start"].map(lambda start: f";{start}" if start else "")
        curves = curves.assign(who=who.map(settings))[(curves["variant"] == "") & who.isin(settings)]
        if curves.empty:
            return empty()
        grid = sns.relplot(
            curves,
            kind="line",
            x="round",
            y="value",
            hue="who",
            hue_order=[name for name in settings.values() if name in set(curves["who"])],
            col="client",
            palette="deep",
            errorbar=spread(curves),
            height=2.8,
            facet_kws={"sharey": False},
        )
        for axis in grid.axes.flat:
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        grid.set_axis_labels("communication round", "loss of the generator").set_titles("{col_name}")
        grid.legend.set_title("")
        return grid.figure

    return draw


def _by_round(rows: pd.DataFrame) -> pd.DataFrame:
    """With the round, and what the attacker started from, apart."""
    parts = rows["setting"].str.extract(r"^(?:(?P<start>.*);)?round=(?P<round>\d+)$")
    return rows.assign(start=parts["start"].fillna(""), round=parts["round"].astype(float)).dropna(subset=["round"])
