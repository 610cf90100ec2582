"""How far codes of images fall into a cluster for each client: FedStyle's style features (Fig. 4), FedDVA's z and c
(Fig. 5)."""

from collections.abc import Iterator
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
    if styles := sorted(
        (k for k in run.features if k.startswith("client/") and k.endswith("/train/style")), key=_client
    ):
        share = max(2, samples // len(styles))
        rng = np.random.default_rng(random_key(run.spec.seed, "style features"))
        rows = [run.features[key][rng.permutation(len(run.features[key]))[:share]] for key in styles]
        clients = np.repeat([_client(key) for key in styles], [len(r) for r in rows])
        yield Points("", "style", np.concatenate(rows), clients)
    for role, place in encoders(run).items():
        owner = run.features["codes/test/client"]
        chosen = np.random.default_rng(random_key(run.spec.seed, "code map")).permutation(len(owner))[:samples]
        for code in CODES:
            yield Points(role, code, run.features[f"{place}codes/test/{code}"][chosen], owner[chosen])


def _client(key: str) -> int:
    return int(key.split("/")[1])


def clusters(run: RunFolder, *, samples: PositiveInt = 2000) -> Iterator[dict[str, Any]]:
    """Mean silhouette of codes by client, and where clients share styles by style: 1 for separate clusters, 0 for
    overlapping ones.

    The control has the clients' names shuffled.
    """
    for role, code, features, client in points(run, samples):
        if len(np.unique(client)) < 2:
            continue
        from sklearn.metrics import silhouette_score  # two seconds to import, for the runs that have codes

        shuffled = np.random.default_rng(random_key(run.spec.seed, "shuffled clients")).permutation(client)
        cases = [("client", client, ""), ("client", shuffled, "shuffled-labels")]
        if not role:
            cases.append(("style", np.array([str(run.features[f"client/{k}/style"]) for k in client]), ""))
        for label, groups, control in cases:
            score, setting = float(silhouette_score(features, groups)), f"features={code};label={label}"
            yield result("silhouette", "score", score, setting=setting, role=role, control=control)
