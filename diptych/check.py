"""Finding out what is wrong with a scale before anything is trained."""

from diptych.assembly import build_algorithm
from diptych.study import load_study
from partitions import partition


def check(scale: str, data_root: str) -> None:
    """Build the model of every run of a scale, and deal out every data set that they ask for.

    Raises:
        InputError: something in the configuration or the data cannot be used.
    """
    specs = list(load_study(scale).specs.values())
    for spec in specs:
        build_algorithm(spec, classes=2).model()
    for data in {spec.data.model_dump_json(): spec for spec in specs}.values():
        partition(data.data, data_root, data.seed)
    print(f"{len(specs)} runs can be trained")
