"""Measuring runs: every evaluation that the run's paper asks for, as complete records."""

from collections.abc import Iterator
from typing import Any

from common.errors import choose
from common.provenance import versions
from common.run_folder import RunFolder
from common.settings import checked, strict_call
from diptych.published import reference
from diptych.study import load_study
from evaluation.registry import EVALUATIONS
from evaluation.rows import diverged


def measure(run: RunFolder) -> list[dict[str, Any]]:
    """The records of a run: what each evaluation of its paper (at its scale) returns, and where the numbers come from.

    Raises:
        InputError: the run's folder is incomplete, or its paper or scale is not in `config/`.
    """
    spec, paper = run.spec, run.spec.labels.get("paper", "")
    study = load_study(spec.scale)
    choose(f"{run.path}/spec.yaml: labels.paper", paper, study.papers)
    run.check()
    came_from = origin(run)
    records = []
    for entry, settings in study.papers[paper].evaluation.items():
        how_far = reference(spec.scale).distance(spec, entry)
        for record in _evaluated(run, entry, settings):
            variant = ";".join(filter(None, [run.labels.get("variant"), record.get("variant")]))
            played = run.provenance["sources"].get(record["style"], {}).get("name", "")
            records.append(
                {
                    **run.labels,
                    "status": "ok",
                    "source": played,
                    **record,
                    "variant": variant,
                    "scale": spec.scale,
                    "seed": spec.seed,
                    "run": spec.run,
                    **how_far,
                    **came_from,
                }
            )
    return records


def _evaluated(run: RunFolder, entry: str, settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if run.provenance["status"] == "diverged" and entry == "linear-probe":
        yield from _diverged(run)
        return
    yield from prepared(entry, settings, run)


def prepared(entry: str, settings: dict[str, Any], run: RunFolder) -> Iterator[dict[str, Any]]:
    """An evaluation of a run with its settings checked; nothing is read or computed before it is iterated over.

    Args:
        entry: under which it stands in a paper's `evaluation`; its name, unless the settings have a `name`.

    Raises:
        InputError: there is no such evaluation, or its settings are wrong.
    """
    name = choose("evaluation", settings.get("name", entry), EVALUATIONS)
    rest = {key: value for key, value in settings.items() if key != "name"}
    return checked(strict_call(EVALUATIONS[name]), f"evaluation.{entry}", rest, run=run)


def _diverged(run: RunFolder) -> Iterator[dict[str, Any]]:
    """A row that says so, for each cell that the run was to fill."""
    data = run.spec.data
    for style in data.styles:
        for protocol in ("generalization", "personalization") if style in data.seen else ("generalization",):
            yield diverged("accuracy", "fraction", style=style, protocol=protocol)


def origin(run: RunFolder) -> dict[str, Any]:
    """Where a run's numbers come from: the columns ORIGIN of a record."""
    p = run.provenance
    digests = sorted({source["sha256"][:12] for source in p.get("sources", {}).values()})
    return {
        "commit": p.get("commit", ""),
        "dirty": p.get("dirty", ""),
        "code": p.get("code", ""),
        "spec": p.get("spec", run.spec.digest),
        "sources_sha256": " ".join(digests),
        "versions": versions(p.get("packages", {})),
        "hardware": p.get("hardware", ""),
        **{key: p.get(key, "") for key in ("wall_s", "peak_memory_mb", "bytes_up", "bytes_down")},
    }
