"""By whose encoders FedDVA's codes are, and whose their variance is: the encoder's or the image's."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from common.run_folder import RunFolder
from evaluation.rows import result

CODES = ("z", "c")
ENCODERS = {"shared-encoder": "", "own-encoder": "own/"}
"""The role of a number, and where the codes are that it is of: those by the encoders as the server last put them
together, and those by each client's own, as its local training left them (what the authors' notebook shows)."""


def encoders(run: RunFolder) -> dict[str, str]:
    """Those of ENCODERS of which the run has left codes."""
    return {role: place for role, place in ENCODERS.items() if f"{place}codes/test/z" in run.features}


def code_variance(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Whose the variance of z and of c is, if every client's encoders are given every client's test images.

    A client's images are only ever encoded by its own encoders, so that clusters by client can be either's doing: if
    encoders differ, the same image is elsewhere for each of them. See `variance_shares`.
    """
    for role, place in encoders(run).items():
        for code in CODES if f"{place}crossed/z" in run.features else ():
            shares = variance_shares(run.features[f"{place}crossed/{code}"], run.features["codes/test/client"])
            for of, share in shares.items():
                yield result("variance_share", "fraction", share, setting=f"features={code};of={of}", role=role)


def variance_shares(codes: np.ndarray, owner: np.ndarray) -> dict[str, float]:
    """Two-way analysis of variance, images by encoders: shares of the sum of squares, all dimensions together.

    `encoder`: between encoders. `client`: between the clients that images are of. `image`: between images of a client.
    `rest`: what an encoder makes of an image beyond that. Every encoder is given every image, so that the parts are
    orthogonal and add up to 1. Of mere noise each part gets its degrees of freedom: with four encoders a quarter is the
    images'.

    Args:
        codes: (images, encoders, latent).
        owner: whose the images are, (images,).

    Returns:
        Nothing, if all codes are the same.
    """
    codes = codes.astype(float) - codes.mean(axis=(0, 1), dtype=float)
    images, encoders, _ = codes.shape
    of_encoders, of_images = codes.mean(axis=0), codes.mean(axis=1)
    _, client = np.unique(owner, return_inverse=True)
    of_clients = np.stack([of_images[client == k].mean(axis=0) for k in range(client.max() + 1)])[client]
    total = float(np.square(codes).sum())
    sums = {
        "encoder": images * np.square(of_encoders).sum(),
        "client": encoders * np.square(of_clients).sum(),
        "image": encoders * np.square(of_images - of_clients).sum(),
        "rest": np.square(codes - of_encoders - of_images[:, None]).sum(),
    }
    return {of: float(part) / total for of, part in sums.items()} if total else {}
