"""Ways of taking a step of many clients, on a GPU or on the CPU, and what each gains over a plain loop.

    python -m benchmarks.gpu --out gpu.csv --minutes 25              all that a GPU is asked, in about that time
    python -m benchmarks.gpu --device cpu --networks mcmahan-cnn --clients 10 --ways mapped compiled --out cpu.csv
    python -m benchmarks.gpu --device cpu --small --clients 2 --out tiny.csv

Every client has a model of its own and a batch of noise that is already on the device; a step is one on each of its
updates, such as a discriminator's and a generator's. The ways take the same steps from the same start; a test holds
them to the same weights. A way is measured in turn with the loop, in one process. Ratios of images per second, to the
loop in 32-bit floats: above 1 the way is faster. Each line is written as soon as it is there, and one that is there is
not measured again, so that the command goes on where it was stopped.
"""

import argparse
import csv
import platform
import signal
import statistics
import sys
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad_and_value, vmap

from benchmarks.engine import SEED
from common.optimisers import State, step
from common.spec import OptimiserSettings, Spec
from diptych.assembly import build_algorithm
from diptych.process import use_threads
from federation import Batch, Update, call_with
from federation.data import on_device
from federation.functional import gradients
from federation.hooks import Precomputing
from federation.mapped import stacked
from federation.names import selected
from federation.population import Population
from federation.simulation import initial_model
from methods.ps_fedgan import PSFedGAN
from objectives.cgan import alone

WHAT = ["network", "clients", "way", "precision", "layout"]
"""The columns that say what a line is of."""
COLUMNS = ["ratio", "least", "most", *WHAT, "images_per_s", "note", "machine"]
CLASSES = 10
GREY, COLOUR = {"channels": 1, "image_size": 28}, {"channels": 3, "image_size": 32}
SGD = {"name": "sgd", "lr": 0.05}
ADAM = {"name": "adam", "lr": 2e-4, "betas": [0.5, 0.999]}
Case = dict[str, Any]


def _case(algorithm: str, network: Case, objective: Case, images: Case, optimiser: Case, batch: int, **of: Any) -> Case:
    data = {"dataset": "noise", "styles": {"noise": "noise"}, **images}
    training = {"rounds": 1, "batch_size": batch, "optimiser": optimiser}
    return {
        "algorithm": {"name": algorithm, **of},
        "network": network,
        "objective": objective,
        "data": data,
        "training": training,
    }


PADPAF = {"name": "gan", "latent": 128, "width": 64, "discriminator_steps": 1}
CASES: dict[str, Case] = {
    "mcmahan-cnn": _case("fedavg", {"name": "mcmahan-cnn"}, {"name": "classification"}, GREY, SGD, 32),
    "fedstyle-resnet18": _case("fedstyle", {"name": "resnet18"}, {"name": "simclr"}, COLOUR, SGD, 64),
    "padpaf": _case("padpaf", {"name": "sn-resnet", "width": 64}, PADPAF, {**COLOUR, "channels": 1}, ADAM, 32),
    "ps-fedgan": _case("ps-fedgan", {"name": "vgg4"}, {"name": "classification"}, GREY, ADAM, 64),
    "conv3": _case("fedavg", {"name": "conv3"}, {"name": "simclr"}, COLOUR, SGD, 64),
    "feddva": _case("feddva", {"name": "dual-encoder"}, {"name": "classification"}, GREY, ADAM, 256),
    "fedinb": _case("fedavg", {"name": "inb-mnist"}, {"name": "autoencoder"}, GREY, ADAM, 64),
}
"""The networks of the papers at their size, with the optimisers and batches that the papers have."""
OF_A_GPU = ["mcmahan-cnn", "fedstyle-resnet18", "padpaf", "ps-fedgan"]
SMALL: dict[str, dict[str, Case]] = {
    "fedstyle-resnet18": {"network": {"name": "conv3", "width": 4}},
    "padpaf": {"network": {"width": 4}, "objective": {"latent": 8, "width": 4}},
    "ps-fedgan": {"algorithm": {"width": 4, "latent": 8}},
    "conv3": {"network": {"width": 4}},
    "feddva": {"network": {"width": 4}},
}
"""What is smaller in a trial of the command; batches are of four images."""


def spec_of(case: str, small: bool) -> Spec:
    """What is trained."""
    content: dict[str, Any] = {key: dict(part) for key, part in CASES[case].items()}
    if small:
        content["training"]["batch_size"] = 4
        for key, part in SMALL.get(case, {}).items():
            content[key] |= part
    return Spec(run=f"benchmarks/gpu/{case}/1", scale="tiny", seed=SEED, **content)


# ---- steps


class Clients:
    """Models, optimisers and batches of all clients, ready to take steps one client after the other.

    Attributes:
        storage: name -> all clients' tensors, (clients, *shape).
        images: in a step of everybody.
    """

    def __init__(
        self,
        case: str,
        clients: int,
        device: str,
        *,
        bf16: bool = False,
        channels_last: bool = False,
        small: bool = False,
    ) -> None:
        spec = spec_of(case, small)
        algorithm, self.bf16, self.device = build_algorithm(spec, CLASSES), bf16, torch.device(device)
        self.optimiser: OptimiserSettings = spec.training.optimiser
        self.template: Any = initial_model(algorithm, SEED).to(device)
        own = {name for name, _ in (*self.template.named_parameters(), *self.template.named_buffers())}
        population = Population(self.template, clients, own, channels_last=channels_last)
        self.storage, self.members = population.storage, list(population.members)
        phases = algorithm.phases()
        if isinstance(algorithm, PSFedGAN):  # its own noise comes from a secret that both sides count along
            phases = [alone(algorithm, self.optimiser, 1.0)]
        self.updates: list[Update] = [update for phase in phases for update in phase.updates]
        draw = torch.Generator().manual_seed(SEED)
        self.batches = [
            _batch(algorithm, phases[0].draw or algorithm.draw, model, spec, draw, channels_last, self.device)
            for model in self.members
        ]
        self.images = clients * spec.training.batch_size
        self.leaves = [[_moving(model, update) for update in self.updates] for model in self.members]
        self.states: list[list[State]] = [[{} for _ in self.updates] for _ in self.members]

    def autocast(self) -> torch.autocast:
        """As the engine's; without the cache of weights, which does not know of stacked ones."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16, cache_enabled=False)

    def one(self, client: int) -> None:
        """A client's step on each of its updates, as the engine takes it."""
        model, batch = self.members[client], self.batches[client]
        for update, leaves, state in zip(self.updates, self.leaves[client], self.states[client], strict=True):
            with self.autocast():
                loss = self.loss(update, model, batch)
            step(update.optimiser or self.optimiser, leaves, gradients(loss, leaves), state, update.lr_factor)

    def loss(self, update: Update, model: nn.Module, batch: Batch) -> Tensor:
        """Of one client."""
        return update.loss(model, batch)

    def all(self) -> None:
        """A step of everybody."""
        for client in range(len(self.members)):
            self.one(client)


def _batch(
    algorithm: Any, draw: Any, model: Any, spec: Spec, noise: torch.Generator, channels_last: bool, device: torch.device
) -> Batch:
    size = spec.training.batch_size, spec.data.channels, spec.data.image_size, spec.data.image_size
    x, y = torch.rand(size, generator=noise), torch.randint(CLASSES, size[:1], generator=noise)
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    batch = on_device(draw(x, y, noise), device)
    if isinstance(algorithm, Precomputing):
        with torch.no_grad():
            batch |= algorithm.constants(model, x.to(device), y.to(device))
    return batch


def _moving(model: nn.Module, update: Update) -> list[Tensor]:
    return [entry.tensor for entry in selected(model, update.which) if entry.is_parameter]


class OneModel(Clients):
    """As many steps of one model: what no way of many models exceeds for large ones."""

    def all(self) -> None:
        """All by the first client."""
        for _ in self.members:
            self.one(0)


class Streams(Clients):
    """Clients in turn, on several CUDA streams."""

    STREAMS = 8

    @cached_property
    def streams(self) -> list[torch.cuda.Stream]:
        """As many as there is something to put on."""
        return [torch.cuda.Stream() for _ in range(min(self.STREAMS, len(self.members)))]

    def all(self) -> None:
        """Nothing follows before all streams are through."""
        main = torch.cuda.current_stream()
        for client in range(len(self.members)):
            stream = self.streams[client % len(self.streams)]
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                self.one(client)
        for stream in self.streams:
            main.wait_stream(stream)


class Captured(Clients):
    """The loop's launches, recorded once as a CUDA graph and played again."""

    @cached_property
    def graph(self) -> torch.cuda.CUDAGraph:
        """Of the step that comes after the first three, in which libraries choose their kernels."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                super().all()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            super().all()
        return graph

    def all(self) -> None:
        """Play it."""
        self.graph.replay()


class Compiled(Clients):
    """The loop with losses, and so their gradients, by `torch.compile`: one program, which is given each client's
    tensors."""

    @cached_property
    def programs(self) -> dict[int, Callable[..., Tensor]]:
        """By update."""
        return {id(update): torch.compile(self._program(update), dynamic=False) for update in self.updates}

    def _program(self, update: Update) -> Callable[..., Tensor]:
        return lambda tensors, batch: call_with(tensors, update.loss, self.template, batch)

    def loss(self, update: Update, model: nn.Module, batch: Batch) -> Tensor:
        """By the program of the update."""
        return self.programs[id(update)](dict(model.named_parameters()) | dict(model.named_buffers()), batch)


class Mapped(Clients):
    """All clients at once: losses and gradients under `torch.func.vmap`, and the optimiser on tensors with an axis for
    clients."""

    @cached_property
    def together(self) -> Batch:
        """All batches as one."""
        return stacked(self.batches)

    @cached_property
    def mapped(self) -> list[Callable[..., Any]]:
        """(tensors that move, all others, batch) -> gradients and losses; by update."""
        return [vmap(grad_and_value(self._loss(update))) for update in self.updates]

    def _loss(self, update: Update) -> Callable[..., Tensor]:
        return lambda moved, still, batch: call_with(moved | still, update.loss, self.template, batch)

    def all(self) -> None:
        """One step on the storage for each update."""
        for update, mapped, state in zip(self.updates, self.mapped, self.states[0], strict=True):
            names = {entry.name for entry in selected(self.template, update.which) if entry.is_parameter}
            moved = {name: rows for name, rows in self.storage.items() if name in names}
            still = {name: rows for name, rows in self.storage.items() if name not in names}
            with self.autocast():
                found, _ = mapped(moved, still, self.together)
            step(
                update.optimiser or self.optimiser, list(moved.values()), list(found.values()), state, update.lr_factor
            )


class MappedAndCompiled(Mapped):
    """The same as one program."""

    @cached_property
    def mapped(self) -> list[Callable[..., Any]]:
        """As there."""
        return [torch.compile(mapped, dynamic=False) for mapped in super().mapped]


WAYS: dict[str, type[Clients]] = {
    "loop": Clients,
    "one-model": OneModel,
    "streams": Streams,
    "captured": Captured,
    "compiled": Compiled,
    "mapped": Mapped,
    "mapped-compiled": MappedAndCompiled,
}
NEED_CUDA = ("streams", "captured")


# ---- times


class TimeIsUp(BaseException):
    """The time that was given is over; like an interrupt, nothing on the way takes it for an error of its own."""


def seconds(clients: Clients, steps: int) -> float:
    """How long so many steps of everybody take; processor time on a CPU, which others share."""
    cuda = clients.device.type == "cuda"
    clock = time.perf_counter if cuda else time.process_time
    if cuda:
        torch.cuda.synchronize()
    start = clock()
    for _ in range(steps):
        clients.all()
    if cuda:
        torch.cuda.synchronize()
    return clock() - start


def compared(loop: Clients, way: Clients, repeats: int, least: float) -> tuple[list[float], float]:
    """Ratios of the loop's time to the way's, in turn, and the way's images per second; each side runs `least` seconds.

    The first two steps of either, in which programs are compiled and kernels chosen, do not count.
    """
    counts = []
    for side in (loop, way):
        seconds(side, 1)
        counts.append(max(1, round(least / max(seconds(side, 1), 1e-9))))
    pairs = [[seconds(side, n) / n for side, n in zip((loop, way), counts, strict=True)] for _ in range(repeats)]
    return [a / b for a, b in pairs], way.images / statistics.median(b for _, b in pairs)


def measured(options: argparse.Namespace, what: dict[str, str]) -> dict[str, Any]:
    """One line of the table; what cannot be done says why in its note."""
    line: dict[str, Any] = dict.fromkeys(COLUMNS, "") | what | {"machine": machine(options.device)}
    if what["way"] in NEED_CUDA and not options.device.startswith("cuda"):
        return line | {"note": "needs CUDA"}
    of = what["network"], int(what["clients"]), options.device
    bf16, channels_last = what["precision"] == "bf16", what["layout"] == "channels-last"
    try:
        loop = Clients(*of, small=options.small)
        way = WAYS[what["way"]](*of, bf16=bf16, channels_last=channels_last, small=options.small)
        ratios, rate = compared(loop, way, options.repeats, options.seconds)
    except Exception as error:  # a way that does not work here is a result, and the next one may
        return line | {"note": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"}
    found = {"ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
    return line | {name: f"{value:.2f}" for name, value in found.items()} | {"images_per_s": f"{rate:.0f}"}


def machine(device: str) -> str:
    """What it ran on."""
    name = torch.cuda.get_device_name() if device.startswith("cuda") else f"{platform.processor() or 'CPU'}, one thread"
    return f"{name}; torch {torch.__version__}"


def wanted(options: argparse.Namespace) -> list[dict[str, str]]:
    """What lines are of; the plain loop against itself, which says how noisy the machine is, among them."""
    return [
        dict(zip(WHAT, (network, str(clients), way, precision, layout), strict=True))
        for network in options.networks
        for clients in options.clients
        for precision in options.precision
        for layout in options.layout
        for way in options.ways
    ]


def run(options: argparse.Namespace) -> bool:
    """Measure what is not in the file yet; whether all of it is there in the end."""
    path: Path = options.out
    with path.open("a+", newline="") as file:
        file.seek(0)
        there = [{column: row[column] for column in WHAT} for row in csv.DictReader(file)]
        table = csv.DictWriter(file, COLUMNS)
        if file.tell() == 0:
            table.writeheader()
        for what in wanted(options):
            if what in there:
                continue
            try:
                line = measured(options, what)
            except TimeIsUp:
                return False
            table.writerow(line)
            file.flush()
            print(" | ".join(str(line[column]) for column in COLUMNS[:-1]), flush=True)
            if options.device.startswith("cuda"):
                torch.cuda.empty_cache()
            torch.compiler.reset()
    return True


def _stop(number: int, frame: FrameType | None) -> None:
    raise TimeIsUp


def main(arguments: list[str] | None = None) -> None:
    """Measure, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a CSV file; lines that it has are not measured again")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--networks", nargs="+", default=OF_A_GPU, choices=CASES)
    parser.add_argument("--clients", nargs="+", type=int, default=[10, 100])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument("--layout", nargs="+", default=["plain"], choices=["plain", "channels-last"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="that each side runs in each repeat, at least")
    parser.add_argument("--minutes", type=float, default=25.0, help="after which it ends, wherever it stands")
    parser.add_argument("--small", action="store_true", help="tiny networks and batches, to try the command")
    options = parser.parse_args(arguments)
    use_threads(1)
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, 60 * options.minutes)
    try:
        whole = run(options)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    print("all is measured" if whole else "the time is up; the same command goes on from here", file=sys.stderr)


if __name__ == "__main__":
    main()
