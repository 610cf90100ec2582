"""Which algorithms there are: the files of `baselines` and `methods`. The file's name is the algorithm's name."""

from common.codehash import ROOT, code_hash
from common.errors import choose

PACKAGES = ("baselines", "methods")
TRAINING = (
    "partitions",
    "diptych.assembly",
    "diptych.given",
    "federation.simulation",
    "abilities",
)
"""What every run passes through, whatever its algorithm. Not among it is `diptych.training`, which says what is kept
of a run and when it is scored: after a change there delete the run."""
LISTENING = "attacks.listeners"
"""What those do that somebody listens to."""


def algorithm_modules() -> dict[str, str]:
    """Algorithm name -> dotted module name."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).glob("*.py"))]
    return {path.stem.replace("_", "-"): f"{path.parent.name}.{path.stem}" for path in files if path.stem != "__init__"}


def algorithm_module(name: str) -> str:
    """The module of an algorithm; InputError names the nearest one and all of them if there is no such algorithm."""
    modules = algorithm_modules()
    return modules[choose("algorithm.name", name, modules)]


def training_code(algorithm: str, *, overheard: bool = False) -> str:
    """The hash of all code that decides the numbers of a run of this algorithm, to which somebody may listen."""
    return code_hash(*TRAINING, algorithm_module(algorithm), *([LISTENING] if overheard else []))
