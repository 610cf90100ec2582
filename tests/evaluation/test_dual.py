"""What is measured of two codes, on codes whose answers are known."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import norm

from common.run_folder import RunFolder
from evaluation import divergences as of_codes
from evaluation.clusters import clusters, points
from evaluation.codes import disentanglement, probe
from evaluation.curves import curves
from evaluation.divergences import divergences
from evaluation.extracts import code_map
from tests.evaluation.test_frechet import SPEC
from tests.mutation import mutated

CLASSES, CLIENTS, N = 5, 3, 300
IMAGES = {"shared-encoder": "codes", "own-encoder": "own/codes"}
CONTROLS = {"z": ["untrained", "shuffled-labels", "pixels"], "c": ["untrained", "shuffled-labels"]}
dual_probe = partial(
    probe, images=IMAGES, targets=["label", "client"], codes=CONTROLS, standardised=True, batch_size=32
)
apart = partial(disentanglement, images=IMAGES, codes={"content": "z", "style": "c"}, standardised=True)
"""As FedDVA's file has them."""


def _one_hot(values: np.ndarray, rng) -> np.ndarray:
    return (3 * np.eye(6)[values] + 0.1 * rng.normal(size=(len(values), 6))).astype(np.float32)


def _run(folder, features=None, samples=None, *, algorithm: str = "{name: feddva, xi: 8.0}", dataset="mnist"):
    run = RunFolder(folder)
    run.write_features(features or {})
    if samples:
        run.write_arrays("samples.npz", samples)
    spec = SPEC.replace("algorithm: {name: padpaf}", f"algorithm: {algorithm}")
    (folder / "spec.yaml").write_text(spec.replace("dataset: mnist", f"dataset: {dataset}"))
    run.write_provenance({"status": "ok"})
    return run


def _codes(z: str, c: str) -> dict[str, np.ndarray]:
    """z and c that say `label`, `client` or `nothing`; the label is the number of bright pixels."""
    rng, arrays = np.random.default_rng(0), {}
    for part in ("train", "test"):
        label, client = rng.integers(0, CLASSES, N), rng.integers(0, CLIENTS, N)
        said = {"label": _one_hot(label, rng), "client": _one_hot(client, rng)}
        said["nothing"] = rng.normal(size=(N, 6)).astype(np.float32)
        found = {"z": said[z], "c": said[c], "untrained-z": said["nothing"], "untrained-c": said["nothing"]}
        found |= {f"{code}-log-variance": np.zeros((N, 6), np.float32) for code in "zc"}
        pixels = 255 * np.concatenate([np.eye(CLASSES)[label], np.eye(CLIENTS)[client]], axis=1).astype(np.uint8)
        arrays |= {f"codes/{part}/{key}": rows for key, rows in found.items()}
        arrays |= {f"codes/{part}/pixels": pixels, f"codes/{part}/label": label, f"codes/{part}/client": client}
    return arrays


def _by(records) -> dict[tuple[str, str, str], float]:
    """Numbers over all clients."""
    return {
        (r["metric"], r.get("setting", ""), r.get("control", "")): r["value"] for r in records if not r.get("client")
    }


# ---- probes


@pytest.mark.parametrize(
    ("z", "c", "expected"), [("label", "client", 1), ("client", "label", -1), ("nothing", "nothing", 0)]
)
def test_probes_say_what_each_code_holds(z, c, expected, tmp_path):
    run = _run(tmp_path, _codes(z, c))
    found = _by([*dual_probe(run, epochs=20), *apart(run, epochs=20)])
    assert found["disentanglement", "", ""] == pytest.approx(expected, abs=0.1)
    for code, says in (("z", z), ("c", c)):
        for target, classes in (("label", CLASSES), ("client", CLIENTS)):
            setting = f"probe=linear;features={code};target={target}"
            value = found["accuracy", setting, ""]
            assert value > 0.98 if says == target else abs(value - 1 / classes) < 0.15
            assert abs(found["accuracy", setting, "untrained"] - 1 / classes) < 0.15
            assert abs(found["accuracy", setting, "shuffled-labels"] - 1 / classes) < 0.15
    for target in ("label", "client"):
        assert found["accuracy", f"probe=linear;features=z;target={target}", "pixels"] > 0.98


def test_small_codes_are_as_good_as_large_ones(tmp_path):
    arrays = _codes("label", "client")
    for part in ("train", "test"):
        arrays[f"codes/{part}/z"] = arrays[f"codes/{part}/z"] * 1e-4 + 7
    found = _by(dual_probe(_run(tmp_path, arrays), epochs=20))
    assert found["accuracy", "probe=linear;features=z;target=label", ""] > 0.98


def _with_own(shared: dict[str, np.ndarray], own: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Codes of the same images by shared encoders, and by each client's own."""
    kept = ("/z", "/c", "/z-log-variance", "/c-log-variance")
    return shared | {f"own/{key}": rows for key, rows in own.items() if key.endswith(kept)}


def test_codes_of_either_kind_of_encoder_are_probed(tmp_path):
    """Only by own encoders c says something of the client; the numbers of the shared ones do not depend on theirs."""
    shared = _codes("label", "nothing")
    (tmp_path / "both").mkdir()
    (tmp_path / "shared").mkdir()
    both = _run(tmp_path / "both", _with_own(shared, _codes("label", "client")))
    records = [*dual_probe(both, epochs=20), *apart(both, epochs=20)]
    found = {(r["role"], r["metric"], r["setting"], r.get("control", "")): r["value"] for r in records}
    c = "probe=linear;features=c;target=client"
    assert found["own-encoder", "accuracy", c, ""] > 0.98
    assert abs(found["shared-encoder", "accuracy", c, ""] - 1 / CLIENTS) < 0.15
    assert found["own-encoder", "disentanglement", "", ""] > found["shared-encoder", "disentanglement", "", ""] + 0.3
    run = _run(tmp_path / "shared", shared)
    alone = [*dual_probe(run, epochs=20), *apart(run, epochs=20)]
    assert alone == [record for record in records if record["role"] != "own-encoder"]
    assert {r["role"] for r in alone if r.get("control") in ("untrained", "pixels")} == {""}


def test_identities_are_no_labels_to_probe(tmp_path):
    run = _run(tmp_path, _codes("label", "client"), dataset="celeba")
    found = _by([*dual_probe(run, epochs=1), *apart(run, epochs=1)])
    assert any("target=client" in setting for _, setting, _ in found)
    assert not [setting for _, setting, _ in found if "target=label" in setting]
    assert not [metric for metric, _, _ in found if metric == "disentanglement"]


# ---- divergences


def _constant(means: list[float], log_variance: float, d: int = 2) -> dict[str, np.ndarray]:
    """Every client's posteriors are the same Gaussian around its mean."""
    arrays = _codes("nothing", "nothing")
    for part in ("train", "test"):
        owner = arrays[f"codes/{part}/client"]
        arrays[f"codes/{part}/c"] = np.repeat(np.array(means)[owner][:, None], d, axis=1).astype(np.float32)
        arrays[f"codes/{part}/c-log-variance"] = np.full((N, d), log_variance, np.float32)
    return arrays


def check_divergences(measure, folder) -> None:
    """Posteriors of a client that are all alike are their mixture: closed forms."""
    means, log_variance = [0.0, 3.0, -1.0], math.log(0.5)
    run = _run(folder, _constant(means, log_variance), algorithm="{name: feddva, xi: 2.0}")
    found = _by(measure(run, members=60, draws=200))
    expected = np.mean([0.5 * 2 * (m**2 + 0.5 - 1 - log_variance) for m in means])
    assert found["kl_c", "", ""] == pytest.approx(expected, rel=1e-5)
    assert found["kl_client_mixture_to_prior", "", ""] == pytest.approx(expected, rel=0.03)
    assert found["kl_posterior_to_client_mixture_mc", "", ""] == pytest.approx(0, abs=1e-4)
    assert found["kl_posterior_to_client_mixture_eq26", "", ""] == pytest.approx(0, abs=1e-5)
    assert found["constraint_met", "", ""] == pytest.approx(1 / 3), "xi = 2 * 2 nats: only 3.0 is that far away"
    assert found["xi_over_dim_c", "", ""] == 2
    assert found["clients", "", ""] == CLIENTS
    assert found["latent_dim", "latent=c;task=classification", ""] == 2


def test_divergences(tmp_path):
    check_divergences(divergences, tmp_path)


@pytest.mark.parametrize(("right", "wrong"), [("(mixture - prior)", "(own - mixture)"), (">= xi", ">= 0")])
def test_wrong_divergences_are_caught(right, wrong, tmp_path):
    with mutated("evaluation.divergences", "_divergences", right, wrong), pytest.raises(AssertionError):
        check_divergences(divergences, tmp_path)


def test_divergences_of_a_mixture_of_two_that_are_far_apart(tmp_path):
    """Half of a client's posteriors are at -7 and half at 7, in two dimensions: log 2 nats from their mixture. Eq. 26
    takes the mean over all pairs, half of which are 14 apart: 14^2 / 2 nats for each dimension."""
    arrays = _constant([0.0, 0.0, 0.0], 0.0)
    for part in ("train", "test"):
        owner = arrays[f"codes/{part}/client"]
        for k in range(CLIENTS):
            rows = np.flatnonzero(owner == k)
            arrays[f"codes/{part}/c"][rows] = 7.0 * (-1.0) ** np.arange(len(rows))[:, None]
    found = _by(divergences(_run(tmp_path, arrays), members=60, draws=20))
    sampled, bound = (found[f"kl_posterior_to_client_mixture_{way}", "", ""] for way in ("mc", "eq26"))
    assert sampled == pytest.approx(math.log(2), abs=1e-4)
    assert bound == pytest.approx(14**2 / 2, rel=1e-5)
    assert found["kl_c", "", ""] == pytest.approx(7**2, rel=1e-5)
    assert found["kl_client_mixture_to_prior", "", ""] == pytest.approx(7**2 - math.log(2), rel=0.01)
    assert found["kl_z", "", ""] > 0
    assert found["constraint_met", "", ""] == 1, "49 nats less log 2 are more than 2 * 8"


@pytest.mark.parametrize(("xi", "met"), [(24.0, 1), (24.5, 0), (25.0, 0)])
def test_the_constraint_is_of_what_the_prior_is_further_away_than_the_mixture(xi, met, tmp_path):
    """Posteriors that are 49 nats from the prior and log 2 from their mixture: 48.3 of 2 xi."""
    arrays = _constant([0.0, 0.0, 0.0], 0.0)
    for part in ("train", "test"):
        owner = arrays[f"codes/{part}/client"]
        for k in range(CLIENTS):
            rows = np.flatnonzero(owner == k)[: 2 * (np.sum(owner == k) // 2)]
            arrays[f"codes/{part}/c"][rows] = 7.0 * (-1.0) ** np.arange(len(rows))[:, None]
    run = _run(tmp_path, arrays, algorithm=f"{{name: feddva, xi: {xi}}}")
    assert _by(divergences(run, members=60, draws=20))["constraint_met", "", ""] == met


def test_divergences_by_loops():
    """Image by image and draw by draw, with SciPy's densities; the constraint for thresholds between all images."""
    generator = torch.Generator().manual_seed(3)
    q_z, q_c = (tuple(scale * torch.randn(6, 2, generator=generator).double() for scale in (2, 1)) for _ in "zc")
    noise = torch.randn(9, 6, 2, generator=torch.Generator().manual_seed(5)).double().numpy()
    (mean, deviation), (of_z, spread) = ((m.numpy(), (v / 2).exp().numpy()) for m, v in (q_c, q_z))

    def log_density(x: np.ndarray, k: int) -> float:
        return norm.logpdf(x, mean[k], deviation[k]).sum()

    to_mixture, to_prior = np.zeros(6), np.zeros((9, 6))
    for draw, k in itertools.product(range(9), range(6)):
        x = mean[k] + deviation[k] * noise[draw, k]
        mixture = np.log(np.mean([np.exp(log_density(x, j)) for j in range(6)]))
        to_mixture[k] += (log_density(x, k) - mixture) / 9
        to_prior[draw, k] = mixture - norm.logpdf(x).sum()
    kl_c, kl_z = ((0.5 * (m**2 + s**2 - 1) - np.log(s)).sum(axis=1) for m, s in ((mean, deviation), (of_z, spread)))
    pairs = [
        (np.log(deviation[j] / deviation[k]) + (deviation[k] ** 2 + (mean[k] - mean[j]) ** 2) / (2 * deviation[j] ** 2)
         - 0.5).sum() for k in range(6) for j in range(6)
    ]  # fmt: skip
    further = np.sort(kl_c - to_mixture)
    for n, xi in enumerate([*((further[1:] + further[:-1]) / 2), further[-1] + 1], start=1):
        found = of_codes._divergences(q_z, q_c, 9, torch.Generator().manual_seed(5), float(xi))
        assert found == pytest.approx(
            {
                "kl_z": kl_z.mean(),
                "kl_c": kl_c.mean(),
                "kl_posterior_to_client_mixture_mc": to_mixture.mean(),
                "kl_posterior_to_client_mixture_eq26": np.mean(pairs),
                "kl_client_mixture_to_prior": to_prior.mean(),
                "constraint_met": (6 - n) / 6,
            },
            rel=1e-6,
        )


def test_a_constraint_that_is_just_met_is_met():
    """A single image whose posterior is the prior is 0 nats from either."""
    nothing = torch.zeros(1, 2), torch.zeros(1, 2)
    for xi, met in ((0.0, 1), (1e-6, 0)):
        assert of_codes._divergences(nothing, nothing, 3, torch.Generator(), xi)["constraint_met"] == met


def test_divergences_are_feddvas_where_nothing_else_is_asked_for(monkeypatch, tmp_path):
    """8 nats for each of c's dimensions; of 500 images of each client, by 32 draws."""
    asked = []

    def found(q_z, q_c, draws, draw, xi):
        asked.append((len(q_z[0]), len(q_c[0]), draws, xi))
        return {"kl_z": 1.0, "constraint_met": 0.5}

    arrays = _codes("nothing", "nothing")
    arrays = {key: np.concatenate([x] * 6) for key, x in arrays.items()}
    monkeypatch.setattr(of_codes, "_divergences", found)
    rows = list(divergences(_run(tmp_path, arrays, algorithm="{name: feddva}")))
    assert asked == [(500, 500, 32, 8.0 * 6)] * CLIENTS
    assert {r["metric"]: (r["value"], r["unit"]) for r in rows if not r.get("client")} == {
        "kl_z": (1.0, "nats"),
        "constraint_met": (0.5, "fraction"),
        "xi_over_dim_c": (8.0, "count"),
        "clients": (CLIENTS, "count"),
        "latent_dim": (6, "count"),
    }
    assert {(r["client"], r["role"]) for r in rows if r.get("client")} == {
        (f"client-{k + 1}", "shared-encoder") for k in range(CLIENTS)
    }


def test_divergences_are_drawn_anew_for_each_run(monkeypatch, tmp_path):
    """And of one generator for all clients."""
    draws = []
    monkeypatch.setattr(of_codes, "_divergences", lambda q_z, q_c, n, draw, xi: draws.append(draw) or {})
    for seed in (1, 1, 2):
        run = _run(tmp_path, _codes("nothing", "nothing"))
        run.write_spec(run.spec.model_copy(update={"seed": seed}))
        list(divergences(RunFolder(tmp_path)))
    seeds = [draw.initial_seed() for draw in draws]
    assert seeds[0] == seeds[CLIENTS] != seeds[2 * CLIENTS]
    assert len({id(draw) for draw in draws}) == 3


@pytest.mark.parametrize(
    ("more", "task"),
    [("", "classification"), (", classify: 0.5", "classification"), (", classify: 0", "reconstruction")],
)
def test_the_size_of_codes_is_told_beside_what_they_are_for(more, task, tmp_path):
    arrays = _constant([0.0, 1.0, 2.0], 0.0, d=3)
    rows = list(divergences(_run(tmp_path, arrays, algorithm=f"{{name: feddva{more}}}"), members=5, draws=2))
    found = {r["setting"]: (r["value"], r["unit"]) for r in rows if r["metric"] == "latent_dim"}
    assert found == {f"latent=z;task={task}": (6, "count"), f"latent=c;task={task}": (3, "count")}


def test_points_of_z_and_of_c_are_of_the_same_images(tmp_path):
    arrays = _codes("nothing", "nothing")
    for code, sign in (("z", 1), ("c", -1)):
        arrays[f"codes/test/{code}"] = sign * np.arange(N, dtype=np.float32)[:, None].repeat(6, axis=1)
    z, c = points(_run(tmp_path, arrays), 100)
    assert (z.role, z.code, c.role, c.code) == ("shared-encoder", "z", "shared-encoder", "c")
    images = z.features[:, 0].astype(int)
    assert len(set(images.tolist())) == 100
    assert images.tolist() != list(range(100))
    np.testing.assert_array_equal(c.features, -z.features)
    (tmp_path / "spec.yaml").write_text((tmp_path / "spec.yaml").read_text().replace("seed: 1", "seed: 2"))
    assert not np.array_equal(next(points(RunFolder(tmp_path), 100)).features, z.features), "in another run"
    for found in (z, c):
        np.testing.assert_array_equal(found.client, arrays["codes/test/client"][images])


def test_divergences_are_of_either_kind_of_encoder(tmp_path):
    arrays = _with_own(_constant([0.0, 3.0, -1.0], math.log(0.5)), _constant([5.0, 5.0, 5.0], 0.0))
    found = {
        (r.get("role", ""), r["metric"]): r["value"] for r in divergences(_run(tmp_path, arrays)) if not r.get("client")
    }
    assert found["own-encoder", "kl_c"] == pytest.approx(25)
    assert found["shared-encoder", "kl_c"] < 6
    assert found["", "clients"] == CLIENTS


def test_the_sampled_divergence_is_below_its_bound(tmp_path):
    found = _by(divergences(_run(tmp_path, _codes("label", "client")), members=60, draws=20))
    sampled, bound = (found[f"kl_posterior_to_client_mixture_{way}", "", ""] for way in ("mc", "eq26"))
    assert 0 < sampled < bound


def test_a_run_without_codes_is_not_measured(tmp_path):
    run = _run(tmp_path)
    for evaluation in (dual_probe, apart, divergences, curves):
        assert list(evaluation(run)) == []
    assert code_map(run) == []


def test_the_map_has_both_codes_and_says_how_clustered_they_are(tmp_path):
    samples = {f"client/{k}/style": np.array("a") for k in range(CLIENTS)}
    rows = code_map(_run(tmp_path, _codes("nothing", "client"), samples), samples=90)
    assert len(rows) == 180
    score = {(row["encoder"], row["code"]): row["silhouette"] for row in rows}
    assert score["shared-encoder", "c"] > 0.8
    assert abs(score["shared-encoder", "z"]) < 0.1


def test_the_map_has_codes_of_either_kind_of_encoder(tmp_path):
    samples = {f"client/{k}/style": np.array("a") for k in range(CLIENTS)}
    run = _run(tmp_path, _with_own(_codes("nothing", "nothing"), _codes("nothing", "client")), samples)
    rows, scores = code_map(run, samples=90), list(clusters(run, samples=90))
    shown = {(row["encoder"], f"features={row['code']};label=client"): row["silhouette"] for row in rows}
    assert shown == {(r["role"], r["setting"]): r["value"] for r in scores if not r["control"]}, "as in the records"


# ---- curves


def check_curves(measure, folder) -> None:
    """Two clients over eight rounds, one score for each round and client."""
    rows = [(r, k, "accuracy", 0.1 * r + 0.02 * (-1) ** k) for r in range(1, 9) for k in (0, 1)]
    rows += [(r, k, "kl_c", 10.0 * r) for r in range(1, 9) for k in (0, 1)]
    lines = ["round,client,score,value", *(",".join(map(str, row)) for row in rows)]
    (folder / "scores.csv").write_text("\n".join(lines))
    run = _run(folder)
    run.write_spec(run.spec.model_copy(update={"training": run.spec.training.model_copy(update={"rounds": 8})}))
    run = RunFolder(folder)
    found = _by(measure(run, targets={"mnist": 0.45}))
    for name, round in (("quarter", 2), ("half", 4), ("all", 8)):
        for setting in (f"rounds={name}", f"rounds={round}"):
            assert found["accuracy", setting, ""] == pytest.approx(0.1 * round)
            assert found["accuracy_std_over_clients", setting, ""] == pytest.approx(0.02)
            assert found["kl_c", setting, ""] == pytest.approx(10 * round)
    assert found["rounds_to_target", "", ""] == 5
    assert _by(measure(run, targets={"mnist": 0.99}))["rounds_to_target", "", ""] == 9
    assert not [key for key in _by(measure(run)) if key[0] == "rounds_to_target"]


def test_curves(tmp_path):
    check_curves(curves, tmp_path)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("_columns", "until[-1]", "until[0]"),
        ("curves", ">= target", "< target"),
        ("_numbers", "np.std(values)", "np.var(values)"),
    ],
)
def test_wrong_curves_are_caught(name, right, wrong, tmp_path):
    with mutated("evaluation.curves", name, right, wrong) as mutant, pytest.raises(AssertionError):
        check_curves(mutant if name == "curves" else curves, tmp_path)
