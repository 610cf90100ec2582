"""Training one run: from its specification to its folder."""

import hashlib
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from abilities import COLUMNS, Trained, arrays, due, looks_at_own, scores
from attacks.listeners import listeners
from common.algorithms import training_code
from common.errors import InputError
from common.files import check_writable, locked, written
from common.provenance import peak_memory_mb, provenance
from common.run_folder import CHECKPOINT, FILES, LOCK, RunFolder
from common.spec import Spec, read_yaml
from diptych.assembly import build_algorithm
from diptych.given import client_data, to_start_from
from diptych.process import repeatable
from diptych.progress import Progress
from federation import Algorithm, CapturedSimulation, ClientData, Diverged, Simulation
from federation.checkpoint import resume, save
from federation.hooks import pooled
from partitions import Partition, partition, redrawn


def train(
    spec: Spec,
    folder: Path,
    data_root: str,
    *,
    workers: int = 1,
    device: str = "cpu",
    captured: bool = False,
    checkpoint_every: float = 30.0,
) -> str:
    """Train a run and leave its folder; a run that was stopped goes on from its checkpoint.

    Args:
        workers: client threads; any number gives the same numbers.
        captured: play clients' steps from recordings of their launches, on a GPU.
        checkpoint_every: seconds between checkpoints.

    Returns:
        The run's status: `ok` or `diverged`.

    Raises:
        InputError: what is asked for cannot be trained, or not in this folder, which another process may train in.
    """
    started, progress = time.monotonic(), Progress(spec.run, spec.training.rounds)
    if device.startswith("cuda"):
        repeatable()
    for name in FILES:
        check_writable(folder / name)
    _refuse_another_run(spec, folder)
    dealt = partition(spec.data, data_root, spec.seed)
    algorithm = build_algorithm(spec, dealt.classes)
    data = client_data(dealt, pooled(algorithm))
    _refuse_single_images(data, algorithm)
    _refuse_to_invert_what_is_redrawn(spec, data)
    lost = bool(spec.start) and _has_diverged(_started(spec, folder))
    simulation = (CapturedSimulation if captured else Simulation)(
        algorithm,
        data,
        spec.training,
        spec.seed,
        workers=workers,
        device=device,
        start=_start(spec, folder) if spec.start and not lost else None,
        listeners=listeners(spec, algorithm),
        progress=progress,
    )
    if looks_at_own(Trained(simulation, dealt, spec)):
        simulation.keep_own()
    code = training_code(str(spec.algorithm.get("name")), overheard=spec.overheard)
    made = provenance(torch.cuda.get_device_name() if device.startswith("cuda") else "cpu")  # before anybody changes it
    checkpoint, key = folder / CHECKPOINT, f"{spec.digest} {code} {_given(spec, dealt, folder)} {device}"
    taken = f"{folder}: is being trained by another process; wait for it, or name another folder (--out)"
    with locked(folder / LOCK, taken):
        before = resume(checkpoint, simulation, key)
        if before is not None:
            started -= before
            progress.say(f"goes on after round {simulation.round}")
        saved, out = time.monotonic(), _Taken(RunFolder(folder), spec, anew=before is None)

        def after_step(round: int, done: int, total: int) -> None:
            out.begin()
            progress(round, done, total)

        simulation.progress = after_step

        def after_round(simulation: Simulation) -> None:
            nonlocal saved
            if due(simulation, spec.score_every):
                simulation.scores += scores(Trained(simulation, dealt, spec))
            if simulation.round in spec.snapshots:
                kept, samples = arrays(Trained(simulation, dealt, spec), at_the_end=False)
                out.begin()
                out.folder.write_arrays(f"after-{simulation.round}.npz", kept | samples)
            if time.monotonic() - saved >= checkpoint_every:
                out.begin()
                save(checkpoint, simulation, key, time.monotonic() - started)
                saved = time.monotonic()

        why = f"diverged: run '{spec.start}', which it starts from, did" if lost else ""
        if why := why or _diverged(Trained(simulation, dealt, spec), after_round):
            progress.say(why)
        trained = time.monotonic() - started
        status = "diverged" if why else "ok"
        out.begin()
        _write_results(out.folder, Trained(simulation, dealt, spec), status)  # whose models no scoring has had
        out.folder.write_provenance(
            {
                "status": status,
                **made,
                "code": code,
                "spec": spec.digest,
                "sources": {
                    s: {"name": x.name, "sha256": x.sha256, "images": len(x.labels), "classes": x.classes}
                    for s, x in zip(dealt.styles, dealt.sources, strict=True)
                },
                "train_s": round(trained, 2),  # with what is scored on the way, and without what is made in the end
                "wall_s": round(time.monotonic() - started, 2),
                "peak_memory_mb": round(peak_memory_mb(), 1),
                "bytes_up": simulation.channel.total("up"),
                "bytes_down": simulation.channel.total("down"),
                "steps": simulation.done,
                "resumed": before is not None,
            }
        )
        checkpoint.unlink(missing_ok=True)
    return status


def _diverged(trained: Trained, after_round: Callable[[Simulation], None]) -> str:
    """Train, and score in the end; why that could not go on, in a sentence, or nothing."""
    try:
        trained.simulation.run(after_round)
        if not all(tensor.isfinite().all() for tensor in trained.simulation.server.tensors.values()):
            return "diverged: what the server has in the end is not finite; try a lower learning rate"
        if trained.spec.score_every:
            trained.simulation.scores += scores(trained)
    except Diverged as error:
        return str(error)
    return ""


def _write_results(out: RunFolder, trained: Trained, status: str) -> None:
    """All that evaluations read but the provenance, which comes last."""
    out.write_spec(trained.spec)
    kept, samples = arrays(trained, at_the_end=True) if status == "ok" else ({}, {})
    out.write_features(kept)
    if samples:
        out.write_arrays("samples.npz", samples)
    _write_model(out.path / "model.safetensors", trained.simulation)
    _write_tables(out, trained.simulation, trained.dealt)


def _refuse_another_run(spec: Spec, folder: Path) -> None:
    """Of which nothing would be left. The same run, by another specification or other code, takes its own place."""
    there = folder / "spec.yaml"
    held = read_yaml(there).get("run") if there.is_file() else spec.run
    if held != spec.run:
        raise InputError(f"{folder}: holds run '{held}'; name another folder (--out) for '{spec.run}', or delete it")


def _refuse_single_images(data: ClientData, algorithm: Algorithm) -> None:
    """Batch norm is not defined on one image, so that training would stop in the middle."""
    norms = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in algorithm.model().modules())
    fewest = min(map(len, itertools.chain(data.clients, *data.turns or ())))
    if norms and fewest < 2:
        raise InputError(
            f"data: batch norm needs two images at a client, but one has {fewest} at a time; see data.at_most, "
            "attributes, clients_per_style, deal, server_share and validation_share"
        )


def _refuse_to_invert_what_is_redrawn(spec: Spec, data: ClientData) -> None:
    """What a client has sent is of images as it saw them in its steps; they are nowhere else to be compared with."""
    if spec.inversion and any(map(redrawn, data.views or ())):
        raise InputError("inversion: needs data.views that show an image alike each time, and one draws anew")


def _given(spec: Spec, dealt: Partition, folder: Path) -> str:
    """A hash of what a training is given besides its specification: its images, with what else is known of each and may
    decide whose they are, and the run that it starts from."""
    digest = hashlib.sha256("".join(source.sha256 for source in dealt.sources).encode())
    for source in dealt.sources:
        for name, array in sorted(source.extra.items()):
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    if spec.start:
        digest.update((_started(spec, folder).path / "model.safetensors").read_bytes())
    return digest.hexdigest()[:12]


def _started(spec: Spec, folder: Path) -> RunFolder:
    """The run that this one starts from, a folder of the same scale."""
    other = RunFolder(RunFolder.path_of(spec.start, spec.run, folder))
    if not (other.path / "model.safetensors").is_file():
        raise InputError(f"start: run '{spec.start}' has left no model in {other.path}; train it first")
    return other


def _has_diverged(other: RunFolder) -> bool:
    """Whether a run is known to have, so that its weights are nothing to start from; other programs need not say."""
    return (other.path / "provenance.json").is_file() and other.provenance["status"] == "diverged"


def _start(spec: Spec, folder: Path) -> dict[str, Tensor]:
    """What the run that this one starts from has left for it."""
    other = _started(spec, folder)
    left = {key: torch.from_numpy(array) for key, array in other.weights("shared/", "clients/").items()}
    if not left:
        raise InputError(f"start: run '{spec.start}' has left no tensors shared/... or clients/... in {other.path}")
    return to_start_from(left)


# ---- what is left behind


class _Taken:
    """A folder that a training takes when its first step is done: what is wrong with its settings has shown by then,
    and whatever was there has been left alone."""

    def __init__(self, folder: RunFolder, spec: Spec, *, anew: bool) -> None:
        self.folder, self.spec, self.anew, self.lock, self.begun = folder, spec, anew, threading.Lock(), False

    def begin(self) -> None:
        """Once, whichever client's thread is first."""
        with self.lock:
            if not self.begun:
                self.folder.begin(anew=self.anew)
                self.folder.write_spec(self.spec)
                self.begun = True


def _write_model(path: Path, simulation: Simulation) -> None:
    """`shared/<name>` as on the server, `clients/<name>` with a leading client axis of what they have of their own."""
    tensors = {f"shared/{name}": tensor for name, tensor in simulation.server.tensors.items()}
    tensors |= {f"clients/{name}": tensor for name, tensor in simulation.population.storage.items()}
    with written(path) as part:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, part)


def _write_tables(out: RunFolder, simulation: Simulation, dealt: Partition) -> None:
    out.write_table("history.csv", simulation.history, ["round", "client", "stage", "phase", "update", "steps", "loss"])
    if simulation.scores:
        out.write_table("scores.csv", simulation.scores, COLUMNS)
    if simulation.notes:
        out.write_table("notes.csv", simulation.notes, list(simulation.notes[0]))
    traffic = [
        {"round": round, "client": client, "direction": direction, "name": name, "bytes": size}
        for (round, client, direction, name), size in sorted(simulation.channel.traffic.items())
    ]
    out.write_table("traffic.csv", traffic, ["round", "client", "direction", "name", "bytes"])
    counts = [
        {"client": client, "style": dealt.styles[dealt.client_styles[client]], "class": c, "images": int(n)}
        for client, row in enumerate(dealt.class_counts())
        for c, n in enumerate(row)
    ]
    out.write_table("partition.csv", counts, ["client", "style", "class", "images"])
