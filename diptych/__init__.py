"""The command line, and what ties the packages together.

Installing adds the names below to an environment, not `diptych` alone. The folders stand at the top of the tree, where
a reader looks for `methods` and `baselines`, and are imported by the names that they have there: to install them below
one name, every import would have to spell a folder that is not there (`diptych.methods`), which editable installations,
type checkers and editors follow only by settings of their own. The price is that somebody else's `common` may stand
before ours, so a clash is refused here; an environment of its own has none.
"""

import importlib.util
from pathlib import Path

PACKAGES = (
    *("abilities", "attacks", "baselines", "common", "evaluation", "federation", "methods", "networks", "objectives"),
    *("partitions", "reporting", "snakemake_logger_plugin_diptych"),
)
"""What is installed beside this package."""


def _refuse_others(names: tuple[str, ...]) -> None:
    """ImportError where one of these names leads to a package that is not beside this one."""
    here = Path(__file__).resolve().parent.parent
    for name in names:
        found = importlib.util.find_spec(name)
        origin = Path(found.origin) if found and found.origin else None
        if origin is None or origin.resolve().parent.parent != here:
            instead = f"'{name}' is {origin}" if origin else f"there is no '{name}'"
            raise ImportError(
                f"{instead}, and not the one of diptych in {here}; install diptych in an environment of its own"
            )


_refuse_others(PACKAGES)
