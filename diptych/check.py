"""Finding out what is wrong with a scale before anything is trained."""

from pathlib import Path

from common.run_folder import write_csv
from diptych.assembly import build_algorithm
from diptych.study import load_study
from partitions import load


def check(scale: str, data_root: str, out: Path | None) -> None:
    """Build the algorithm of every run of a scale; load, and so fetch and verify, every source; list them in `out`.

    Raises:
        InputError: something in the configuration or the data cannot be used.
    """
    specs = load_study(scale).specs
    for spec in {spec.digest: spec for spec in specs.values()}.values():
        build_algorithm(spec, classes=2).model()
    expressions = {(expression, spec.data.image_size) for spec in specs.values() for expression in spec.data.styles.values()}
    rows = []
    for expression, size in sorted(expressions):
        source = load(expression, size, data_root)
        rows.append({"source": expression, "images": len(source.labels), "classes": source.classes, "sha256": source.sha256})
    if out is not None:
        write_csv(out, rows, ["source", "images", "classes", "sha256"])
