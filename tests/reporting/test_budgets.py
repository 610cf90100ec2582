"""Curves against the share of the published training: what their points are, and what is drawn."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from common.records import COLUMNS
from reporting.budgets import budget_points, over_budget
from reporting.records import published

ACCURACY = {"accuracy": {"table": ["table1"], "dataset": ["mnist"], "split": ["split-1"], "metric": ["accuracy"]}}


@pytest.fixture(autouse=True)
def closed():
    """No figure stays open."""
    yield
    plt.close("all")


def _records(*rows: dict) -> pd.DataFrame:
    blank = dict.fromkeys(COLUMNS, "") | {
        "paper": "psfedgan",
        "table": "table1",
        "dataset": "mnist",
        "split": "split-1",
        "metric": "accuracy",
        "aggregate": "none",
        "method": "fedavg",
        "status": "ok",
        "scale": "some",
        "seed": "1",
        "budget": "0.5",
    }
    records = pd.DataFrame(
        [blank | {"run": f"{row.get('method', 'fedavg')}/{row.get('seed', '1')}"} | row for row in rows]
    )
    return records.assign(called=records["method"])


def _points(records: pd.DataFrame) -> list[tuple[float, float]]:
    points = budget_points(records, ACCURACY)
    return sorted(zip(points["share"], points["value"], strict=True))


def test_a_number_after_some_rounds_has_had_that_part_of_the_runs_budget():
    rows = [{"setting": f"rounds={n}", "value": value} for n, value in ((1, 0.1), (4, 0.2), (10, 0.7))]
    named = [{"setting": f"rounds={name}", "value": 0.9} for name in ("best", "half", "all")]
    assert _points(_records(*rows, *named)) == [(pytest.approx(0.05), 0.1), (pytest.approx(0.2), 0.2), (0.5, 0.7)]


def test_a_number_at_the_end_is_one_with_that_after_the_last_round():
    rows = [{"setting": "rounds=2", "value": 0.1}, {"setting": "rounds=4", "value": 0.7}, {"setting": "", "value": 0.7}]
    assert _points(_records(*rows)) == [(0.25, 0.1), (0.5, 0.7)]


def test_numbers_of_two_variants_of_a_run_are_two_points():
    """As of a run that is measured in two ways, each under its name."""
    rows = [{"method": m, "variant": v, "run": "a"} for m in ("fedavg", "fedprox") for v in ("", "measured otherwise")]
    points = budget_points(_records(*(row | {"value": n / 10} for n, row in enumerate(rows))), ACCURACY)
    assert points["value"].tolist() == [0.0, 0.1, 0.2, 0.3]


def test_of_a_run_that_starts_from_another_only_the_end_is_a_point():
    records = _records({"setting": "rounds=2", "value": 0.1}, {"setting": "", "value": 0.7})
    points = budget_points(records, ACCURACY, started={"fedavg/1"})
    assert points[["share", "value"]].to_numpy().tolist() == [[0.5, 0.7]]


@pytest.mark.parametrize(
    "other",
    [{"control": "floor"}, {"client": "client-1"}, {"split": "split-2"}, {"setting": "r=1"}],
    ids=lambda row: next(iter(row)),
)
def test_nothing_else_is_a_point(other):
    assert _points(_records({"value": 0.3}, {"value": 0.4, "run": "other"} | other)) == [(0.5, 0.3)]


def test_where_a_seed_diverged_there_is_no_point_of_those_that_are_left():
    """And what it had before then stands where it had it, though it had no other rounds."""
    whole = [{"setting": f"rounds={n}", "value": n / 100} for n in (8, 16, 32, 40)]
    lost = [{"setting": f"rounds={n}", "value": n / 100, "seed": "2"} for n in (8, 16)]
    lost += [{"setting": "", "value": "", "status": "diverged", "seed": "2"}]
    assert [share for share, _ in _points(_records(*whole, *lost))] == pytest.approx([0.1, 0.1, 0.2, 0.2])


def test_lines_are_of_a_method_and_scale_and_the_papers_number_stands_at_all_of_its_training():
    seeds = [{"seed": str(n), "value": 0.6 + n / 10} for n in (1, 2, 3)]
    records = _records(*seeds, {"method": "fedprox", "value": 0.2, "scale": "other", "budget": "0.1"})
    figure = over_budget(budget_points(records, ACCURACY), ACCURACY)
    (axis,) = figure.axes
    lines = {bar.get_label(): bar.lines[0].get_xydata().tolist() for bar in axis.containers}
    assert lines == {"fedavg": [[0.5, pytest.approx(0.8)]], "fedprox": [[0.1, pytest.approx(0.2)]]}
    spreads = {bar.get_label(): bar.lines[2][0].get_segments() for bar in axis.containers}
    assert spreads["fedavg"][0][:, 1] == pytest.approx([0.7, 0.9]), "of three seeds"
    assert len(spreads["fedprox"][0]) == 0 or pd.isna(spreads["fedprox"][0][:, 1]).all(), "of one seed there is none"
    printed = [dots.get_offsets().tolist() for dots in axis.collections if len(dots.get_offsets()) == 1]
    assert [1.0, pytest.approx(0.8344)] in [dot for dots in printed for dot in dots], "Table 1 of the paper"


def test_scales_are_named_at_the_ends_of_their_highest_lines_where_there_are_several():
    rows = [
        {"value": 0.4, "setting": "rounds=1"},
        {"value": 0.6, "setting": "rounds=2"},
        {"value": 0.5, "setting": "rounds=2", "method": "fedprox"},
        {"value": 0.9, "budget": "0.01", "scale": "other", "run": "short"},
    ]

    def named(records: pd.DataFrame) -> dict[str, tuple[float, float]]:
        (axis,) = over_budget(budget_points(records, ACCURACY), ACCURACY).axes
        return {text.get_text(): text.xy for text in axis.texts}

    assert named(_records(*rows)) == {"some": (0.5, 0.6), "other": (0.01, 0.9)}
    assert named(_records(*rows[:3])) == {}


def test_a_stand_in_has_no_printed_number_beside_it():
    figure = over_budget(budget_points(_records({"value": 0.5, "stand_in": "yes"}), ACCURACY), ACCURACY)
    assert [1.0, 0.8344] not in [dots.get_offsets().tolist() for dots in figure.axes[0].collections]


def test_the_papers_number_is_of_what_is_asked_for_where_its_table_tells_it_apart():
    """FedStyle's Table 1 has both protocols, and means beside the styles."""
    where = {"table": ["table1"], "dataset": ["digit"], "ssl": ["simclr"], "metric": ["accuracy"]}
    where |= {"protocol": ["generalization"], "aggregate": ["mean"], "role": ["ours alone"]}
    row = {"paper": "fedstyle", "table": "table1", "dataset": "digit", "split": "iid", "ssl": "simclr", "value": 0.9}
    asked = {"protocol": "generalization", "aggregate": "mean", "role": "ours alone"}
    figure = over_budget(budget_points(_records(row | asked), {"it": where}), {"it": where})
    printed = published("fedstyle", "table1").query(
        "dataset == 'digit' and ssl == 'simclr' and protocol == 'generalization' and aggregate == 'mean'"
        " and method == 'fedavg' and variant == ''"
    )["value"]
    dots = [dot for drawn in figure.axes[0].collections for dot in drawn.get_offsets().tolist()]
    assert [1.0, pytest.approx(printed.astype(float).mean())] in dots


def test_what_a_paper_says_in_its_text_alone_stands_there_too():
    """PaDPaF's 98.1 %, which is in no table; and not where another setting is asked for."""
    row = {"paper": "padpaf", "table": "table1", "method": "padpaf", "protocol": "published", "value": 0.9, "split": ""}
    for features, expected in (("content", [[1.0, 0.981]]), ("both", [])):
        setting = {"setting": f"probe=linear;features={features};target=label"}
        where = {key: [value] for key, value in setting.items()} | {"metric": ["accuracy"], "protocol": ["published"]}
        figure = over_budget(budget_points(_records(row | setting), {"it": where}), {"it": where})
        dots = [dot for drawn in figure.axes[0].collections for dot in drawn.get_offsets().tolist()]
        assert [dot for dot in dots if dot[0] == 1.0] == expected


def test_what_was_not_measured_is_said():
    figure = over_budget(budget_points(_records({"value": 0.5, "split": "split-2"}), ACCURACY), ACCURACY)
    assert "nothing of this was measured" in figure.axes[0].texts[0].get_text()


@pytest.mark.parametrize(("quantities", "rows", "columns"), [(3, 1, 3), (4, 2, 2), (5, 2, 3)])
def test_panels_stand_in_rows_that_fit_a_page(quantities, rows, columns):
    curves = {f"accuracy {n}": ACCURACY["accuracy"] for n in range(quantities)}
    figure = over_budget(budget_points(_records({"value": 0.5}), curves), curves)
    shown = [axis for axis in figure.axes if axis.axison]
    assert [axis.get_title() for axis in shown] == list(curves)
    assert shown[0].get_subplotspec().get_gridspec().get_geometry() == (rows, columns)
