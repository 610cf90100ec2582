"""Wrong specifications: exit status 2, one clear sentence that names key, value and what is allowed, nothing left."""

from typing import Any

import pytest

from diptych.cli import main
from tests.digits import STYLES
from tests.wrong import GOOD, changed, complains, nothing_left, training, written

# what is put where in a good specification -> what the sentence must say
WRONG_SPECS: list[tuple[str, Any, list[str]]] = [
    ("sed", 1, ["sed: unknown key", "did you mean 'seed'", "training"]),
    ("seed", None, ["seed: this key is needed"]),
    ("seed", -3, ["seed", "greater than or equal to 0", "-3"]),
    ("seed", "one", ["seed", "integer", "'one'"]),
    ("training.rounds", "many", ["training.rounds", "integer", "'many'"]),
    ("training.rounds", 0, ["training.rounds", "greater than 0", "0"]),
    ("training.round", 3, ["training.round: unknown key", "did you mean 'rounds'"]),
    ("training.batch_size", 1, ["training.batch_size", "greater than or equal to 2"]),
    ("training.local_epochs", -1, ["training.local_epochs", "greater than 0", "-1"]),
    ("training.local_steps", 0, ["training.local_steps", "greater than 0", "0"]),
    ("training.participation", 1.5, ["training.participation", "less than or equal to 1", "1.5"]),
    ("training.buffers", "lokal", ["training.buffers", "'lokal'", "did you mean 'local'", "local, shared"]),
    ("training.precision", "fp16", ["training.precision", "'fp16'", "bf16, fp32"]),
    ("training.optimiser.name", "sdg", ["training.optimiser.name", "'sdg'", "did you mean 'sgd'", "adam, sgd"]),
    ("training.optimiser.lr", 0, ["training.optimiser.lr", "greater than 0"]),
    ("training.optimiser.momentum", 1, ["training.optimiser.momentum", "less than 1"]),
    ("training.server.weighting", "sise", ["training.server.weighting", "did you mean 'size'", "size, uniform"]),
    ("algorithm.name", "fedavgg", ["algorithm.name", "'fedavgg'", "did you mean 'fedavg'", "fedstyle"]),
    ("algorithm.mu", 0.1, ["algorithm.mu: unknown key", "allowed: nothing"]),
    ("algorithm", {"name": "fedprox", "mu": -1}, ["algorithm.mu", "greater than or equal to 0", "-1"]),
    ("algorithm", {"name": "fedprox", "nu": 1}, ["algorithm.nu: unknown key", "did you mean 'mu'"]),
    ("algorithm", {"name": "apfl", "alpha": 2}, ["algorithm.alpha", "less than or equal to 1", "2"]),
    ("algorithm", {"name": "apfl", "alpha": 1, "reading": "fedstyle"}, ["algorithm.alpha: must be less than 1"]),
    ("algorithm", {"name": "fedprox", "mu": 0, "reading": "fedstyle"}, ["algorithm.mu: must be more than 0"]),
    ("algorithm", {"name": "scaffold"}, ["training.server: SCAFFOLD", "'mean'", "'uniform'"]),
    ("objective", {"name": "gan", "latent": 8, "width": 8}, ["'generator.", "never be trained", "each 3 batches"]),
    ("algorithm", {"name": "fedstyle", "lambda": "x"}, ["algorithm.lambda", "number", "'x'"]),
    ("algorithm", {"name": "ditto", "reading": "canonic"}, ["algorithm.reading", "did you mean 'canonical'"]),
    ("algorithm", {"mu": 1}, ["algorithm.name: this key is needed"]),
    ("objective.name", "simcrl", ["objective.name", "'simcrl'", "did you mean 'simclr'", "classification"]),
    ("objective.temperature", 0, ["objective.temperature", "greater than 0"]),
    ("objective.augmentation.hew", 0.1, ["objective.augmentation.hew", "did you mean 'hue'"]),
    ("objective.classes", 3, ["objective.classes", "follows from the rest"]),
    ("network.name", "conv4", ["network.name", "'conv4'", "did you mean 'conv3'", "resnet18"]),
    ("network.width", "wide", ["network.width", "integer", "'wide'"]),
    ("network.depth", 3, ["network.depth: unknown key", "allowed: width"]),
    ("data.image_size", 4, ["data.image_size", "greater than or equal to 8", "4"]),
    ("data.channels", 2, ["data.channels", "'2'", "1, 3"]),
    ("data.styles", {}, ["data.styles", "at least 1"]),
    ("data.styles.usps", "digits-blod", ["'digits-blod'", "did you mean 'digits-bold'", "mnist"]),
    ("data.styles.usps", "digits-bold[a:b]", ["'digits-bold[a:b]'", "name/style", "[start:stop:step]"]),
    ("data.styles.usps", "digits-bold/Art", ["'digits-bold/Art'", "no styles"]),
    ("data.styles.usps", "celeba", ["'celeba'", "not found below", "list_attr_celeba.txt", "DIPTYCH_DATA"]),
    ("data.styles.usps", "office-home/Art", ["'office-home/Art'", "office-home/<style>/<class>", "DIPTYCH_DATA"]),
    ("data.deal", {"name": "dirichlett", "beta": 1}, ["data.deal.name", "did you mean 'dirichlet'", "iid"]),
    ("data.deal", {"name": "dirichlet"}, ["data.deal.beta: this key is needed"]),
    ("data.deal", {"name": "dirichlet", "beta": 0}, ["data.deal.beta", "0.001"]),
    ("data.deal", {"name": "iid", "beta": 1}, ["data.deal.beta: unknown key"]),
    ("data.clients_per_style", 5000, ["clients_per_style", "5000"]),
    ("data.train_fraction", 1.0, ["data.train_fraction", "less than 1"]),
    ("data.marks", {"usps": "elipse"}, ["data.marks.usps", "'elipse'", "did you mean 'ellipse'"]),
    ("data.at_most", 1, ["data.at_most", "batch norm needs two images"]),
    ("data.at_most", 0, ["data.at_most", "greater than 0"]),
    ("data.test_images", "some", ["data.test_images", "all, dealt"]),
    ("algorithm", {"name": "feddva", "xi": -1}, ["algorithm.xi", "greater than or equal to 0", "-1"]),
    ("algorithm", {"name": "feddva"}, ["FedDVA cannot be used with objective 'simclr'"]),
    ("network", {"name": "dual-encoder", "latent": 0}, ["network.latent", "greater than 0", "0"]),
    ("network", {"name": "dual-encoder", "width": 0}, ["network.width", "greater than 0"]),
    ("score_every", -1, ["score_every", "greater than or equal to 0"]),
    ("objective", {"name": "autoencoder"}, ["network.name", "needs a network with a decoder", "inb-mnist"]),
    ("algorithm", {"name": "fedinb"}, ["FedINB cannot be used with objective 'simclr'"]),
    ("algorithm", {"name": "feddirt", "layers": 0}, ["algorithm.layers", "greater than 0", "0"]),
    ("network", {"name": "inb-mnist", "width": 4}, ["network.width: unknown key"]),
    ("network", {"name": "inb-fmnist"}, ["data.image_size", "network 'inb-fmnist' needs 28", "8"]),
]
TRANSLATING = {
    "network": {"name": "inb-mnist"},
    "objective": {"name": "autoencoder"},
    "algorithm": {"name": "fedinb", "layers": 1, "directions": 2, "iterations": 2, "autoencoder_epochs": 1},
    "data": GOOD["data"] | {"per_class": 8},
}
WRONG_TRANSLATIONS: list[tuple[str, Any, list[str]]] = [
    ("algorithm.directions", 33, ["algorithm.directions", "there are 32 dimensions", "33"]),
    ("algorithm.bins", 0, ["algorithm.bins", "greater than 0", "0"]),
    ("data.styles", {"mnist": STYLES["mnist"]}, ["translation needs two domains", "got 1"]),
    ("data.per_class", None, ["data.per_class", "as many images of each class at each client"]),
    ("data.per_class", 1, ["data.per_class", "two or more", "got between 1 and 1"]),
    ("data.classes_per_client", 0.5, ["data.per_class", "got between 0 and 8"]),
    ("data.image_size", 10, ["data.image_size", "network 'inb-mnist' needs a multiple of 4", "10"]),
    ("training.rounds", 2, ["training.rounds", "there are 1 layers (algorithm.layers)"]),
]


BIG, INF, NAN = 10**30, float("inf"), float("nan")
NOT_CONVERTED: list[tuple[str, Any, list[str]]] = [
    *(
        (key, True, [key, "got true"])
        for key in ("seed", "training.rounds", "training.optimiser.lr", "data.image_size")
    ),
    *((key, True, [key, "got true"]) for key in ("data.channels", "data.per_class", "training.optimiser.weight_decay")),
    *((key, "3", [key, "got '3', which is text"]) for key in ("seed", "training.rounds", "data.per_class")),
    *((key, 1.0, [key, "integer", "got 1.0"]) for key in ("training.rounds", "training.local_steps", "score_every")),
    *((key, 3.0, [key, "3.0"]) for key in ("data.channels", "network.width", "objective.hidden", "samples.images")),
    *((key, 1, [key, "boolean", "got 1"]) for key in ("features", "training.channels_last")),
    ("training.optimiser.lr", "1e-3", ["training.optimiser.lr", "which is text", "as in 1.0e-3"]),
    ("training.rounds", "1e12", ["training.rounds", "which is text"]),
    ("training.optimiser.betas", [True, 0.5], ["training.optimiser.betas.0", "number", "got true"]),
    ("training.optimiser.betas", [0.9], ["training.optimiser.betas", "needed"]),
    ("labels", {"paper": 1}, ["labels.paper", "string", "got 1"]),
    ("snapshots", ["1"], ["snapshots.0", "integer", "'1'"]),
    ("run", 3, ["run", "string", "got 3"]),
    ("data.styles", {"a": 3}, ["data.styles.a", "string", "got 3"]),
    ("data.label_shift", {"mnist": 1.5}, ["data.label_shift.mnist", "integer", "1.5"]),
    ("data.rotations", {"mnist": "45"}, ["data.rotations.mnist", "number", "which is text"]),
    ("data.deal", {"name": "shards", "each": True}, ["data.deal.each", "integer", "got true"]),
    ("data.deal", {"name": "by-class", "of": [["0"]]}, ["data.deal.of.0.0", "integer", "'0'"]),
    ("data.views", {"mnist": {"name": "zoom-out", "border": "1"}}, ["data.views.mnist.border", "number"]),
    ("network", {"name": "sn-resnet", "spectral_norm": 1}, ["network.spectral_norm", "boolean", "got 1"]),
    ("algorithm", {"name": "apfl", "alpha": True}, ["algorithm.alpha", "number", "got true"]),
    ("algorithm", {"name": "ditto-fedprox", "mu_global": "1"}, ["algorithm.mu_global", "number", "'1'"]),
    ("algorithm", {"name": "feddirt", "autoencoder": 3}, ["algorithm.autoencoder", "string"]),
]
WITHOUT_END: list[tuple[str, Any, list[str]]] = [
    *((f"training.{key}", INF, [key, "finite", "got inf"]) for key in ("local_epochs", "lr_decay", "optimiser.lr")),
    *((f"training.{key}", NAN, [key, "finite", "got nan"]) for key in ("participation", "server.lr")),
    ("training.rounds", 10**12, ["training.rounds", "or equal to 100000", "1000000000000"]),
    ("training.local_steps", BIG, ["training.local_steps", "1000000"]),
    ("training.local_epochs", BIG, ["training.local_epochs", "1000000"]),
    ("training.batch_size", BIG, ["training.batch_size", "1000000"]),
    ("seed", 2**40, ["seed", "4294967296"]),
    ("samples.images", BIG, ["samples.images", "1000000"]),
    ("inversion", {"iterations": BIG}, ["inversion.iterations", "1000000"]),
    ("data.clients_per_style", BIG, ["clients_per_style", "clients cannot share"]),
    ("data.deal", {"name": "shards", "each": BIG}, ["data.deal.each", "different classes", "cannot be had"]),
    ("data.deal", {"name": "label-skew", "alpha": 1e308}, ["data.deal.alpha", "1000000"]),
    ("data.deal", {"name": "dirichlet", "beta": 1e-300}, ["data.deal.beta", "0.001"]),
    ("data.label_shift", {"mnist": BIG}, ["data.label_shift.mnist", "1000000"]),
    ("data.rotations", {"mnist": 1e308}, ["data.rotations.mnist", "360"]),
    ("data.per_class", BIG, ["data.per_class", "can be drawn without repetition"]),
    ("data.views", {"mnist": {"name": "rotation", "degrees": INF}}, ["data.views.mnist.degrees", "finite"]),
    ("data.views", {"mnist": {"name": "rotation", "degrees": -40}}, ["data.views.mnist.degrees", "0", "-40"]),
    ("network.width", BIG, ["network.width", "1024"]),
    ("network", {"name": "dual-encoder", "latent": BIG}, ["network.latent", "4096"]),
    ("objective.hidden", BIG, ["objective.hidden", "4096"]),
    ("objective.temperature", INF, ["objective.temperature", "finite"]),
    ("objective.augmentation.jitter", INF, ["objective.augmentation.jitter", "finite"]),
    ("objective", {"name": "gan", "latent": BIG}, ["objective.latent", "4096"]),
    ("objective", {"name": "gan", "style_network": {"width": INF}}, ["network.width", "integer", "inf"]),
    ("objective", {"name": "stargan", "domains": BIG}, ["objective.domains", "4096"]),
    ("objective", {"name": "vae", "beta": INF}, ["objective.beta", "finite"]),
    ("algorithm", {"name": "fedprox", "mu": NAN}, ["algorithm.mu", "finite"]),
    ("algorithm", {"name": "fedavg-ft", "fine_tuning_epochs": INF}, ["algorithm.fine_tuning_epochs", "finite"]),
    ("algorithm", {"name": "fedstyle", "style_epochs": INF}, ["algorithm.style_epochs", "finite"]),
    ("algorithm", {"name": "fedstyle", "hidden": BIG}, ["algorithm.hidden", "4096"]),
]
OUT_OF_PLACE: list[tuple[str, Any, list[str]]] = [
    *((key, "/etc", [f"{key}: must be names with single slashes", "'/etc'"]) for key in ("run", "start")),
    *((key, "a/../b", [f"{key}: must be names with single slashes", "'a/../b'"]) for key in ("run", "start")),
    ("start", GOOD["run"], ["start", "cannot start from itself"]),
    ("start", "no/such/run/there/1", ["start: run 'no/such/run/there/1' has left no model", "train it first"]),
    ("snapshots", [99], ["snapshots", "training.rounds, 1", "[99]"]),
    ("snapshots", [1, 1], ["snapshots", "different rounds", "[1, 1]"]),
    ("labels", {"colour": "red"}, ["labels", "'colour'", "style"]),
    ("data.styles", {"a/b": "digits-plain"}, ["data.styles.a/b", "pattern"]),
    ("data.styles", {"a": "digits-plain[0:0]"}, ["digits-plain[0:0]", "there is no image"]),
    ("data.server_share", 0.9999, ["data.server_share", "0.9999", "leaves clients no image"]),
    ("data.train_fraction", 0.99999, ["data.train_fraction", "0.99999", "are for training"]),
    ("data.attributes", {"mnist": ["Bald"]}, ["data.attributes", "pool 'together'"]),
    ("data.deal", {"name": "by-class", "of": [[99]]}, ["data.deal.of", "no image of [99]"]),
    ("data.views", {"mnist": {"name": "plain", "x": 1}}, ["data.views.mnist.x: unknown key"]),
    ("data.unseen", ["mnist", "svhn", "usps"], ["data.unseen", "must leave a style"]),
    ("network", "conv3", ["network", "dictionary", "'conv3'"]),
    ("network", {"name": "conv3", "channels": 1}, ["network.channels", "follows from the rest"]),
    ("algorithm", {"name": "../fedavg"}, ["algorithm.name", "'../fedavg'", "fedavg"]),
    ("algorithm", {"name": "server-only"}, ["data.server_share", "the server has no image"]),
]
ATTACKED = {"objective": {"name": "classification"}, "algorithm": {"name": "ps-fedgan"}}
WRONG_ATTACKERS: list[tuple[str, Any, list[str]]] = [
    ("algorithm.attackers", [{"name": "a3"}], ["algorithm.attackers.0.name", "'a3'", "a1"]),
    ("algorithm.attackers", [{"name": "a1", "r": 0.9}], ["algorithm.attackers.0.r", "string", "0.9"]),
    ("algorithm.attackers", [{"name": "a1", "r": "nan"}], ["attackers.r", "[0, 1]", "nan"]),
    ("algorithm.attackers", [{"name": "a1", "x": 1}], ["algorithm.attackers.0.x: unknown key"]),
    ("algorithm.attackers", ["a1"], ["algorithm.attackers.0", "'a1'"]),
    ("algorithm.width", BIG, ["algorithm.width", "1024"]),
    ("algorithm.dropout", 1, ["algorithm.dropout", "less than 1"]),
]
WRONG_SPECS += NOT_CONVERTED + WITHOUT_END + OUT_OF_PLACE


def test_the_good_one_is_good(tmp_path):
    assert main(training(tmp_path, GOOD)) == 0


@pytest.mark.parametrize(("key", "value", "words"), WRONG_SPECS, ids=[f"{k}={v}" for k, v, _ in WRONG_SPECS])
def test_a_wrong_specification(key, value, words, tmp_path, capsys):
    (tmp_path / "data").mkdir()
    command = [
        "train",
        written(tmp_path, changed(key, value)),
        "--out",
        str(tmp_path / "run"),
        "--data",
        str(tmp_path / "data"),
    ]
    complains(capsys, command, words)
    assert nothing_left(tmp_path / "run")
    assert nothing_left(tmp_path / "data")


@pytest.mark.parametrize(
    ("key", "value", "words"), WRONG_TRANSLATIONS, ids=[f"{k}={v}" for k, v, _ in WRONG_TRANSLATIONS]
)
def test_a_wrong_translation(key, value, words, tmp_path, capsys):
    wrong = changed(key, value, GOOD | TRANSLATING)
    complains(capsys, training(tmp_path, wrong), words)
    assert nothing_left(tmp_path / "run")


@pytest.mark.parametrize(("key", "value", "words"), WRONG_ATTACKERS, ids=[f"{k}={v}" for k, v, _ in WRONG_ATTACKERS])
def test_a_wrong_attacker(key, value, words, tmp_path, capsys):
    wrong = changed(key, value, GOOD | ATTACKED)
    complains(capsys, training(tmp_path, wrong), words)
    assert nothing_left(tmp_path / "run")


def test_a_method_on_an_objective_that_it_cannot_use(tmp_path, capsys):
    wrong = changed("algorithm", {"name": "fedstyle"}) | {"objective": {"name": "classification"}}
    complains(
        capsys,
        training(tmp_path, wrong),
        ["FedStyle", "objective 'classification'"],
    )
    assert nothing_left(tmp_path / "run")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["spec.yaml", "there is no such file", "--scale"]),
        (b"a: [1", ["spec.yaml", "is not YAML"]),
        (b"- 1\n- 2\n", ["spec.yaml", "must hold keys and values", "list"]),
        (b"\xff\xfe\x00", ["spec.yaml", "cannot be read"]),
        (b"seed: 1\nrun: x\nseed: 2\n", ["spec.yaml: line 3", "'seed' is there twice"]),
        (b"data:\n  styles: {a: x, a: y}\n", ["spec.yaml: line 2", "'a' is there twice"]),
        (b"seed: 1\n75: x\n", ["spec.yaml: line 2", "'75' is no text", "quotes"]),
        (b"on: 1\n", ["spec.yaml: line 1", "'on' is no text"]),
        (b"seed: 2026-13-45\n", ["spec.yaml", "is not YAML", "month"]),
        (b"seed: " + 3000 * b"[", ["spec.yaml", "is not YAML"]),
    ],
)
def test_a_file_that_is_no_specification(content, words, tmp_path, capsys):
    if content is not None:
        (tmp_path / "spec.yaml").write_bytes(content)
    complains(capsys, ["train", str(tmp_path / "spec.yaml"), "--out", str(tmp_path / "run")], words)
    assert nothing_left(tmp_path / "run")
