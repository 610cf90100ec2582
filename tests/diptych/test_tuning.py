"""Searches: the same for every method, decided by validation images alone, and used by every run once adopted."""

import csv
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from common.errors import InputError
from common.run_folder import write_arrays
from common.spec import OptimiserSettings, read_spec
from diptych import configuration
from diptych.cli import main
from diptych.configuration import merged, names_in, read_paper
from diptych.search import COLUMNS, compare
from diptych.study import Study, load_study
from diptych.training import train
from diptych.tuning import Trial
from diptych.workflow import Workflow
from partitions import partition
from tests.checkout import read_again
from tests.wrong import complains, refused

SEARCHES = [(s, paper) for s in names_in("scales") for paper, config in load_study(s).papers.items() if config.tuning]
ADOPTED = sorted((configuration.CONFIG / "tuned").glob("*/*.csv"))


def _trials(scale: str, paper: str) -> list[Trial]:
    return [trial for trial in load_study(scale).trials.values() if trial.spec.labels["paper"] == paper]


def _spoilt(overlay: dict) -> Study:
    """`tiny` with this laid over its search."""
    scale = load_study("tiny").scale
    changed = merged(merged({"defaults": scale.defaults}, scale.papers["psfedgan"]), {"tuning": overlay})
    return Study("tiny", scale, {"psfedgan": read_paper("psfedgan", changed)})


LARGER = "reference-psfedgan"
FEDAVG = {"methods": ["fedavg"], "points": ["sgd-0.1", "adam-0.001"]}


# ---- what is tried


@pytest.mark.parametrize(("scale", "paper"), SEARCHES)
def test_every_method_has_as_many_trials_and_the_same_budget(scale, paper):
    trials = _trials(scale, paper)
    tuning = load_study(scale).papers[paper].tuning
    frame = pd.DataFrame(
        {
            "method": trial.method,
            "point": trial.point,
            "passes": trial.spec.training.rounds * trial.spec.training.local_epochs,
            "rest": json.dumps(_without(trial.spec.model_dump(mode="json"), trial.overlay), sort_keys=True),
            "data": trial.spec.data.model_dump_json(),
            "seed": trial.spec.seed,
        }
        for trial in trials
    )
    of_method = frame.groupby("method")
    assert len(set(of_method["point"].nunique())) == 1
    assert set(of_method["rest"].nunique()) == {1}, "nothing but what the point says is different"
    assert len(set(frame["data"])) == 1, "the same images, held out alike"
    server = frame["method"] == "server-only"  # which has a hundredth of the images
    if paper != "common":  # where some have several phases in a round, all of which test_common_ground.py counts
        assert len(set(frame.loc[~server, "passes"])) == 1
    assert set(frame["seed"]) == {tuning.seed}


def _without(spec: dict, overlay: dict) -> dict:
    """A specification without its name and the keys of an overlay, or, where a name changes, all beside it."""
    left = {key: value for key, value in spec.items() if key != "run"}
    for key, value in overlay.items():
        left[key] = _without(left[key], value) if isinstance(value, dict) and "name" not in value else None
    return left


@pytest.mark.parametrize(("scale", "paper"), SEARCHES)
def test_a_search_sees_validation_images_and_another_seed(scale, paper):
    study = load_study(scale)
    assert study.papers[paper].tuning.seed not in study.scale.seeds
    for trial in _trials(scale, paper):
        assert trial.spec.data.validation_share == study.papers[paper].tuning.validation_share > 0
        assert trial.spec.score_every
    assert not any(spec.data.validation_share for spec in study.specs.values()), "tables are of test images"
    assert not study.specs.keys() & study.trials.keys()


def test_what_a_trial_goes_on_from_has_not_seen_the_images_that_it_is_scored_on():
    """FedDIRT's translators, which all of its trials share, and which are no run of a table."""
    study = load_study("reference-common")
    before = {trial.method: trial.before for trial in _trials("reference-common", "common")}
    assert {method for method, specs in before.items() if specs} == {"feddirt"}
    (translators,) = before["feddirt"]
    for trial in (trial for trial in _trials("reference-common", "common") if trial.method == "feddirt"):
        assert (trial.spec.start, trial.before) == (translators.run, [translators])
        assert (translators.data, translators.seed) == (trial.spec.data, trial.spec.seed)
    tables = study.specs["common/natural_equal/fedinb/pretraining/2011"]
    same = {"run": "", "seed": 0, "data": None}
    assert translators.model_copy(update=same) == tables.model_copy(update=same), "but for images and seed as in tables"
    assert translators.run in study.trained
    assert translators.run not in study.specs | study.trials


def test_what_a_trial_goes_on_from_has_the_images_of_its_budget():
    """Of `tiny`, whose budget takes every third image."""
    study = _spoilt({"budget": {"start": "psfedgan/mnist_split-1/fedavg/default/1"}, "grids": [FEDAVG]})
    for trial in study.trials.values():
        (before,) = trial.before
        assert set(before.data.styles.values()) == {"digits-plain[::3]"}
        assert before.data == trial.spec.data


def test_a_trial_waits_for_what_it_goes_on_from():
    flow = Workflow({"scale": "reference-common"})
    of = {"paper": "common", "condition": "natural_equal", "seed": "1"}
    before = flow.run("fedinb")["provenance"].format(**of, variant="pretraining+tuning=before")
    assert before in flow.inputs(SimpleNamespace(**of, variant="tuning=adam-0.01"))


def test_what_a_paper_states_is_not_searched_for():
    """FedStyle, PaDPaF, FedINB, and FedDVA's Adam of 0.001."""
    for scale, paper in SEARCHES:
        assert paper in {"psfedgan", "feddva", "common"}
        for trial in _trials(scale, paper):
            assert paper != "feddva" or "training" not in trial.overlay


# ---- what is chosen


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The folders of the trials of `tiny`."""
    runs = tmp_path_factory.mktemp("runs")
    for trial in _trials("tiny", "psfedgan"):
        train(trial.spec, runs / trial.spec.run, "")
    return runs


def _tuned(runs: Path, out: Path) -> pd.DataFrame:
    assert main(["tune", "psfedgan", "--scale", "tiny", "--runs", str(runs), "--out", str(out)]) == 0
    return pd.read_csv(out, keep_default_na=False)


def _with_scores(made: Path, folder: Path, trials: list[Trial], scores: Sequence[float | None]) -> Path:
    """The same folders with other scores; None for a trial that diverged."""
    shutil.copytree(made, folder)
    for trial, value in zip(trials, scores, strict=True):
        run = folder / trial.spec.run
        if value is None:
            provenance = json.loads((run / "provenance.json").read_text())
            (run / "provenance.json").write_text(json.dumps(provenance | {"status": "diverged"}))
        else:
            rows = pd.read_csv(run / "scores.csv")
            rows["value"] = value
            rows.to_csv(run / "scores.csv", index=False)
    return folder


def _chosen(records: pd.DataFrame) -> dict[str, str]:
    return records[records["chosen"] == "yes"].set_index("method")["point"].to_dict()


def test_the_records_of_a_search(made, tmp_path):
    records = _tuned(made, tmp_path / "tuning.csv")
    assert list(records.columns) == COLUMNS
    assert set(records.groupby("method")["steps"].nunique()) == {1}, "each point is given as many steps"
    for row in records.to_dict("records"):
        scores = pd.read_csv(made / row["run"] / "scores.csv")
        shared = scores[scores["score"] == "accuracy"].groupby("round")["value"].mean()
        assert row["score"] == pytest.approx(shared.max())
        spec = read_spec(made / row["run"] / "spec.yaml")
        assert row["spec"] == spec.digest
        dealt = partition(spec.data, "", spec.seed)
        right = row["score"] * len(dealt.all_test)
        assert right == pytest.approx(round(right), abs=1e-4), "of as many images as are held out"
    assert _chosen(records).keys() == set(records["method"])
    best = records.groupby("method")["score"].transform("max")
    assert (records.loc[records["chosen"] == "yes", "score"] == best[records["chosen"] == "yes"]).all()


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ((0.2, 0.3, 0.5, 0.4), {"fedavg": "adam-0.001", "ps-fedgan": "gan-0.0002"}),
        ((0.3, 0.3, 0.4, 0.4), {"fedavg": "sgd-0.1", "ps-fedgan": "gan-0.0002"}),  # the first of equals
        ((None, 0.1, 0.2, None), {"fedavg": "adam-0.001", "ps-fedgan": "gan-0.0002"}),
        ((None, 0.0, None, None), {"fedavg": "adam-0.001"}),  # of none that diverged
    ],
)
def test_the_highest_score_is_chosen(scores, chosen, made, tmp_path):
    runs = _with_scores(made, tmp_path / "runs", _trials("tiny", "psfedgan"), scores)
    records = _tuned(runs, tmp_path / "tuning.csv")
    assert _chosen(records) == chosen
    for row, score in zip(records.to_dict("records"), scores, strict=True):
        assert row["status"] == ("diverged" if score is None else "ok")
        assert row["score"] == "" if score is None else float(row["score"]) == pytest.approx(score)


def test_a_point_is_as_good_as_its_mean_over_all_that_it_was_tried_on(tmp_path):
    """And no good if it diverged on one of them."""
    study = _spoilt({"axes": {"split": ["split-1", "split-2"]}, "grids": [FEDAVG]})
    trials = list(study.trials.values())
    for trial in trials:
        train(trial.spec, tmp_path / "runs" / trial.spec.run, "")
    assert [(trial.point, trial.spec.labels["split"]) for trial in trials] == [
        (point, split) for split in ("split-1", "split-2") for point in FEDAVG["points"]
    ]
    for number, (scores, chosen) in enumerate(
        {
            (0.9, 0.6, 0.1, 0.5): "adam-0.001",
            (0.9, 0.4, 0.1, 0.5): "sgd-0.1",
            (0.9, 0.1, None, 0.1): "adam-0.001",
        }.items()
    ):
        runs = _with_scores(tmp_path / "runs", tmp_path / str(number), trials, scores)
        rows = compare(trials, "all", {}, runs)
        assert {row["point"] for row in rows if row["chosen"]} == {chosen}
        assert [row["chosen"] for row in rows] == ["yes" if row["point"] == chosen else "" for row in rows]


def test_a_trial_of_other_settings_is_refused(made, tmp_path):
    runs = shutil.copytree(made, tmp_path / "runs")
    trials = _trials("tiny", "psfedgan")
    first, second = (runs / trial.spec.run for trial in trials[:2])
    shutil.rmtree(first)
    shutil.copytree(second, first)
    with pytest.raises(InputError, match="another one by now"):
        compare(trials, "best", {}, runs)


# ---- what is compared by its codes


BY_CODES = {"methods": ["fedavg:simclr"], "points": ["adam-0.001", "adam-0.01"], "by": "codes"}


def _study(grid: dict, **changed: object) -> Study:
    """`tiny` with a search on common ground, of one round."""
    scale = load_study("tiny").scale
    tuning = {"budget": {"training": {"rounds": 1}}, "grids": [grid], "chosen_at": "tiny"}
    overlay = merged({"defaults": scale.defaults}, scale.papers["common"]) | {"tuning": tuning} | changed
    return Study("tiny", scale, {"common": read_paper("common", overlay)})


@pytest.fixture(scope="module")
def encoders(tmp_path_factory) -> tuple[Study, Path]:
    """A search by codes, and its trained folders."""
    runs = tmp_path_factory.mktemp("encoders")
    study = _study(BY_CODES | {"budget": {"features": True, "abilities": ["codes"]}})
    for trial in study.trials.values():
        train(trial.spec, runs / trial.spec.run, "")
    return study, runs


def test_codes_are_compared_by_what_a_linear_classifier_reads_of_the_label_on_validation_images(encoders, tmp_path):
    """Of two trials the one whose codes are the labels is chosen, whichever point it is at, and not the one whose codes
    are the labels of training images alone."""
    study, made = encoders
    probe = study.papers["common"].evaluation["probe"]
    for told in range(2):
        runs = shutil.copytree(made, tmp_path / str(told))
        for number, trial in enumerate(study.trials.values()):
            file = runs / trial.spec.run / "features.npz"
            with np.load(file) as held:
                arrays = dict(held)
            dealt = partition(trial.spec.data, "", trial.spec.seed)
            held_out = torch.cat([dealt.labels[of_client] for of_client in dealt.tests])
            assert sorted(arrays["codes/test/label"]) == sorted(held_out.tolist()), "of all that are held out"
            for part in ("train", "test"):
                known = np.eye(10, dtype=np.float32)[arrays[f"codes/{part}/label"]]
                arrays[f"codes/{part}/content"] = known if number == told or part == "train" else 0 * known
            write_arrays(file, arrays)
        rows = compare(study.trials.values(), "all", probe | {"epochs": 50, "lr": 0.1}, runs)
        assert [row["chosen"] for row in rows] == ["yes" if number == told else "" for number in range(2)]
        assert rows[told]["score"] == 1.0
        assert rows[1 - told]["score"] < 0.3
        assert {row["setting"] for row in rows} == {"probe=linear;features=content;target=label"}


def test_codes_are_not_compared_without_a_probe():
    with refused("common: tuning.grids: to compare codes, `evaluation` must have a `probe`"):
        study = _study(BY_CODES)
        study.papers["common"].evaluation.pop("probe")
        _ = study.trials


# ---- what is compared by its translations


BY_TRANSLATIONS = {"methods": ["fedavg:stargan"], "points": ["adam-0.001", "adam-0.01"], "by": "translations"}


@pytest.fixture(scope="module")
def translators(tmp_path_factory) -> tuple[Study, Path]:
    """A search by translations, and its trained folders."""
    runs = tmp_path_factory.mktemp("translators")
    study = _study(
        BY_TRANSLATIONS | {"budget": {"features": True, "abilities": ["translation"], "training": {"rounds": 5}}}
    )
    for trial in study.trials.values():
        train(trial.spec, runs / trial.spec.run, "")
    return study, runs


def _as_translated(made: Path, runs: Path, trials: Sequence[Trial], become: Sequence[Callable]) -> Path:
    """The same folders, where images of each trial have become, in the other style, what is made of this style's own
    images and of the classes that these and those before them show."""
    shutil.copytree(made, runs)
    for trial, make in zip(trials, become, strict=True):
        file = runs / trial.spec.run / "samples.npz"
        with np.load(file) as held:
            arrays = dict(held)
        for key in [key for key in arrays if key.startswith("translated/")]:
            _, a, b = key.split("/")
            arrays[key] = make(arrays[f"real/{b}"], arrays[f"label/{b}"], arrays[f"label/{a}"])
        write_arrays(file, arrays)
    return runs


def _of_the_same_class(images: np.ndarray, labels: np.ndarray, asked: np.ndarray) -> np.ndarray:
    return np.stack([images[np.flatnonzero(labels == y)[0]] if (labels == y).any() else images[0] for y in asked])


def _of_another_class(images: np.ndarray, labels: np.ndarray, asked: np.ndarray) -> np.ndarray:
    return np.stack([images[np.flatnonzero(labels != y)[0]] for y in asked])


def _noise(images: np.ndarray, labels: np.ndarray, asked: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (len(asked), *images.shape[1:]), dtype=np.uint8)


@pytest.mark.parametrize("worse", [_of_another_class, _noise])
def test_translations_are_compared_by_how_near_they_are_to_validation_images_of_the_style_and_class(
    translators, tmp_path, worse
):
    study, made = translators
    trials = list(study.trials.values())
    for told in range(2):
        become = [_of_the_same_class if number == told else worse for number in range(2)]
        runs = _as_translated(made, tmp_path / str(told), trials, become)
        rows = compare(trials, "all", {}, runs)
        assert [row["chosen"] for row in rows] == ["yes" if number == told else "" for number in range(2)]
        assert rows[told]["score"] < rows[1 - told]["score"]
        assert {(row["metric"], row["setting"]) for row in rows} == {("wd_exact_between", "final")}


def test_translations_are_held_against_validation_images(translators):
    study, made = translators
    for trial in study.trials.values():
        dealt = partition(trial.spec.data, "", trial.spec.seed)
        held_out = {dealt.images[i].numpy().tobytes() for of_client in dealt.tests for i in of_client}
        with np.load(made / trial.spec.run / "samples.npz") as arrays:
            real = [image.tobytes() for key in arrays if key.startswith("real/") for image in arrays[key]]
        assert real
        assert held_out.issuperset(real)


@pytest.mark.parametrize(
    ("search", "file", "lacks"),
    [
        ("encoders", "features.npz", "has no code of content to compare trials by; see abilities"),
        ("translators", "samples.npz", "has no translated images to compare trials by; see abilities"),
    ],
)
def test_what_has_left_nothing_to_compare_is_not_compared(search, file, lacks, request, tmp_path):
    study, made = request.getfixturevalue(search)
    trial, other = study.trials.values()
    runs = shutil.copytree(made, tmp_path / "runs")
    write_arrays(runs / trial.spec.run / file, {})
    with refused(f"{file}: {lacks}"):
        compare([trial, other], "all", study.papers["common"].evaluation["probe"], runs)


# ---- what is used


def _adopted(records: Path, config: Path) -> Study:
    """`tiny` after the records have been copied to config/tuned, for a larger scale as well."""
    shutil.rmtree(config / "tuned")
    for scale in ("tiny", LARGER):
        (config / "tuned" / scale).mkdir(parents=True)
        shutil.copy(records, config / "tuned" / scale / "psfedgan.csv")
    read_again()
    return load_study("tiny")


def test_a_choice_is_used_by_every_run_of_its_method_and_by_no_trial(made, tmp_path, config):
    """Also by variants, which keep what is their own: the rates of those that are overheard or average every step."""
    runs = _with_scores(made, tmp_path / "runs", _trials("tiny", "psfedgan"), (0.1, 0.0, 0.1, 0.9))
    records = _tuned(runs, tmp_path / "tuning.csv")
    records["overlay"] = [
        json.dumps(merged(json.loads(overlay), {"training": {"batch_size": 9}} if method == "fedavg" else {}))
        for method, overlay in zip(records["method"], records["overlay"], strict=True)
    ]
    records.to_csv(tmp_path / "tuning.csv", index=False)
    searched = {scale: load_study(scale).trials for scale in ("tiny", LARGER)}
    before, after = load_study("tiny"), _adopted(tmp_path / "tuning.csv", config)
    assert list(before.specs) == list(after.specs)
    adam = OptimiserSettings(name="adam", lr=1e-3, betas=(0.5, 0.999))
    changes = {
        "psfedgan/ps-fedgan/default": {"optimiser": adam},
        "psfedgan/ps-fedgan/no-dropout": {"optimiser": adam},
        "psfedgan/fedavg/default": {"optimiser": OptimiserSettings(name="sgd", lr=0.1), "batch_size": 9},
    }
    for run, spec in after.specs.items():
        paper, _, method, variant, _ = run.split("/")
        inherited = {"batch_size": 9} if (paper, method) == ("psfedgan", "fedavg") else {}
        old = before.specs[run]
        training = old.training.model_copy(update=changes.get(f"{paper}/{method}/{variant}", inherited))
        assert spec == old.model_copy(update={"training": training}), run
    for scale, trials in searched.items():  # in the larger one a variant of fedavg is tried as well
        assert load_study(scale).chosen["psfedgan"]
        assert load_study(scale).trials == trials, "a search does not look at what is chosen"


def test_without_records_nothing_is_chosen(config):
    _adopted(config / "scales" / "tiny.yaml", config)
    (config / "tuned" / "tiny" / "psfedgan.csv").unlink()
    read_again()
    assert load_study("tiny").chosen["psfedgan"] == {}


@pytest.mark.parametrize(
    "text", ["method,point\nfedavg,1\n", "method,chosen,overlay\nfedavg,yes,{\n", "chosen,overlay\nyes"]
)
def test_records_that_are_none_are_one_sentence(text, tmp_path, config):
    (tmp_path / "tuning.csv").write_text(text)
    with pytest.raises(InputError, match=r"psfedgan\.csv: must be the records of a search"):
        _ = _adopted(tmp_path / "tuning.csv", config).specs


# ---- what is committed


def check_adopted(file: Path) -> None:
    """The grid is the configured one, all of it was searched, and each method's choice is the best of its records."""
    scale, paper = file.parent.name, file.stem
    records = pd.read_csv(file, keep_default_na=False)
    asked = {(t.spec.run, t.method, t.point, json.dumps(t.overlay)) for t in _trials(scale, paper)}
    assert set(records[["run", "method", "point", "overlay"]].itertuples(index=False, name=None)) == asked
    assert (records["validation_share"] == load_study(scale).papers[paper].tuning.validation_share).all()
    for method, of_method in records.groupby("method", sort=False):
        finished = of_method.groupby("point", sort=False).filter(lambda rows: (rows["status"] == "ok").all())
        means = finished["score"].astype(float).groupby(finished["point"], sort=False).mean()
        if (of_method["metric"] != "accuracy").all():
            means = -means  # a distance
        chosen = of_method.loc[of_method["chosen"] == "yes", "point"].unique().tolist()
        assert chosen == ([means.idxmax()] if len(means) else []), method


@pytest.mark.parametrize("file", ADOPTED, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_what_is_adopted_is_the_best_of_its_search(file):
    check_adopted(file)


def test_what_is_not_the_best_of_its_search_is_caught(made, tmp_path):
    file = tmp_path / "tiny" / "psfedgan.csv"
    _tuned(_with_scores(made, tmp_path / "runs", _trials("tiny", "psfedgan"), (0.1, 0.2, 0.3, 0.2)), file)
    check_adopted(file)
    text = file.read_text()
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    for spoilt in (
        [row | {"chosen": "yes" if row["point"] in ("sgd-0.1", "gan-0.0002") else ""} for row in rows],
        rows[1:],
        [row | {"overlay": row["overlay"].replace("0.1", "0.2")} for row in rows],
        [row | {"score": "0.9"} if row["point"] == "gan-0.001" else row for row in rows],
    ):
        pd.DataFrame(spoilt).to_csv(file, index=False)
        assert file.read_text() != text
        with pytest.raises(AssertionError):
            check_adopted(file)


# ---- what cannot be searched


@pytest.mark.parametrize(
    ("overlay", "says"),
    [
        ({"grids": []}, "tuning.grids: list should have at least 1 item"),
        ({"grids": [{"methods": ["fedavg"], "points": []}]}, "tuning.grids.0.points: list should have at least 1 item"),
        ({"grids": [{"methods": [], "points": ["sgd-0.1"]}]}, "tuning.grids.0.methods: list should have at least 1"),
        ({"grids": [{"methods": ["fedavgg"], "points": ["sgd-0.1"]}]}, "'fedavgg'; did you mean 'fedavg'"),
        ({"grids": [{"methods": ["fedavg"], "points": ["sgd-0.4"]}]}, "'sgd-0.4'; did you mean 'sgd-0.3'"),
        ({"grids": [FEDAVG, {"methods": ["scaffold"], "points": ["sgd-1"]}]}, "at as many points, got {'fedavg': 2"),
        ({"grids": [FEDAVG, FEDAVG]}, "psfedgan: tuning.grids: 'fedavg' is named twice"),
        ({"grids": [FEDAVG | {"points": ["sgd-0.1", "sgd-0.1"]}]}, "psfedgan: tuning.grids: 'sgd-0.1' is named twice"),
        (
            {"points": {"adam-0.001": {"training": {"optimiser": {"name": "sgd", "lr": 0.1}}}}},
            "the same at 'adam-0.001'",
        ),
        ({"seed": 2011}, "psfedgan: tuning.seed: must be none of the seeds of runs, [2011], got 2011"),
        ({"validation_share": 0.0}, "tuning.validation_share: should be greater than 0, got 0.0"),
        ({"validation_share": 1.0}, "tuning.validation_share: should be less than 1, got 1.0"),
        ({"chosen_at": "tinny"}, "psfedgan: tuning.chosen_at: unknown name 'tinny'; did you mean 'tiny'"),
        ({"axes": {"method": ["fedavg"]}}, "psfedgan: tuning.axes.method: "),
        ({"axes": {"dataset": ["mnits"]}}, "psfedgan: axes.dataset: unknown name 'mnits'; did you mean 'mnist'"),
        ({"rounds": "last"}, "tuning.rounds: unknown name 'last'"),
        ({"budget": {"start": "psfedgan/other"}}, "from psfedgan/other, which is no run of psfedgan/mnist_split-1"),
        (
            {"budget": {"start": "psfedgan/mnist_split-2/fedavg/default/1"}},
            "which is no run of psfedgan/mnist_split-1",
        ),
        ({"budget": {"start": "psfedgan/mnist_split-1/fedavgg/default/1"}}, "psfedgan: method: unknown name 'fedavgg'"),
    ],
)
def test_a_search_that_cannot_be_made_is_one_sentence(overlay, says):
    with refused(says):
        _ = _spoilt(overlay).trials


def test_a_point_that_a_method_cannot_take_is_found_before_anything_is_trained(config, capsys):
    tiny = config / "scales" / "tiny.yaml"
    grid = {"methods": ["scaffold"], "points": ["sgd-0.1", "adam-0.001"]}
    content = merged(yaml.safe_load(tiny.read_text()), {"papers": {"psfedgan": {"tuning": {"grids": [grid]}}}})
    tiny.write_text(yaml.safe_dump(content))
    complains(capsys, ["check", "--scale", "tiny"], ["training.optimiser: SCAFFOLD"])


def test_data_that_are_not_here_are_not_searched_on():
    study = load_study("tiny")
    assert study.trials
    assert not study.without(["mnist"]).trials
