"""What a run will do, counted before it starts."""

from collections import Counter
from collections.abc import Iterator

from torch import nn

from common.errors import InputError
from common.spec import TrainingSettings
from federation.algorithm import Algorithm, Phase
from federation.data import ClientData
from federation.hooks import Exchanging, FineTuning
from federation.local import steps_in, updates_of
from federation.names import selected

Ahead = list[tuple[Phase, Counter[int]]]
"""All phases of a run, and how many batches each client will work on in them, all rounds together."""


def ahead(algorithm: Algorithm, data: ClientData, settings: TrainingSettings, schedule: list[list[int]]) -> Ahead:
    """Count."""
    return list(_counted(algorithm, data, settings, schedule))


def _counted(
    algorithm: Algorithm, data: ClientData, settings: TrainingSettings, schedule: list[list[int]]
) -> Iterator[tuple[Phase, Counter[int]]]:
    everyone = list(range(len(data.clients)))
    last = algorithm.epilogue() if isinstance(algorithm, FineTuning) else []
    for phases, rounds in (
        (algorithm.prologue(), [(0, everyone)]),
        (algorithm.phases(), list(enumerate(schedule, start=1))),
        (last, [(settings.rounds + 1, everyone)]),
    ):
        for phase in phases:
            count = Counter[int]()
            for round, clients in rounds:
                count.update({c: steps_in(phase, settings, len(data.share(c, round))) for c in clients})
            yield phase, count


def steps_ahead(algorithm: Algorithm, schedule: list[list[int]], work: Ahead) -> int:
    """The steps of all clients; a round that is an exchange counts as one for each that takes part."""
    talks = sum(map(len, schedule)) if isinstance(algorithm, Exchanging) else 0
    return talks + sum(count.total() for _, count in work)


def refuse_idle_updates(template: nn.Module, work: Ahead) -> None:
    """An update that nobody would ever take leaves its parameters as they began, and the run says nothing of it.

    Raises:
        InputError: a phase has batches, and an update that is taken after each n-th has fewer than n at any client.
    """
    for phase, count in work:
        most = max(count.values())
        for update in updates_of(phase, template) if most else []:
            if update.every > most:
                first = next(e.name for e in selected(template, update.which & phase.only) if e.is_parameter)
                raise InputError(
                    f"training: '{first}' would never be trained, since its update comes after each "
                    f"{update.every} batches and no client has more than {most} in the whole run; "
                    "give it more rounds or epochs, or smaller batches"
                )
