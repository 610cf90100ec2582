"""Probes of content and style codes, on codes whose answers are known."""

from functools import partial

import numpy as np
import pytest
import torch

from common.run_folder import RunFolder
from evaluation.codes import disentanglement, identity_probe, probe, shuffled, told_apart
from tests.evaluation.test_frechet import SPEC

CLASSES, CLIENTS, N = 4, 3, 240
LABEL = {"content": ["untrained", "shuffled-labels"], "style": []}
label_probe = partial(probe, images={"": "plain"}, targets=["label"], codes=LABEL, protocols=["published", "sound"])
client_probe = partial(
    probe,
    images={"generated": "generated", "real": "codes"},
    targets=["client"],
    codes={"content": ["shuffled-labels"], "style": ["shuffled-labels"]},
    protocols=["published", "sound"],
    one_number_each=True,
)
"""As PaDPaF's file has them."""


def _one_hot(values: np.ndarray, size: int, rng) -> np.ndarray:
    return (3 * np.eye(size)[values] + 0.1 * rng.normal(size=(len(values), size))).astype(np.float32)


def _codes(content: str, style: str, *, memorised: bool = False) -> dict[str, np.ndarray]:
    """Codes that say `label`, `client`, `both` or `nothing`."""
    rng, arrays = np.random.default_rng(0), {}
    for source in ("plain", "codes", "generated"):
        for part in ("train", "test"):
            label, client = rng.integers(0, CLASSES, N), rng.integers(0, CLIENTS, N)
            said = {"label": _one_hot(label, 6, rng), "client": _one_hot(client, 6, rng)}
            said |= {
                "nothing": rng.normal(size=(N, 6)).astype(np.float32),
                "both": said["label"] - said["client"][:, ::-1],
            }
            if memorised:
                said["nothing"] = rng.normal(size=(N, 400)).astype(np.float32)
            arrays |= {
                f"{source}/{part}/label": label,
                f"{source}/{part}/client": client,
                f"{source}/{part}/content": said[content],
                f"{source}/{part}/untrained-content": rng.normal(size=said[content].shape).astype(np.float32),
                f"{source}/{part}/style": np.stack([said[style]] * CLIENTS, axis=1),
            }
    return arrays


def _run(folder, arrays, dataset: str = "mnist") -> RunFolder:
    run = RunFolder(folder)
    run.write_features(arrays)
    (folder / "spec.yaml").write_text(SPEC.replace("dataset: mnist", f"dataset: {dataset}"))
    run.write_provenance({"status": "ok"})
    return run


def _number(run: RunFolder) -> float:
    (value,) = (
        r["value"]
        for r in disentanglement(run, images={"": "codes"}, one_number_each=True, epochs=8)
        if r["metric"] == "disentanglement"
    )
    return value


@pytest.mark.parametrize(
    ("content", "style", "expected"),
    [
        ("label", "client", 1),
        ("client", "label", -1),
        ("both", "both", 0),
        ("nothing", "nothing", 0),
        ("label", "nothing", 0.5),
    ],
)
def test_one_number_for_disentanglement(content, style, expected, tmp_path):
    assert _number(_run(tmp_path, _codes(content, style))) == pytest.approx(expected, abs=0.1)


def test_the_label_probe_tells_content_from_style(tmp_path):
    records = list(label_probe(_run(tmp_path, _codes("label", "client")), epochs=8))
    by = {(r["setting"], r["protocol"], r.get("control", ""), r.get("client", "")): r["value"] for r in records}
    for protocol in ("published", "sound"):
        content, style = (f"probe=linear;features={f};target=label" for f in ("content", "style"))
        assert by[content, protocol, "", ""] > 0.95
        assert by[content, protocol, "shuffled-labels", ""] < 0.6
        assert by[style, protocol, "", ""] < 0.6
        each = [by[style, protocol, "", f"client-{k}"] for k in range(1, CLIENTS + 1)]
        assert by[style, protocol, "", ""] == pytest.approx(np.mean(each))


def test_the_published_protocol_rewards_memory_and_the_sound_one_does_not(tmp_path):
    """More features than images: fitted and scored on the same, a probe of noise is right."""
    records = list(label_probe(_run(tmp_path, _codes("nothing", "client", memorised=True)), epochs=25))
    content = {r["protocol"]: r["value"] for r in records if "content" in r["setting"] and not r.get("control")}
    assert content["published"] > 0.9
    assert content["sound"] < 0.45


def test_the_client_probe_sees_all_clients_style_codes(tmp_path):
    records = list(client_probe(_run(tmp_path, _codes("label", "client")), epochs=15))
    value = {(r["setting"], r["protocol"], r["role"], r.get("control", "")): r["value"] for r in records}
    for role in ("generated", "real"):
        for protocol in ("published", "sound"):
            assert value["probe=linear;features=style;target=client", protocol, role, ""] > 0.9
            assert value["probe=linear;features=content;target=client", protocol, role, ""] < 0.65
            assert value["probe=linear;features=style;target=client", protocol, role, "shuffled-labels"] < 0.65


def test_identities_are_probed_on_celeba_alone(tmp_path):
    arrays = _codes("label", "client")
    assert not list(identity_probe(_run(tmp_path, arrays), epochs=5))
    run = _run(tmp_path, arrays, "celeba")
    source = {"name": "x", "sha256": "0", "images": 7, "classes": 10177}
    run.write_provenance({"status": "ok", "sources": {"a": source}})
    records = list(identity_probe(run, epochs=20))
    value = {r["setting"]: r["value"] for r in records if not r.get("control") and r["metric"] == "accuracy"}
    top = [value[f"probe=linear;features=content;target=identity;top_k={k}"] for k in (1, 10, 50)]
    assert top[0] > 0.9
    assert top == sorted(top)
    assert next(r["value"] for r in records if r["metric"] == "identities") == 10177
    assert not list(label_probe(_run(tmp_path, arrays, "celeba"))), "its labels are identities"


def test_the_number_is_made_of_accuracies_between_chance_and_one():
    """Four labels of which one is half of all, and two clients: chance is 1/2 of either."""
    targets = {"label": torch.tensor([0, 0, 0, 1, 2, 3]), "client": torch.tensor([0, 1, 0, 1, 0, 1])}
    scored = {("content", "label"): 0.9, ("style", "label"): 0.6, ("content", "client"): 0.5, ("style", "client"): 0.8}
    rows = list(told_apart(scored, targets))
    said = {r["setting"]: r["value"] for r in rows if r["metric"] == "information"}
    assert said == pytest.approx(
        {
            "features=content;target=label": 0.8,
            "features=style;target=label": 0.2,
            "features=content;target=client": 0.0,
            "features=style;target=client": 0.6,
        }
    )
    (number,) = [r["value"] for r in rows if r["metric"] == "disentanglement"]
    assert number == pytest.approx((0.8 - 0.2 + 0.6 - 0.0) / 2)


def test_shuffled_targets_are_the_same_in_another_order_and_always_the_same_one():
    pair = torch.arange(50), torch.arange(30)
    found, again, other = shuffled(pair, 1), shuffled(pair, 1), shuffled(pair, 2)
    for part in (0, 1):
        assert torch.equal(found[part].sort().values, pair[part])
        assert torch.equal(found[part], again[part])
        assert not torch.equal(found[part], pair[part])
        assert not torch.equal(found[part], other[part])


def test_identities_are_read_from_the_first_clients_style_and_from_an_untrained_encoder_as_a_floor(tmp_path):
    arrays = _codes("label", "label")
    nothing = np.random.default_rng(1).normal(size=arrays["plain/train/content"].shape).astype(np.float32)
    arrays["plain/train/style"] = np.stack([arrays["plain/train/style"][:, 0], nothing, nothing], axis=1)
    run = _run(tmp_path, arrays, "celeba")
    run.write_provenance({"status": "ok", "sources": {"a": {"name": "x", "sha256": "0", "images": 7, "classes": 9}}})
    records = [r for r in identity_probe(run, epochs=20) if r["metric"] == "accuracy"]
    found = {(r["setting"], r.get("control", "")): r["value"] for r in records}
    top = {features: f"probe=linear;features={features};target=identity;top_k=1" for features in ("content", "style")}
    assert found[top["style"], ""] > 0.9
    assert found[top["content"], "untrained"] < 0.6
