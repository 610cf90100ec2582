"""Whether labels are read right, of all methods alike (`abilities.comparable.answers`)."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from common.errors import InputError
from common.run_folder import RunFolder
from evaluation.rows import result


def answers(run: RunFolder) -> Iterator[dict[str, Any]]:
    """The share of test images whose label is read right, the mean over clients and by client: by each client's own
    model, and by the model that all share (`role`). On a style that no client has (`domain`), the mean over images.

    A client's test images are all of its style's, of labels, too, that it has never seen. With `labels=own` each label
    counts as much as among its training images, in the mean over clients with a label that is tested; nothing where the
    run has not left who has which.
    """
    arrays = {key: array for key, array in run.features.items() if key.startswith("answers/")}
    if empty := [key for key, array in arrays.items() if not len(array)]:
        raise InputError(f"{run.features.file}: {empty[0]}: there is no image")
    had: dict[int, dict[int, int]] = defaultdict(dict)
    for row in run.table("partition.csv") if arrays else ():
        had[int(row["client"])][int(row["class"])] = int(row["images"])
    for role in ("own", "shared"):
        if f"answers/{role}" in arrays:
            right, client, label = (run.features[f"answers/{name}"] for name in (role, "client", "label"))
            by = {k: float(right[client == k].mean()) for k in np.unique(client).tolist()}
            yield result("accuracy", "fraction", float(np.mean(list(by.values()))), role=role)
            yield result("accuracy_worst_client", "fraction", min(by.values()), role=role)
            each = (_by_own_labels(right[client == k], label[client == k], had[k]) for k in by)
            if own := [share for share in each if share is not None]:
                yield result("accuracy", "fraction", float(np.mean(own)), role=role, setting="labels=own")
            for k, value in by.items():
                yield result("accuracy", "fraction", value, role=role, client=f"client-{k + 1}")
        for key in arrays:
            if key.count("/") == 2 and key.endswith(f"/{role}"):
                domain = key.split("/")[1]
                yield result("accuracy", "fraction", float(arrays[key].mean()), role=role, domain=domain)


def _by_own_labels(right: np.ndarray, labels: np.ndarray, had: dict[int, int]) -> float | None:
    """Accuracy by label, weighed by how many training images a client has of it; None if it has none of any."""
    of_each = {label: right[labels == label].mean() for label in np.unique(labels).tolist() if had.get(label)}
    return float(np.average(list(of_each.values()), weights=[had[label] for label in of_each])) if of_each else None
