"""Answers of which the numbers are known."""

import numpy as np
import pytest

from evaluation.answers import answers
from tests.evaluation.pictures import left


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
