"""The Fréchet distance between two sets of images (FID), under the features of a stated network."""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import numpy as np
import torch
from pydantic import PositiveInt

from common.errors import InputError
from common.files import data_root
from common.keys import random_key
from common.run_folder import RunFolder
from evaluation.corruption import corrupted
from evaluation.judge import load
from evaluation.rows import result

INCEPTION = "pt_inception-2015-12-05-6726825d.pth"
"""pytorch-fid's weights, looked for below the data root before they are downloaded."""
Extract = Callable[[np.ndarray], np.ndarray]
Arrays = dict[str, np.ndarray]
Images = dict[int, np.ndarray]
"""Images by client, (n, channels, size, size) bytes each."""
Gaussian = tuple[np.ndarray, np.ndarray]
"""Mean (d,) and covariance (d, d)."""


class NoDistance(InputError):
    """A Fréchet distance cannot be taken: there are no weights of Inception, no more images than features, or only
    images whose features vary in no more than some of their directions."""


@contextmanager
def or_left_out(run: str) -> Iterator[None]:
    """A distance that cannot be taken is left out, and the run's log says why."""
    try:
        yield
    except NoDistance as why:
        print(f"[{run}] left out: {why}", file=sys.stderr)


def gaussian(features: np.ndarray, what: str) -> Gaussian:
    """Mean and covariance of features (n, d), as pytorch-fid takes them.

    Raises:
        NoDistance: there are no more images than features, so that the covariance could not have full rank.
        InputError: a feature is not finite.
    """
    features = features.astype(np.float64)
    if len(features) <= features.shape[1]:
        raise NoDistance(
            f"fid: {what} has {len(features)} images, but needs more than the {features.shape[1]} features"
        )
    if not np.isfinite(features).all():
        raise InputError(f"fid: features of {what} are not finite numbers")
    return features.mean(axis=0), np.cov(features, rowvar=False)


def frechet_distance(generated: Gaussian, reference: Gaussian) -> float:
    """|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)) (Heusel et al. 2018).

    The trace of the root is the sum of the roots of the eigenvalues of C2^(1/2) C1 C2^(1/2), which is symmetric:
    no general matrix root, which can fail or turn complex, is needed. A generator that has collapsed may have a
    covariance without full rank; the reference may not.

    Raises:
        NoDistance: the reference's covariance is singular.
    """
    (m1, c1), (m2, c2) = generated, reference
    values, vectors = np.linalg.eigh(np.atleast_2d(c2))
    if values[0] <= 1e-10 * values[-1]:
        raise NoDistance("fid: the covariance of the reference images is singular; take more images or fewer features")
    root = vectors * np.sqrt(values) @ vectors.T
    inner = np.linalg.eigvalsh(root @ np.atleast_2d(c1) @ root)
    trace = np.trace(np.atleast_2d(c1)) + np.trace(np.atleast_2d(c2)) - 2 * np.sqrt(inner.clip(min=0)).sum()
    return float(max(0.0, np.square(m1 - m2).sum() + trace))


def inception(root: str | None = None) -> tuple[Extract, str]:
    """pytorch-fid's Inception (2,048 features of its last pooling), and the SHA-256 of its weights.

    A grey image has its one channel three times.

    Raises:
        NoDistance: the weights are neither below the data root nor to be downloaded, or not what they should be.
    """
    from pytorch_fid import inception as published  # imports torchvision

    file = Path(root or data_root()).expanduser() / INCEPTION
    try:
        weights = (
            torch.load(file, weights_only=True)
            if file.is_file()
            else torch.hub.load_state_dict_from_url(published.FID_WEIGHTS_URL, progress=False)
        )
        with mock.patch.object(published, "load_state_dict_from_url", return_value=weights):
            network = published.InceptionV3([published.InceptionV3.BLOCK_INDEX_BY_DIM[2048]]).eval()
    except Exception as error:  # whatever the network, the file system and the unpickler raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise NoDistance(f"fid: no weights of Inception ({reason}); put {INCEPTION} below '{file.parent}'") from error
    path = file if file.is_file() else Path(torch.hub.get_dir()) / "checkpoints" / INCEPTION

    @torch.no_grad()
    def extract(images: np.ndarray) -> np.ndarray:
        parts = map(torch.from_numpy, np.array_split(images, max(1, len(images) // 50)))
        coloured = (part.float().div(255).expand(-1, 3, -1, -1) for part in parts)
        return np.concatenate([network(part)[0].flatten(1).numpy() for part in coloured])

    return extract, hashlib.sha256(path.read_bytes()).hexdigest()


def extractor(name: str, run: RunFolder) -> tuple[Extract, str]:
    """A feature extractor of images (n, channels, size, size), bytes, and its SHA-256."""
    if name == "inception":
        return inception()
    judge = load(run.judge)
    return lambda images: judge(images)[0], judge.sha256


HARDLY_CHANGED = {"brighter": ("brightness", 13 / 255), "noisy": ("noise", 0.1), "shifted": ("shift", 1.0)}
"""Control -> what befell the held-out images, and how strongly (`evaluation.corruption.corrupted`)."""


def fid(
    run: RunFolder,
    *,
    extractors: list[Literal["domain-classifier", "inception"]],
    images: PositiveInt = 7520,
    after: PositiveInt | None = None,
    snapshots: bool = False,
) -> Iterator[dict[str, Any]]:
    """The Fréchet distance of each client's generated images to its training images, and the mean over clients.

    As in PaDPaF's code, images come from the client's own complete model with batch norm in training mode; `bn=eval`
    takes the statistics of 40 batches instead, and `generator=global` the server's generator with the client's style.
    A run that started from another one is measured after each snapshot and at the end, as `phase=new-clients`.

    Controls beside each: `floor`, the client's held-out images; `brighter`, `noisy` and `shifted`, the same with what
    hardly changes them to the eye; `copy`, its training images themselves; `noise`, uniform noise; `other-client`, the
    training images of the next client.

    Args:
        after: runs with a snapshot of this round are measured as they were then, others at their end.
        snapshots: whether generated images are measured after each earlier snapshot as well, and those of the end once
            more, under the protocol `by-round` as `rounds=...`.
    """
    if not any(key.endswith("/generated") for key in run.samples):
        return
    for name in extractors:
        extract, sha = extractor(name, run)
        what = f"{name}-{sha[:8]}"
        if not run.spec.start:
            end = after if after is not None and after in run.snapshots else run.spec.training.rounds
            arrays = run.samples if end == run.spec.training.rounds else run.after(end)
            rows = list(_distances(what, extract, arrays, _shown(run, arrays), images))
            yield from rows
            if snapshots:
                for round in (n for n in run.snapshots if n < end):
                    then = run.after(round)
                    shown = {("", ""): _of_clients(then, "generated")}
                    yield from _by_round(round, _distances(what, extract, then, shown, images))
                yield from _by_round(end, (row for row in rows if not row["setting"] and not row["control"]))
            continue
        moments = {round: run.after(round) for round in run.snapshots} | {run.spec.training.rounds: run.samples}
        for round, arrays in moments.items():
            generated = _of_clients(arrays, "generated")
            shown = {(f"phase=new-clients;rounds={round}", ""): generated}
            yield from _distances(what, extract, arrays, shown, images)


def _by_round(round: int, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same as points of a curve."""
    yield from (row | {"setting": f"rounds={round}", "protocol": "by-round"} for row in rows)


def clients_of(arrays: Arrays) -> list[int]:
    """The clients that have left arrays."""
    return sorted({int(key.split("/")[1]) for key in arrays if key.startswith("client/")})


def _of_clients(arrays: Arrays, key: str) -> Images:
    return {k: arrays[f"client/{k}/{key}"] for k in clients_of(arrays) if f"client/{k}/{key}" in arrays}


def _shown(run: RunFolder, arrays: Arrays) -> dict[tuple[str, str], Images]:
    """(setting, control) -> client -> the images whose distance is taken, of cases that every client has images of."""
    real, rng = _of_clients(arrays, "real"), np.random.default_rng(random_key(run.spec.seed, "noise"))
    clients = list(real)
    others = [*clients[1:], *clients[:1]] if len(clients) > 1 else []
    held_out = _of_clients(arrays, "held-out")
    found = {
        ("", ""): _of_clients(arrays, "generated"),
        ("bn=eval", ""): _of_clients(arrays, "generated/bn=eval"),
        ("generator=global", ""): _of_clients(arrays, "generated/generator=global"),
        ("", "floor"): held_out,
        **{("", name): {k: _worn(run, k, x, name) for k, x in held_out.items()} for name in HARDLY_CHANGED},
        ("", "copy"): real,
        ("", "noise"): {k: rng.integers(0, 256, x.shape, dtype=np.uint8) for k, x in real.items()},
        ("", "other-client"): dict(zip(clients, (real[k] for k in others), strict=False)),
    }
    return {case: images for case, images in found.items() if images and all(map(len, images.values()))}


def _worn(run: RunFolder, client: int, images: np.ndarray, control: str) -> np.ndarray:
    """A client's images after what `HARDLY_CHANGED` says."""
    draw = torch.Generator().manual_seed(random_key(run.spec.seed, "worn", control, client))
    x = corrupted(torch.from_numpy(images).float().div(255), *HARDLY_CHANGED[control], draw)
    return x.mul(255).round().byte().numpy()


def _distances(
    what: str, extract: Extract, arrays: Arrays, shown: dict[tuple[str, str], Images], count: int
) -> Iterator[dict[str, Any]]:
    """A record for each case and client, and one for their mean, of at most `count` images on each side."""
    real = {k: images[:count] for k, images in _of_clients(arrays, "real").items()}
    references = {k: gaussian(extract(images), f"client {k}'s reference") for k, images in real.items()}
    for (setting, control), of_client in shown.items():
        sizes, values = [], []
        for k, images in of_client.items():
            made = gaussian(extract(images[:count]), f"client {k}'s {control or 'generated'} set")
            values.append(frechet_distance(made, references[k]))
            sizes.append((len(images[:count]), len(real[k])))
            who = {"style": str(arrays[f"client/{k}/style"]), "client": f"client-{k + 1}"}
            yield result(_name(what, control, sizes[-1:]), "score", values[-1], setting=setting, control=control, **who)
        mean = {"client": "all", "aggregate": "mean", "setting": setting, "control": control}
        yield result(_name(what, control, sizes), "score", float(np.mean(values)), **mean)


def _name(what: str, control: str, sizes: list[tuple[int, int]]) -> str:
    """The metric with its extractor, sample counts (the least and the most over clients) and reference split."""
    made, real = ("-".join(dict.fromkeys(map(str, (min(n), max(n))))) for n in zip(*sizes, strict=True))
    return f"fid:{what}:{made}-{control or 'generated'}:{real}-train"
