"""What figures show of a generative run: its sample grids, real images beside them, re-styled and translated ones."""

import numpy as np

from common.run_folder import RunFolder

REAL = 20
OF_EACH_CLASS = 3


def samples(run: RunFolder) -> dict[str, np.ndarray]:
    """Images as bytes by `<method>/<variant>/...`: of all clients at the end, and as they were after snapshots."""
    labels = run.labels
    prefix = f"{labels.get('method')}/{labels.get('variant') or 'default'}"
    at_the_end = _shown(run.samples) | _translated(run.samples)
    found = {f"{prefix}/{key}": array for key, array in at_the_end.items()}
    for round in run.snapshots:
        shown = _shown(run.after(round)).items()
        found |= {f"{prefix}/after-{round}/{key}": array for key, array in shown}
    return found


def _shown(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Grids, styles, re-styled images, and a few real ones."""
    kept = {key: array for key, array in arrays.items() if key.startswith(("grid/", "restyle/", "manifold/", "made/"))}
    kept |= {key: array for key, array in arrays.items() if key.startswith("client/") and key.endswith("/style")}
    return kept | {key: array[:REAL] for key, array in arrays.items() if key.endswith("/real")}


def _translated(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Images of each domain as they are, as other domains' and, where it is known, as they ought to look as these; as
    grids with a column for each class."""
    kept: dict[str, np.ndarray] = {}
    for key in [key for key in arrays if key.startswith(("translated/", "instance-normed/", "counterpart/"))]:
        source = key.split("/")[1]
        labels = arrays[f"label/{source}"]
        of_each = min(OF_EACH_CLASS, int(np.unique(labels, return_counts=True)[1].min()))
        chosen = np.array([np.flatnonzero(labels == c)[:of_each] for c in np.unique(labels)]).T
        kept |= {f"real/{source}": arrays[f"real/{source}"][chosen], key: arrays[key][chosen]}
    return kept
