"""Images that say themselves what they show, a judge who reads it, and evaluations as a paper's file asks for them."""

from functools import partial
from pathlib import Path

import numpy as np

from common.run_folder import RunFolder
from diptych.study import load_study
from evaluation import judge
from evaluation.registry import EVALUATIONS
from tests.evaluation.test_frechet import SPEC

QUALITY = (
    {"metric": "accuracy", "setting": "judge;target=label", "value": 0.9},
    {"metric": "accuracy", "setting": "judge;target=client", "value": 0.8},
    {"metric": "label_agreement", "setting": "judge;views=two", "value": 0.7},
)


def picture(labels, clients=0, seed: int | None = None) -> np.ndarray:
    """Label and client in the first two pixels; the others black, or drawn."""
    shape = (len(labels), 1, 8, 8)
    x = np.zeros(shape, np.uint8) if seed is None else np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    x[:, 0, 0, 0], x[:, 0, 0, 1] = labels, clients
    return x


class Reader:
    """The judge of such images, whose features are the last row."""

    quality = QUALITY
    ceiling = judge.Judge.ceiling

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return x[:, 0, -1, :4].astype(float), x[:, 0, 0, 0].astype(int), x[:, 0, 0, 1].astype(int)


def left(folder: Path, arrays: dict[str, np.ndarray], more: str = "", *, dataset: str = "mnist") -> RunFolder:
    """The folder of a run of two clients, of the styles ink and pen."""
    spec = SPEC.replace("{a: digits-plain}, clients_per_style: 3", "{ink: digits-plain, pen: digits-bold}")
    (folder / "spec.yaml").write_text(spec.replace("dataset: mnist", f"dataset: {dataset}") + more)
    run = RunFolder(folder)
    run.write_provenance({"status": "ok"})
    rows = [{"client": k, "style": style, "class": 0, "images": 9} for k, style in enumerate(("ink", "pen"))]
    run.write_table("partition.csv", rows, list(rows[0]))
    run.write_arrays("samples.npz", arrays)
    return run


def protocol(paper: str, entry: str) -> partial:
    """An evaluation with the settings of a paper's file."""
    settings = dict(load_study("tiny").papers[paper].evaluation[entry])
    return partial(EVALUATIONS[settings.pop("name", entry)], **settings)
