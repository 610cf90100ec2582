"""Clusters, classes and bytes, on tables and features that are small enough to count by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from sklearn.metrics import silhouette_score

from common.codehash import ROOT
from common.run_folder import RunFolder
from common.work import work_of
from diptych.study import load_study
from evaluation import clusters as clustered
from evaluation import extracts
from evaluation.clusters import clusters, points
from evaluation.costs import budget, communication, transmission, work
from evaluation.data import class_entropy, sources
from evaluation.extracts import code_map, style_map
from tests.evaluation.test_probe import _write_run


def _values(records, *keys: str) -> dict:
    return {tuple(r.get(k, "") for k in keys): r["value"] for r in records}


def _with_styles(folder, spread: float) -> RunFolder:
    run, g = _write_run(folder), np.random.default_rng(1)
    features = dict(run.features)
    for k in range(4):
        centre = 10 * np.eye(4)[k] + 30 * (k // 2)
        features[f"client/{k}/train/style"] = (centre + spread * g.normal(size=(50, 4))).astype(np.float32)
    run.write_features(features)
    return RunFolder(folder)


def test_silhouettes_are_scikit_learns(tmp_path):
    run = _with_styles(tmp_path / "run", spread=2.0)
    found = _values(clusters(run, samples=1000), "setting", "control")
    features = np.concatenate([run.features[f"client/{k}/train/style"] for k in range(4)])
    by_client, by_style = np.repeat(range(4), 50), np.repeat([0, 1], 100)
    assert found["features=style;label=client", ""] == pytest.approx(silhouette_score(features, by_client), abs=1e-5)
    assert found["features=style;label=style", ""] == pytest.approx(silhouette_score(features, by_style), abs=1e-5)
    assert abs(found["features=style;label=client", "shuffled-labels"]) < 0.1


def test_encoders_that_differ_are_told_from_images_that_do(tmp_path):
    """Clients' images are alike and their encoders far apart: clusters by client, and none by one encoder."""
    run, g = _with_styles(tmp_path / "run", spread=2.0), np.random.default_rng(1)
    towards, owner = 100 * np.eye(4), np.repeat(range(4), 30)
    crossed = (towards + g.normal(size=(120, 1, 4)) + 0.1 * g.normal(size=(120, 4, 4))).astype(np.float32)
    tests = {f"client/{k}/test/style": (7 * np.eye(4)[k] + g.normal(size=(80, 4))).astype(np.float32) for k in range(4)}
    tests["client/1/test/style"] = tests["client/0/test/style"]
    run.write_features(dict(run.features) | {"crossed/style": crossed, "crossed/client": owner} | tests)
    found = _values(clusters(RunFolder(run.path)), "setting", "control")
    assert found["features=style;label=client", ""] > 0.5, "each by its own"
    assert abs(found["features=style;label=client", "one-encoder"]) < 0.1
    spread_out = np.linspace(0, 79, 20).round().astype(int)
    same = np.concatenate([rows[spread_out] for rows in tests.values()])
    fewer = _values(clusters(RunFolder(run.path), samples=80), "setting", "control")
    expected = silhouette_score(same, np.repeat(range(4), 20))
    assert fewer["features=style;label=client", "same-images"] == pytest.approx(expected, abs=1e-6)
    assert expected < 0.5, "the encoders of the first two are one"
    expected = np.mean([silhouette_score(crossed[:, e], owner // 2) for e in range(4)])
    assert found["features=style;label=style", "one-encoder"] == pytest.approx(expected, abs=1e-6)


def test_clients_are_shuffled_anew_for_each_run(monkeypatch, tmp_path):
    found, rng = [], np.random.default_rng(0)
    shown = clustered.Points("some-encoder", "z", rng.normal(size=(60, 3)), np.arange(60) % 3)
    monkeypatch.setattr(clustered, "points", lambda run, samples: [shown])
    run = _write_run(tmp_path / "run")
    for seed in (1, 1, 2):
        run.write_spec(run.spec.model_copy(update={"seed": seed}))
        found.append(_values(clusters(RunFolder(run.path)), "control"))
    assert found[0] == found[1]
    assert found[0][("",)] == found[2][("",)]
    assert found[0][("shuffled-labels",)] != found[2][("shuffled-labels",)]


def test_where_codes_are_of_a_single_client_those_of_several_are_scored_all_the_same(monkeypatch, tmp_path):
    rows = np.random.default_rng(0).normal(size=(20, 3))
    shown = [clustered.Points("a", code, rows, np.arange(20) % clients) for code, clients in (("z", 1), ("c", 2))]
    monkeypatch.setattr(clustered, "points", lambda run, samples: shown)
    assert {r["setting"] for r in clusters(_write_run(tmp_path / "run"))} == {"features=c;label=client"}


def test_of_a_single_style_there_are_clusters_by_client_alone(tmp_path):
    run = _with_styles(tmp_path / "run", spread=2.0)
    crossed = np.random.default_rng(0).normal(size=(40, 4, 4)).astype(np.float32)
    arrays = dict(run.features) | {"crossed/style": crossed, "crossed/client": np.arange(40) % 4}
    found = {}
    for name, styles in (("two", {}), ("one", {f"client/{k}/style": np.array("ink") for k in range(4)})):
        run.write_features(arrays | styles)
        found[name] = _values(clusters(RunFolder(run.path)), "setting", "control")
    by_client = {key: value for key, value in found["two"].items() if "label=client" in key[0]}
    assert by_client == found["one"]
    assert {control for _, control in by_client} == {"", "shuffled-labels", "one-encoder"}
    assert len(found["two"]) == 5


def test_of_one_image_of_each_client_there_are_no_clusters_by_client(tmp_path):
    run = _with_styles(tmp_path / "run", spread=2.0)
    arrays = {key: x[:1] if key.endswith("train/style") else x for key, x in run.features.items()}
    arrays = {key: x for key, x in arrays.items() if "positions" not in key and "train/features" not in key}
    run.write_features(arrays)
    assert {r["setting"] for r in clusters(RunFolder(run.path))} == {"features=style;label=style"}
    assert style_map(RunFolder(run.path)) == []


@pytest.mark.parametrize(("clients", "images"), [(1, 50), (2, 3), (4, 0)])
def test_of_a_single_client_or_hardly_an_image_there_is_no_map(clients, images, tmp_path):
    """Of three images none has a neighbour; of none there is nothing to see."""
    client = np.resize(np.arange(clients), images)
    assert extracts._flat_map(np.random.default_rng(0).normal(size=(images, 4)), client, {}, 1) == []


@pytest.mark.parametrize(("spread", "low", "high"), [(0.1, 0.95, 1.0), (200.0, -0.1, 0.1)])
def test_a_score_is_one_for_clusters_and_nought_for_a_cloud(spread, low, high, tmp_path):
    found = _values(clusters(_with_styles(tmp_path / "run", spread)), "setting", "control")
    assert low <= found["features=style;label=client", ""] <= high


def test_a_run_without_style_features_has_no_score(tmp_path):
    run = _write_run(tmp_path / "run")
    assert list(clusters(run)) == []
    assert style_map(run) == []


def test_a_map_has_a_point_per_image_and_is_always_the_same(tmp_path):
    run = _with_styles(tmp_path / "run", spread=0.5)
    points = style_map(run, samples=80)
    assert points == style_map(run, samples=80)
    assert [p["client"] for p in points] == np.repeat(range(4), 20).tolist()
    assert {p["style"] for p in points} == {"ink", "wax"}
    xy = np.array([(p["x"], p["y"]) for p in points])
    assert silhouette_score(xy, np.repeat(range(4), 20)) > 0.5, "clusters stay clusters"


def _rows_of(part: np.ndarray, whole: np.ndarray) -> list[int]:
    """Which rows of the whole those of the part are."""
    return [int(np.flatnonzero((whole == row).all(axis=1))[0]) for row in part]


def test_points_are_as_many_of_each_client_drawn_anew_for_each_run(tmp_path):
    run = _with_styles(tmp_path / "run", spread=2.0)
    (found,) = points(run, 83)
    assert (found.role, found.code) == ("", "style")
    assert found.client.tolist() == np.repeat(range(4), 20).tolist()
    drawn = [_rows_of(found.features[found.client == k], run.features[f"client/{k}/train/style"]) for k in range(4)]
    assert [len(set(rows)) for rows in drawn] == [20] * 4, "none twice"
    assert drawn != [list(range(20))] * 4
    assert len(next(points(run, 1)).client) == 8, "two at least"
    assert len(next(points(run, 10_000)).client) == 200, "all there are"
    run.write_spec(run.spec.model_copy(update={"seed": run.spec.seed + 1}))
    assert not np.array_equal(next(points(RunFolder(run.path), 83)).features, found.features)


def test_points_are_in_the_order_of_clients_of_whom_there_may_be_more_than_ten():
    rows = {k: np.full((3, 2), k, np.float32) for k in (10, 2, 0, 11)}
    features = {f"client/{k}/train/style": x for k, x in rows.items()}
    (found,) = points(SimpleNamespace(features=features, spec=SimpleNamespace(seed=1)), 8)
    assert found.client.tolist() == np.repeat([0, 2, 10, 11], 2).tolist() == found.features[:, 0].tolist()


def test_scores_are_of_two_thousand_points_at_most_and_a_map_of_styles_of_fewer(monkeypatch, tmp_path):
    asked = []
    for module in (clustered, extracts):
        monkeypatch.setattr(module, "points", lambda run, samples: asked.append(samples) or [])
    run = _write_run(tmp_path / "run")
    assert [*clusters(run), *code_map(run), *style_map(run)] == []
    assert asked == [2000, 2000, 1200]


@pytest.mark.parametrize(("images", "perplexity"), [(200, 30), (91, 30), (90, 29), (7, 2)])
def test_a_map_is_scikit_learns_of_as_many_neighbours_as_it_takes(images, perplexity, monkeypatch):
    asked = []

    class Map:
        def __init__(self, **settings):
            asked.append(settings)

        def fit_transform(self, features):
            return features[:, :2] + 1

    monkeypatch.setattr("sklearn.manifold.TSNE", Map)
    features, client = np.random.default_rng(0).normal(size=(images, 3)), np.arange(images) % 2
    rows = extracts._flat_map(features, client, {0: "ink", 1: "wax"}, 2**32 + 5)
    assert asked == [{"init": "pca", "perplexity": perplexity, "random_state": 5}]
    assert [(row["client"], row["style"]) for row in rows] == [(k % 2, ("ink", "wax")[k % 2]) for k in range(images)]
    np.testing.assert_array_equal([(row["x"], row["y"]) for row in rows], features[:, :2] + 1)
    assert {row["silhouette"] for row in rows} == {float(silhouette_score(features, client))}


def test_a_map_is_drawn_anew_for_each_run(monkeypatch, tmp_path):
    seeds = []
    monkeypatch.setattr(extracts, "_flat_map", lambda features, clients, styles, seed: seeds.append(seed) or [])
    run = _with_styles(tmp_path / "run", spread=1.0)
    for seed in (1, 1, 2):
        run.write_spec(run.spec.model_copy(update={"seed": seed}))
        style_map(RunFolder(run.path))
    assert seeds[0] == seeds[1] != seeds[2]


def test_class_entropy_by_hand(tmp_path):
    run = _write_run(tmp_path / "run")
    counts = {0: [5, 5, 5, 5], 1: [20, 0, 0, 0], 2: [10, 10, 0, 0]}
    rows = [
        {"client": k, "style": "ink", "class": c, "images": n} for k, row in counts.items() for c, n in enumerate(row)
    ]
    run.write_table("partition.csv", rows, ["client", "style", "class", "images"])
    found = _values(class_entropy(run), "control", "metric", "unit", "kind", "style", "aggregate")
    shared = "class_entropy", "nats", "result", "all", "none"
    assert found == pytest.approx(
        {("", *shared): (np.log(4) + 0 + np.log(2)) / 3, ("even-classes", *shared): np.log(4)}
    )


def test_a_class_that_a_client_lacks_adds_nothing():
    rows = [{"client": k, "images": n} for k, counts in enumerate(([4, 0, 0], [0, 2, 2])) for n in counts]
    found = _values(class_entropy(SimpleNamespace(table=lambda name: rows)), "control")
    assert found["",] == pytest.approx(np.log(2) / 2)


def test_bytes_by_hand(tmp_path):
    run = _write_run(tmp_path / "run")
    run.write_spec(run.spec.model_copy(update={"training": run.spec.training.model_copy(update={"rounds": 2})}))
    sent = [
        (0, 0, "up", "announced", 500),
        (0, 1, "down", "announced", 600),
        (1, 0, "down", "w", 40),
        (1, 0, "down", "b", 4),
        (1, 1, "down", "w", 40),
        (1, 0, "up", "w", 40),
        (2, 0, "up", "w", 44),
        (3, 1, "down", "w", 70),  # to whoever goes on alone
    ]
    columns = ["round", "client", "direction", "name", "bytes"]
    run.write_table("traffic.csv", [dict(zip(columns, row, strict=True)) for row in sent], columns)
    found = _values(communication(RunFolder(run.path)), "metric")
    assert found == {
        ("bytes_up",): 584,
        ("bytes_up_per_visit",): 42,
        ("bytes_down",): 754,
        ("bytes_down_per_visit",): 42,
    }


def test_where_nothing_was_sent_there_are_no_bytes_to_a_visit(tmp_path):
    run = _write_run(tmp_path / "run")
    columns = ["round", "client", "direction", "name", "bytes"]
    run.write_table("traffic.csv", [dict(zip(columns, (1, 0, "down", "w", 40), strict=True))], columns)
    found = _values(communication(RunFolder(run.path)), "metric")
    assert (found["bytes_up",], found["bytes_up_per_visit",]) == (0, 0)
    assert (found["bytes_down",], found["bytes_down_per_visit",]) == (40, 40)


def test_what_crossed_is_not_counted_as_nothing_where_it_is_not_on_record(tmp_path):
    run = _write_run(tmp_path / "run")
    assert list(communication(run)) == []
    columns = ["round", "client", "direction", "name", "bytes"]
    run.write_table("traffic.csv", [], columns)
    assert set(_values(communication(RunFolder(run.path)), "metric").values()) == {0}, "nothing crossed, and it is said"


@pytest.mark.parametrize("which", ["a/b/c/d/1", "a/e/c/d/1"])
def test_what_crossed_before_is_left_out_where_a_run_has_not_left_it(which, tmp_path):
    starts = {"a/b/c/d/1": ("", 40, 5, 7), "a/e/c/d/1": ("a/b/c/d/1", 10, 100, 0), "a/f/c/d/1": ("a/e/c/d/1", 20, 1, 2)}
    last = _chain(tmp_path, starts)
    (tmp_path / which / "traffic.csv").unlink()
    assert {row["metric"] for row in communication(last)}.isdisjoint({"bytes_before"})


def _chain(folder, starts):
    """Runs by their names, each of which has gone on from another and has a FedAvg's specification and some traffic."""
    fedavg = load_study("reference-common").specs["common/natural_equal/fedavg/default/2011"]
    columns = ["round", "client", "direction", "name", "bytes"]
    for name, (start, rounds, *sizes) in starts.items():
        run = RunFolder(folder / name)
        run.path.mkdir(parents=True)
        training = fedavg.training.model_copy(update={"rounds": rounds})
        run.write_spec(fedavg.model_copy(update={"run": name, "start": start, "training": training}))
        sent = [(1, 0, way, "w", size) for way, size in zip(("up", "down"), sizes, strict=True)]
        run.write_table("traffic.csv", [dict(zip(columns, row, strict=True)) for row in sent], columns)
        run.write_provenance({"status": "ok"})
    return RunFolder(folder / name)


def test_what_a_run_went_on_from_has_costs_of_its_own(tmp_path):
    """The third went on from the second and that from the first, which are counted beside it and never in it."""
    starts = {"a/b/c/d/1": ("", 40, 5, 7), "a/e/c/d/1": ("a/b/c/d/1", 10, 100, 0), "a/f/c/d/1": ("a/e/c/d/1", 20, 1, 2)}
    last = _chain(tmp_path, starts)
    found = _values(communication(last), "metric") | _values(work(last), "metric")
    assert (found["bytes_up",], found["bytes_down",], found["bytes_before",]) == (1, 2, 112)
    assert found["operations_before",] == pytest.approx(50 / 20 * found["operations",], rel=0.05)


@pytest.mark.parametrize("gone", [False, True])
def test_nothing_is_said_of_what_went_before_where_nothing_did_or_it_is_not_there(gone, tmp_path):
    last = _chain(tmp_path, {"a/b/c/d/1": ("a/e/c/d/1" if gone else "", 2, 1, 1)})
    said = {row["metric"] for row in (*communication(last), *work(last))}
    assert said.isdisjoint({"bytes_before", "operations_before"})


def test_passes_over_the_data_by_hand(tmp_path):
    run = _write_run(tmp_path / "run")  # batches of 64
    dealt = ((0, 0, 100), (0, 1, 30), (1, 0, 60))
    counts = [{"client": k, "style": "ink", "class": c, "images": n} for k, c, n in dealt]
    run.write_table("partition.csv", counts, ["client", "style", "class", "images"])
    columns = ["round", "client", "stage", "phase", "update", "steps", "loss"]
    steps = [(0, 0, "prologue", 0, 0, 9), (1, 0, "round", 0, 0, 4), (1, 0, "round", 0, 1, 4), (1, 1, "round", 0, 0, 1)]
    steps += [(2, 0, "round", 0, 0, 2), (2, 0, "round", 1, 0, 5), (3, 0, "round", 0, 0, 6), (3, 0, "epilogue", 0, 0, 7)]
    run.write_table("history.csv", [dict(zip(columns, (*row, 0.5), strict=True)) for row in steps], columns)
    # client 0: 4 + 2 + 5 + 6 steps of 2 per pass; client 1: 1 step of 1 per pass
    assert _values(budget(run), "metric")[("epochs_per_client",)] == pytest.approx((8.5 + 1) / 2)


def test_nothing_is_said_of_the_passes_of_a_pooled_run(tmp_path):
    """Its one trainer is client 0 in the history, and has other images than client 0."""
    run = _write_run(tmp_path / "run")
    dealt = [{"client": k, "style": "ink", "class": 0, "images": 100} for k in range(2)]
    run.write_table("partition.csv", dealt, list(dealt[0]))
    row = {"round": 1, "client": 0, "stage": "round", "phase": 0, "update": 0, "steps": 9, "loss": 0.5}
    run.write_table("history.csv", [row], list(row))
    assert "epochs_per_client" not in {record["metric"] for record in budget(RunFolder(run.path))}
    sent = {"round": 1, "client": 0, "direction": "down", "name": "w", "bytes": 4}
    run.write_table("traffic.csv", [sent], list(sent))
    found = _values(budget(RunFolder(run.path)), "metric")
    assert found["epochs_per_client",] == 4.5, "client 0 alone was sampled: nine passes, and none of the other's"


@pytest.mark.parametrize("gone", ["history.csv", "partition.csv"])
def test_passes_are_not_counted_as_none_where_they_are_not_on_record(gone, tmp_path):
    run = _write_run(tmp_path / "run")
    dealt = [{"client": k, "style": "ink", "class": 0, "images": 100} for k in range(2)]
    run.write_table("partition.csv", dealt, list(dealt[0]))
    run.write_table("history.csv", [], ["round", "client", "stage", "phase", "update", "steps", "loss"])
    assert _values(budget(RunFolder(run.path)), "metric")["epochs_per_client",] == 0, "nobody has trained"
    (run.path / gone).unlink()
    assert ("epochs_per_client",) not in _values(budget(RunFolder(run.path)), "metric")


def test_what_was_asked_for_is_told(tmp_path):
    run = _write_run(tmp_path / "run")  # two styles of two clients each
    data = run.spec.data.model_copy(update={"server_share": 0.25})
    training = run.spec.training.model_copy(update={"rounds": 7, "participation": 0.5})
    run.write_spec(run.spec.model_copy(update={"data": data, "training": training}))
    records = list(budget(RunFolder(run.path)))
    assert {r["kind"] for r in records} == {"cost"}
    found = {r["metric"]: (r["value"], r["unit"]) for r in records}
    assert found["communication_rounds"] == (7, "count")
    assert found["client_fraction"] == (0.5, "fraction")
    assert found["total_clients"] == (4, "count")
    assert found["server_real_fraction"] == (0.25, "fraction")


@pytest.mark.parametrize(
    ("asked", "metric"), [({"local_epochs": 3}, "local_epochs"), ({"local_steps": 3}, "local_steps")]
)
def test_a_budget_names_what_was_asked_for(asked, metric, tmp_path):
    run = _write_run(tmp_path / "run")
    training = run.spec.training.model_copy(update=asked)
    run.write_spec(run.spec.model_copy(update={"training": training}))
    found = _values(budget(RunFolder(run.path)), "metric")
    assert found[(metric,)] == 3
    assert {("local_epochs",), ("local_steps",)} & found.keys() == {(metric,)}


def test_what_a_run_calls_for_by_hand(tmp_path):
    """Six clients of 490 images, in 15 batches of 32, forty times; an image through three convolutions and a head."""
    run = RunFolder(tmp_path)
    spec = load_study("reference-common").specs["common/natural_equal/fedavg/default/2011"]
    run.write_spec(spec)
    first, others = 27 * 16 * 64, 9 * 16 * 32 * 16 + 9 * 32 * 64 * 4 + 64 * 10
    image = 2 * (2 * first + 3 * others)  # to multiply and add; forward, for weights, and but for the first for inputs
    found = {r["metric"]: (r["value"], r["unit"]) for r in work(run)}
    assert found["operations"] == (pytest.approx(image * 6 * 15 * 32 * 40, rel=0.02), "count")
    weights = 27 * 16 + 9 * 16 * 32 + 9 * 32 * 64 + 64 * 10 + 10
    assert found["model_mb"] == (pytest.approx(4 * weights / 2**20, rel=0.05), "MiB")


def test_operations_on_record_are_those_that_are_counted_today():
    """Whoever counts anew has to bring the records of common ground up to it."""
    file = ROOT / "results" / "reference" / "common" / "records.csv.gz"
    found = pd.read_csv(file, usecols=["run", "metric", "value"], dtype=str)
    recorded = found[found["metric"] == "operations"].set_index("run")["value"].astype(float)
    trained = load_study("reference-common").trained
    today = [work_of(trained[run]).flops for run in recorded.index]
    assert len(today) > 700
    assert list(recorded) == pytest.approx(today, rel=1e-9)


def test_nothing_is_said_of_what_nobody_has_counted(tmp_path):
    run = RunFolder(tmp_path)
    spec = load_study("reference-common").specs["common/natural_equal/fedavg/default/2011"]
    run.write_spec(spec.model_copy(update={"algorithm": {"name": "somebody-elses"}}))
    assert list(work(run)) == []


def test_a_run_that_does_not_say_what_it_was_trained_on_has_no_sources():
    assert list(sources(SimpleNamespace(provenance={}))) == []


def test_sources_are_those_of_the_provenance_and_share_their_classes(tmp_path):
    """A style that is short of a class has it in common with the others all the same."""
    run = _write_run(tmp_path / "run")
    ink, wax = ({"name": "x", "sha256": "0", "images": images, "classes": n} for images, n in ((7, 3), (5, 2)))
    run.write_provenance({"status": "ok", "sources": {"ink": ink, "wax": wax}})
    found = _values(sources(RunFolder(run.path)), "style", "metric", "unit", "kind", "aggregate")
    shared = "count", "dataset", "none"
    assert found == {("ink", "images", *shared): 7, ("wax", "images", *shared): 5, ("all", "classes", *shared): 3}


@pytest.mark.parametrize(("method", "parameters"), [("ps-fedgan", 12), ("full-gan", 12 + 7)])
def test_what_a_user_of_a_gan_sends_at_once_by_hand(method, parameters, tmp_path):
    """D has 10 + 2 numbers; with each step go four labels of 64 bits, and z of five numbers each. Users take three
    steps and two in the first round; later rounds, what comes down and the steps on D do not count."""
    run = _write_run(tmp_path / "run")
    run.write_spec(run.spec.model_copy(update={"algorithm": {"name": method}}))
    sizes = {"discriminator.weight": (5, 2), "discriminator.bias": (2,), "generator.weight": (7,), "other": (99,)}
    save_file(
        {f"clients/{name}": np.zeros((2, *s), np.float32) for name, s in sizes.items()}, run.path / "model.safetensors"
    )
    columns = ["round", "client", "stage", "phase", "update", "steps", "loss"]
    steps = [(r, k, "round", 0, u, n * r, 0.5) for r in (1, 2) for k, n in ((0, 3), (1, 2)) for u in (0, 1)]
    run.write_table("history.csv", [dict(zip(columns, row, strict=True)) for row in steps], columns)
    columns = ["round", "client", "direction", "name", "bytes"]
    each = {"discriminator.weight": 40, "discriminator.bias": 8, "z": 80, "labels": 32}
    sent = [
        (r, k, way, f"published.{name}", n * size * r**2 * (1 if way == "up" else 7))
        for r in (1, 2)
        for k, n in ((0, 3), (1, 2))
        for way in ("up", "down")
        for name, size in each.items()
    ]
    run.write_table("traffic.csv", [dict(zip(columns, row, strict=True)) for row in sent], columns)
    found = _values(transmission(RunFolder(run.path)), "metric")
    assert found == {("parameters",): parameters, ("bytes_per_step",): 160, ("numbers_per_step",): 12 + 20 + 4}
    (run.path / "traffic.csv").unlink()
    assert _values(transmission(RunFolder(run.path)), "metric") == {("parameters",): parameters}


def test_a_gan_is_counted_of_which_there_is_a_single_user(tmp_path):
    run = _write_run(tmp_path / "run")
    run.write_spec(run.spec.model_copy(update={"algorithm": {"name": "ps-fedgan"}}))
    save_file({"clients/discriminator.bias": np.zeros((1, 6), np.float32)}, run.path / "model.safetensors")
    assert _values(transmission(RunFolder(run.path)), "metric") == {("parameters",): 6}


def test_what_is_sent_of_a_gan_that_diverged_is_counted_all_the_same(tmp_path):
    """A run that diverged in its first round has taken no steps that its history tells of."""
    run = _write_run(tmp_path / "run")
    run.write_spec(run.spec.model_copy(update={"algorithm": {"name": "ps-fedgan"}}))
    run.write_provenance({"status": "diverged"})
    run.write_table("history.csv", [], ["round", "client", "stage", "phase", "update", "steps", "loss"])
    diverged = {"clients/discriminator.weight": np.full((2, 5, 2), np.nan, np.float32)}
    save_file(diverged, run.path / "model.safetensors")
    assert _values(transmission(RunFolder(run.path)), "metric") == {("parameters",): 10}


def test_no_other_method_is_said_to_send_a_gan(tmp_path):
    run = _write_run(tmp_path / "run")
    for name in ("fedavg", "ps-fedgan"):  # which has left no model
        run.write_spec(run.spec.model_copy(update={"algorithm": {"name": name}}))
        assert not list(transmission(RunFolder(run.path)))
