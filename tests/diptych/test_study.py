"""Studies: what the configuration asks for, against the papers and against the published tables."""

import inspect
import itertools
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from snakemake.target_jobs import parse_target_jobs_cli_args
from snakemake_interface_executor_plugins.utils import TargetSpec, encode_target_jobs_cli_args

from common.algorithms import algorithm_modules
from common.errors import InputError
from common.spec import Spec
from diptych.assembly import algorithm_class, build_algorithm
from diptych.catalogue import KINDS, catalogue
from diptych.cli import main
from diptych.configuration import merged, names_in, read_paper
from diptych.study import Study, load_study, newcomers
from evaluation.registry import EVALUATIONS
from networks import ENCODERS
from objectives import OBJECTIVES
from partitions import MARKS, PARTITIONS, VIEWS
from partitions.celeba import ATTRIBUTES
from reporting.cells import CONTROLS
from reporting.records import published
from tests.checkout import read_again
from tests.wrong import refused

SCALES = names_in("scales")


@pytest.fixture(scope="module")
def paper():
    return load_study("paper")


def test_laying_over():
    base = {"a": 1, "b": {"c": 2, "d": 3}, "n": {"name": "x", "k": 1}}
    assert merged(base, {"b": {"d": 4}}) == {**base, "b": {"c": 2, "d": 4}}
    assert merged(base, {"n": {"k": 2}})["n"] == {"name": "x", "k": 2}
    assert merged(base, {"n": {"name": "y"}})["n"] == {"name": "y"}, "settings of another thing do not stay"
    assert base == {"a": 1, "b": {"c": 2, "d": 3}, "n": {"name": "x", "k": 1}}


@pytest.mark.parametrize("table", ["table1", "table2", "table3", "table4"])
def test_every_published_cell_has_a_run(paper, table):
    """With the lambda that the paper prints beside it."""

    def place(cell) -> tuple[str, ...]:
        labels, algorithm = cell.spec.labels, cell.spec.algorithm
        weight = f"lambda={algorithm['lambda']}" if algorithm["name"] == "fedstyle" else ""
        return (*(labels[a] for a in ("dataset", "clients_per_style", "split", "ssl", "method")), weight)

    asked = {place(c) for c in paper.cells if c.table == table and c.spec.labels["paper"] == "fedstyle"}
    rows = published("fedstyle", table)
    rows = rows[rows["aggregate"] == "none"] if table != "table4" else rows
    keys = ["dataset", "clients_per_style", "split", "ssl", "method", "setting"]
    assert {tuple(row[k] for k in keys) for row in rows.to_dict("records")} <= asked


def test_the_papers_settings(paper):
    """Sec. Federated learning settings, Sec. Evaluations, table captions and App. C."""
    specs = [spec for spec in paper.specs.values() if spec.labels["paper"] == "fedstyle"]
    for spec in specs:
        assert spec.network == {"name": "resnet18"}
        assert (spec.training.rounds, spec.training.local_epochs, spec.training.batch_size) == (100, 5, 64)
        assert spec.training.optimiser.lr == 0.1
        assert spec.data.image_size == (32 if spec.data.dataset == "digit" else 224)
        assert spec.training.participation == (1.0 if spec.data.clients_per_style == 1 else 0.5)
        if spec.objective["name"] == "simclr":
            assert spec.objective["temperature"] == 0.07
    lambdas = {
        (s.data.dataset, s.data.clients_per_style): s.algorithm["lambda"]
        for s in specs
        if s.run.split("/")[2:4] == ["fedstyle", "default"]
    }
    assert lambdas == {
        ("digit", 1): 1.0,
        ("office-home", 1): 0.5,
        ("adaptiope", 1): 0.5,
        ("office-home", 5): 0.1,
        ("adaptiope", 5): 0.1,
        ("digit", 10): 0.5,
    }
    settings = {s.algorithm["name"]: s.algorithm for s in specs if "/default/" in s.run}
    assert settings["fedprox"]["mu"] == 0.2
    assert settings["apfl"]["alpha"] == 0.5
    assert settings["ditto"]["mu"] == 2.0
    assert settings["fedstyle"]["style_epochs"] == 10


def test_padpafs_settings(paper):
    """App. B and C, and the code where the paper is silent."""
    specs = {name: spec for name, spec in paper.specs.items() if name.startswith("padpaf/") and name.endswith("/2011")}
    for name, spec in specs.items():
        training, released = spec.training, "/released/" in name
        assert training.optimiser.name == training.server.optimiser == "adam"
        assert training.optimiser.betas == training.server.betas == ((0.0, 0.9) if released else (0.5, 0.9))
        assert training.server.weighting == "uniform"
        assert training.buffers == "local"
        slow = spec.data.dataset == "cifar10"
        assert (training.optimiser.lr, training.server.lr) == ((3e-4, 3e-3) if slow else (1e-3, 1e-2))
        assert spec.objective.get("discriminator_steps", 3) == (3 if spec.data.dataset == "mnist" else 5)
    mnist = specs["padpaf/mnist_eight-clients/padpaf/default/2011"]
    assert (mnist.training.rounds, mnist.training.local_epochs, mnist.training.lr_decay) == (300, 0.5, 0.99)
    assert (mnist.network["width"], mnist.objective["latent"]) == (64, 128)
    assert len(mnist.data.styles) == 8
    conditional = specs["padpaf/mnist_eight-clients/padpaf/conditional/2011"]
    assert conditional.data.classes_per_client == 0.5
    assert conditional.objective["conditional"]
    new = specs["padpaf/mnist_new-clients/padpaf/conditional/2011"]
    assert new.start == conditional.run
    assert (list(new.data.styles), new.training.rounds, new.snapshots) == (["affine", "solarize", "erase"], 25, [0, 1])
    celeba = specs["padpaf/celeba_ten-workers/padpaf/default/2011"]
    assert sorted(a for names in celeba.data.attributes.values() for a in names) == sorted(ATTRIBUTES)
    assert (celeba.training.rounds, celeba.training.local_epochs, celeba.training.lr_decay) == (200, 2, 0.98)
    assert specs["padpaf/cifar10_ten-clients/padpaf/default/2011"].objective["style_network"] == {"width": 32}
    for method in ("ditto", "ditto-fedprox"):
        assert specs[f"padpaf/mnist_eight-clients/{method}/default/2011"].algorithm["mu"] == 1.0


@pytest.mark.parametrize("scale", ["tiny", "digits", "reference-feddva", "reduced", "paper"])
def test_feddvas_reconstruction_has_the_balance_of_the_papers_size_at_every_scale(scale):
    """Of digits and faces, which scales bring to another size; CIFAR-10 has the size of the paper, and its sum."""
    specs = load_study(scale).specs.values()
    runs = [s for s in specs if (s.labels["paper"], s.algorithm["name"]) == ("feddva", "feddva")]
    assert runs
    for spec in runs:
        side = {"mnist": 28, "celeba": 64}.get(spec.labels["dataset"])
        assert spec.algorithm.get("reconstruction_pixels") == (side and side**2)
        assert side or spec.data.image_size == 32


def test_feddvas_settings(paper):
    """App. F, G, H, and the code where the paper is silent."""
    on_its_encoders = ("on-feddva", "tuned-feddva", "dual-encoder")
    specs = {name: spec for name, spec in paper.specs.items() if name.startswith("feddva/") and name.endswith("/2011")}
    for spec in specs.values():
        training = spec.training
        assert (training.rounds, training.local_epochs, training.batch_size) == (200, 5, 256)
        assert (training.optimiser.name, training.optimiser.lr) == ("adam", 1e-3)
        assert (training.buffers, training.server.weighting, training.participation) == ("local", "size", 1.0)
        own = spec.network["name"] == "dual-encoder"
        assert own == (spec.labels["method"] == "feddva" or spec.labels["variant"] in on_its_encoders)
        if spec.labels["method"] == "feddva" and spec.labels["variant"] not in ("released", "no-threshold"):
            assert (spec.algorithm["alpha"], spec.algorithm["beta"], spec.algorithm["xi"]) == (1.0, 0.75, 8.0)
            classifies = spec.algorithm.get("classify", 1.0) > 0
            assert spec.network["latent"] == (8 if classifies or spec.labels["variant"] == "pretraining" else 4)
    assert specs["feddva/mnist_client-marks/feddva/no-threshold/2011"].algorithm["xi"] == 0
    released = specs["feddva/mnist_client-marks/feddva/released/2011"].algorithm
    assert (released["reading"], released["xi"], released["focal"], released["beta"]) == ("released", 0.5, 5.0, 1.0)
    for dataset, channels, side in (("mnist", 1, 28), ("cifar10", 3, 32)):
        for method in ("feddva", "fedavg", "fedavg-ft", "ditto"):
            skewed = specs[f"feddva/{dataset}_label-skew/{method}/default/2011"].data
            assert (skewed.clients_per_style, skewed.test_images) == (20, "dealt")
            assert (skewed.channels, skewed.image_size) == (channels, side)
            assert set(skewed.styles.values()) == {dataset}
    assert specs["feddva/mnist_label-skew/fedavg-ft/default/2011"].algorithm["fine_tuning_epochs"] == 5
    assert specs["feddva/mnist_label-skew/ditto/default/2011"].algorithm["mu"] == 1.0
    for variant, setting in (("labels-once", {"classify": 1.0}), ("labels-on-means", {"classify_on": "means"})):
        varied = specs[f"feddva/mnist_client-marks/feddva/{variant}/2011"].algorithm
        assert varied == specs["feddva/mnist_client-marks/feddva/default/2011"].algorithm | setting
    for condition in ("mnist_client-marks", "mnist_label-skew", "cifar10_label-skew"):
        for method in ("fedavg", "ditto"):
            tuned = specs[f"feddva/{condition}/{method}/tuned-feddva/2011"]
            assert not tuned.objective.get("frozen")
            before = specs[tuned.start]
            assert (before.network, before.algorithm["classify"]) == (tuned.network, 0.0)
            assert before.labels["variant"] == "pretraining"
    head = specs["feddva/mnist_client-marks/ditto/on-feddva/2011"]
    assert head.objective["frozen"]
    assert head.start == "feddva/mnist_client-marks/feddva/reconstruction/2011"
    assert head.network == specs[head.start].network
    faces = specs["feddva/celeba_hairstyles/feddva/reconstruction/2011"]
    assert (faces.data.at_most, faces.data.image_size, faces.network["width"]) == (5000, 64, 32)
    assert [names[0] for names in faces.data.attributes.values()] == ["Bald", "Wearing_Hat", "Blond_Hair", "Black_Hair"]


@pytest.mark.parametrize("scale", ["tiny", "digits", "reduced", "reference-psfedgan", "paper"])
def test_means_of_single_steps_differ_from_fedadams_by_the_servers_adam_alone(scale):
    """Of a client's rate and the server's, one is chosen for each by its search; nothing else differs."""
    study = load_study(scale)
    mean, adam = (study.specs[f"psfedgan/mnist_split-1/fedavg/{name}-every-step/2011"] for name in ("mean", "fedadam"))
    assert (mean.training.server.optimiser, adam.training.server.optimiser) == ("mean", "adam")
    if chosen := study.chosen["psfedgan"]:
        own, servers = (chosen[f"fedavg:{name}-every-step"] for name in ("mean", "fedadam"))
        assert own == {"training": {"optimiser": mean.training.optimiser.model_dump(include={"name", "lr"})}}
        assert servers == {"training": {"server": {"lr": adam.training.server.lr}}}
    server = {
        "server": mean.training.server,
        "optimiser": mean.training.optimiser if chosen else adam.training.optimiser,
    }
    same = adam.model_copy(update={"training": adam.training.model_copy(update=server)})
    assert same.digest == mean.digest


def test_apfls_own_features_are_measured_by_both_readings():
    """Where Table 1 is measured on real digits."""
    specs = load_study("reference-fedstyle").specs
    for ssl in ("simclr", "simsiam"):
        run = f"fedstyle/digit_1_iid_{ssl}/apfl"
        local, mixture = (build_algorithm(specs[f"{run}/{name}/2011"], 10) for name in ("default", "mixture"))
        assert (local.features, mixture.features) == ("local", "mixture")
        assert (local.reading, mixture.reading) == ("fedstyle", "fedstyle")


@pytest.mark.parametrize("scale", SCALES)
def test_names_and_digests_belong_together(scale):
    study = load_study(scale)
    by_name: dict[str, set[str]] = {}
    for cell in study.cells:
        by_name.setdefault(cell.spec.run, set()).add(cell.spec.digest)
    assert all(len(digests) == 1 for digests in by_name.values())
    assert len({spec.digest for spec in study.specs.values()}) == len(study.specs), "no run is trained twice"
    assert {spec.scale for spec in study.specs.values()} == {scale}


@pytest.mark.parametrize("scale", SCALES)
def test_names_reach_a_clusters_node_as_they_are(scale):
    """Snakemake on a node is told the wildcards of its jobs on the command line."""
    keys = ("paper", "condition", "method", "variant", "seed")
    jobs = [TargetSpec("train", dict(zip(keys, run.split("/"), strict=True))) for run in load_study(scale).trained]
    assert parse_target_jobs_cli_args(encode_target_jobs_cli_args(jobs)) == jobs


@pytest.mark.parametrize("scale", SCALES)
def test_every_seed_runs_everything(scale):
    study = load_study(scale)
    per_seed = {
        seed: {run.rpartition("/")[0] for run in study.specs if run.endswith(f"/{seed}")} for seed in study.scale.seeds
    }
    limited = any(e.seeds for paper in study.papers.values() for e in paper.experiments.values())
    assert all(a >= b if limited else a == b for a, b in itertools.pairwise(per_seed.values()))


@pytest.mark.parametrize("scale", [s for s in SCALES if s != "paper"])
def test_what_is_not_run_has_a_reason(scale):
    study, paper = load_study(scale), load_study("paper")
    beyond = {
        "reference-feddva": {"celeba", "cifar10"},  # the faces that were at hand
        "reference-fedstyle-objects": {"office-home", "adaptiope"},  # played by PACS
        "reference-padpaf": {"cifar10", "celeba"},  # likewise
        "reference-psfedgan": {"cifar10"},  # Split-1
    }
    run = {"digit", "mnist", "fmnist", "rotated-mnist", "rotated-fmnist"} | beyond.get(scale, set())
    for name in study.papers.keys() & paper.papers.keys():
        for experiment in paper.papers[name].experiments.values():
            for dataset in experiment.axes["dataset"]:
                if study.why_left_out({"dataset": dataset}) is None:
                    assert dataset in run


@pytest.mark.parametrize(
    ("scale", "longer"),
    [
        ("reference-fedstyle", {"rounds": 50}),
        ("reference-feddva", {"rounds": 80}),
        ("reference-psfedgan", {"rounds": 30}),
        ("reference-padpaf", {"rounds": 120, "local_epochs": 0.5}),
    ],
)
def test_a_longer_scale_differs_in_its_length_alone(scale, longer):
    """So that its numbers and the shorter one's can be held against each other; snapshots decide nothing."""
    long, shorter = load_study(f"{scale}-long").specs, load_study(scale).specs
    assert long
    for run, spec in long.items():
        short = shorter[run]
        assert {key: getattr(spec.training, key) for key in longer} == longer
        as_short = spec.training.model_copy(update={key: getattr(short.training, key) for key in longer})
        renamed = {"scale": short.scale, "training": as_short, "snapshots": short.snapshots}
        assert spec.model_copy(update=renamed) == short


def _named(spec: Spec) -> bool:
    """Whether its method is one that a paper's file names; others join wherever they fit."""
    return spec.labels["method"] not in newcomers()


@pytest.mark.parametrize(("kind", "runs", "times", "laid_out"), [("half", 3, 2, True), ("wide", 1, 4, False)])
def test_wider_scales_differ_in_width_and_length_alone(kind, runs, times, laid_out):
    """So that their runs can be held against the narrow one's; layout and re-styling train nothing."""
    wider, narrow = (
        {run: spec for run, spec in load_study(f"reference-padpaf-{name}").specs.items() if _named(spec)}
        for name in (kind, "long")
    )
    assert len(wider) == runs
    for run, spec in wider.items():
        at = narrow[run]
        wide = {
            "network": at.network | {"width": 16 * times},
            "objective": at.objective | {"latent": 32 * times, "width": 16 * times},
            "training": at.training.model_copy(update={"rounds": 35, "channels_last": laid_out}),
        }
        other = {"scale": spec.scale, "algorithm": at.algorithm | {"restyle_steps": 0}, "snapshots": []}
        assert at.model_copy(update=wide | other) == spec
    first, published = next(iter(wider.values())), load_study("paper").specs[next(iter(wider))]
    assert ((first.network, first.objective) == (published.network, published.objective)) == (kind == "wide")


def test_stand_ins_are_known():
    cells = [cell for cell in load_study("digits").cells if cell.spec.labels["paper"] == "fedstyle"]
    assert all(cell.stand_ins == {"mnist", "svhn", "usps"} for cell in cells)
    assert {cell.stand_ins for cell in load_study("reference-fedstyle").cells} == {frozenset({"svhn"})}
    assert {cell.stand_ins for cell in load_study("reduced").cells} == {frozenset()}
    assert "svhn is played by mnist-m" in load_study("reference-fedstyle").about("fedstyle")
    about = load_study("reference-fedstyle-objects").about("fedstyle")  # of which both data sets have a style `product`
    assert "product of office-home is played by pacs/sketch" in about
    assert "art, product of adaptiope are played by pacs/art_painting" in about
    assert "Stand-ins" not in load_study("reference-padpaf").about("padpaf")
    about = load_study("digits").about("padpaf")
    assert "brightness, color-inversion, gaussian-blur" in about
    assert about.count("are played by digits-plain") == 1


def test_a_scale_says_with_how_many_seeds_runs_are_repeated_and_not_how_many_it_knows():
    study = load_study("reference-feddva")
    assert study.about("feddva").startswith("Scale reference-feddva (1 to 3 seeds): ")
    assert study.seeds["feddva/mnist_client-marks/feddva/labels-once"] == [2011]
    assert study.seeds["feddva/mnist_client-marks/feddva/default"] == study.scale.seeds == [2011, 2012, 2013]
    assert load_study("reference-common").about("common").startswith("Scale reference-common (3 seeds): ")
    assert load_study("digits").about("padpaf").startswith("Scale digits (1 seed): ")
    nowhere = study.without({spec.labels["dataset"] for spec in study.specs.values()})
    assert nowhere.about("feddva").startswith("Scale reference-feddva (0 seeds): ")


@pytest.mark.parametrize("scale", ["paper", "reference-common"])
def test_a_newcomer_is_in_every_paper_and_in_common_ground(scale, monkeypatch):
    """Of these two each is named by some papers and not by others; here, as if by none."""
    monkeypatch.setattr("diptych.study.newcomers", lambda: ["ditto-fedprox", "fedper"])
    read = load_study(scale)
    cells = Study(scale, read.scale, read.papers).cells
    for method in ("ditto-fedprox", "fedper"):
        assert {c.spec.labels["paper"] for c in cells if c.spec.labels["method"] == method} == set(read.papers)


@pytest.mark.parametrize("place", ["fedinb/rotated-fmnist_generalisation_10", "feddva/mnist_label-skew"])
def test_and_is_set_up_there_as_fedavg_is_but_for_its_algorithm(place, monkeypatch):
    monkeypatch.setattr("diptych.study.newcomers", lambda: ["fedper"])
    read = load_study("paper")
    specs = Study("paper", read.scale, read.papers).specs
    ours, theirs = (specs[f"{place}/{method}/default/2011"].model_dump() for method in ("fedper", "fedavg"))
    assert {key for key in ours if ours[key] != theirs[key]} == {"run", "labels", "algorithm"}


def test_a_model_for_newcomers_that_there_is_not_is_refused(config, monkeypatch):
    file = config / "papers" / "feddva.yaml"
    file.write_text(file.read_text().replace("newcomers_as: fedavg", "newcomers_as: fedavgg"))
    read_again()
    monkeypatch.setattr("diptych.study.newcomers", lambda: ["fedper"])
    with pytest.raises(InputError, match="feddva: newcomers_as: unknown name 'fedavgg'; did you mean 'fedavg'"):
        _ = load_study("paper").cells


def test_a_scale_runs_some_experiments_only(config):
    file = config / "scales" / "tiny.yaml"
    tiny = file.read_text()

    def runs(*only: str) -> set[str]:
        file.write_text(tiny.replace("\n  fedstyle:\n", f"\n  fedstyle:\n    only: [{', '.join(only)}]\n"))
        read_again()
        return set(load_study("tiny").specs)

    everything, table1, table3 = runs(), runs("table1"), runs("table3")
    assert table1 | table3 == runs("table1", "table3") < everything
    assert table1 & table3 == {run for run in everything if not run.startswith("fedstyle/")} < table1
    assert all(run.startswith("fedstyle/digit_10_") for run in table3 - table1)  # ten clients a style: Table 3
    with pytest.raises(InputError, match="only: unknown name 'tabel1'; did you mean 'table1'"):
        runs("tabel1")


def _laid_over(file: Path, overlay: dict[str, Any]) -> Study:
    """`tiny` with this laid over a file of its configuration."""
    file.write_text(yaml.safe_dump(merged(yaml.safe_load(file.read_text()), overlay), sort_keys=False))
    read_again()
    return load_study("tiny")


LITERAL = {"table4-office-home": {"axes": {"method": ["fedstyle", "fedstyle:literal"]}}}
"""Two readings, each with the settings of an experiment of FedStyle's."""


def test_a_variant_with_each_of_several_settings_is_as_many_runs(config):
    cells = _laid_over(config / "scales" / "tiny.yaml", {"papers": {"fedstyle": {"experiments": LITERAL}}}).cells
    asked = {
        (cell.point["method"], cell.setting): (cell.spec.run.split("/")[3], cell.spec.algorithm)
        for cell in cells
        if cell.point["dataset"] == "digit" and (cell.point["ssl"], cell.table) == ("simclr", "table4")
    }
    assert {place: algorithm["lambda"] for place, (_, algorithm) in asked.items()} == {
        ("fedstyle", "lambda=0.1"): 0.1,
        ("fedstyle", "lambda=1.0"): 1.0,
        ("fedstyle:literal", "lambda=0.1"): 0.1,
        ("fedstyle:literal", "lambda=1.0"): 1.0,
    }
    assert asked["fedstyle:literal", "lambda=0.1"][0] == "literal+lambda=0.1"
    assert len({name for name, _ in asked.values()}) == len(asked)


def test_one_name_for_two_runs_is_refused(config):
    """Of which one would be trained, and fill the cells of both."""
    named_alike = "fedstyle:literal+lambda=0.1"
    variants = {"axes": {"method": {named_alike: {"algorithm": {"style_epochs": 3}}}}}
    experiments = LITERAL | {"table1": {"axes": {"method": [named_alike]}}}
    _laid_over(config / "papers" / "fedstyle.yaml", variants)
    study = _laid_over(config / "scales" / "tiny.yaml", {"papers": {"fedstyle": {"experiments": experiments}}})
    with refused("run fedstyle/digit_1_iid_simclr/fedstyle/literal+lambda=0.1/2011", f"method: {named_alike}"):
        _ = study.cells


def test_a_scale_of_one_paper_can_leave_out_what_others_have(config):
    """As one does of which all other papers were taken out."""
    file = config / "scales" / "mine.yaml"
    file.write_text("about: mine\nseeds: [1]\npapers: {fedstyle: {}}\nleft_out: {dataset: {fmnist: why}}\n")
    assert load_study("mine").why_left_out({"dataset": "fmnist"}) == "why"


def test_a_newcomer_can_be_left_out(config, monkeypatch):
    monkeypatch.setattr("diptych.study.newcomers", lambda: ["mine"])
    file = config / "scales" / "paper.yaml"
    file.write_text(file.read_text() + "\nleft_out: {method: {mine: why}}\n")
    assert load_study("paper").why_left_out({"method": "mine"}) == "why"


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("{datset: {digit: why}}", r"left_out: unknown name 'datset'; did you mean 'dataset'"),
        ("{dataset: {digits: why}}", r"left_out\.dataset: unknown name 'digits'; did you mean 'digit'"),
    ],
)
def test_what_a_scale_leaves_out_is_there_to_be_left_out(left_out, said, config):
    file = config / "scales" / "paper.yaml"
    file.write_text(file.read_text() + f"\nleft_out: {left_out}\n")
    with pytest.raises(InputError, match=said):
        load_study("paper")


def test_a_specification_survives_being_written_and_read(tmp_path, capsys):
    run = next(iter(load_study("tiny").specs))
    assert main(["spec", run, "--scale", "tiny"]) == 0
    (tmp_path / "spec.yaml").write_text(capsys.readouterr().out)
    assert main(["train", str(tmp_path / "spec.yaml")]) == 0
    assert main(["evaluate", str(tmp_path), "--out", str(tmp_path / "records.csv")]) == 0
    assert f",{run}," in (tmp_path / "records.csv").read_text()


def test_the_digest_follows_what_decides_the_numbers():
    spec = next(iter(load_study("tiny").specs.values()))
    assert spec.model_copy(update={"run": "other", "labels": {}}).digest == spec.digest
    assert spec.model_copy(update={"seed": 99}).digest != spec.digest
    training = spec.training.model_copy(update={"rounds": 9})
    assert spec.model_copy(update={"training": training}).digest != spec.digest


def test_the_catalogue_has_a_line_for_everything():
    text = catalogue()
    for section in text.split("\n\n"):
        heading, *lines = section.splitlines()
        assert lines, heading
        assert all(len(line.split(None, 1)) == 2 for line in lines), heading
    assert catalogue("scales").splitlines()[0] == "scales"


@pytest.mark.parametrize(
    ("kind", "real"),
    {
        "objectives": OBJECTIVES,
        "networks": ENCODERS,
        "partitions": PARTITIONS,
        "views": VIEWS,
        "marks": MARKS,
        "evaluations": EVALUATIONS,
        "algorithms": {name: sys.modules[algorithm_class(name).__module__] for name in algorithm_modules()},
    }.items(),
)
def test_what_is_read_from_source_is_what_there_is(kind, real):
    """The first sentence of each, whole, on however many lines it stands."""
    for (name, said), (known, thing) in zip(KINDS[kind]().items(), real.items(), strict=True):
        text = " ".join(inspect.getdoc(thing).split("\n\n")[0].split())
        assert name == known
        assert text.startswith(said)
        assert said.endswith((".", ")", "`", ":")) or said == text


def test_checking_a_scale(capsys):
    assert main(["check", "--scale", "tiny"]) == 0
    assert "can be trained" in capsys.readouterr().out


def test_every_control_of_images_has_its_place_in_tables():
    """A table cannot put those in order that it does not know."""
    named = {control for name in names_in("papers") for control in _controls(read_paper(name).evaluation)}
    assert {"floor", "own-images", "noise"} <= named <= {"", *CONTROLS}


def _controls(evaluation: dict[str, Any]) -> set[str]:
    images = [by for entry in evaluation.values() for by in entry.get("images", {}).values()]
    return {control for by in images if isinstance(by, dict) for control in by}
