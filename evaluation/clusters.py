"""Style features of all clients: how far they fall into a cluster per client."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from pydantic import PositiveInt

from common.keys import random_key
from common.run_folder import RunFolder


def style_features(run: RunFolder, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Style features of training images (images, dimensions) and whose they are, at most `samples` over all clients.

    Both are empty if the run has no style features.
    """
    keys = sorted((k for k in run.features if k.startswith("client/") and k.endswith("/train/style")), key=_client)
    if not keys:
        return np.zeros((0, 0)), np.zeros(0, int)
    share = max(2, samples // len(keys))
    rng = np.random.default_rng(random_key(run.spec.seed, "style features"))
    rows = [run.features[key][rng.permutation(len(run.features[key]))[:share]] for key in keys]
    return np.concatenate(rows), np.repeat([_client(key) for key in keys], [len(r) for r in rows])


def _client(key: str) -> int:
    return int(key.split("/")[1])


def style_clusters(run: RunFolder, *, samples: PositiveInt = 2000) -> Iterator[dict[str, Any]]:
    """Mean silhouette of style features by client and by style: 1 for separate clusters, 0 for overlapping ones.

    The control has the clients' names shuffled.
    """
    features, clients = style_features(run, samples)
    if not len(features):
        return
    from sklearn.metrics import silhouette_score  # two seconds to import, for the runs that have style features

    styles = np.array([str(run.features[f"client/{k}/style"]) for k in clients])
    rng = np.random.default_rng(random_key(run.spec.seed, "shuffled clients"))
    for label, groups, control in (
        ("client", clients, ""),
        ("style", styles, ""),
        ("client", rng.permutation(clients), "shuffled-labels"),
    ):
        yield {
            "kind": "result",
            "style": "all",
            "setting": f"features=style;label={label}",
            "metric": "silhouette",
            "unit": "score",
            "aggregate": "none",
            "value": float(silhouette_score(features, groups)),
            "control": control,
        }
