"""What needs no run: numbers that follow from the published specifications, and what papers state whatever the data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common.algorithms import algorithm_module
from common.codehash import code_hash
from common.provenance import provenance, versions
from common.records import COLUMNS
from common.run_folder import write_csv
from common.sources import KNOWN
from common.spec import Spec
from diptych import propositions
from diptych.assembly import build_algorithm
from diptych.study import load_study
from federation.simulation import schedule

CLASSES = 10
"""Of every data set whose GANs are counted."""
# The paper gives no network, of which these numbers are the size: so nothing has them as published.
SENT = {"ps-fedgan": ("discriminator",), "full-gan": ("discriminator", "generator")}
"""What a user sends at once (PS-FedGAN, Table 4)."""
IDENTITIES = "celeba/identity_CelebA.txt"
"""Whose face it is, by file (PaDPaF, App. C.4)."""
SPECIFICATION = "specification"
"""The table of what a specification says, which no run has to be trained for."""
Row = dict[str, Any]


def code(spec: Spec) -> str:
    """The hash of all code that decides what is counted of a run."""
    return code_hash("diptych.counted", algorithm_module(str(spec.algorithm["name"])))


def measure(scale: str, data: Path, out: Path) -> None:
    """Write the records of all papers of a scale, as published and with the scale's name.

    Args:
        data: the data root, where it is looked up what a data set has, if it is there.
    """
    study, published = load_study(scale), load_study("paper")
    made = provenance()
    origin = {key: value for key, value in made.items() if key in COLUMNS} | {"versions": versions(made["packages"])}
    common = {"style": "all", "aggregate": "none", "status": "ok", "scale": scale, "budget": 1}
    rows = []
    for spec in published.specs.values():
        if spec.labels["paper"] not in study.papers or spec.seed != published.scale.seeds[0]:
            continue
        for row in _counts(spec, data):  # nothing of programs that are not ours, whose code nobody here can hash
            where = {"run": spec.run, "seed": spec.seed, "spec": spec.digest, "code": code(spec)}
            rows.append(common | spec.labels | where | row | origin)
    rows += [row | {"scale": scale} | origin for row in propositions.records(study.papers)]
    write_csv(out, rows, COLUMNS)


def _counts(spec: Spec, data: Path) -> Iterator[Row]:
    method, variant = spec.labels["method"], spec.labels["variant"]
    if method in SENT and not variant and spec.labels["split"] == "split-3":
        yield _cost("parameters", _parameters(spec, SENT[method])) | {"table": "table4", "differs": "network"}
    if method == "ps-fedgan" and not variant:
        yield _cost("server_real_fraction", spec.data.server_share, "fraction")
    if spec.labels["paper"] == "fedstyle" and method == "fedavg" and not variant:
        yield from _of_the_schedule(spec)
    if method == "padpaf" and spec.labels["dataset"] == "celeba" and KNOWN["celeba"].there(data):
        people = (line.split()[1] for line in (data / IDENTITIES).read_text().splitlines())
        yield _cost("identities", len(set(people)))


def _parameters(spec: Spec, parts: tuple[str, ...]) -> int:
    model: Any = build_algorithm(spec, CLASSES).model()
    return sum(parameter.numel() for part in parts for parameter in getattr(model, part).parameters())


def _of_the_schedule(spec: Spec) -> Iterator[Row]:
    """Rounds, epochs and clients, and how many epochs a client trains for in the mean over clients."""
    training, clients = spec.training, spec.data.clients
    visits = sum(map(len, schedule(spec.seed, training.rounds, clients, training.participation))) / clients
    yield _cost("communication_rounds", training.rounds)
    yield _cost("local_epochs", training.local_epochs)
    yield _cost("client_fraction", training.participation, "fraction")
    yield _cost("total_clients", clients)
    yield _cost("epochs_per_client", visits * training.local_epochs)


def _cost(metric: str, value: float, unit: str = "count") -> Row:
    return {"kind": "cost", "metric": metric, "unit": unit, "value": value, "table": SPECIFICATION}
