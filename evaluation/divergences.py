"""FedDVA's divergences, and its constraint (Eq. 5, 6 and 26)."""

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
from evaluation.encoders import CODES, encoders
from evaluation.rows import Part, averaged, result

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
        yield from (row | {"role": role} for row in averaged(_of_encoders(run, place, members, draws)))
    if encoders(run):
        yield result("xi_over_dim_c", "count", _xi(run))
        yield result("clients", "count", len(np.unique(run.features["codes/test/client"])))
        task = "classification" if run.spec.algorithm.get("classify", 1.0) else "reconstruction"
        for code in CODES:
            latent = run.features[f"codes/test/{code}"].shape[1]
            yield result("latent_dim", "count", latent, setting=f"latent={code};task={task}")


def _of_encoders(run: RunFolder, place: str, members: int, draws: int) -> Iterator[Part]:
    keys = [key for code in CODES for key in (code, f"{code}-log-variance")]
    arrays = {key: torch.from_numpy(run.features[f"{place}codes/test/{key}"]).contiguous() for key in keys}
    owner = torch.from_numpy(run.features["codes/test/client"])
    draw = torch.Generator().manual_seed(random_key(run.spec.seed, "divergences"))
    latent = arrays["c"].shape[1]
    for k in owner.unique().tolist():
        rows = torch.nonzero(owner == k).squeeze(1)[:members]
        q_z, q_c = ((arrays[code][rows], arrays[f"{code}-log-variance"][rows]) for code in CODES)
        found = _divergences(q_z, q_c, draws, draw, _xi(run) * latent)
        numbers = [(name, UNITS.get(name, "nats"), value) for name, value in found.items()]
        yield Part({}, numbers, {"client": f"client-{k + 1}"})


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
