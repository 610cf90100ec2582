"""The Fréchet distance against closed forms and pytorch-fid, and what it refuses."""

import hashlib
import os
from unittest import mock

import numpy as np
import pytest
import scipy.linalg
import torch
from pytorch_fid import fid_score, inception
from pytorch_fid.inception import fid_inception_v3

from common.errors import InputError
from common.run_folder import RunFolder
from evaluation import frechet
from evaluation.frechet import INCEPTION, NoDistance, frechet_distance, gaussian
from evaluation.judge import JudgeNetwork, load, save
from tests.mutation import mutated


def _gaussians(d: int = 5, seed: int = 0):
    rng = np.random.default_rng(seed)
    return [
        gaussian(rng.normal(size=(40, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d), "a set") for _ in range(2)
    ]


def check_closed_forms(distance) -> None:
    """Gaussians whose covariances commute: |m1 - m2|^2 + sum of (sqrt(a) - sqrt(b))^2 over shared axes."""
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    a, b = np.array([4.0, 1.0, 0.25, 9.0]), np.array([1.0, 2.25, 4.0, 9.0])
    m1, m2 = rng.normal(size=4), rng.normal(size=4)
    expected = ((m1 - m2) ** 2).sum() + ((np.sqrt(a) - np.sqrt(b)) ** 2).sum()
    assert distance((m1, axes * a @ axes.T), (m2, axes * b @ axes.T)) == pytest.approx(expected, rel=1e-9)


def test_closed_forms():
    check_closed_forms(frechet_distance)


def test_it_is_pytorch_fids(monkeypatch):
    """pytorch-fid 0.3.0 asks SciPy's root for an error estimate that newer versions no longer give."""
    root = scipy.linalg.sqrtm
    monkeypatch.setattr(fid_score.linalg, "sqrtm", lambda m, disp=True: (root(m), 0.0))
    for seed in range(3):
        (m1, c1), (m2, c2) = _gaussians(seed=seed)
        theirs = fid_score.calculate_frechet_distance(m1, c1, m2, c2)
        assert frechet_distance((m1, c1), (m2, c2)) == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("np.square(m1 - m2).sum()", "0"),
        ("- 2 * np.sqrt", "- np.sqrt"),
        ("np.sqrt(inner", "np.abs(inner"),
        ("+ np.trace", "- np.trace"),
    ],
)
def test_a_wrong_distance_is_caught(right, wrong):
    with mutated("evaluation.frechet", "frechet_distance", right, wrong) as mutant, pytest.raises(AssertionError):
        check_closed_forms(mutant)


def test_it_is_symmetric_zero_for_a_copy_and_never_negative():
    a, b = _gaussians()
    assert frechet_distance(a, b) == pytest.approx(frechet_distance(b, a))
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(a, b) > 0


def test_a_collapsed_generator_has_a_distance_and_a_singular_reference_has_none():
    rng = np.random.default_rng(0)
    reference = gaussian(rng.normal(size=(50, 3)), "real")
    collapsed = gaussian(np.repeat(rng.normal(size=(1, 3)), 50, axis=0), "generated")
    trace = np.trace(reference[1])
    assert frechet_distance(collapsed, reference) == pytest.approx(np.square(collapsed[0] - reference[0]).sum() + trace)
    with pytest.raises(NoDistance, match="covariance of the reference images is singular"):
        frechet_distance(reference, collapsed)


@pytest.mark.parametrize("shares", [(2e-10, 1.0, 1.0), (2e-10, 0.01, 1.0)])
def test_a_reference_is_singular_if_it_varies_ten_thousand_million_times_less_in_one_direction(shares):
    other = np.zeros(3), np.eye(3)
    assert frechet_distance(other, (np.zeros(3), np.diag(shares))) > 0
    with pytest.raises(InputError, match="is singular"):
        frechet_distance(other, (np.zeros(3), np.diag(shares) * [0.4, 1, 1]))


def test_mean_and_covariance_are_those_of_numbers_of_double_precision():
    """Single precision would lose the variance beside a mean a million times as large."""
    features = 1e6 + np.random.default_rng(0).integers(-2, 3, (400, 3)).astype(np.float32)
    mean, covariance = gaussian(features.astype(np.float32), "a set")
    assert (mean.dtype, covariance.dtype) == (np.float64, np.float64)
    exact = features.astype(int) - 10**6
    np.testing.assert_allclose(mean - 1e6, exact.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(covariance, np.cov(exact, rowvar=False), rtol=1e-9)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(InputError, match="client 3's reference has 64 images, but needs more than the 64 features"):
        gaussian(np.zeros((64, 64)), "client 3's reference")
    with pytest.raises(InputError, match="features of a set are not finite"):
        gaussian(np.full((9, 2), np.nan), "a set")


# ---- extractors


def test_inceptions_weights_are_looked_for_and_missed_in_one_sentence(tmp_path, monkeypatch):
    def no_network(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", no_network)
    with pytest.raises(InputError, match=rf"no weights of Inception \(no route to host\); put {INCEPTION} below"):
        frechet.inception(str(tmp_path))
    for error, said in ((OSError(), "OSError"), (OSError("first line\nsecond line"), "first line")):
        monkeypatch.setattr(torch.hub, "load_state_dict_from_url", mock.Mock(side_effect=error))
        with pytest.raises(InputError, match=rf"^fid: no weights of Inception \({said}\); put"):
            frechet.inception(str(tmp_path))
    (tmp_path / INCEPTION).write_bytes(b"not weights")
    with pytest.raises(InputError, match="no weights of Inception"):
        frechet.inception(str(tmp_path))


def test_weights_are_read_and_nothing_in_their_file_is_run(tmp_path):
    """A pickle may call anything; this one makes a folder."""

    class Weights:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    torch.save({"weights": Weights()}, tmp_path / INCEPTION)
    with pytest.raises(InputError, match="no weights of Inception"):
        frechet.inception(str(tmp_path))
    assert not (tmp_path / "made").exists()


def test_inception_from_a_file(tmp_path, monkeypatch):
    """Weights of the right shapes in the data root are used, and named by their digest."""
    monkeypatch.setattr("pytorch_fid.inception.load_state_dict_from_url", lambda *_, **__: None)
    monkeypatch.setattr(torch.nn.Module, "load_state_dict", lambda *_, **__: None)
    torch.manual_seed(0)
    weights = fid_inception_v3().state_dict()
    monkeypatch.undo()
    torch.save(weights, tmp_path / INCEPTION)
    extract, sha = frechet.inception(str(tmp_path))
    grey = np.random.default_rng(0).integers(0, 256, (3, 1, 32, 32), dtype=np.uint8)
    features = extract(grey.repeat(3, axis=1))
    assert features.shape == (3, 2048)
    np.testing.assert_array_equal(extract(grey), features, "a grey image is one of three equal channels")
    assert sha == hashlib.sha256((tmp_path / INCEPTION).read_bytes()).hexdigest()


def test_inceptions_weights_are_downloaded_where_there_is_no_file_and_images_go_through_in_parts(tmp_path, monkeypatch):
    """Through what is said to be the network: of an image, four pixels times a weight."""
    batches = []

    class Network(torch.nn.Module):
        BLOCK_INDEX_BY_DIM = inception.InceptionV3.BLOCK_INDEX_BY_DIM

        def __init__(self, blocks):
            super().__init__()
            assert blocks == [3], "the last pooling, of 2048"
            self.weight = inception.load_state_dict_from_url("as pytorch-fid does")["weight"]

        def forward(self, x):
            assert not self.training
            batches.append(len(x))
            return [self.weight * x[:, :1, :2, :2]]

    def download(url, **settings):
        assert (url, settings) == (inception.FID_WEIGHTS_URL, {"progress": False})
        (tmp_path / "checkpoints").mkdir()
        (tmp_path / "checkpoints" / INCEPTION).write_bytes(b"weights")
        return {"weight": torch.tensor(3.0)}

    monkeypatch.setattr(inception, "InceptionV3", Network)
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", download)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    extract, sha = frechet.inception(str(tmp_path / "nothing"))
    assert sha == hashlib.sha256(b"weights").hexdigest()
    images = np.random.default_rng(0).integers(0, 256, (120, 3, 4, 4), dtype=np.uint8)
    np.testing.assert_allclose(extract(images), 3.0 * images[:, 0, :2, :2].reshape(120, 4) / 255, rtol=1e-6)
    assert batches == [60, 60]
    batches.clear()
    assert extract(images[:49]).shape == (49, 4)
    assert batches == [49]


QUALITY = [{"metric": "accuracy", "setting": "judge;target=label", "value": 0.5}]


def _judge(folder, **changes):
    shape = {"channels": 3, "size": 8, "width": 4, "features": 6, "classes": 10, "clients": 3, **changes}
    save(JudgeNetwork(**shape).eval(), shape, QUALITY, folder / "judge.safetensors")
    return folder / "judge.safetensors"


def test_a_judge_is_read_back_and_says_who_it_is(tmp_path):
    judge = load(_judge(tmp_path))
    images = np.random.default_rng(0).integers(0, 256, (5, 3, 8, 8), dtype=np.uint8)
    features, labels, clients = judge(images)
    assert (features.shape, labels.shape, clients.shape) == ((5, 6), (5,), (5,))
    assert judge.quality == QUALITY
    (ceiling,) = judge.ceiling("accuracy", "target=label", of="label_agreement", role="cloud")
    assert (ceiling["metric"], ceiling["value"], ceiling["control"]) == ("label_agreement", 0.5, "ceiling")
    assert judge.sha256 == hashlib.sha256((tmp_path / "judge.safetensors").read_bytes()).hexdigest()
    with pytest.raises(InputError, match=r"images must be bytes \(3, 8, 8\), got uint8 \(3, 9, 9\)"):
        judge(np.zeros((2, 3, 9, 9), dtype=np.uint8))
    with pytest.raises(InputError, match="got float64"):
        judge(np.zeros((2, 3, 8, 8)))


def test_a_missing_or_broken_judge_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"^judge: name the folder of judges, --judges"):
        load(None)
    with pytest.raises(InputError, match=r"judge: there is no file .* --out .*/judge\.safetensors` trains one$"):
        load(tmp_path / "judge.safetensors")
    (tmp_path / "judge.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="is not a judge"):
        load(tmp_path / "judge.safetensors")


# ---- controls


def test_the_controls_stand_in_their_order(tmp_path):
    """A copy is at 0, held-out images near it, another client's further, noise furthest; the names say how many."""
    rng = np.random.default_rng(0)
    arrays = {}
    for k, level in enumerate((60, 140, 220)):
        images = (rng.normal(level, 12, (120, 3, 8, 8))).clip(0, 255).astype(np.uint8)
        arrays |= {
            f"client/{k}/real": images[:60],
            f"client/{k}/held-out": images[60:],
            f"client/{k}/style": np.array("a"),
        }
        arrays[f"client/{k}/generated"] = images[30:90]
    run = RunFolder(tmp_path, _judge(tmp_path))
    run.write_arrays("samples.npz", arrays)
    (tmp_path / "spec.yaml").write_text(SPEC)
    run.write_provenance({"status": "ok"})
    records = list(frechet.fid(run, extractors=["domain-classifier"]))
    mean = {r["control"]: r["value"] for r in records if r["client"] == "all" and not r["setting"]}
    assert mean["copy"] == pytest.approx(0, abs=1e-6)
    assert mean["copy"] < mean["floor"] < mean["other-client"]
    assert mean["floor"] < mean["noise"]
    for control in ("brighter", "noisy", "shifted"):
        assert mean["floor"] < mean[control], "held-out images in which something was changed"
    names = {r["metric"] for r in records if r["control"] == "floor"}
    assert names == {f"fid:domain-classifier-{load(run.judge).sha256[:8]}:60-floor:60-train"}


def _shades(level: float, rng, n: int = 40) -> np.ndarray:
    return rng.normal(level, 12, (n, 3, 8, 8)).clip(0, 240).astype(np.uint8)


def test_each_record_is_the_distance_of_what_its_columns_name(tmp_path):
    """Of at most 30 images on each side; the mean over clients beside them."""
    rng, arrays = np.random.default_rng(3), {}
    kinds = ("real", "held-out", "generated", "generated/bn=eval", "generated/generator=global")
    for k in range(3):
        arrays |= {f"client/{k}/{kind}": _shades(60 + 40 * k + 10 * n, rng) for n, kind in enumerate(kinds)}
        arrays[f"client/{k}/style"] = np.array("abc"[k])
    run = RunFolder(tmp_path, _judge(tmp_path))
    run.write_arrays("samples.npz", arrays)
    (tmp_path / "spec.yaml").write_text(
        SPEC.replace("{a: digits-plain}, clients_per_style: 3", "{a: digits-plain, b: digits-plain, c: digits-plain}")
    )
    run.write_provenance({"status": "ok"})
    records = list(frechet.fid(run, extractors=["domain-classifier"], images=30))
    assert records == list(frechet.fid(run, extractors=["domain-classifier"], images=30)), (
        "noise, too, is always the same"
    )
    found = {(r["setting"], r["control"], r["client"]): r for r in records}
    judge = load(run.judge)

    def distance(images: np.ndarray, k: int) -> float:
        sets = images[:30], arrays[f"client/{k}/real"][:30]
        return frechet_distance(*(gaussian(judge(part)[0], "a set") for part in sets))

    shown = {
        ("", ""): lambda k: arrays[f"client/{k}/generated"],
        ("bn=eval", ""): lambda k: arrays[f"client/{k}/generated/bn=eval"],
        ("generator=global", ""): lambda k: arrays[f"client/{k}/generated/generator=global"],
        ("", "floor"): lambda k: arrays[f"client/{k}/held-out"],
        ("", "brighter"): lambda k: arrays[f"client/{k}/held-out"] + np.uint8(13),
        ("", "copy"): lambda k: arrays[f"client/{k}/real"],
        ("", "other-client"): lambda k: arrays[f"client/{(k + 1) % 3}/real"],
    }
    for (setting, control), images in shown.items():
        expected = [distance(images(k), k) for k in range(3)]
        for k in range(3):
            record = found[setting, control, f"client-{k + 1}"]
            assert record["value"] == pytest.approx(expected[k], abs=1e-6)
            assert record["style"] == "abc"[k]
        mean = found[setting, control, "all"]
        assert mean["value"] == pytest.approx(np.mean(expected), abs=1e-6)
        what = f"fid:domain-classifier-{judge.sha256[:8]}:30-{control or 'generated'}:30-train"
        assert (mean["metric"], mean["aggregate"], mean["style"]) == (what, "mean", "all")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("generated", "client 2's generated set"),
        ("held-out", "client 2's floor set"),
        ("real", "client 2's reference"),
    ],
)
def test_a_set_that_is_too_small_is_named(kind, said, tmp_path):
    rng, run = np.random.default_rng(0), RunFolder(tmp_path, _judge(tmp_path))
    arrays = {f"client/2/{which}": _shades(60, rng) for which in ("real", "generated", "held-out")}
    small = {f"client/2/{kind}": arrays[f"client/2/{kind}"][:5], "client/2/style": np.array("a")}
    run.write_arrays("samples.npz", arrays | small)
    (tmp_path / "spec.yaml").write_text(SPEC)
    run.write_provenance({"status": "ok"})
    with pytest.raises(InputError, match=f"fid: {said} has 5 images, but needs more than the 6 features"):
        list(frechet.fid(run, extractors=["domain-classifier"]))


def test_a_case_that_some_client_has_no_images_of_is_left_out_and_no_other(tmp_path):
    judge = _judge(tmp_path)

    def measured(folder, held_out: int) -> dict[tuple[str, str, str], float]:
        folder.mkdir()
        rng, run, arrays = np.random.default_rng(0), RunFolder(folder, judge), {}
        for k, count in ((0, 30), (1, held_out)):
            arrays |= {f"client/{k}/{kind}": _shades(60, rng) for kind in ("real", "generated")}
            arrays |= {f"client/{k}/style": np.array("a"), f"client/{k}/held-out": _shades(60, rng)[:count]}
        run.write_arrays("samples.npz", arrays)
        (folder / "spec.yaml").write_text(SPEC)
        run.write_provenance({"status": "ok"})
        records = frechet.fid(run, extractors=["domain-classifier"])
        return {(r["setting"], r["control"], r["client"]): r["value"] for r in records}

    whole, left = measured(tmp_path / "whole", 30), measured(tmp_path / "left", 0)
    assert {case for _, case, _ in whole.keys() - left.keys()} == {"floor", *frechet.HARDLY_CHANGED}
    assert left == {key: value for key, value in whole.items() if key in left}
    assert {case for _, case, _ in left} == {"", "copy", "noise", "other-client"}


def test_the_name_says_how_many_images_there_were_of_a_client_and_of_all(tmp_path):
    rng, run, arrays = np.random.default_rng(0), RunFolder(tmp_path, _judge(tmp_path)), {}
    for k, (made, real) in enumerate(((20, 40), (30, 50), (25, 10))):
        arrays |= {f"client/{k}/generated": _shades(60, rng, made), f"client/{k}/real": _shades(60, rng, real)}
        arrays[f"client/{k}/style"] = np.array("a")
    run.write_arrays("samples.npz", arrays)
    (tmp_path / "spec.yaml").write_text(SPEC)
    run.write_provenance({"status": "ok"})
    records = frechet.fid(run, extractors=["domain-classifier"])
    names = {r["client"]: r["metric"].split(":", 2)[2] for r in records if not r["control"]}
    assert names == {
        "client-1": "20-generated:40-train",
        "client-2": "30-generated:50-train",
        "client-3": "25-generated:10-train",
        "all": "20-30-generated:10-50-train",
    }


def test_what_is_drawn_for_controls_is_the_clients_own_and_the_runs(tmp_path):
    def drawn(seed: int) -> dict[str, dict[int, np.ndarray]]:
        (tmp_path / "spec.yaml").write_text(SPEC.replace("seed: 1", f"seed: {seed}"))
        run = RunFolder(tmp_path)
        images = np.full((40, 3, 8, 8), 99, np.uint8)
        images[:, :, 4, 4] = 0
        kinds = {f"client/{k}/{kind}": images for k in (0, 1) for kind in ("real", "held-out")}
        shown = frechet._shown(run, kinds)
        return {control: shown["", control] for control in ("noise", "noisy", "shifted")}

    first, again, other = drawn(1), drawn(1), drawn(2)
    for control in first:
        for k in (0, 1):
            np.testing.assert_array_equal(first[control][k], again[control][k])
            assert not np.array_equal(first[control][k], other[control][k])
        assert not np.array_equal(first[control][0], first[control][1])
    assert np.unique(first["noise"][0]).tolist() == list(range(256)), "of all levels"


def test_as_many_images_are_taken_as_padpaf_takes_where_nothing_else_is_asked_for(monkeypatch, tmp_path):
    asked, names = [], []
    monkeypatch.setattr(frechet, "extractor", lambda name, run: names.append(name) or (None, "0123456789"))
    monkeypatch.setattr(frechet, "_distances", lambda what, *rest: asked.append((what, rest[-1])) or [])
    for name in ("old", "new"):
        folder = tmp_path / name
        folder.mkdir()
        run = RunFolder(folder, _judge(folder))
        arrays = {"client/0/generated": np.zeros((2, 3, 8, 8), np.uint8), "client/0/style": np.array("a")}
        run.write_arrays("samples.npz", arrays)
        (folder / "spec.yaml").write_text(SPEC + ("start: padpaf/c/padpaf/old/1\n" if name == "new" else ""))
        run.write_provenance({"status": "ok"})
        list(frechet.fid(run, extractors=["inception", "domain-classifier"]))
    assert names == ["inception", "domain-classifier"] * 2
    assert asked == [(f"{name}-01234567", 7520) for name in names]


def test_new_clients_are_measured_after_each_snapshot_and_at_the_end(tmp_path):
    rng = np.random.default_rng(0)
    run, real = RunFolder(tmp_path, _judge(tmp_path)), _shades(60, rng)
    levels = {1: 220, 4: 140, 6: 70}
    for round, level in levels.items():
        arrays = {"real": real, "generated": _shades(level, rng), "held-out": real, "style": np.array("a")}
        name = "samples.npz" if round == 6 else f"after-{round}.npz"
        run.write_arrays(name, {f"client/0/{key}": array for key, array in arrays.items()})
    spec = SPEC.replace("{rounds: 1}", "{rounds: 6}") + "snapshots: [1, 4]\nstart: padpaf/c/padpaf/old/1\n"
    (tmp_path / "spec.yaml").write_text(spec)
    run.write_provenance({"status": "ok"})
    records = [r for r in frechet.fid(run, extractors=["domain-classifier"]) if r["client"] == "all"]
    assert {r["control"] for r in records} == {""}
    found = {r["setting"]: r["value"] for r in records}
    assert list(found) == [f"phase=new-clients;rounds={n}" for n in levels]
    assert sorted(found.values(), reverse=True) == list(found.values())


def test_a_long_run_is_measured_after_the_round_that_the_table_is_of(tmp_path):
    rng = np.random.default_rng(0)

    def arrays(level: float) -> dict[str, np.ndarray]:
        real, made = (rng.normal(at, 12, (60, 3, 8, 8)).clip(0, 255).astype(np.uint8) for at in (60, level))
        return {"client/0/real": real, "client/0/generated": made, "client/0/style": np.array("a")}

    run = RunFolder(tmp_path, _judge(tmp_path))
    run.write_arrays("samples.npz", arrays(60))
    run.write_arrays("after-1.npz", arrays(200))
    (tmp_path / "spec.yaml").write_text(SPEC.replace("{rounds: 1}", "{rounds: 2}") + "snapshots: [1]\n")
    run.write_provenance({"status": "ok"})

    def distance(after: int | None) -> float:
        records = frechet.fid(run, extractors=["domain-classifier"], after=after)
        return next(r["value"] for r in records if not r["setting"] and not r["control"])

    assert distance(1) > 10 * distance(None)
    assert distance(7) == distance(None), "a run without that snapshot"


def test_by_round_there_is_a_distance_for_each_snapshot_until_the_round_that_the_table_is_of(tmp_path):
    rng = np.random.default_rng(0)
    run, real = RunFolder(tmp_path, _judge(tmp_path)), _shades(60, rng)
    for round, level in ((1, 220), (2, 140), (3, 90), (4, 70)):
        arrays = {"real": real, "generated": _shades(level, rng), "style": np.array("a")}
        name = "samples.npz" if round == 4 else f"after-{round}.npz"
        run.write_arrays(name, {f"client/0/{key}": array for key, array in arrays.items()})
    (tmp_path / "spec.yaml").write_text(SPEC.replace("{rounds: 1}", "{rounds: 4}") + "snapshots: [1, 2, 3]\n")
    run.write_provenance({"status": "ok"})

    def distances(after: int | None, snapshots: bool = True) -> dict[str, float]:
        records = frechet.fid(run, extractors=["domain-classifier"], after=after, snapshots=snapshots)
        means = [r for r in records if r["client"] == "all" and not r["control"]]
        assert [bool(r["setting"]) for r in means] == [r.get("protocol") == "by-round" for r in means]
        return {r["setting"]: r["value"] for r in means}

    whole, until_3 = distances(None), distances(3)
    assert list(whole) == ["", "rounds=1", "rounds=2", "rounds=3", "rounds=4"]
    assert whole.pop("") == whole["rounds=4"]
    assert sorted(whole.values(), reverse=True) == list(whole.values())
    assert until_3 == {"": whole["rounds=3"], **{f"rounds={n}": whole[f"rounds={n}"] for n in (1, 2, 3)}}
    assert list(distances(3, snapshots=False)) == [""]


SPEC = """
run: padpaf/c/padpaf/default/1
scale: tiny
seed: 1
data: {dataset: mnist, styles: {a: digits-plain}, clients_per_style: 3}
network: {name: sn-resnet}
objective: {name: gan}
algorithm: {name: padpaf}
training: {rounds: 1}
"""
