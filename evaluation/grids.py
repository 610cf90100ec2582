"""What figures show of a generative run: its sample grids, real images beside them, and re-styled ones."""

import numpy as np

from common.run_folder import RunFolder

REAL = 20


def samples(run: RunFolder) -> dict[str, np.ndarray]:
    """Images as bytes by `<method>/<variant>/...`: of all clients at the end, and as they were after snapshots."""
    labels = run.spec.labels
    prefix = f"{labels.get('method')}/{labels.get('variant') or 'default'}"
    found = {f"{prefix}/{key}": array for key, array in _shown(run.samples).items()}
    if run.spec.start:
        for round in run.snapshots:
            shown = _shown(run.after(round)).items()
            found |= {f"{prefix}/after-{round}/{key}": array for key, array in shown}
    return found


def _shown(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Grids, styles, re-styled images, and a few real ones."""
    kept = {key: array for key, array in arrays.items() if key.startswith(("grid/", "restyle/", "manifold/", "made/"))}
    kept |= {key: array for key, array in arrays.items() if key.startswith("client/") and key.endswith("/style")}
    return kept | {key: array[:REAL] for key, array in arrays.items() if key.endswith("/real")}
