"""What is measured on translations, on folders that are small enough to know the answer."""

from dataclasses import astuple
from functools import partial
from unittest import mock

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from common.errors import InputError
from common.run_folder import RunFolder
from common.spec import Spec
from evaluation import translated
from evaluation.extracts import searches
from evaluation.frechet import frechet_distance, gaussian
from evaluation.transport import exact, flat, sinkhorn
from methods.fedinb import FedINB
from tests.mutation import mutated
from tests.wrong import refused

DOMAINS = ("0", "30", "60")
LABELS = np.array([0, 1, 1, 0, 1, 0, 0, 1])
OF_CLASS = np.array([0, 3, 5, 6]), np.array([1, 2, 4, 7])


def _images(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (len(LABELS), 1, 8, 8), dtype=np.uint8)


REAL = {name: _images(n) for n, name in enumerate(DOMAINS)}


def _perfect(source: str, target: str) -> np.ndarray:
    """The target's images of the right class, in the order in which the source's labels ask for them."""
    order = np.empty(len(LABELS), dtype=int)
    for rows in OF_CLASS:
        order[rows] = rows[::-1]
    return REAL[target][order]


def _identity(source: str, target: str) -> np.ndarray:
    return REAL[source]


def _collapsed(source: str, target: str) -> np.ndarray:
    """The target's own, and one of them in the place of every other."""
    made = _perfect(source, target).copy()
    made[::2] = made[0]
    return made


def _run(folder, translate) -> RunFolder:
    """Two rounds; before the first nothing is translated, and other images of a domain are darker."""
    run = RunFolder(folder)
    run.write_spec(
        Spec(
            run="fedinb/tiny/fedinb/default/1",
            scale="tiny",
            seed=1,
            data={"dataset": "rotated-digits", "styles": dict.fromkeys(DOMAINS, "digits-plain"), "image_size": 8},
            network={"name": "pixels"},
            objective={"name": "autoencoder"},
            algorithm={"name": "fedinb", "layers": 2, "iterations": 5, "directions": 3},
            training={"rounds": 2},
            snapshots=[0, 1],
        )
    )
    real = {f"real/{a}": REAL[a] for a in DOMAINS} | {f"label/{a}": LABELS for a in DOMAINS}
    pairs = [(a, b) for a in DOMAINS for b in DOMAINS]
    for name, made in (("after-0.npz", _identity), ("after-1.npz", translate), ("samples.npz", translate)):
        arrays = {f"translated/{a}/{b}": made(a, b) for a, b in pairs}
        if name == "samples.npz":
            arrays |= {f"rotated/{a}/{b}": _perfect(a, b) for a, b in pairs}
            arrays |= {f"other/{a}": REAL[a] // 2 for a in DOMAINS} | {f"other-label/{a}": LABELS for a in DOMAINS}
        run.write_arrays(name, real | arrays)
    run.write_provenance({"status": "ok", "train_s": 90})
    run.write_table(
        "partition.csv",
        [{"client": k, "style": s, "class": 0, "images": 8} for k, s in enumerate(DOMAINS)],
        ["client", "style", "class", "images"],
    )
    traffic = [
        {"round": r, "client": k, "direction": d, "name": name, "bytes": size}
        for r, factor in ((0, 7), (1, 1), (2, 10))
        for k in range(3)
        for d, name, size in (("up", "slices", 400), ("down", "theta", 40), ("down", "halved", 13))
        for size in [size * factor]
    ]
    run.write_table("traffic.csv", traffic, ["round", "client", "direction", "name", "bytes"])
    notes = [
        {"round": r, "class": c, "iteration": i, "trials": trials, "objective": 0.5}
        for r in (1, 2)
        for c, i, trials in ((0, 1, 2.0), (0, 2, 3.0), (1, 1, 1.0))
    ]
    run.write_table("notes.csv", notes, ["round", "class", "iteration", "trials", "objective"])
    return RunFolder(folder)


def _measured(folder, translate, measure=translated.translation) -> dict[tuple[str, str, str], float]:
    rows = list(measure(_run(folder, translate), extractors=[]))
    found = {(r["metric"], r["setting"], r["control"]): r["value"] for r in rows}
    assert len(found) == len(rows)
    return found


METRICS = ("wd", "wd_between", "wd_exact", "wd_exact_between", "wd_iterations", "wd_marginal_error")


def test_images_that_are_not_translated_are_the_identity_control(tmp_path):
    found = _measured(tmp_path, _identity)
    for metric in METRICS:
        control = found[metric, "final", "identity"]
        assert [found[metric, setting, ""] for setting in ("start", "after=1", "final")] == [control] * 3


def check_perfect(folder, measure=translated.translation) -> None:
    found = _measured(folder, _perfect, measure)
    for metric in ("wd_exact", "wd_exact_between"):
        for case in (("after=1", ""), ("final", ""), ("final", "rotation")):
            assert found[metric, *case] == pytest.approx(0, abs=1e-9)
        assert found[metric, "start", ""] > 1


def test_a_perfect_translation_has_no_distance(tmp_path):
    check_perfect(tmp_path)


def test_a_class_of_which_nothing_was_translated_is_named():
    images, labels = np.zeros((2, 1, 4, 4), np.uint8), np.array([0, 1])
    with pytest.raises(InputError, match=r"^wd: of class 1 there are real images and none that were translated$"):
        translated._over_classes(exact, (images[:1], labels[:1]), (images, labels))


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("_over_classes", "images[labels == c]", "images[labels != c]"),
        ("_pairs", "{(a, b): (arrays", "{(b, a): (arrays"),
        ("_wasserstein", "real[b])", "real.get(a, real[b]))"),
    ],
)
def test_another_pairing_is_caught(name, right, wrong, tmp_path):
    with mutated("evaluation.translated", name, right, wrong), pytest.raises(AssertionError):
        check_perfect(tmp_path)


def test_distances_are_means_over_pairs_and_classes(tmp_path):
    """The identity's: the diagonal is nothing, so that without it the mean over nine pairs becomes one over six."""
    found = _measured(tmp_path, _identity)
    costs = [
        exact(flat(REAL[a][rows]), flat(REAL[b][rows])).value for a in DOMAINS for b in DOMAINS for rows in OF_CLASS
    ]
    assert found["wd_exact", "final", "identity"] == pytest.approx(np.mean(costs))
    assert found["wd_exact_between", "final", "identity"] == pytest.approx(np.sum(costs) / 12)


def test_what_is_measured_as_published_says_how_far_it_got(tmp_path):
    found = _measured(tmp_path, _identity)
    for own, names in ((True, ("wd", "wd_iterations", "wd_marginal_error")), (False, ("wd_between",))):
        costs = [
            astuple(sinkhorn(flat(REAL[a][rows]), flat(REAL[b][rows])))
            for a in DOMAINS
            for b in DOMAINS
            for rows in OF_CLASS
            if own or a != b
        ]
        expected = np.mean(costs, axis=0)[: len(names)]
        assert [found[name, "final", "identity"] for name in names] == pytest.approx(list(expected))


def test_sinkhorn_stopped_early_begins_with_the_domains_own_images(tmp_path):
    """As in the paper's formula (App. E.1): the order changes the cost of an unfinished plan."""
    found = _measured(tmp_path, _collapsed)
    pairs = [(REAL[b][rows], _collapsed(a, b)[rows]) for a in DOMAINS for b in DOMAINS for rows in OF_CLASS]
    first, last = (np.mean([sinkhorn(*map(flat, pair[::way])).value for pair in pairs]) for way in (1, -1))
    assert found["wd", "final", ""] == pytest.approx(first)
    assert abs(first / last - 1) > 0.01


def test_other_images_of_the_target_are_a_control(tmp_path):
    found = _measured(tmp_path, _identity)
    per_domain = [exact(flat(REAL[b][rows] // 2), flat(REAL[b][rows])).value for b in DOMAINS for rows in OF_CLASS]
    assert found["wd_exact_between", "final", "other"] == pytest.approx(np.mean(per_domain))


def test_what_has_no_pair_of_a_domain_with_itself_has_no_mean_over_all_pairs(tmp_path):
    """Which translators have at a distance of nothing, so that others would look further away than they are."""
    found = _measured(tmp_path, _identity)
    whole = {control for metric, _, control in found if metric in ("wd", "wd_exact")}
    between = {control for metric, _, control in found if metric in ("wd_between", "wd_exact_between")}
    assert whole == {"", "identity", "rotation"}
    assert between == whole | {"other", "blur-0.5", "blur-1", "blur-2"}


@pytest.mark.parametrize("sigma", [0.5, 1, 2])
def test_others_are_blurred_as_scipy_does_within_five_pixels(sigma, tmp_path):
    found = _measured(tmp_path, _identity)
    blurred = {b: gaussian_filter(REAL[b] // 2 / 255, sigma, radius=2, mode="mirror", axes=(2, 3)) for b in DOMAINS}
    distances = [
        exact(blurred[b][rows].reshape(4, -1), flat(REAL[b][rows])).value for b in DOMAINS for rows in OF_CLASS
    ]
    assert found["wd_exact_between", "final", f"blur-{sigma}"] == pytest.approx(np.mean(distances), rel=1e-2)


def test_controls_that_a_run_has_not_left_are_not_measured(tmp_path):
    """Neither on all images nor on parts of them."""
    run = _run(tmp_path, _identity)
    run.write_arrays(
        "samples.npz", {key: x for key, x in run.samples.items() if not key.startswith(("rotated", "other"))}
    )
    rows = list(translated.translation(RunFolder(tmp_path), extractors=[], test_images=[12]))
    found = {(r["setting"], r["control"]) for r in rows}
    assert found == {
        ("start", ""),
        ("after=1", ""),
        *((s, c) for s in ("final", "test_samples=12") for c in ("", "identity")),
    }


def check_norms(folder, measure=translated.translation) -> None:
    """By kept statistics nothing is translated, by each image's own everything: each is measured under its name."""
    run = _run(folder, _identity)
    for file, arrays in {"after-1.npz": dict(run.after(1)), "samples.npz": dict(run.samples)}.items():
        own = {key.replace("translated/", "instance-normed/"): key for key in arrays if key.startswith("translated/")}
        run.write_arrays(file, arrays | {kind: _perfect(*key.split("/")[1:]) for kind, key in own.items()})
    rows = list(measure(RunFolder(folder), extractors=[], test_images=[12]))
    found = {(r["metric"], r["setting"], r["control"]): r["value"] for r in rows}
    assert len(found) == len(rows)
    assert {s for _, s, _ in found if s.startswith("start")} == {"start"}, "before the first there are none"
    for setting in ("after=1", "final", "test_samples=12"):
        turned = found["wd_exact", setting.replace("after=1", "final"), "rotation"]  # which is perfect, too
        assert found.get(("wd_exact", f"{setting};norms=instance", "")) == turned
        assert found["wd_exact", setting, ""] not in {0, turned}
    assert {s for _, s, control in found if control} == {"final", "test_samples=12"}, "controls have no norms"


def test_translations_by_other_statistics_are_measured_under_their_name(tmp_path):
    check_norms(tmp_path)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("_by_norms", "_pairs(arrays, kind, real)", "_pairs(arrays, 'translated', real)"),
        ("_by_norms", "setting + norms", "setting"),
        (
            "_at_the_end",
            "yield from _by_norms(setting, run.samples, real)",
            'yield setting, "", _pairs(run.samples, "translated", real)',
        ),
        ("_shown", 'yield from _by_norms(f"after={round}" if round else "start", run.after(round), real)', "pass"),
    ],
)
def test_norms_mixed_up_are_caught(name, right, wrong, tmp_path):
    with mutated("evaluation.translated", name, right, wrong), pytest.raises(AssertionError):
        check_norms(tmp_path)


def test_controls_are_left_out_where_they_are_not_asked_for(tmp_path):
    """All else is what it is beside them."""
    run = _run(tmp_path, _perfect)
    rows = [list(translated.translation(run, extractors=[], test_images=[12], controls=c)) for c in (True, False)]
    assert rows[1] == [row for row in rows[0] if not row["control"]]
    assert {row["setting"] for row in rows[1]} == {"start", "after=1", "final", "test_samples=12"}


def test_what_is_blurred_is_as_bright_as_before():
    x = np.concatenate([np.full((1, 1, 8, 8), level, np.uint8) for level in (0, 1, 128, 254, 255)])
    np.testing.assert_array_equal(translated._blurred(x, 1.0), x)
    by_scipy = gaussian_filter(REAL["0"] / 1.0, 1.0, radius=2, mode="mirror", axes=(2, 3))
    np.testing.assert_allclose(translated._blurred(REAL["0"], 1.0), by_scipy, atol=0.51)


def check_parts(folder, evaluation=translated.translation) -> None:
    """Of 12 images of three domains there are two of each of two classes; 24 are all, so that nothing is measured
    again, and 100 are not there."""
    found = _measured(folder, _perfect, partial(evaluation, test_images=[12, 24, 100]))
    assert {setting for _, setting, _ in found} == {"start", "after=1", "final", "test_samples=12"}
    first = [rows[:2] for rows in OF_CLASS]
    for metric, control, a, b in (
        ("wd_exact", "identity", lambda a, b: REAL[a], lambda b: REAL[b]),
        ("wd_exact", "", _perfect, lambda b: REAL[b]),
        ("wd_exact_between", "other", lambda a, b: REAL[b] // 2, lambda b: REAL[b]),
    ):
        distances = [
            exact(flat(a(s, t)[rows]), flat(b(t)[rows])).value for s in DOMAINS for t in DOMAINS for rows in first
        ]
        assert found[metric, "test_samples=12", control] == pytest.approx(np.mean(distances))


def test_distances_on_parts_are_those_of_the_first_of_each_class(tmp_path):
    check_parts(tmp_path)


def test_of_three_classes_the_first_of_each_are_taken_in_their_order():
    labels = np.array([2, 2, 0, 2, 1, 0, 1, 0, 1])
    assert translated._of_each_class(labels, 7).tolist() == [0, 1, 2, 4, 5, 6]


def test_fewer_images_than_classes_in_each_domain_are_refused(tmp_path):
    run = _run(tmp_path, _perfect)
    with refused("translation.test_images: must be at least 6, an image of each of 2 classes in each of 3", "got 5"):
        list(translated.translation(run, extractors=[], test_images=[5]))
    assert list(translated.translation(run, extractors=[], test_images=[6]))


@pytest.mark.parametrize("file", ["samples.npz", "after-1.npz"])
def test_images_of_a_domain_of_which_there_are_no_real_ones_are_refused(file, tmp_path):
    run = _run(tmp_path, _perfect)
    arrays = run.samples if file == "samples.npz" else run.after(1)
    run.write_arrays("samples.npz", {key: x for key, x in run.samples.items() if key not in ("real/60", "label/60")})
    if file == "after-1.npz":
        run.write_arrays("after-0.npz", {key: x for key, x in run.after(0).items() if "60" not in key})
    else:
        for round in (0, 1):
            (tmp_path / f"after-{round}.npz").unlink()
    assert "translated/0/60" in arrays
    with refused(f"{file}: translated/0/60: samples.npz has no array 'real/60'"):
        list(translated.translation(RunFolder(tmp_path), extractors=[]))


def test_as_many_images_are_translated_after_a_round_as_there_are_at_the_end(tmp_path):
    run = _run(tmp_path, _perfect)
    run.write_arrays("after-0.npz", {"translated/0/30": REAL["0"][:4]})
    with refused("after-0.npz: translated/0/30: must be as many images as 'real/0' of samples.npz"):
        list(translated.translation(RunFolder(tmp_path), extractors=[]))


def test_of_a_single_domain_there_is_no_distance_between_two(tmp_path):
    run = _run(tmp_path, _perfect)
    for round in (0, 1):
        (tmp_path / f"after-{round}.npz").unlink()
    alone = {"real/0": REAL["0"], "label/0": LABELS, "translated/0/0": REAL["0"]}
    run.write_arrays("samples.npz", alone | {"other/30": REAL["30"], "other-label/30": LABELS})
    found = {r["metric"] for r in translated.translation(RunFolder(tmp_path), extractors=[])}
    assert found == {metric for metric in METRICS if "between" not in metric}


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("translation", "_first(pairs, each), few", "pairs, real"),
        ("translation", "_first(pairs, each), few", "_first(pairs, each), real"),
        ("translation", "if each < min(", "if each <= min("),
        ("_of_each_class", ": count // len(classes)]", "-(count // len(classes)) :]"),
    ],
)
def test_other_parts_are_caught(name, right, wrong, tmp_path):
    with mutated("evaluation.translated", name, right, wrong) as mutant, pytest.raises(AssertionError):
        check_parts(tmp_path, mutant if name == "translation" else translated.translation)


def test_frechet_distances_are_means_over_pairs_and_own_images_are_looked_at_once(tmp_path, monkeypatch):
    """On four numbers of each image in the place of a network's features."""
    seen = []

    def features(images: np.ndarray) -> np.ndarray:
        seen.append(images)
        return images[:, 0, 0, :4] / 255

    digest = {"domain-classifier": "0123456789abcdef"}
    monkeypatch.setattr(translated, "extractor", lambda name, run: (features, digest[name]))
    rows = list(translated.translation(_run(tmp_path, _identity), extractors=["domain-classifier"]))
    found = {(r["setting"], r["control"]): r["value"] for r in rows if r["metric"].startswith("fid")}
    named = {r["control"]: r["metric"] for r in rows if r["metric"].startswith("fid")}
    assert named["identity"] == "fid:domain-classifier-01234567:8-identity:8-test"
    assert named[""] == "fid:domain-classifier-01234567:8-translated:8-test"
    gaussians = [gaussian(features(REAL[a]), a) for a in DOMAINS]
    expected = np.mean([frechet_distance(a, b) for a in gaussians for b in gaussians])
    assert found["final", "identity"] == found["start", ""] == pytest.approx(expected)
    assert found["final", "rotation"] == pytest.approx(0, abs=1e-9)
    assert len(seen) == 3 + 5 * 9 + 4 * 3 + 3  # own; two snapshots, the end and two controls; others; and ours above


def test_images_whose_frechet_distance_cannot_be_taken_are_named(tmp_path, monkeypatch):
    """Features of some images, known by their first pixel, are no numbers."""

    def features(images: np.ndarray) -> np.ndarray:
        return np.where(images[:1, 0, 0, :1] == spoilt[0, 0, 0, 0], np.nan, images[:, 0, 0, :4])

    def spoil(source: str, target: str) -> np.ndarray:
        return spoilt if (source, target) == ("30", "60") else REAL[source]

    spoilt = np.full_like(REAL["0"], 77)
    assert all(images[0, 0, 0, 0] != 77 for images in REAL.values())
    monkeypatch.setattr(translated, "extractor", lambda name, run: (features, "0123456789"))
    ask = partial(translated.translation, extractors=["domain-classifier"])
    with pytest.raises(InputError, match=r"^fid: features of 30 as 60 are not finite numbers$"):
        list(ask(_run(tmp_path, spoil)))
    spoilt = REAL["30"]
    with pytest.raises(InputError, match=r"^fid: features of domain 30 are not finite numbers$"):
        list(ask(RunFolder(tmp_path)))


def test_where_there_is_no_inception_all_else_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DIPTYCH_DATA", str(tmp_path))
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", mock.Mock(side_effect=OSError("no route to host")))
    run = _run(tmp_path, _perfect)
    rows = list(translated.translation(run, extractors=["inception"]))
    assert rows == list(translated.translation(run, extractors=[]))
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"[{run.spec.run}] left out: fid: no weights of Inception (no route to host); put")


def test_where_there_are_too_few_images_only_their_frechet_distance_is_missing(tmp_path, monkeypatch, capsys):
    def features(images: np.ndarray) -> np.ndarray:
        return images[:, 0, 0, :4]

    def measured(run: RunFolder) -> list[dict]:
        return list(translated.translation(run, extractors=["domain-classifier"]))

    monkeypatch.setattr(translated, "extractor", lambda name, run: (features, "0123456789"))
    run = _run(tmp_path, _identity)
    whole = measured(run)
    assert not capsys.readouterr().err
    few = {f"other/{a}": REAL[a][:4] for a in DOMAINS} | {f"other-label/{a}": LABELS[:4] for a in DOMAINS}
    run.write_arrays("samples.npz", dict(run.samples) | few)
    left = measured(RunFolder(tmp_path))
    assert {_name(row) for row in whole} - {_name(row) for row in left} == {
        ("fid", "final", control) for control in ("other", "blur-0.5", "blur-1", "blur-2")
    }
    said = capsys.readouterr().err.splitlines()
    assert said == [f"[{run.spec.run}] left out: fid: other as 0 has 4 images, but needs more than the 4 features"] * 4

    monkeypatch.setattr(translated, "extractor", lambda name, run: (flat, "0123456789"))
    assert {_name(row) for row in measured(run)} == {_name(row) for row in whole if _name(row)[0] != "fid"}
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith("left out: fid: domain 0 has 8 images, but needs more than the 64 features")


def test_where_a_domains_features_are_all_alike_only_frechet_distances_are_missing(tmp_path, monkeypatch, capsys):
    def features(images: np.ndarray) -> np.ndarray:
        return images[:, 0, 0, :4] * 0.0

    monkeypatch.setattr(translated, "extractor", lambda name, run: (features, "0123456789"))
    run = _run(tmp_path, _perfect)
    rows = list(translated.translation(run, extractors=["domain-classifier"]))
    assert rows == list(translated.translation(run, extractors=[]))
    said = set(capsys.readouterr().err.splitlines())
    assert len(said) == 1
    assert "left out: fid: the covariance of the reference images is singular" in said.pop()


def _name(row: dict) -> tuple[str, str, str]:
    return row["metric"].partition(":")[0], row["setting"], row["control"]


def check_exchanged(folder, measure=translated.exchanged) -> None:
    """Numbers of 32 bits by one client both ways: (400 + 40) / 4 in round 1 and ten times that in round 2; flags and
    what crossed before the first round are none."""
    rows = list(measure(_run(folder, _identity)))
    assert {(r["metric"], r["unit"], r["kind"]) for r in rows} == {
        ("train_time", "minutes", "cost"),
        ("parameters", "count", "cost"),
    }
    assert {(r["metric"], r["setting"]): r["value"] for r in rows} == pytest.approx(
        {
            ("train_time", ""): 1.5,
            ("parameters", "start"): 0,
            ("parameters", "after=1"): 110,
            ("parameters", "final"): 1210,
        }
    )


def test_what_was_exchanged_is_counted_for_one_client(tmp_path):
    check_exchanged(tmp_path)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('row["name"] not in NOT_NUMBERS', "True"),
        (" / len(clients)", ""),
        ("0 < r <= round", "r <= round"),
        ("if r > 0)", "if r >= 0)"),
    ],
)
def test_another_count_is_caught(right, wrong, tmp_path):
    with mutated("evaluation.translated", "exchanged", right, wrong) as mutant, pytest.raises(AssertionError):
        check_exchanged(tmp_path, mutant)


@pytest.mark.parametrize("gone", ["partition.csv", "traffic.csv"])
def test_nothing_is_said_of_what_one_client_exchanged_where_it_is_not_on_record(gone, tmp_path):
    _run(tmp_path, _identity)
    (tmp_path / gone).unlink()
    assert [r["metric"] for r in translated.exchanged(RunFolder(tmp_path))] == ["train_time"]


def test_iterations_are_the_trials_of_all_layers(tmp_path):
    found = {r["digit"]: (r["value"], r["setting"]) for r in translated.iterations(_run(tmp_path, _identity))}
    setting = "j=5;k=3;l=2"
    assert found == {"0": (10, setting), "1": (2, setting), "all": (6, setting)}


def test_what_a_specification_leaves_out_is_the_methods_default():
    assert {name: getattr(FedINB, name) for name in translated.DEFAULTS} == translated.DEFAULTS


def test_searches_are_the_notes(tmp_path):
    rows = searches(_run(tmp_path, _identity))
    assert rows[0] == {"round": 1, "class": 0, "iteration": 1, "objective": 0.5}
    assert len(rows) == 6


def test_a_run_that_does_not_translate_has_nothing_to_measure(tmp_path):
    run = RunFolder(tmp_path)
    assert not list(translated.translation(run, extractors=["inception"]))
    assert not list(translated.exchanged(run))
    assert not list(translated.iterations(run))
    assert not searches(run)
