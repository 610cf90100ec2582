"""What the data of a run are: its sources, and how evenly classes are dealt."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from common.run_folder import RunFolder
from evaluation.rows import result


def class_entropy(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Entropy of a client's class proportions in nats, the mean over clients; the ceiling is all classes alike."""
    from scipy.special import entr  # a third of a second, which only who measures this need pay

    counts: dict[int, list[int]] = defaultdict(list)
    for row in run.table("partition.csv"):
        counts[row["client"]].append(row["images"])
    if not counts:
        return
    shares = np.array(list(counts.values()), dtype=float)
    shares /= shares.sum(axis=1, keepdims=True)
    for value, control in ((entr(shares).sum(axis=1).mean(), ""), (np.log(shares.shape[1]), "even-classes")):
        yield result("class_entropy", "nats", float(value), control=control)


def sources(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Images (training and test) of the source of each style, and the classes that they share."""
    of_styles = run.provenance.get("sources", {})
    for style, source in of_styles.items():
        yield result("images", "count", source["images"], kind="dataset", style=style)
    if of_styles:
        yield result("classes", "count", max(source["classes"] for source in of_styles.values()), kind="dataset")
