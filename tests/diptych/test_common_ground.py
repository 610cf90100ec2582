"""The rules of the benchmark's page, held to its file: the same images and the same passes over them for everybody."""

import re

import pandas as pd
import pytest
import torch
import yaml

from common.codehash import ROOT
from common.spec import Spec
from diptych.assembly import build_algorithm
from diptych.configuration import paper_yaml, read_paper, read_scale
from diptych.study import Study, load_study
from federation import Phase
from federation.hooks import FineTuning
from partitions import partition
from reporting.records import read_records

SCALES = ("reference-common", "digits")
PASSES = {"reference-common": 40, "digits": 20}
"""Over its images at each client, in all that a method trains."""


def passes(study: Study, spec: Spec) -> float:
    """Over a client's images, from what the algorithm's own phases say; those of the run before it included."""
    algorithm, training = build_algorithm(spec, classes=10), spec.training

    def of(phases: list[Phase]) -> float:
        return sum((training.local_epochs if p.epochs is None else p.epochs) * p.share for p in phases)

    after = of(algorithm.epilogue()) if isinstance(algorithm, FineTuning) else 0
    before = passes(study, study.specs[spec.start]) if spec.start else 0
    return before + of(algorithm.prologue()) + training.rounds * of(algorithm.phases()) + after


def _of_the_study(scale: str) -> tuple[Study, dict[str, Spec]]:
    study = load_study(scale)
    apart = {spec.start for spec in study.specs.values()}
    apart |= {run for run, spec in study.specs.items() if spec.inversion}  # after one update
    apart |= {run for run, spec in study.specs.items() if spec.labels["split"] == "late"}  # when training is over
    return study, {run: s for run, s in study.specs.items() if run.startswith("common/") and run not in apart}


@pytest.mark.parametrize("scale", SCALES)
def test_everybody_passes_as_often_over_its_images(scale):
    study, specs = _of_the_study(scale)
    first = study.scale.seeds[0]
    found = {run: passes(study, spec) for run, spec in specs.items() if spec.seed == first}
    assert {run: n for run, n in found.items() if n != PASSES[scale]} == {}


@pytest.mark.parametrize("scale", SCALES)
def test_who_joins_late_passes_twice(scale):
    study = load_study(scale)
    late = [spec for spec in study.specs.values() if spec.labels["split"] == "late"]
    assert late
    before = {spec.start: passes(study, study.specs[spec.start]) for spec in late if spec.start} | {"": 0}
    assert {passes(study, spec) - before[spec.start] for spec in late} == {2}
    assert {spec.labels["method"] for spec in late if not spec.start} <= {"local"}


@pytest.mark.parametrize("scale", ["tiny", "digits"])
def test_a_small_scale_says_of_each_experiment_what_it_keeps(scale):
    """Since it has the data of all, one that it is silent on would be made whole, with each of its methods."""
    assert set(read_scale(scale).papers["common"]["experiments"]) == set(paper_yaml("common")["experiments"])


@pytest.mark.parametrize("split", ["equal", "skewed"])
def test_clients_share_no_image_and_have_as_many_as_each_other(split):
    """As the study deals them, of the embedded images."""
    as_defined = load_study("reference-common").specs[f"common/natural_{split}/fedavg/default/2011"].data
    embedded = load_study("digits").specs["common/natural_equal/fedavg/default/2011"].data
    for seed in (2011, 2012, 2013):
        clients = partition(embedded.model_copy(update={"deal": as_defined.deal}), "", seed).clients
        everyones = torch.cat(clients)
        assert len(everyones.unique()) == len(everyones)
        assert len({len(images) for images in clients}) == 1


@pytest.mark.parametrize("scale", SCALES)
def test_everybody_has_the_same_images_on_a_condition_and_seed(scale):
    _, specs = _of_the_study(scale)
    by_condition: dict[tuple[str, int], set[str]] = {}
    for run, spec in specs.items():
        by_condition.setdefault((run.split("/")[1], spec.seed), set()).add(spec.data.model_dump_json())
    assert all(len(data) == 1 for data in by_condition.values())


def test_everybody_is_asked_the_same_and_batches_are_of_one_size():
    _, specs = _of_the_study("reference-common")
    assert {tuple(spec.abilities) for spec in specs.values()} == {("codes", "answers", "generation", "translation")}
    assert len({(spec.samples, spec.training.batch_size, spec.score_every) for spec in specs.values()}) == 1


def test_ranks_are_over_blocks_that_nobody_is_left_out_of():
    """Who is missing in one block has no rank at all: the few who join late would have been ranked alone."""
    study, _ = _of_the_study("reference-common")
    ranks, everybody = (getattr(study.papers["common"], part) for part in ("tables", "experiments"))
    open_to = set(everybody["everybody"].axes["method"])
    asked: dict[str, set[str]] = {}
    for cell in study.cells:
        ranked = (cell.spec.labels[axis] in ranks["ranks"].where[axis] for axis in ("dataset", "split"))
        if cell.table == "common" and all(ranked):
            asked.setdefault(cell.spec.run.split("/")[1], set()).add(cell.point["method"])
    assert len(asked) == 6
    assert all(open_to <= methods for methods in asked.values())


def test_everybody_is_tuned_on_as_many_points():
    """By the records of whose accuracy there are any, or of whose code of content, or of whose translations, but for
    FedINB's, whose maps have no rate; FedBN, which the documentation adds, is not of the study."""
    study = load_study("reference-common")
    config = study.papers["common"]
    assert config.tuning is not None
    assert {len(grid.points) for grid in config.tuning.grids} == {6}
    assert config.tuning.seed not in study.scale.seeds
    records = read_records(ROOT / "results" / "reference" / "common" / "records.csv.gz")
    answering = set(records.loc[records["metric"] == "accuracy_worst_client", "method"])
    answering |= set(records.loc[(records["metric"] == "accuracy") & (records["role"] == "shared"), "method"])
    assert len(answering) > 15
    tuned = {grid.by: set(grid.methods) for grid in config.tuning.grids if grid.by != "answers"}
    tuned["answers"] = {m for grid in config.tuning.grids if grid.by == "answers" for m in grid.methods}
    assert answering - {"fedbn"} == tuned["answers"]
    encoding = records[records["setting"] == "probe=linear;features=content;target=label"]
    assert _variants(encoding) - answering - {"fedbn"} == tuned["codes"]
    translating = records[(records["setting"] == "images=translated") & (records["control"] == "")]
    able = {variant for variant in _variants(translating) if not variant.startswith("fedinb")}
    assert able - answering - tuned["codes"] == tuned["translations"]


def _variants(records: pd.DataFrame) -> set[str]:
    return {f"{m}:{v}".removesuffix(":") for m, v in zip(records["method"], records["variant"], strict=True)}


def test_svhn_joins_as_the_page_says():
    page = " ".join((ROOT / "docs" / "common-ground.md").read_text().split())
    (overlay,) = re.findall(r"Whoever has SVHN as well lays `(.*?)` over the study", page)
    read = load_study("reference-common")
    papers = read_scale("reference-common").papers
    study = Study(
        "reference-common", read.scale, {"common": read_paper("common", papers["common"] | yaml.safe_load(overlay))}
    )
    spec = study.specs["common/natural_equal/fedavg/default/2011"]
    assert spec.data.styles == read.specs[spec.run].data.styles | {"svhn": "svhn[0::8]"}
    assert spec.data.unseen == ["scans"]
