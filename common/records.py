"""A record: one measured number with all that identifies it."""

IDENTITY = [
    "paper",
    "table",
    "kind",
    "dataset",
    "style",
    "domain",
    "client",
    "digit",
    "split",
    "clients_per_style",
    "method",
    "variant",
    "ssl",
    "protocol",
    "role",
    "sync_steps",
    "setting",
    "metric",
    "unit",
    "aggregate",
]
"""The columns that name a cell, as in the published tables (results/paper)."""

OURS = ["value", "status", "control", "source", "stand_in", "scale", "seed", "run"]
"""status: ok or diverged. control: what was done to make a floor or ceiling. source: the images that played the style;
stand_in: `yes` if they are not those of the paper."""

EVIDENCE = ["differs", "budget"]
"""How far the run is from what was published. differs: the dotted keys of its specification, and of what it was
measured with, that are other than published, with spaces in between; `start.` before those of the run that it starts
from; `unknown` for a run that no paper's file describes. budget: the share of the published training, in images that
passed, those of the runs before it included."""

ORIGIN = [
    "commit",
    "dirty",
    "code",
    "spec",
    "sources_sha256",
    "versions",
    "hardware",
    "wall_s",
    "peak_memory_mb",
    "bytes_up",
    "bytes_down",
]
"""Where the number comes from."""

COLUMNS = IDENTITY + OURS + EVIDENCE + ORIGIN
