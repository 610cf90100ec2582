"""How far a run is from what was published, on the configuration that is there."""

import inspect
from types import SimpleNamespace

import pytest

from diptych.published import ALONE, JUDGED, USES, Reference, reference
from diptych.study import load_study
from diptych.workflow import Workflow
from evaluation.registry import EVALUATIONS

RUN = "fedinb/rotated-mnist_generalisation_1/feddirt/l10-k10/2011"
ASKED = {"exchanged", "generator-losses", "inversion", "judge"}
"""Evaluations that only ask whether there are samples, or read what does not depend on how many."""


@pytest.mark.parametrize("paper", ["fedstyle", "padpaf", "feddva", "psfedgan", "fedinb"])
def test_what_is_published_is_as_published(paper):
    found = reference("paper")
    evaluations = found.study.papers[paper].evaluation
    for spec in found.study.specs.values():
        if spec.labels["paper"] == paper and spec.seed == 2011:
            for evaluation in evaluations:
                assert found.distance(spec, evaluation) == {"differs": "", "budget": "1"}


def _changed(changes: dict, start: dict | None = None) -> Reference:
    study = load_study("paper")
    before = study.specs[RUN].start
    runs = dict(study.specs)
    for run, change in ((RUN, changes), (before, start or {})):
        runs[run] = runs[run].model_copy(update=change)
    return Reference(study, runs, Reference.of(study).published)


def _distance(changes: dict, evaluation: str = "generalisation", start: dict | None = None) -> dict[str, str]:
    found = _changed(changes, start)
    return found.distance(found.runs[RUN], evaluation)


def test_the_keys_that_differ_are_named_and_half_of_the_rounds_are_half_of_the_budget():
    training = load_study("paper").specs[RUN].training
    half = _distance({"training": training.model_copy(update={"rounds": training.rounds // 2})})
    assert half["differs"] == "training.rounds"
    assert 0.5 <= float(half["budget"]) < 1, "what it starts from was trained in full"
    assert _distance({"network": {"name": "conv3", "width": 3}})["differs"] == "network.name"
    assert _distance({"algorithm": {"name": "feddirt", "weight": 1.0}})["differs"].split()[0].startswith("algorithm.")


def test_what_the_paper_measured_on_the_way_is_held_to_what_had_been_trained_then():
    """PaDPaF's Table 1 is of 120 rounds of 300: sixty are half of that, and a fifth of all."""
    run = "padpaf/mnist_eight-clients/padpaf/default/2011"
    found = Reference.of(load_study("paper"))
    training = found.runs[run].training
    short = found.runs[run].model_copy(update={"training": training.model_copy(update={"rounds": 60}), "snapshots": []})
    assert training.rounds == 300
    assert float(found.distance(short, "fid")["budget"]) == pytest.approx(60 / 120)
    assert float(found.distance(short, "label-probe")["budget"]) == pytest.approx(60 / 300)
    assert found.distance(found.runs[run], "fid")["budget"] == "1"
    assert found.distance(short, "fid")["differs"] == "training.rounds", "it ends before"
    last = found.runs[run].model_copy(update={"snapshots": [25, 50]})
    assert found.distance(last, "fid") == {"differs": "snapshots", "budget": "2.5"}, "measured at the end of 300"
    assert found.distance(last, "label-probe")["differs"] == ""


def test_what_a_run_starts_from_counts():
    study = load_study("paper")
    training = study.specs[study.specs[RUN].start].training
    found = _distance({}, start={"training": training.model_copy(update={"rounds": 1})})
    assert found["differs"] == "start.training.rounds"
    assert float(found["budget"]) < 1
    assert _distance({"start": ""})["differs"] == "start"


def test_what_a_run_goes_on_from_is_part_of_what_its_measurement_hangs_on():
    """Of its own method, where that of the run is another's: what it was published as decides how far this one is."""
    flow = Workflow({"scale": "reduced"})
    run = "feddva/mnist_client-marks/fedavg/on-feddva/2011"
    start = next(c for c in flow.study.cells if c.spec.run == flow.study.specs[run].start)
    assert start.spec.run.split("/")[2] == "feddva"
    (line,) = [line for line in flow.cells(SimpleNamespace(paper="feddva", method="fedavg")) if line.startswith(run)]
    assert {start.spec.digest, start.published.digest} <= {*line.split()}


def test_a_run_is_held_against_what_each_of_its_cells_was_published_with():
    """FedStyle's one style epoch, here, is a tenth of what Table 1 has, and what a point of the curve over E_s has."""
    found = reference("reduced")
    run = "fedstyle/digit_1_iid_simclr/fedstyle/default/2011"
    cells = {cell.table: cell for cell in found.study.cells if cell.spec.run == run}
    assert {table: cell.published.algorithm["style_epochs"] for table, cell in cells.items()} == {
        "table1": 10,
        "table4": 10,
        "style-epochs": 1,
    }
    both, epochs = found.distance(found.runs[run], "linear-probe"), {"algorithm.style_epochs"}
    for table, cell in cells.items():
        of_cell = found.distance(cell.spec, "linear-probe", cell)
        lacks = epochs if table == "style-epochs" else set()
        assert {*both["differs"].split()} - {*of_cell["differs"].split()} == lacks
        assert found.of_cell(cell)[tuple(both.values())] == tuple(of_cell.values())
        assert found.distance(cell.spec, "sources", cell) == found.distance(cell.spec, "sources")
    assert epochs < {*both["differs"].split()}
    other = next(cell for cell in found.study.cells if "/fedavg/default/" in cell.spec.run)
    assert found.of_cell(other) == {}


def test_the_share_of_a_run_for_several_cells_is_the_smallest():
    study = load_study("paper")
    found, spec = Reference.of(study), study.specs[RUN]
    cell = next(cell for cell in study.cells if cell.spec.run == RUN)
    twice = spec.model_copy(update={"training": spec.training.model_copy(update={"rounds": 2 * spec.training.rounds})})
    forms = {**found.published, RUN.removesuffix("/2011"): [cell.published, twice]}
    shared = Reference(study, study.specs, forms)
    of_run, of_cell = shared.distance(spec, "generalisation"), shared.distance(spec, "generalisation", cell)
    assert (of_run["differs"], of_cell) == ("training.rounds", {"differs": "", "budget": "1"})
    assert 0.5 <= float(of_run["budget"]) < 1


def test_what_is_kept_counts_where_it_is_measured():
    spec = load_study("paper").specs[RUN]
    fewer = {"samples": spec.samples.model_copy(update={"images": 1}), "score_every": 77}
    assert _distance(fewer, "generalisation")["differs"] == ""
    assert _distance(fewer, "translation")["differs"] == "samples.images"
    assert _distance(fewer, "curves")["differs"] == "score_every"
    assert _distance({"training": spec.training.model_copy(update={"channels_last": True})})["differs"] == ""


def test_accuracy_on_unseen_styles_that_is_read_after_another_share_of_the_rounds_is_not_as_published():
    """75 degrees are read half-way of 3,000 rounds on FashionMNIST: of every 400 that is 1,200, of every 2,000 late."""
    found = reference("paper")
    spec = found.study.specs["fedinb/rotated-fmnist_generalisation_1/fedavg/default/2011"]
    assert spec.training.rounds == 3000
    for every, differs in ((750, ""), (1500, ""), (400, "score_every"), (2000, "score_every"), (3000, "score_every")):
        scored = spec.model_copy(update={"score_every": every})
        assert found.distance(scored, "generalisation")["differs"] == differs
        assert found.distance(scored, "communication")["differs"] == ""
    at_the_end = found.study.specs[RUN].model_copy(update={"score_every": found.study.specs[RUN].training.rounds})
    assert found.distance(at_the_end, "generalisation")["differs"] == "", "MNIST is read at the end"


def test_what_needs_no_training_does_not_depend_on_it():
    training = load_study("paper").specs[RUN].training
    assert _distance({"training": training.model_copy(update={"rounds": 1})}, "sources")["differs"] == ""


def test_settings_of_evaluations_and_judges_count():
    found = reference("reference-psfedgan")
    spec = found.study.specs["psfedgan/mnist_setup-1/ps-fedgan/default/2011"]
    assert "judge.epochs" in found.distance(spec, "attacks")["differs"].split()
    assert "judge.epochs" not in found.distance(spec, "communication")["differs"].split()
    digits = reference("tiny")
    run = next(spec for spec in digits.study.specs.values() if spec.labels["paper"] == "fedstyle")
    theirs = digits.study.as_published.papers["fedstyle"].evaluation["linear-probe"]
    ours = digits.study.papers["fedstyle"].evaluation["linear-probe"]
    changed = {f"evaluation.linear-probe.{key}" for key in theirs if theirs[key] != ours[key]}
    assert changed <= set(digits.distance(run, "linear-probe")["differs"].split())
    assert changed


def test_which_records_there_are_changes_none_of_them():
    """Without controls, and on no Inception, distances are those that were published."""
    found = reference("reference-fedinb-tested")
    ours, theirs = (s.papers["fedinb"].evaluation["translation"] for s in (found.study, found.study.as_published))
    assert {key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)} == {"controls", "extractors"}
    for spec in found.study.specs.values():
        assert found.distance(spec, "translation") == {"differs": "", "budget": "1"}


def test_a_run_that_no_paper_describes_is_not_known():
    found = reference("paper")
    spec = found.study.specs[RUN].model_copy(update={"run": "a/b/c/d/1"})
    assert found.distance(spec, "budget") == {"differs": "unknown", "budget": ""}


@pytest.mark.parametrize("start", ["fedinb/rotated-mnist_generalisation_1/fedinb/l10-k10/7", "mine"])
def test_a_run_that_starts_from_one_that_the_study_has_not_is_not_known(start):
    """Of another seed, or of another name."""
    assert _distance({"start": start}) == {"differs": "unknown", "budget": ""}


def test_what_depends_on_samples_and_judges_is_known_of_every_evaluation():
    """An evaluation that reads samples depends on how many there are, and one that loads a judge on its settings."""
    assert {*USES, *JUDGED, *ALONE} <= set(EVALUATIONS)
    for name, function in EVALUATIONS.items():
        source = inspect.getsource(function)
        if "run.samples" in source:
            assert "samples" in USES.get(name, ()) or name in ASKED, name
        if "load(run.judge)" in source:
            assert name in JUDGED, name
