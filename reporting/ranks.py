"""Mean ranks of methods over data sets and splits, and which differences between them are critical.

As Demsar has it (2006, Statistical comparisons of classifiers over multiple data sets, JMLR 7, Sec. 3.2): ranks within
each block by means over seeds, which are no blocks of their own (Sec. 3.1.1: several runs on one data set are not
independent), Iman and Davenport's correction of Friedman's test, then Nemenyi's test of all pairs.
"""

from collections.abc import Mapping
from functools import partial
from itertools import chain
from math import inf, sqrt
from typing import Any

import pandas as pd
from scipy import stats

from reporting.evidence import Evidence, Found, Key
from reporting.layout import ABILITY, MEASURE, Layout
from reporting.verdict import ALPHA, Judgement, Verdict
from reporting.wording import called, names

BLOCKS = METHODS = 3
"""Fewer of either are not ranked."""
NO_RANKS = "ranks need three methods or more that were all measured in the same three blocks or more"
"""Why there are none. A block is what methods are ranked in, such as a data set and a split."""


def ranked(measured: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """The rank of each method's mean over seeds in each block, 1 for the best and means for ties, as records whose seed
    is the block.

    Blocks are those in which anybody was measured; who was not in one of them with all seeds that others have there, or
    diverged, has no rank.

    Args:
        measured: records of methods by measure.
    """
    high = {(measure.ability, measure.name): measure.better == "high" for measure in layout.asked}
    parts = [
        _ranked(part, layout, high[part[ABILITY].iloc[0], part[MEASURE].iloc[0]])
        for _, part in measured.groupby([*layout.columns, "scale"], sort=False)
    ]
    return pd.concat(parts, ignore_index=True)


def _ranked(part: pd.DataFrame, layout: Layout, high: bool) -> pd.DataFrame:
    """Of one measure, at one scale."""
    blocks = part[layout.ranked_over].agg(" ".join, axis=1)
    part = part.assign(block=blocks, unit="rank", differs=" ".join(sorted({*" ".join(part["differs"]).split()})))
    cells = part.groupby(["block", *layout.rows], sort=False)
    seeds = cells["seed"].nunique()
    whole = seeds == part.groupby("block")["seed"].nunique().reindex(seeds.index, level="block")
    means = cells["value"].agg(partial(pd.Series.mean, skipna=False)).where(whole)
    table = means.unstack(layout.rows, sort=False)  # noqa: PD010 -- pivot_table drops a block in which all diverged
    matrix = table.dropna(axis="columns")
    if len(matrix) < BLOCKS or matrix.shape[1] < METHODS:
        return part.iloc[:0]
    matrix.index.name = "seed"
    ranks = matrix.rank(axis="columns", ascending=not high).melt(ignore_index=False).reset_index()
    part = part.assign(seed=part["block"]).drop(columns=["block", "value"])
    return part.drop_duplicates([*layout.rows, "seed"]).merge(ranks)


def told(layout: Layout, found: Found) -> pd.DataFrame:
    """The ranks themselves, as a figure shows them: `measure` and method (`called`) in words, `block` and `rank`."""
    words = names(layout.words)
    rows: dict[str, list[dict[str, Any]]] = {}
    for key, several in found.items():
        at = dict(zip(layout.keys, key, strict=True))
        measure, method = (", ".join(called(k, [at[c] for c in k], words)) for k in (layout.columns, layout.rows))
        ranks = several[0].values if several else {}
        of_measure = rows.setdefault(measure, [])
        of_measure += [{"measure": measure, "called": method, "block": b, "rank": r} for b, r in ranks.items()]
    return pd.DataFrame(list(chain(*rows.values())), columns=["measure", "called", "block", "rank"])


def within_critical_difference(ranks: Mapping[Key, Evidence]) -> dict[Key, Judgement]:
    """The best mean rank, and which others are not told from it. All are within noise if Friedman's test sees nothing.

    Args:
        ranks: by method, each with its rank in every block.
    """
    if not ranks:
        return {}
    matrix = matrix_of(ranks)
    blocks, methods = matrix.shape
    overall, best = friedman(matrix), matrix.mean().idxmin()
    apart = nemenyi(matrix)[best]
    judged = {}
    for method, key in enumerate(ranks):
        near = overall >= ALPHA or apart[method] >= ALPHA
        judged[key] = Judgement(
            Verdict.NEAR_BEST if near else Verdict.NOT_PUBLISHED, f"against the best: Nemenyi, p = {apart[method]:.2g}"
        )
        if method == best:
            judged[key] = Judgement(
                Verdict.BEST,
                f"best of {methods} in {blocks} blocks; Friedman's test, p = {overall:.2g}; critical difference "
                f"{critical_difference(methods, blocks):.2f} (Nemenyi, p < {ALPHA})",
            )
    return judged


def matrix_of(ranks: Mapping[Key, Evidence]) -> pd.DataFrame:
    """Ranks (blocks, methods), methods by number."""
    return pd.DataFrame({n: found.values for n, found in enumerate(ranks.values())})


def friedman(ranks: pd.DataFrame) -> float:
    """The p-value against all methods being alike, by Iman and Davenport's F (Demsar 2006, Sec. 3.2.2).

    Args:
        ranks: (blocks, methods), in each block from 1 on.
    """
    if ranks.nunique(axis=1).max() == 1:  # all tie in every block, and the statistic is 0 / 0
        return 1.0
    blocks, methods = ranks.shape
    statistic = float(stats.friedmanchisquare(*ranks.to_numpy().T).statistic)
    rest = blocks * (methods - 1) - statistic
    if rest <= 0:  # every block has the same order
        return 0.0
    return float(stats.f.sf((blocks - 1) * statistic / rest, methods - 1, (methods - 1) * (blocks - 1)))


def nemenyi(ranks: pd.DataFrame) -> pd.DataFrame:
    """The p-values (methods, methods) against two methods being alike.

    Args:
        ranks: (blocks, methods), in each block from 1 on.
    """
    from scikit_posthocs import posthoc_nemenyi_friedman  # two seconds, which only ranks need pay

    return posthoc_nemenyi_friedman(ranks)


def critical_difference(methods: int, blocks: int) -> float:
    """How far two mean ranks have to be apart (Demsar 2006, Sec. 3.2.2)."""
    q = float(stats.studentized_range.ppf(1 - ALPHA, methods, inf)) / sqrt(2)
    return q * sqrt(methods * (methods + 1) / (6 * blocks))
