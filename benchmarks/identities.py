"""What PaDPaF's probe of identities (Fig. 18) finds where there is nothing to find: codes are noise, whoever's face
each is. It is fitted and scored on the same faces, as published.

python -m benchmarks.identities 512 20 250 500 1000
"""

import sys

import torch

from evaluation.codes import DECAY, TOPS
from evaluation.probe import ProbeSettings, accuracies_in

SETTINGS = ProbeSettings(epochs=50, batch_size=256, lr=1e-1, decay=DECAY)
"""As config/papers/padpaf.yaml has them."""


def remembered(features: int, faces: int, people: int, seed: int) -> list[float]:
    """How often somebody is among the likeliest one, ten and fifty, given codes (people x faces, features)."""
    draw = torch.Generator().manual_seed(seed)
    codes = torch.randn(1, people * faces, features, generator=draw)
    lots = torch.arange(people).repeat_interleave(faces)[None]
    return accuracies_in(TOPS, (codes, lots), (codes, lots), people, SETTINGS, seed)[:, 0].tolist()


def main(features: int, faces: int, *people: int) -> None:
    """A line for each number of people."""
    for count in people:
        shares = " ".join(f"{share:.3f}" for share in remembered(features, faces, count, seed=0))
        print(f"{features} features, {faces} faces of each of {count} people: {shares}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
