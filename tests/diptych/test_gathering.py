"""Gathering: records under every table that their run is for, and whose images they are on."""

import pandas as pd

from common.records import COLUMNS
from common.run_folder import RunFolder, write_csv
from common.spec import Spec
from diptych.cli import _run_of_today
from diptych.gathering import gather
from diptych.published import reference
from diptych.study import load_study
from reporting.records import read_rows

OK = {"status": "ok", "seed": "1"}


def _gathered(scale: str, run: str, styles: list[str], folder) -> pd.DataFrame:
    rows = [dict.fromkeys(COLUMNS, "") | OK | {"run": run, "style": style, "value": 1} for style in styles]
    rows.append(rows[0] | {"run": "another/run/of/no/1"})
    write_csv(folder / "part.csv", rows, COLUMNS)
    gather(scale, [folder / "part.csv"], folder / "records.csv", [])
    return pd.read_csv(folder / "records.csv", dtype=str, keep_default_na=False)


def test_a_number_over_all_styles_is_on_stand_ins_if_one_of_them_is(tmp_path):
    cell = next(cell for cell in load_study("reference-fedstyle").cells if "svhn" in cell.stand_ins)
    found = _gathered("reference-fedstyle", cell.spec.run, ["mnist", "svhn", "all"], tmp_path)
    assert dict(zip(found["style"], found["stand_in"], strict=True)) == {"mnist": "", "svhn": "yes", "all": "yes"}


def test_the_papers_own_images_stand_in_for_nothing(tmp_path):
    cell = load_study("paper").cells[0]
    found = _gathered("paper", cell.spec.run, ["mnist", "all"], tmp_path)
    assert set(found["stand_in"]) == {""}
    assert cell.table in set(found["table"])


def test_each_table_says_in_what_its_own_cell_differs_from_the_published_one(tmp_path):
    study = load_study("reduced")
    spec = study.specs["fedstyle/digit_1_iid_simclr/fedstyle/default/2011"]
    measured = dict.fromkeys(COLUMNS, "") | OK | {"run": spec.run, "style": "mnist", "value": 1}
    measured |= reference("reduced").distance(spec, "linear-probe")
    write_csv(tmp_path / "part.csv", [measured], COLUMNS)
    gather("reduced", [tmp_path / "part.csv"], tmp_path / "records.csv", [])
    found = read_rows(tmp_path / "records.csv")
    differs = {table: set(keys.split()) for table, keys in zip(found["table"], found["differs"], strict=True)}
    assert differs["table1"] - differs["style-epochs"] == {"algorithm.style_epochs"}
    assert differs["style-epochs"] < differs["table1"] == differs["table4"]


def test_a_cells_setting_is_of_what_has_none(tmp_path):
    """An evaluation's own, such as a probe's target, stays."""
    cell = next(cell for cell in load_study("tiny").cells if cell.setting)
    row = dict.fromkeys(COLUMNS, "") | OK | {"run": cell.spec.run, "value": 1}
    write_csv(tmp_path / "part.csv", [row, row | {"setting": "target=label"}], COLUMNS)
    gather("tiny", [tmp_path / "part.csv"], tmp_path / "records.csv", [])
    found = read_rows(tmp_path / "records.csv")
    assert list(found["setting"][found["table"] == cell.table]) == [cell.setting, "target=label"]


def test_what_is_for_one_table_only_is_in_no_other(tmp_path):
    """What a specification says of a run may be other than what its run did at a smaller scale."""
    cell = load_study("tiny").cells[0]
    run = {"run": cell.spec.run, "metric": "communication_rounds", "value": 2, "scale": "tiny"}
    measured = dict.fromkeys(COLUMNS, "") | OK | run
    counted = measured | {"table": "specification", "value": 100}
    write_csv(tmp_path / "part.csv", [measured, counted, counted | {"scale": "digits", "value": 9}], COLUMNS)
    gather("tiny", [tmp_path / "part.csv"], tmp_path / "records.csv", [])
    found = read_rows(tmp_path / "records.csv")
    assert dict(zip(found["table"], found["value"], strict=True)) == {cell.table: "2", "specification": "100"}


def test_of_earlier_records_what_is_specified_as_it_was_stays_and_what_is_measured_anew_does_not(tmp_path):
    again, stays, other, *_ = load_study("tiny").specs.values()

    def row(of: Spec, value: int, **more: object) -> dict[str, object]:
        return dict.fromkeys(COLUMNS, "") | OK | {"run": of.run, "spec": of.digest, "value": value} | more

    once = {"table": "table9", "wall_s": 1.5, "scale": "tiny"}
    earlier = [
        row(again, 1, **once),
        row(stays, 2, **once),
        row(other, 3, **once | {"spec": "0123456789ab"}),
        row(stays, 4, table="specification", metric="communication_rounds"),  # counted
        row(stays, 5, **once | {"run": "another/run/of/no/1"}),
        row(stays, 7, **once | {"scale": "digits"}),  # which asks for the same run, but has tables of its own
    ]
    write_csv(tmp_path / "earlier.csv", earlier, COLUMNS)
    write_csv(tmp_path / "part.csv", [row(again, 6, wall_s=2.5)], COLUMNS)
    gather("tiny", [tmp_path / "part.csv"], tmp_path / "records.csv", [tmp_path / "earlier.csv"])
    found = read_rows(tmp_path / "records.csv")
    assert {(run, value) for run, value in zip(found["run"], found["value"], strict=True)} == {
        (stays.run, "2"),
        (again.run, "6"),
    }
    assert set(found["table"][found["run"] == stays.run]) == {"table9"}


def test_records_of_the_papers_together_are_those_of_all_at_once(tmp_path):
    """Each paper's are gathered for its own tables, whoever else is not done yet."""
    some = {spec.labels["paper"]: spec for spec in load_study("tiny").specs.values()}
    said = dict.fromkeys(COLUMNS, "") | OK | {"value": 1, "scale": "tiny"}
    rows = [said | spec.labels | {"run": spec.run} for spec in some.values()]
    rows += [row | {"table": "specification", "metric": "communication_rounds"} for row in rows]
    write_csv(tmp_path / "part.csv", rows, COLUMNS)
    files = [tmp_path / f"{paper}.csv" for paper in some]
    for paper, file in zip(some, files, strict=True):
        gather("tiny", [tmp_path / "part.csv"], file, [], paper)
        assert set(read_rows(file)["paper"]) == {paper}
    gather("tiny", files, tmp_path / "together.csv", [])
    gather("tiny", [tmp_path / "part.csv"], tmp_path / "at-once.csv", [])
    together, at_once = (read_rows(tmp_path / f"{name}.csv") for name in ("together", "at-once"))
    order = ["run", "table"]
    pd.testing.assert_frame_equal(
        together.sort_values(order, ignore_index=True), at_once.sort_values(order, ignore_index=True)
    )
    assert len(some) > 4


def test_a_run_has_the_labels_of_today_in_a_workflow_and_elsewhere_those_that_it_was_given(tmp_path):
    spec = next(iter(load_study("tiny").specs.values()))
    renamed = spec.model_copy(update={"labels": spec.labels | {"method": "mine"}})
    for folder, method in ((tmp_path / "runs" / spec.run, spec.labels["method"]), (tmp_path / "my-run", "mine")):
        folder.mkdir(parents=True)
        RunFolder(folder).write_spec(renamed)
        assert _run_of_today(folder).labels["method"] == method
