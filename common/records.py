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

COLUMNS = IDENTITY + OURS + ORIGIN
