"""How far a number is from what was published: the keys in which its run differs, and its share of the training."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from common.errors import InputError
from common.spec import Spec
from common.work import passes_of
from diptych.study import Cell, Study, load_study, unseeded
from evaluation.generalisation import read_after

UNKNOWN = "unknown"
NAMES = {"run", "scale", "labels", "seed", "start"}
"""What a run is called, and what is repeated; whatever it starts from is compared by itself."""
KEPT = ("features", "inversion", "samples", "score_every", "snapshots", "training.channels_last")
"""Keys that change nothing that is trained: what is kept of a run, and how it lies in memory."""
USES = {
    "asked": ("samples",),
    "attacks": ("samples", "snapshots"),  # the best of those rounds, too
    "clusters": ("samples",),
    "code-variance": ("samples",),
    "curves": ("score_every",),
    "disentanglement": ("samples",),
    "divergences": ("samples",),
    "fid": ("samples",),
    "identity-probe": ("samples",),
    "inversion": ("inversion",),
    "membership": ("samples",),
    "moved": ("samples",),
    "probe": ("samples",),
    "translation": ("samples",),
}
"""Evaluation -> what it depends on of the above."""
JUDGED = ("asked", "attacks", "judge", "moved")
"""Evaluations in the eyes of a judge, whose settings then count. Distances on its features say so in their names."""
NAMED = ("controls", "extractors", "test_images")
"""Settings of evaluations whose value stands in the record itself, or that say which records there are."""
ALONE = {"class-entropy": ("data",), "judge": ("data",), "sources": ("data.styles",)}
"""Evaluation -> all that it depends on, of those that do not depend on the training."""


@dataclass(frozen=True)
class Reference:
    """What the runs of a study are compared with.

    Attributes:
        runs: by name, to find those that others start from.
        published: the same as published, by name without the seed. Cells that share a run here may have been published
            with several: the first is of the cell that the run is named after.
    """

    study: Study
    runs: Mapping[str, Spec]
    published: Mapping[str, Sequence[Spec]]

    @classmethod
    def of(cls, study: Study) -> "Reference":
        """What the study itself asks for."""
        forms: dict[str, dict[str, Spec]] = defaultdict(dict)
        for cell in study.cells:
            forms[unseeded(cell.spec.run)].setdefault(cell.published.digest, cell.published)
        return cls(study, study.specs, {run: [*of_run.values()] for run, of_run in forms.items()})

    def distance(self, spec: Spec, entry: str, cell: Cell | None = None) -> dict[str, str]:
        """The columns EVIDENCE of what is measured on this run under an entry of its paper's `evaluation`.

        Of a cell, against what that was published with; otherwise against whatever the run is for, of which the keys
        are all and the share is the smallest. Nothing is known of a run that no paper describes, or that starts from
        one that the study has not, such as with a seed of the user's own.
        """
        forms = [cell.published] if cell else self.published.get(unseeded(spec.run), [])
        if not forms or (spec.start and spec.start not in self.runs):
            return {"differs": UNKNOWN, "budget": ""}
        evaluation = str(self.study.papers[spec.labels["paper"]].evaluation.get(entry, {}).get("name", entry))
        keys = set[str]()
        for theirs in forms:
            keys |= {key for key in self._different(spec, theirs) if _counts(key, evaluation)}
            keys |= {*self._measured_otherwise(spec, theirs, entry, evaluation)}
        share = min(self._share(spec, theirs, entry) for theirs in forms)
        return {"differs": " ".join(sorted(keys)), "budget": f"{share:.3g}"}

    def of_cell(self, cell: Cell) -> dict[tuple[str, ...], tuple[str, ...]]:
        """EVIDENCE of what is measured on a cell's run -> that of the cell alone; none where the run is for no others.

        Whether a key counts is for the evaluation to say and not for the cell, so that the one follows from the other.
        """
        if len(self.published[unseeded(cell.spec.run)]) == 1:
            return {}
        entries = self.study.papers[cell.spec.labels["paper"]].evaluation
        both = ((self.distance(cell.spec, entry), self.distance(cell.spec, entry, cell)) for entry in entries)
        return {tuple(of_run.values()): tuple(of_cell.values()) for of_run, of_cell in both}

    def _different(self, spec: Spec, theirs: Spec) -> Iterator[str]:
        yield from differing(*(s.model_dump(mode="json", exclude=NAMES) for s in (spec, theirs)))
        if unseeded(spec.start) != unseeded(theirs.start):
            yield "start"
        elif spec.start:
            keys = self._different(self.runs[spec.start], self._named(spec.start))
            yield from (f"start.{key}" for key in keys if not _below(key, KEPT))

    def _named(self, run: str) -> Spec:
        """What a run that others start from was published as.

        Raises:
            InputError: in several ways, of which nobody says which.
        """
        forms = self.published[unseeded(run)]
        if len(forms) > 1:
            raise InputError(f"run '{run}', from which others start: was published in {len(forms)} ways")
        return forms[0]

    def _measured_otherwise(self, spec: Spec, theirs: Spec, entry: str, evaluation: str) -> Iterator[str]:
        here, there = (study.papers[spec.labels["paper"]] for study in (self.study, self.study.as_published))
        settings = [config.evaluation.get(entry, {}) for config in (here, there)]
        yield from (f"evaluation.{entry}.{key}" for key in differing(*settings) if not _below(key, NAMED))
        if evaluation in JUDGED and here.judge and there.judge:
            yield from (f"judge.{key}" for key in differing(here.judge.model_dump(), there.judge.model_dump()))
        after = settings[0].get("after")  # a round that is not kept is not measured, but the last one
        if after in theirs.snapshots and after not in spec.snapshots and after < spec.training.rounds:
            yield "snapshots"
        if evaluation == "generalisation" and _read(spec, settings[0]) != _read(theirs, settings[1]):
            yield "score_every"

    def _share(self, spec: Spec, theirs: Spec, entry: str) -> float:
        ours = _passes(self.study, spec, entry, self.runs.__getitem__)
        return ours / _passes(self.study.as_published, theirs, entry, self._named)


@cache
def reference(scale: str) -> Reference:
    """What the runs of a scale are compared with."""
    return Reference.of(load_study(scale))


def _chain(spec: Spec, find: Callable[[str], Spec]) -> Iterator[Spec]:
    """A run and all before it."""
    yield spec
    if spec.start:
        yield from _chain(find(spec.start), find)


def _passes(study: Study, spec: Spec, entry: str, find: Callable[[str], Spec]) -> float:
    """Over images, of a run and all before it, until it is measured under an entry of `evaluation`."""
    after = study.papers[spec.labels["paper"]].evaluation.get(entry, {}).get("after")
    last, *before = map(passes_of, _chain(spec, find))
    return last * (after / spec.training.rounds if after in spec.snapshots else 1) + sum(before)


def _read(spec: Spec, generalisation: Mapping[str, Any]) -> list[float]:
    """The shares of its rounds after which a run is read on styles that no client has, where that is not at its end."""
    asked = (generalisation.get("after") or {}).get(spec.data.dataset, {}).values() if spec.scored_rounds else ()
    return [read_after(spec.scored_rounds, share) / spec.training.rounds for share in asked]


def _below(key: str, sections: tuple[str, ...]) -> bool:
    return any(f"{key}.".startswith(f"{section}.") for section in sections)


def _counts(key: str, evaluation: str) -> bool:
    """Whether a key matters to what is measured."""
    if evaluation in ALONE:
        return _below(key, ALONE[evaluation])
    return not _below(key, KEPT) or _below(key, USES.get(evaluation, ()))


def flat(section: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The keys that lead to each value of nested mappings, and the value, in order."""
    if not isinstance(section, dict):
        yield prefix, section
        return
    for key, value in section.items():
        yield from flat(value, (*prefix, str(key)))


def differing(ours: Any, theirs: Any) -> list[str]:
    """The dotted keys of two mappings whose values are not the same; only the `name` of a section that has another."""
    a, b = ({".".join(keys): value for keys, value in flat(section)} for section in (ours, theirs))
    keys = [key for key in {**a, **b} if a.get(key) != b.get(key)]
    renamed = [key.removesuffix("name") for key in keys if key.endswith(".name")]
    return [key for key in keys if key.endswith(".name") or not key.startswith(tuple(renamed))]
