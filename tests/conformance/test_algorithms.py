"""What every algorithm must do, for the sole reason that its file is in `baselines` or `methods`."""

import ast
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from abilities import ABILITIES, Trained, arrays, scores
from abilities.features import features
from common.algorithms import algorithm_modules
from common.codehash import ROOT
from common.errors import InputError
from common.run_folder import FILES, RunFolder
from common.spec import Spec
from diptych.assembly import algorithm_class, build_algorithm
from diptych.given import client_data
from federation import Algorithm, CapturedSimulation, Simulation, nothing
from federation.captured import CapturedWork, Record
from federation.channel import Message
from federation.hooks import Announcing, Exchanging, FineTuning, pooled
from federation.names import selected
from objectives import OBJECTIVES
from partitions import Partition
from tests.digits import STYLES, check_draws, dealt, left_by, same, spec, trained, with_a_stop
from tests.mutation import mutated
from tests.pretended import DEVICE, Elsewhere, pretended_gpu

ALGORITHMS = sorted(algorithm_modules())
NETWORKS = {
    "feddva": {"name": "dual-encoder", "width": 4},
    "stargan": {"name": "stargan", "width": 4},
    "autoencoder": {"name": "inb-mnist"},
}
"""Of the algorithms and objectives that need one of their own."""
SMALL = {"latent": 8, "width": 8, "synthetic": 20}
SETTINGS = {
    "ps-fedgan": SMALL,
    "full-gan": SMALL,
    "sda-fl": {**SMALL, "gan_epochs": 1},
    "fedinb": {"layers": 2, "directions": 2, "iterations": 10, "map_bins": 8, "autoencoder_epochs": 1},
    "feddirt": {"layers": 1, "directions": 2},
    "padpaf": {"restyle_steps": 1},
}
"""Of the algorithms that are made for larger machines, or show less than they can unless they are told."""
STARTS = {"feddirt": {"theta": torch.eye(32)[:, :2].repeat(6, 1, 10, 1, 1)}}
"""What another run has left to each client, of the algorithms that go on from one."""
EVERYBODYS = {"clients_per_style": 2, "server_share": 0.1}
DATA = {"fedinb": {"clients_per_style": 1, "per_class": 8, "server_share": 0.0}}
"""How images are dealt, and what is otherwise for those that need as many images of each class at each client."""
TRAINING = {
    "scaffold": {"server": {"weighting": "uniform"}},
    "ps-fedgan": {"optimiser_state": "persistent"},
}
"""Of the algorithms that would otherwise break without a word; see test_settings."""
SENDING_NOTHING = ("local", "centralized", "server-only")
TAKES = {
    **dict.fromkeys(("naivemix", "fedmix", "sda-fl"), ("classification",)),
    **dict.fromkeys(("ps-fedgan", "full-gan", "feddva", "feddirt"), ("classification",)),
    "fedinb": ("autoencoder",),
    "fedstyle": ("simclr", "simsiam"),
    "padpaf": ("gan", "vae"),
}
"""Objectives of the methods, and of the baselines that work on labels; any other baseline takes them all."""
PAIRS = [
    *((name, "") for name in ALGORITHMS),
    *(("fedavg", objective) for objective in OBJECTIVES if objective != "simclr"),
    ("padpaf", "vae"),
]
"""Every algorithm with what fits it, every objective, and what the former then miss."""
AS_FEDAVG = ("local", "centralized", "server-only", "fedper", "fedavg-ft", "fedavg-server")
"""Clients take FedAvg's steps to the letter; of whose images, and what is shared, is all the same to them."""
TRAINED = [
    *PAIRS,
    *((name, "gan") for name in ALGORITHMS if name not in (*TAKES, *AS_FEDAVG, "fedavg")),
    ("fedstyle", "simsiam"),
]
"""Also what algorithms make of several updates, each in its own way, and every objective that a method takes."""
EXCHANGE = (("feddva", "classification"), ("padpaf", "gan"))
"""They show images in the style of another client, as translators do."""
MAKE_IMAGES = ("feddva", "full-gan", "ps-fedgan", "sda-fl")
"""Whatever the objective, as others do with some."""
KEEP_OWN = ("fedavg", "fedper", "fedstyle")
"""All is shared, or a part, or something was trained before the first round; where nothing is, all is kept anyway."""


def _dealt(name: str) -> Partition:
    return dealt(**(EVERYBODYS | DATA.get(name, {})))


def _spec(name: str, objective: str = "simclr", **training) -> Spec:
    settings = {
        "simclr": {"hidden": 16, "out": 8, "augmentation": {"crop": 0.5, "hue": 0.0}},
        "simsiam": {"hidden": 16, "out": 8, "augmentation": {"crop": 0.5, "hue": 0.0}},
        "gan": {"latent": 8, "width": 8, "discriminator_steps": 1},
        "vae": {"latent": 8, "width": 8},
        "stargan": {"domains": len(STYLES), "width": 4, "blocks": 1, "discriminator_steps": 1},
    }
    return spec(
        {"name": name, **SETTINGS.get(name, {})},
        {"name": objective, **settings.get(objective, {})},
        run=f"conformance/{name}",
        seed=5,
        data={
            "dataset": "digit",
            "styles": STYLES,
            "image_size": 8,
            **(EVERYBODYS | DATA.get(name, {})),
        },
        network=NETWORKS.get(name) or NETWORKS.get(objective, {"name": "conv3", "width": 4}),
        training={
            "rounds": 2,
            "local_epochs": 0.5,
            "batch_size": 16,
            "optimiser": {"lr": 0.05},
            **TRAINING.get(name, {}),
            **training,
        },
        samples={"images": 40, "probed": 60},
    )


def _built(name: str, objective: str) -> Algorithm:
    """The algorithm as a user gets it."""
    return build_algorithm(_spec(name, objective), classes=10)


def _fitting(name: str) -> str:
    """An objective that the algorithm works with."""
    return TAKES.get(name, ("simclr",))[0]


def _simulation(
    name: str,
    objective: str = "",
    workers: int = 1,
    listeners=(),
    keep_own: bool = True,
    device: str = "cpu",
    engine: type[Simulation] = Simulation,
    **training,
) -> Simulation:
    objective = objective or _fitting(name)
    algorithm = _built(name, objective)
    settings = _spec(name, objective, **training).training
    options = {"workers": workers, "listeners": listeners, "device": device, "start": STARTS.get(name)}
    simulation = engine(algorithm, client_data(_dealt(name), pooled(algorithm)), settings, 5, **options)
    if keep_own:
        simulation.keep_own()
    return simulation


@cache
def _trained(name: str, objective: str = "") -> Simulation:
    simulation = _simulation(name, objective)
    simulation.run()
    return simulation


# ---- training


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_takes_these_objectives_and_refuses_others_in_a_sentence(name):
    for objective in OBJECTIVES:
        if objective in TAKES.get(name, OBJECTIVES):
            _built(name, objective)
        else:
            with pytest.raises(InputError, match=r"cannot be used with objective|needs a network"):
                _built(name, objective)


@pytest.mark.parametrize(("name", "objective"), TRAINED)
def test_it_trains(name, objective):
    simulation = _trained(name, objective)
    start = dict(simulation.template.named_parameters())
    moved = [key for key, rows in simulation.population.storage.items() if key in start and (rows != start[key]).any()]
    assert moved, "no parameter has moved"
    assert all(rows.isfinite().all() for rows in simulation.population.storage.values())
    rows = simulation.notes or [row for row in simulation.history if row["stage"] == "round"]
    assert {row["round"] for row in rows} == {1, 2}
    assert simulation.done == simulation.total, "progress counts other steps than those taken"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_trains_where_statistics_stay_with_the_clients(name):
    """What a client has received has none then, and its norms go by the batch, in evaluation mode as well."""
    simulation = _simulation(name, buffers="local", rounds=1)
    simulation.run()
    assert all(rows.isfinite().all() for rows in simulation.population.storage.values())
    assert not any(key.endswith(("running_mean", "running_var")) for key in simulation.server.tensors)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_all_that_is_random_about_a_batch_comes_from_the_generator(name):
    check_draws(_built(name, _fitting(name)))


@cache
def _lean(name: str) -> Simulation:
    """Trained side by side, with nothing stored for each client but what is its own."""
    simulation = _simulation(name, workers=3, keep_own=False)
    simulation.run()
    return simulation


def _alike(a: Simulation, b: Simulation) -> bool:
    """Whether every client would go on from the same."""
    clients = range(len(a.population.members))
    return all(same(a.synchronised(k).state_dict(), b.synchronised(k).state_dict()) for k in clients)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_threads_and_what_is_stored_change_nothing(name):
    one_by_one, lean = _trained(name), _lean(name)
    assert _alike(lean, one_by_one)
    assert lean.history == one_by_one.history
    assert lean.channel.traffic == one_by_one.channel.traffic
    assert scores(trained(lean, _dealt(name))) == scores(trained(one_by_one, _dealt(name)))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_abilities_say_whether_they_look_at_what_clients_have_made_of_what_is_shared(name):
    """None finds what was not kept, and no other misses it."""
    lean = _lean(name)
    asked = trained(lean, _dealt(name), samples=_spec(name).samples.model_dump())
    for ability in ABILITIES.values():
        for found in (ability.features, ability.samples, ability.at_the_end) if ability.of(asked) else ():
            if found is not None and ability.own and lean.population.common:
                with pytest.raises(RuntimeError, match="keep_own"):
                    found(asked)
            elif found is not None:
                found(asked)


@pytest.mark.parametrize(
    ("name", "keep_own"), [*((name, False) for name in ALGORITHMS), *((name, True) for name in KEEP_OWN)]
)
def test_stopping_and_going_on_changes_nothing(name, keep_own, tmp_path):
    made = partial(_simulation, name, keep_own=keep_own, optimiser_state="persistent")
    whole, resumed = with_a_stop(made, tmp_path)
    assert _alike(resumed, whole)
    assert resumed.history == whole.history
    assert resumed.notes == whole.notes
    assert resumed.channel.traffic == whole.channel.traffic


# ---- what is shared, and what is not


@pytest.mark.parametrize("name", ALGORITHMS)
def test_only_what_it_declares_crosses_and_every_byte_counts(name):
    heard: list[Message] = []
    simulation = _simulation(name, listeners=[heard.append])
    simulation.run()
    declared = {entry.name for entry in selected(simulation.template, simulation.algorithm.shared)}
    crossed = {key for message in heard for key in message.tensors}
    told = {key for key in crossed if key.startswith("announced.")}
    assert bool(told) == (isinstance(simulation.algorithm, Announcing))
    published = {key for key in crossed if key.startswith("published.")}
    publishes = [p for phase in simulation.algorithm.phases() for p in (phase, *phase.updates) if p.publish is not None]
    assert bool(published) == bool(publishes)
    said = crossed - told - published - declared
    assert bool(said) == isinstance(simulation.algorithm, Exchanging), "only an exchange has words of its own"
    alone = pooled(simulation.algorithm) or simulation.algorithm.shared is nothing
    assert bool(crossed) == bool(told or published or said or not alone)
    for direction, copies in (("up", lambda m: 1), ("down", lambda m: len(m.clients))):  # all get the same going down
        sent = sum(copies(m) * t.nbytes for m in heard if m.direction == direction for t in m.tensors.values())
        assert simulation.channel.total(direction) == sent


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_private_differs_between_clients(name):
    simulation = _trained(name)
    if pooled(simulation.algorithm):
        assert len(simulation.population.members) == 1
        return
    private = {e.name for e in selected(simulation.template, ~simulation.algorithm.shared) if e.is_parameter}
    alike = {key for key, rows in simulation.population.storage.items() if (rows == rows[:1]).all()}
    assert not private & alike & _named_by_an_update(simulation)


def _named_by_an_update(simulation: Simulation) -> set[str]:
    algorithm = simulation.algorithm
    last = algorithm.epilogue() if isinstance(algorithm, FineTuning) else []
    phases = [*algorithm.prologue(), *algorithm.phases(), *last]
    return {e.name for p in phases for u in p.updates for e in selected(simulation.template, u.which)}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_client_that_is_not_sampled_keeps_its_tensors(name):
    algorithm = _built(name, _fitting(name))
    if pooled(algorithm):
        return
    everyone = range(len(_dealt(name).clients))
    simulation = _simulation(name, participation=2.01 / len(everyone))
    before: dict[str, torch.Tensor] = {}

    def watch(simulation: Simulation) -> None:
        if simulation.round > 0:
            absent = [k for k in everyone if k not in simulation.schedule[simulation.round - 1]]
            for key, rows in simulation.population.storage.items():
                assert torch.equal(rows[absent], before[key][absent]), f"{key} of an absent client has changed"
        before.update({key: rows.clone() for key, rows in simulation.population.storage.items()})

    simulation.run(watch)
    assert len(simulation.schedule[0]) == 2


# ---- what is measured


@pytest.mark.parametrize("name", ALGORITHMS)
def test_its_features_are_a_row_per_image_and_depend_on_nothing_else(name):
    simulation = _trained(name)
    alone = simulation.algorithm.shared is nothing and not pooled(simulation.algorithm)
    if alone and not hasattr(simulation.algorithm.global_model(simulation.template), "encoder"):
        pytest.skip("no client has an encoder")
    once, again = (features(trained(simulation, _dealt(name))) for _ in range(2))
    assert once.keys() == again.keys()
    assert all(np.array_equal(once[key], again[key]) for key in once)
    for style in STYLES:
        images = len(once[f"labels/{style}/test"])
        for which in ("initial",) if alone else ("initial", "shared"):
            assert once[f"{which}/{style}/test/features"].shape == (
                images,
                simulation.algorithm.objective.encoder().features,
            )
            assert np.isfinite(once[f"{which}/{style}/test/features"]).all()
    assert alone == (not any(key.startswith("shared/") for key in once))
    clients = {key.split("/")[1] for key in once if key.startswith("client/")}
    assert len(clients) == (0 if pooled(simulation.algorithm) else len(simulation.population.members))


@pytest.mark.parametrize(("name", "objective"), TRAINED)
def test_what_all_are_asked_alike_fits_together_and_changes_nothing(name, objective, tmp_path):
    simulation, split = _trained(name, objective), _dealt(name)
    wanted = {"abilities": ["codes", "answers", "generation", "translation"], "samples": {"images": 20, "probed": 60}}
    before = {key: rows.clone() for key, rows in simulation.population.storage.items()}
    of_spec = _spec(name, objective).model_copy(update={"run": "tests/it/is/asked/5"})
    asked = Trained(simulation, split, Spec(**of_spec.model_dump() | wanted))
    kept, samples = arrays(asked, at_the_end=True)
    assert same(simulation.population.storage, before)
    again = arrays(Trained(simulation, split, asked.spec), at_the_end=True)
    for found, twice in zip((kept, samples), again, strict=True):
        assert all(np.array_equal(array, twice[key]) for key, array in found.items())
        for key, array in found.items():
            if array.dtype.kind == "f":
                assert np.isfinite(array).all(), key
    out = RunFolder(tmp_path)
    out.write_spec(asked.spec)
    out.write_provenance({"status": "ok"})
    out.write_features(kept)
    out.write_arrays("samples.npz", samples)
    assert (out.features.keys(), out.samples.keys()) == (kept.keys(), samples.keys())  # read back, and so checked
    if "answers/client" in kept:
        assert np.bincount(kept["answers/client"]).tolist() == [len(tests) for tests in split.tests]
    for k, mine in enumerate(split.clients if "asked/0/labels" in samples else ()):
        assert set(samples[f"asked/{k}/labels"]) <= {-1, *split.labels[mine].tolist()}
    sources = {key.split("/")[1] for key in samples if key.startswith("translated/")}
    of = objective or _fitting(name)
    translator = of == "stargan" or name == "fedinb"  # whose codes would be told the label
    assert sources == (set(STYLES) if translator or (name, of) in EXCHANGE else set())
    assert ("codes/test/client" in kept) == (not translator)
    assert ("answers/client" in kept) == (of == "classification")
    assert ("asked/0/labels" in samples) == (of in ("gan", "vae") or name in MAKE_IMAGES)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_leaves_its_folder_whole_and_its_checkpoint_nowhere(name, tmp_path):
    asked, folder = _spec(name, _fitting(name)), tmp_path / "conformance"
    if name in STARTS:
        asked = asked.model_copy(update={"start": "conformance/start"})
        (folder / "start").mkdir(parents=True)
        save_file({f"clients/{key}": t for key, t in STARTS[name].items()}, folder / "start" / "model.safetensors")
    left = {path.name for path in left_by(asked, folder / name).path.iterdir()}
    made, noted = {"samples.npz"} & left, {"notes.csv"} & left
    assert left - made - noted == set(FILES)
    assert bool(made) == (_fitting(name) in ("gan", "vae") or name in ("feddva", "ps-fedgan", "full-gan", "fedinb"))
    assert bool(noted) == (issubclass(algorithm_class(name), Exchanging))


def _attacked(name: str, objective: str = "", inverted: bool = True, **training) -> dict[str, Any]:
    """The settings of a round of a few images each, of which others make what they can."""
    asked = _spec(name, objective or _fitting(name), rounds=1, local_steps=2, **training).model_dump(mode="json")
    asked["data"] |= {"per_class": 2} if name in DATA else {"at_most": 2}
    asked["samples"]["members"] = 2
    if inverted:
        asked["inversion"] = {"iterations": 1}
    return asked | ({"start": "conformance/start"} if name in STARTS else {})


def _beside_its_start(name: str, folder: Path) -> Path:
    """The folder of a run of this name, and in another one what it starts from, if it does."""
    if name in STARTS:
        (folder / "conformance" / "start").mkdir(parents=True)
        left = {f"clients/{key}": tensor for key, tensor in STARTS[name].items()}
        save_file(left, folder / "conformance" / "start" / "model.safetensors")
    return folder / "conformance" / name


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_its_clients_send_is_attacked_or_they_send_nothing(name, tmp_path):
    spec, folder = Spec(**_attacked(name) | {"features": False}), _beside_its_start(name, tmp_path)
    if name in SENDING_NOTHING:
        with pytest.raises(InputError, match=f"inversion: clients of algorithm '{name}' send nothing"):
            left_by(spec, folder)
        return
    left = left_by(spec, folder).samples
    users = range(spec.data.clients)
    assert all(left[f"inverted/{k}/found"].shape == left[f"inverted/{k}/true"].shape for k in users)
    asked = {key for key in left if key.startswith("membership/")}
    assert asked == {f"membership/{k}/{who}" for k in users for who in ("members", "others") if name != "fedinb"}


# ---- on a GPU


ADAM, GENTLE = {"optimiser": {"name": "adam", "lr": 1e-3}}, {"optimiser": {"lr": 0.005}}
INVERTED = ("fedavg", "fedinb", "ps-fedgan")
"""One of each kind of inversion, which takes far longer than all else."""
EVERYTHING = {
    "abilities": ["codes", "answers", "generation", "translation"],
    "score_every": 1,
    "samples": {"images": 20, "probed": 60},
}
ATTACKERS = [{"name": "a1", "r": "0.9"}, {"name": "fresh"}, {"name": "architecture"}, {"name": "missed-step"}]
TOLERANCE = 0.05
"""How far a GPU may end from the CPU, as a part of the way that training goes. Other kernels add in other orders, and
Adam's first steps, all of one size, make a whole step of that where a gradient is nearly 0."""


def check_leaves_the_same_elsewhere(name: str, objective: str, folder: Path) -> None:
    """A run, its abilities, its attacks and all that it writes, to the bit."""
    inverted, training = name in INVERTED and not objective, ADAM if objective in ("gan", "vae") else {}
    asked = _attacked(name, objective, inverted, **training) | EVERYTHING
    asked["algorithm"] |= {"attackers": ATTACKERS} if name == "ps-fedgan" else {}
    here = left_by(Spec(**asked), _beside_its_start(name, folder / "here"))
    with pretended_gpu():
        there = left_by(Spec(**asked), _beside_its_start(name, folder / "there"), device=DEVICE)
    files = {path.name for path in here.path.iterdir()}
    assert files == {path.name for path in there.path.iterdir()}
    for file in files - {"provenance.json", "features.npz", "samples.npz"}:
        assert (here.path / file).read_bytes() == (there.path / file).read_bytes(), file
    for file in files & {"features.npz", "samples.npz"}:
        ours, theirs = np.load(here.path / file), np.load(there.path / file)
        assert set(ours) == set(theirs)
        assert all(np.array_equal(ours[key], theirs[key]) for key in ours), file


@pytest.mark.parametrize(("name", "objective"), PAIRS)
def test_a_run_on_a_gpu_that_is_pretended_leaves_what_one_on_the_cpu_does(name, objective, tmp_path):
    """Whatever is on the wrong side would be refused; this needs no GPU."""
    check_leaves_the_same_elsewhere(name, objective, tmp_path)


@pytest.mark.parametrize(
    ("name", "module", "part", "right", "wrong", "where"),
    [
        ("fedstyle", "methods.fedstyle", "FedStyle", "torch.arange(2, device=x.device)", "torch.arange(2)", None),
        ("fedmix", "federation.simulation", "_on", "labels=data.labels.to(device)", "labels=data.labels", None),
        ("sda-fl", "common.optimisers", "step", "device=p.device", "device='cpu'", "federation.local"),
        ("ps-fedgan", "federation.data", "on_device", "tensor.to(device)", "tensor", "federation.local"),
        ("ps-fedgan", "objectives.cgan", "agreed_masks", "mask.to(labels.device)", "mask", "methods.ps_fedgan"),
        ("fedinb", "objectives.monotone", "barycenter", ".to(domains.mean)", ".double()", None),
    ],
)
def test_tensors_that_are_left_on_the_cpu_are_caught(name, module, part, right, wrong, where, tmp_path):
    with mutated(module, part, right, wrong, where=where), pytest.raises(Elsewhere, match=r"aten\..* on the CPU"):
        check_leaves_the_same_elsewhere(name, "", tmp_path)


class _Replayed(CapturedSimulation):
    """Takes a step again where a GPU would play its launches: what of it is the same each time has to be."""

    class Work(CapturedWork):
        def recorder(self) -> Record:
            def record(take):
                loss = torch.empty(())
                return lambda: loss.copy_(take()), loss

            return record

    local_work = Work


@pytest.mark.parametrize(("name", "objective"), [pair for pair in PAIRS if pair[0] not in AS_FEDAVG])
def test_steps_that_are_played_are_the_loops(name, objective):
    """To the bit, on every batch; that a GPU can record them is another question, which needs one."""
    training = {**(ADAM if objective in ("gan", "vae", "stargan") else GENTLE), "rounds": 2, "local_epochs": 1.5}
    loop, played = (_simulation(name, objective, engine=engine, **training) for engine in (Simulation, _Replayed))
    loop.run()
    played.run()
    assert loop.history == played.history, "losses"
    ends = [
        run.population.storage | {f"server.{k}": t for k, t in run.server.tensors.items()} for run in (loop, played)
    ]
    assert same(*ends)


def _after_a_round(name: str, objective: str, **settings: Any) -> Simulation:
    training = ADAM if objective in ("gan", "vae", "stargan") else GENTLE
    simulation = _simulation(name, objective, rounds=1, **{**training, **settings})
    simulation.run()
    return simulation


def check_alike(here: Simulation, there: Simulation) -> None:
    """All parameters that a round has moved, together, are the same to `TOLERANCE` of their way, and so are buffers."""
    start, parameters = here.template.state_dict(), dict(here.template.named_parameters())
    ours, theirs = (s.server.tensors | s.population.storage for s in (here, there))
    for keys in (ours.keys() & parameters, ours.keys() - parameters):
        apart = sum(float((theirs[key].cpu().double() - ours[key].double()).square().sum()) for key in keys)
        moved = sum(float((ours[key].double() - start[key].double()).square().sum()) for key in keys)
        assert apart <= TOLERANCE**2 * moved


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize(("name", "objective"), PAIRS)
def test_it_trains_on_a_gpu_as_on_the_cpu(name, objective):
    here = _after_a_round(name, objective)
    with torch.backends.cudnn.flags(allow_tf32=False):
        check_alike(here, _after_a_round(name, objective, device="cuda"))


def test_other_kernels_are_alike_and_a_longer_step_is_caught():
    here = _after_a_round("fedavg", "gan")
    with torch.backends.mkldnn.flags(enabled=False):
        check_alike(here, _after_a_round("fedavg", "gan"))
    longer = {"optimiser": {"name": "adam", "lr": 1.2e-3}}
    with pytest.raises(AssertionError, match="<="):
        check_alike(here, _after_a_round("fedavg", "gan", **longer))


# ---- how it is written


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_reads_like_an_algorithm_box(name):
    package, module = algorithm_modules()[name].split(".")
    source = (ROOT / package / f"{module}.py").read_text()
    assert sum(bool(line.strip()) for line in source.splitlines()) <= {"baselines": 60, "methods": 250}[package]
    imported = {
        (node.module or "").split(".")[0] for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)
    }
    assert not imported & {"diptych", "partitions", "evaluation", "reporting"}, "an algorithm knows no files or tables"
    assert ast.get_docstring(ast.parse(source))
    assert algorithm_class(name).__doc__


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_has_a_rule_of_at_most_five_lines(name):
    rule = Path(ROOT, algorithm_modules()[name].replace(".", "/")).with_suffix(".smk")
    assert len(rule.read_text().strip().splitlines()) <= 5
