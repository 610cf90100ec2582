"""FedDVA's divergences, and its images with codes exchanged: the paper shows pictures (Fig. 3, 4, 10, 11), these are
numbers for them."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from pydantic import PositiveInt
from torch import Tensor
from torch.distributions import Normal

from common.keys import random_key
from common.run_folder import RunFolder
from evaluation.encoders import CODES, ENCODERS, encoders
from evaluation.judge import Judge, load
from evaluation.rows import result

UNITS = {"constraint_met": "fraction"}
"""Of what `divergences` measures; nats otherwise."""
Gaussian = tuple[Tensor, Tensor]


def _xi(run: RunFolder) -> float:
    """The threshold xi_k for each dimension of c; 8 is FedDVA's default."""
    return float(run.spec.algorithm.get("xi", 8.0))


def divergences(run: RunFolder, *, members: PositiveInt = 500, draws: PositiveInt = 32) -> Iterator[dict[str, Any]]:
    """The divergences of Eq. 5 and 6 in nats, on test images, by client and in the mean; and the constraint itself.

    `role` says by whose encoders.
    `mc` is a Monte Carlo estimate over `draws` from each posterior, with the mixture of at most `members` test images;
    Eq. 26 bounds it. `constraint_met` is the share of images for which Eq. 5 holds by that estimate.
    """
    for role, place in encoders(run).items():
        yield from (row | {"role": role} for row in _of_encoders(run, place, members, draws))
    if encoders(run):
        yield result("xi_over_dim_c", "count", _xi(run))
        yield result("clients", "count", len(np.unique(run.features["codes/test/client"])))
        task = "classification" if run.spec.algorithm.get("classify", 1.0) else "reconstruction"
        for code in CODES:
            latent = run.features[f"codes/test/{code}"].shape[1]
            yield result("latent_dim", "count", latent, setting=f"latent={code};task={task}")


def _of_encoders(run: RunFolder, place: str, members: int, draws: int) -> Iterator[dict[str, Any]]:
    keys = [key for code in CODES for key in (code, f"{code}-log-variance")]
    arrays = {key: torch.from_numpy(run.features[f"{place}codes/test/{key}"]).contiguous() for key in keys}
    owner = torch.from_numpy(run.features["codes/test/client"])
    draw = torch.Generator().manual_seed(random_key(run.spec.seed, "divergences"))
    latent = arrays["c"].shape[1]
    found: dict[str, list[float]] = {}
    for k in owner.unique().tolist():
        rows = torch.nonzero(owner == k).squeeze(1)[:members]
        q_z, q_c = ((arrays[code][rows], arrays[f"{code}-log-variance"][rows]) for code in CODES)
        for name, value in _divergences(q_z, q_c, draws, draw, _xi(run) * latent).items():
            found.setdefault(name, []).append(value)
            yield result(name, UNITS.get(name, "nats"), value, client=f"client-{k + 1}")
    for name, values in found.items():
        yield result(name, UNITS.get(name, "nats"), float(np.mean(values)))


def _normal(of: Gaussian) -> Normal:
    return Normal(of[0], (of[1] / 2).exp())


def _divergences(q_z: Gaussian, q_c: Gaussian, draws: int, draw: torch.Generator, xi: float) -> dict[str, float]:
    z, c = _normal(q_z), _normal(q_c)
    pairs = Normal(c.loc[:, None], c.scale[:, None]), Normal(c.loc[None], c.scale[None])
    noise = torch.randn(draws, *c.loc.shape, generator=draw)
    drawn = c.loc + c.scale * noise  # (draws, images, latent)
    own, prior = c.log_prob(drawn).sum(-1), Normal(0.0, 1.0).log_prob(drawn).sum(-1)
    mixture = torch.stack([_log_mixture(c, part) for part in drawn])
    to_mixture, to_prior = (own - mixture).mean(dim=0), _kl_to_prior(c)
    return {
        "kl_z": float(_kl_to_prior(z).mean()),
        "kl_c": float(to_prior.mean()),
        "kl_posterior_to_client_mixture_mc": float(to_mixture.mean()),
        "kl_posterior_to_client_mixture_eq26": float(torch.distributions.kl_divergence(*pairs).sum(-1).mean()),
        "kl_client_mixture_to_prior": float((mixture - prior).mean()),
        "constraint_met": float((to_prior - to_mixture >= xi).float().mean()),
    }


def _kl_to_prior(q: Normal) -> Tensor:
    return torch.distributions.kl_divergence(q, Normal(torch.zeros_like(q.loc), torch.ones_like(q.scale))).sum(-1)


def _log_mixture(members: Normal, points: Tensor) -> Tensor:
    """log of the mean of the members' densities at points (points, latent)."""
    return members.log_prob(points[:, None]).sum(-1).logsumexp(dim=1) - math.log(len(members.loc))


def swaps(run: RunFolder) -> Iterator[dict[str, Any]]:
    """What the judge says of images with one code exchanged for that of the next client's image.

    An image is edited by its own client's decoder: `swap=c` puts in another's c, `swap=z` another's z.
    `label_agreement` and `mark_agreement`: the judge reads the label, the client's mark, of the image that was edited.
    `decoder=other`: the same by the decoder of the client whose code was put in. `client_accuracy`: the client read
    from the image is the one whose c it has. The control is the reconstruction, with nothing exchanged; the ceiling,
    what the judge says of real test images.

    `role` says by whose encoders codes are. `reconstruction_error`: see `_error`.

    On faces, whose labels are identities, `attribute_change` instead: another hairstyle is read than before.
    """
    arrays, faces = run.samples, run.spec.data.dataset == "celeba"
    pairs = sorted({tuple(map(int, key.split("/")[1:3])) for key in arrays if key.startswith("swap/")})
    if not pairs:
        return
    judge, clients = load(run.judge), sorted({a for a, _ in pairs})
    for role, place in ENCODERS.items():
        if f"{place}client/{clients[0]}/reconstructed" not in arrays:
            continue
        error = float(np.mean([_error(arrays, place, k) for k in clients]))
        yield result("reconstruction_error", "score", error, setting="", role=role)
        hits = _hits(arrays, place, pairs, judge)
        for (metric, setting, control), values in hits.items():
            if metric == "client_accuracy" or (metric == "attribute_change") == faces:
                value = float(np.mean(values))
                yield result(metric, "fraction", value, setting=setting, control=control, role=role)
    of = {"client_accuracy": "client"} | ({} if faces else {"label_agreement": "label", "mark_agreement": "client"})
    for metric, target in of.items():
        yield from judge.ceiling("accuracy", f"target={target}", of=metric)


def _hits(
    arrays: dict[str, np.ndarray], place: str, pairs: list[tuple[int, ...]], judge: Judge
) -> dict[tuple[str, str, str], list[float]]:
    """(metric, setting, control) -> its share of right answers for every pair of clients, and decoder."""
    hits: dict[tuple[str, str, str], list[float]] = {}

    def note(metric: str, setting: str, right: np.ndarray, control: str = "") -> None:
        hits.setdefault((metric, setting, control), []).append(float(right.mean()))

    clients = {a for a, _ in pairs}
    labels = {k: arrays[f"client/{k}/real/labels"] for k in clients}
    before = {k: judge(arrays[f"client/{k}/real"])[2] for k in clients}
    for a, b in pairs:
        n = len(arrays[f"{place}swap/{a}/{b}/z"])
        _, label, mark = judge(arrays[f"{place}client/{a}/reconstructed"][:n])
        note("label_agreement", "", label == labels[a][:n], "reconstruction")
        note("mark_agreement", "", mark == a, "reconstruction")
        note("client_accuracy", "", mark == a, "reconstruction")
        for decoder, code in ((a, "z"), (b, "c")):
            _, label, mark = judge(arrays[f"{place}swap/{a}/{b}/{code}"])
            note("client_accuracy", f"decoder of {code}", mark == b)
            for edited, swap in ((a, "swap=c"), (b, "swap=z")):
                setting = swap if decoder == edited else f"{swap};decoder=other"
                note("label_agreement", setting, label == labels[edited][:n])
                note("mark_agreement", setting, mark == edited)
                note("attribute_change", f"{setting};attribute=hair", mark != before[edited][:n])
    return hits


def _error(arrays: dict[str, np.ndarray], place: str, client: int) -> float:
    """Mean squared difference of a pixel in [0, 1] between images and their reconstructions."""
    keys = f"client/{client}/real", f"{place}client/{client}/reconstructed"
    real, again = (arrays[key].astype(float) / 255 for key in keys)
    return float(np.square(real - again).mean())
