"""Answers of which the numbers are known."""

import numpy as np
import pytest

from common.run_folder import RunFolder
from evaluation.answers import answers
from tests.evaluation.pictures import left
from tests.wrong import refused


def test_a_label_counts_as_often_as_it_is_tested_or_as_its_client_has_it(tmp_path):
    """The first client has nine images of the first class and one of the second."""
    run = left(tmp_path, {})
    counts = [(0, "ink", 9, 1), (1, "pen", 5, 5)]
    rows = [
        {"client": k, "style": style, "class": c, "images": n} for k, style, *each in counts for c, n in enumerate(each)
    ]
    run.write_table("partition.csv", rows, ["client", "style", "class", "images"])
    right = np.array([True, True, False, False, True, False, True, False])
    by = {"answers/own": right, "answers/client": np.repeat([0, 1], 4), "answers/label": np.tile([0, 0, 1, 1], 2)}
    run.write_features(by)
    found = {(r["metric"], r.get("setting", "")): r["value"] for r in answers(run) if not r.get("client")}
    assert found["accuracy", ""] == found["accuracy_worst_client", ""] == 0.5
    assert found["accuracy", "labels=own"] == pytest.approx((0.9 * 1 + 0.1 * 0 + 0.5) / 2)


@pytest.mark.parametrize(("had", "own"), [((5, 5), 0.25), ((0, 5), 0.5), ((0, 0), None)])
def test_a_client_of_whose_labels_none_is_tested_has_no_part_in_accuracy_on_own_labels(had, own, tmp_path):
    """All are tested on the first class: of two images the first client is right on none, the second on one."""
    run = left(tmp_path, {})
    rows = [
        {"client": k, "style": style, "class": c, "images": images}
        for k, style in enumerate(("ink", "pen"))
        for c, images in enumerate((had[k], 5 - had[k]))
    ]
    run.write_table("partition.csv", rows, ["client", "style", "class", "images"])
    right = {"answers/own": np.array([False, False, True, False])}
    run.write_features(right | {"answers/client": np.repeat([0, 1], 2), "answers/label": np.zeros(4, int)})
    found = {(r["metric"], r.get("setting", "")): r["value"] for r in answers(run) if not r.get("client")}
    assert found.get(("accuracy", "labels=own")) == own
    assert found["accuracy", ""] == 0.25


def test_there_is_a_record_of_each_client_of_the_worst_of_their_mean_and_of_each_style_that_no_client_has(tmp_path):
    """Of four images each, by own models three and one are read right, by the shared one all and none; of three of a
    style that no client has, one and two."""
    run = left(tmp_path, {})
    right = {"own": [1, 1, 1, 0, 0, 0, 0, 1], "shared": [1, 1, 1, 1, 0, 0, 0, 0]}
    unseen = {"own": [1, 0, 0], "shared": [1, 0, 1]}
    arrays = {f"answers/{role}": np.array(row, bool) for role, row in right.items()}
    arrays |= {f"answers/pen/{role}": np.array(row, bool) for role, row in unseen.items()}
    run.write_features(arrays | {"answers/client": np.repeat([0, 1], 4), "answers/label": np.zeros(8, int)})
    columns = "metric", "unit", "role", "setting", "client", "domain"
    found = {tuple(r.get(column, "") for column in columns): r["value"] for r in answers(run)}
    expected = {}
    for role, first, second, of_unseen in (("own", 0.75, 0.25, 1 / 3), ("shared", 1.0, 0.0, 2 / 3)):
        expected |= {
            ("accuracy", "fraction", role, "", "", ""): 0.5,
            ("accuracy_worst_client", "fraction", role, "", "", ""): second,
            ("accuracy", "fraction", role, "labels=own", "", ""): 0.5,
            ("accuracy", "fraction", role, "", "client-1", ""): first,
            ("accuracy", "fraction", role, "", "client-2", ""): second,
            ("accuracy", "fraction", role, "", "", "pen"): of_unseen,
        }
    assert found == pytest.approx(expected)


def _four(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    """Four answers of one client, three of them right."""
    given = {"own": np.array([True, True, True, False]), "client": np.zeros(4, int), "label": np.zeros(4, int)}
    return {f"answers/{name}": array for name, array in (given | arrays).items()}


def test_where_nobody_says_who_has_which_labels_all_else_is_measured(tmp_path):
    run = left(tmp_path, {})
    run.write_features(_four())
    whole = list(answers(run))
    (tmp_path / "partition.csv").unlink()
    assert list(answers(RunFolder(tmp_path))) == [row for row in whole if row.get("setting") != "labels=own"]


def test_answers_of_nobody_and_of_nothing_are_refused(tmp_path):
    run = left(tmp_path, {})
    run.write_features({key: x for key, x in _four().items() if key != "answers/client"})
    with refused("features.npz", "no array 'answers/client'"):
        list(answers(run))
    for lacking in ({name: np.zeros(0, int) for name in ("own", "client", "label")}, {"pen/own": np.zeros(0)}):
        run.write_features(_four(**lacking))
        with refused("features.npz: answers/", "own: there is no image"):
            list(answers(RunFolder(tmp_path)))


def test_a_run_that_has_left_no_answers_is_not_measured(tmp_path):
    run = left(tmp_path, {})
    run.write_features({"codes/test/client": np.zeros(3, int)})
    assert list(answers(run)) == []
