"""How far codes of images fall into a cluster for each client: FedStyle's style features (Fig. 4), FedDVA's z and c
(Fig. 5)."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from pydantic import PositiveInt

from common.keys import random_key
from common.run_folder import RunFolder
from evaluation.encoders import CODES, encoders
from evaluation.rows import result


class Points(NamedTuple):
    """Codes of some images.

    Attributes:
        role, code: by whose encoders, and which.
        features: (images, dimensions).
        client: whose the images are, (images,).
    """

    role: str
    code: str
    features: np.ndarray
    client: np.ndarray


def points(run: RunFolder, samples: int) -> Iterator[Points]:
    """Style features of training images, or z and c of test images, of at most `samples` over all clients."""
    if styles := _style_features(run, "train"):
        share = max(2, samples // len(styles))
        rng = np.random.default_rng(random_key(run.spec.seed, "style features"))
        yield _style_points({k: x[rng.permutation(len(x))[:share]] for k, x in styles.items()})
    for role, place in encoders(run).items():
        owner = run.features["codes/test/client"]
        chosen = np.random.default_rng(random_key(run.spec.seed, "code map")).permutation(len(owner))[:samples]
        for code in CODES:
            yield Points(role, code, run.features[f"{place}codes/test/{code}"][chosen], owner[chosen])


def same_images(run: RunFolder, samples: int) -> Iterator[Points]:
    """Style features of test images of which all clients of a style have the same ones, where there are several."""
    styles = _style_features(run, "test")
    if len(np.unique(_styles(run, [*styles]))) < len(styles):
        share = max(2, samples // len(styles))
        yield _style_points({k: x[_spread_out(len(x), share)] for k, x in styles.items()})


def _style_features(run: RunFolder, part: str) -> dict[int, np.ndarray]:
    """Client -> (images, dimensions) of style features, in the order of clients."""
    keys = (re.fullmatch(rf"client/(\d+)/{part}/style", key) for key in run.features)
    return {k: run.features[f"client/{k}/{part}/style"] for k in sorted(int(key[1]) for key in keys if key)}


def _style_points(of_clients: dict[int, np.ndarray]) -> Points:
    owners = np.repeat([*of_clients], [len(rows) for rows in of_clients.values()])
    return Points("", "style", np.concatenate([*of_clients.values()]), owners)


def clusters(run: RunFolder, *, samples: PositiveInt = 2000) -> Iterator[dict[str, Any]]:
    """Mean silhouette of codes by client, and where clients share styles by style: 1 for separate clusters, 0 for
    overlapping ones. Of a single client, or style, there are no clusters, nor of one image of each.

    A control has the clients' names shuffled. Codes of different clients are by different encoders, and may be apart
    for that alone, whatever the images. So with style features there are two more: `one-encoder` has all images by one
    client's, in the mean over clients; `same-images` has for each client the same test images of its style by its own,
    where clients share styles.
    """
    for role, code, features, client in points(run, samples):
        shuffled = np.random.default_rng(random_key(run.spec.seed, "shuffled clients")).permutation(client)
        cases = {("client", ""): client, ("client", "shuffled-labels"): shuffled}
        if not role:
            cases["style", ""] = _styles(run, client)
        for (label, control), groups in cases.items():
            yield from _silhouette(
                [features], groups, setting=f"features={code};label={label}", role=role, control=control
            )
    if "crossed/style" in run.features:
        by_encoder, owner = np.moveaxis(run.features["crossed/style"], 1, 0), run.features["crossed/client"]
        for label, groups in (("client", owner), ("style", _styles(run, owner))):
            yield from _silhouette(by_encoder, groups, setting=f"features=style;label={label}", control="one-encoder")
    for same in same_images(run, samples):
        yield from _silhouette(
            [same.features], same.client, setting="features=style;label=client", control="same-images"
        )


def _spread_out(there: int, wanted: int) -> np.ndarray:
    """So many of the numbers below `there`, or all, evenly spread over them."""
    return np.linspace(0, there - 1, min(wanted, there)).round().astype(int)


def _styles(run: RunFolder, clients: Iterable[int]) -> np.ndarray:
    return np.array([str(run.features[f"client/{k}/style"]) for k in clients])


def are_clusters(groups: np.ndarray) -> bool:
    """Whether there are several groups, and not each has a single image."""
    return 1 < len(np.unique(groups)) < len(groups)


def _silhouette(features: Iterable[np.ndarray], groups: np.ndarray, **columns: str) -> Iterator[dict[str, Any]]:
    """The mean over features of the same images; of a single group there is none."""
    from sklearn.metrics import silhouette_score  # two seconds to import, for the runs that have codes

    if are_clusters(groups):
        score = float(np.mean([silhouette_score(f, groups) for f in features]))
        yield result("silhouette", "score", score, **columns)
