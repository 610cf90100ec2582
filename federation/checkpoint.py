"""Checkpoints: written whole or not at all, and resumed exactly."""

from pathlib import Path

import torch

from common.errors import InputError
from common.files import written
from federation.simulation import Simulation


def save(path: Path, simulation: Simulation, key: str, seconds: float) -> None:
    """Write the simulation's state, and the seconds that it took to get there; `key` says which specification, code
    and device it belongs to."""
    with written(path) as part:
        torch.save({"key": key, "seconds": seconds, "state": simulation.state()}, part)


def resume(path: Path, simulation: Simulation, key: str) -> float | None:
    """Load the state saved at `path` and return the seconds that it took; None if there is none, or of another `key`.

    Raises:
        InputError: the file is damaged, or holds something else.
    """
    if not path.exists():
        return None
    try:
        if torch.load(path, map_location="cpu", weights_only=True)["key"] != key:  # that of a GPU, too
            return None
        saved = torch.load(path, weights_only=True)
        simulation.load(saved["state"])
        return float(saved["seconds"])
    except Exception as error:  # whatever unpickling a damaged file comes to, and what is missing from another one
        raise InputError(
            f"{path}: is no checkpoint of this run ({type(error).__name__}); delete it to train from the start"
        ) from error
