"""Which algorithms there are: the files of `baselines` and `methods`. The file's name is the algorithm's name."""

from common.codehash import ROOT
from common.errors import choose

PACKAGES = ("baselines", "methods")


def algorithm_modules() -> dict[str, str]:
    """Algorithm name -> dotted module name."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).glob("*.py"))]
    return {path.stem.replace("_", "-"): f"{path.parent.name}.{path.stem}" for path in files if path.stem != "__init__"}


def algorithm_module(name: str) -> str:
    """The module of an algorithm; InputError names the nearest one and all of them if there is no such algorithm."""
    modules = algorithm_modules()
    return modules[choose("algorithm.name", name, modules)]
