"""Tables of measures: a column for each of what methods are able to do, the best in it marked, ceilings apart."""

from collections.abc import Mapping, Sequence
from math import isfinite

import pandas as pd

from reporting.evidence import Evidence, Found, Key, evidence_by
from reporting.layout import ABILITY, MEASURE, Layout, Measure
from reporting.ranks import NO_RANKS, ranked, within_critical_difference
from reporting.verdict import ALPHA, SEEDS, Judgement, Verdict, above_zero, within_seeds
from reporting.wording import plural

POOLED = "pooled"
"""Stands for the control of methods that are a ceiling: they see everybody's images."""


def evidence_of(layout: Layout, records: pd.DataFrame) -> Found:
    """All evidence on the cells of a table of measures; none on those that a method leaves empty and others do not.

    What a floor or ceiling says of several methods' runs is one number, the mean over them.

    Args:
        records: ours, of one scale or several.
    """
    ours = _with_ceilings(layout, chosen(records, {"paper": [layout.paper]} | layout.where))
    parts = [_of_measure(ours, measure, layout) for measure in layout.asked]
    measured = pd.concat([part for part in parts if len(part)] or [ours.iloc[:0]], ignore_index=True)
    if measured.empty:
        return {}
    plain = measured[measured["control"] == ""]
    columns = list(measured[layout.columns].drop_duplicates().itertuples(index=False, name=None))
    rows = plain[layout.blocks + layout.rows].drop_duplicates().itertuples(index=False, name=None)
    if layout.ranked_over:
        measured = ranked(plain, layout)
    found: Found = {(*row, *column, ""): [] for row in rows for column in columns}
    return found | evidence_by(layout.keys, measured)


def chosen(records: pd.DataFrame, where: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """The records whose columns have one of these values."""
    for column, wanted in where.items():
        records = records[records[column].isin(wanted)]
    return records


def _with_ceilings(layout: Layout, ours: pd.DataFrame) -> pd.DataFrame:
    """Controls are of no method, and those that stand apart are ceilings."""
    apart = pd.Series(bool(layout.apart), index=ours.index)
    for column, values in layout.apart.items():
        apart &= ours[column].isin(values)
    controls = ours["control"] != ""
    ours = ours.assign(control=ours["control"].mask(apart & ~controls, POOLED))
    for column in layout.rows:
        ours[column] = ours[column].mask(controls, "")
    of_scale = ours.loc[controls].groupby("scale")["differs"]
    ours.loc[controls, "differs"] = of_scale.transform(lambda keys: " ".join(sorted({*" ".join(keys).split()})))
    return ours


def _of_measure(ours: pd.DataFrame, measure: Measure, layout: Layout) -> pd.DataFrame:
    """The records of a measure, under its name."""
    rows = chosen(ours, measure.where)
    if "value" not in measure.of:  # of a run, and so in all of its records
        rows = rows[rows["control"].isin(["", POOLED])].sort_values("differs", key=lambda keys: keys.str.len())
        rows = rows.drop_duplicates(["scale", "run"]).sort_index()  # the settings of no evaluation count
        rows = rows.assign(metric=measure.name, **dict.fromkeys(set(layout.columns) - {ABILITY, MEASURE}, ""))
    value = sum((pd.to_numeric(rows[column]) for column in measure.of), pd.Series(0.0, index=rows.index))
    return rows.assign(
        ability=measure.ability, measure=measure.name, value=value / measure.per, unit=measure.unit or rows["unit"]
    )


# ---- which are the best


def marked(layout: Layout, groups: Found) -> dict[Key, Judgement]:
    """Of each cell, whether it is the best of its column or within noise of that; or why there is none."""
    measures = {(measure.ability, measure.name): measure for measure in layout.asked}
    able = {_row(layout, key) for key, found in groups.items() if found}
    judged: dict[Key, Judgement] = {}
    for column, keys in _by_column(layout, groups).items():
        place = dict(zip([*layout.blocks, *layout.columns], column, strict=True))
        measure = measures[place[ABILITY], place[MEASURE]]
        methods = {key: groups[key][0] for key in keys if groups[key] and key[-1] == ""}
        for key in keys:
            lacking = measure.lacks if _row(layout, key) in able else layout.unable.get(measure.ability, "")
            judged[key] = _unmarked(groups[key], _why_no_rank(methods) if layout.ranked_over else lacking)
        for scale in dict.fromkeys(found.scale for found in methods.values()):  # only of one scale are compared
            alike = {key: other for key in methods for other in groups[key][::-1] if other.scale == scale}
            said: dict[Key, Judgement] = {}
            if layout.ranked_over:
                said = within_critical_difference(alike)
            elif measure.better:
                said = against_best(alike, measure.better == "high")
            # who is shown by another scale's number is no less a rival at this one
            judged |= {key: judgement for key, judgement in said.items() if methods[key].scale == scale}
    return judged


def _by_column(layout: Layout, groups: Found) -> dict[Key, list[Key]]:
    """The keys of cells by their block and column."""
    found: dict[Key, list[Key]] = {}
    for key in groups:
        found.setdefault(_part(layout, key, [*layout.blocks, *layout.columns]), []).append(key)
    return found


def _row(layout: Layout, key: Key) -> Key:
    """Block, row and ability of a cell."""
    return _part(layout, key, [*layout.blocks, *layout.rows, ABILITY])


def _part(layout: Layout, key: Key, columns: Sequence[str]) -> Key:
    at = dict(zip(layout.keys, key, strict=True))
    return tuple(at[column] for column in columns)


def _unmarked(found: list[Evidence], lacking: str) -> Judgement:
    if not found:
        return Judgement(Verdict.NOT_MEASURED, lacking)
    return Judgement(Verdict.NOT_PUBLISHED if isfinite(found[0].mean) else Verdict.DIVERGED)


def _why_no_rank(ranks: Mapping[Key, Evidence]) -> str:
    several = {found.seeds for found in ranks.values()}
    return f"left out of the ranks: it was not measured in all of the {max(several)} blocks" if several else NO_RANKS


def against_best(methods: Mapping[Key, Evidence], high: bool) -> dict[Key, Judgement]:
    """The best mean, and which others are not told from it: by a one-sided t-test on differences within seeds.

    Of numbers with three seeds or more, of which there have to be two. Nothing is corrected for the number of methods:
    one of twenty that are as good as the best is left unmarked by chance.
    """
    able = {key: found for key, found in methods.items() if found.seeds >= SEEDS and isfinite(found.mean)}
    if len(able) < 2:
        return {}
    sign = 1 if high else -1
    best = max(able, key=lambda key: sign * able[key].mean)
    judged = {
        key: _behind([sign * difference for difference in within_seeds(able[best], other).values()])
        for key, other in able.items()
    }
    return judged | {best: Judgement(Verdict.BEST, TEST)}


TEST = (
    f"the best mean of {SEEDS} seeds or more; others are told from it by one-sided t-tests on differences within seeds "
    f"(p < {ALPHA})"
)
"""How the best of a column is found."""


def _behind(differences: list[float]) -> Judgement:
    """Whether another is behind the best, by how far the best is before it with each seed."""
    if len(differences) < SEEDS:
        return Judgement(Verdict.NEAR_BEST, f"{plural(len(differences), 'seed')} in common with the best")
    p = above_zero(differences)
    verdict = Verdict.NEAR_BEST if p >= ALPHA else Verdict.NOT_PUBLISHED
    return Judgement(verdict, f"against the best: t-test within seeds, p = {p:.2g}")
