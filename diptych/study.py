"""A study: all runs that a scale asks for, and the cells of the published tables that each of them fills.

`config/papers/*.yaml` say what was published, `config/scales/*.yaml` what is smaller here, `config/tuned/*/*.csv` what
a search has chosen where a paper is silent. Imports no torch.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from common.algorithms import PACKAGES
from common.codehash import ROOT
from common.errors import InputError, choose
from common.settings import checked
from common.sources import State, state
from common.spec import Spec
from diptych import configuration
from diptych.configuration import Experiment, Figure, Paper, Scale, merged, names_in, read_paper, read_scale
from diptych.misnamed import refuse_left_out, refuse_lost, refuse_misnamed
from diptych.tuning import BEFORE, Grid, Overlay, Trial, Tuning, choices
from reporting.wording import plural

METHOD_AXES = ("method", "setting")
"""Axes that say what is run; the others say on what, and make up the name of the condition."""
Point = dict[str, str]
"""Of an experiment's grid: axis -> value."""
Place = tuple[str | int, ...]
"""Of a setting: the keys that lead to it."""


@dataclass(frozen=True)
class Cell:
    """What a run is for: an experiment's table, at a point of its grid. `published`: the same run as published."""

    spec: Spec
    table: str
    point: Point
    published: Spec

    @property
    def setting(self) -> str:
        """The value of the axis `setting`, if there is one."""
        return self.point.get("setting", "")

    @property
    def stand_ins(self) -> frozenset[str]:
        """The styles that are not played by the paper's images; parts of them are no others."""
        theirs = self.published.data.styles
        return frozenset(
            style
            for style, source in self.spec.data.styles.items()
            if theirs.get(style, "").partition("[")[0] != source.partition("[")[0]
        )


@cache
def methods_with_rule() -> list[str]:
    """Every method that a rule trains: the .smk files of `baselines` and `methods`."""
    return sorted(path.stem.replace("_", "-") for package in PACKAGES for path in (ROOT / package).glob("*.smk"))


def newcomers() -> list[str]:
    """Methods with a rule that no paper's file names: they join every open experiment."""
    axes = [e.axes for name in names_in("papers") for e in read_paper(name).experiments.values()]
    named = {method.partition(":")[0] for axis in axes for method in axis.get("method", [])}
    return [method for method in methods_with_rule() if method not in named]


@dataclass
class Study:
    """A scale and the papers it runs."""

    name: str
    scale: Scale
    papers: dict[str, Paper]

    @cached_property
    def cells(self) -> list[Cell]:
        """Every run, once for each experiment that it is for. Equal specifications are one run with one name.

        Raises:
            InputError: two that are not equal have one name.
        """
        named: dict[tuple[str, str], Spec] = {}
        first: dict[str, Cell] = {}
        cells = []
        for paper, experiment, values in self._grid():
            specs = self._specs(paper, values, self.scale.seeds[: experiment.seeds])
            (published,) = self.as_published._specs(paper, values, [specs[0].seed])
            for spec in specs:
                run = named.setdefault((paper, spec.digest), spec)
                cell = Cell(run, experiment.table, values, published)
                _refuse_another(first.setdefault(run.run, cell), cell)
                cells.append(cell)
        return cells

    @cached_property
    def newcomers(self) -> list[str]:
        """Methods that no paper's file names."""
        return newcomers()

    @cached_property
    def as_published(self) -> "Study":
        """The same runs with all that the scale does not make smaller."""
        return Study(self.name, self.scale, {paper: read_paper(paper) for paper in self.papers})

    def runs_of(self, paper: str, figure: Figure) -> list[str]:
        """The runs of the first seed that a figure is drawn from: in their default form, unless it names a variant."""
        wanted = {"variant": {""}} | {axis: set(values) for axis, values in figure.where.items()}
        return [
            spec.run
            for spec in self.specs.values()
            if spec.labels["paper"] == paper
            and spec.seed == self.scale.seeds[0]
            and "=" not in spec.run.split("/")[3]  # a setting
            and all(spec.labels.get(axis) in values for axis, values in wanted.items())
        ]

    def about(self, paper: str) -> str:
        """A line for a paper's tables and figures: the scale and what it means, and who plays whom."""
        counts = {len(seeds) for run, seeds in self.seeds.items() if run.startswith(f"{paper}/")} or {0}
        least, most = min(counts), max(counts)
        seeds = f"{least} to {plural(most, 'seed')}" if least < most else plural(most, "seed")
        played = {
            (style, cell.spec.labels["dataset"]): cell.spec.data.styles[style]
            for cell in self.cells
            if cell.spec.labels["paper"] == paper
            for style in sorted(cell.stand_ins)
        }
        of_style = Counter(style for style, _ in {(style, source) for (style, _), source in played.items()})
        players: dict[str, dict[str, None]] = {}
        for (style, dataset), source in played.items():
            players.setdefault(source, {})[style if of_style[style] == 1 else f"{style} of {dataset}"] = None
        parts = (f"{', '.join(styles)} {_by(styles)} {source}" for source, styles in players.items())
        stand_ins = f" Stand-ins: {'; '.join(parts)}." if players else ""
        return f"Scale {self.name} ({seeds}): {' '.join(self.scale.about.split())}{stand_ins}"

    @cached_property
    def specs(self) -> dict[str, Spec]:
        """The runs by name.

        Raises:
            InputError: one starts from a run that there is not, or in the end from itself.
        """
        specs = {cell.spec.run: cell.spec for cell in self.cells}
        refuse_lost(specs, self.name)
        return specs

    @cached_property
    def seeds(self) -> dict[str, list[int]]:
        """The seeds that a run is repeated with, by its name without one: experiments may ask for the first few."""
        seeds: dict[str, list[int]] = defaultdict(list)
        for run, spec in self.specs.items():
            seeds[unseeded(run)].append(spec.seed)
        return seeds

    @cached_property
    def trials(self) -> dict[str, Trial]:
        """The runs of all searches by name: no table waits for them."""
        searches = (self._search(paper, config.tuning) for paper, config in self.papers.items() if config.tuning)
        return {trial.spec.run: trial for trials in searches for trial in trials}

    @cached_property
    def tried(self) -> dict[str, Spec]:
        """All that searches train, by name: the trials, and before each what it goes on from."""
        return {spec.run: spec for trial in self.trials.values() for spec in (*reversed(trial.before), trial.spec)}

    @cached_property
    def trained(self) -> dict[str, Spec]:
        """All that rules train, by name."""
        return self.specs | self.tried

    def _search(self, paper: str, tuning: Tuning) -> Iterator[Trial]:
        """Every method at every point of its grid, on everything that it is tried on."""
        tuning.check(paper, self.scale.seeds, self.papers[paper].evaluation)
        choose(f"{paper}: tuning.chosen_at", tuning.chosen_at, names_in("scales"))
        experiments = self.as_published.papers[paper].experiments.values()
        methods = {method for experiment in experiments for method in experiment.axes["method"]}
        for values in _product(tuning.axes):
            for grid in tuning.grids if self.why_left_out(values) is None else ():
                for method in grid.methods:
                    choose(f"{paper}: tuning.grids.methods", method, methods)
                    yield from self._trials_of(paper, tuning, grid, values | {"method": method})

    def _trials_of(self, paper: str, tuning: Tuning, grid: Grid, values: dict[str, str]) -> Iterator[Trial]:
        """A method at every point of its grid. What was chosen before is not looked at."""
        method, tried = values["method"], dict[str, str]()
        for point in grid.points:
            overlay = tuning.points[choose(f"{paper}: tuning.grids.points", point, tuning.points)]
            content = self._content(paper, values, {method: overlay})
            for smaller in (tuning.budget, grid.budget, {"data": {"validation_share": tuning.validation_share}}):
                content = merged(content, smaller)
            spec, *before = self._tried(paper, values, content, tuning.seed, point)
            if (other := tried.setdefault(spec.digest, point)) != point:
                raise InputError(f"{paper}: tuning: '{method}' is the same at '{point}' as at '{other}'")
            yield Trial(spec, method, point, overlay, grid.by, before)

    def _tried(self, paper: str, values: dict[str, str], content: Overlay, seed: int, point: str) -> list[Spec]:
        """A run of a search, and those that it goes on from, made anew of the same images."""
        (spec,) = self._seeded(paper, values, content, [seed], f"tuning={point}")
        if not spec.start:
            return [spec]
        place = spec.run.split("/")[:2]
        match spec.start.split("/"):
            case [*there, method, variant, _] if there == place:
                earlier = values | {"method": method if variant == "default" else f"{method}:{variant}"}
                whole = merged(self._content(paper, earlier, {}), {"data": content["data"]})
                before = self._tried(paper, earlier, whole, seed, BEFORE)
                return [spec.model_copy(update={"start": before[0].run}), *before]
        raise InputError(
            f"{paper}: tuning: '{values['method']}' starts from {spec.start}, which is no run of {'/'.join(place)}"
        )

    @cached_property
    def chosen(self) -> dict[str, dict[str, Overlay]]:
        """By paper and method, with its variant, the overlay that a search has chosen."""
        tuned = {paper: config.tuning for paper, config in self.papers.items()}
        return {p: choices(configuration.tuned(t.chosen_at, p)) if t else {} for p, t in tuned.items()}

    def _grid(self) -> Iterator[tuple[str, Experiment, dict[str, str]]]:
        for paper, config in self.papers.items():
            for experiment in config.run:
                axes = dict(experiment.axes)
                if experiment.open:
                    axes["method"] = axes["method"] + self.newcomers
                for point in _product(axes):
                    if self.why_left_out(point) is None:
                        yield paper, experiment, point

    def why_left_out(self, point: dict[str, str]) -> str | None:
        """Why nothing is run at a point of the grid; None if it is run."""
        reasons = (self.scale.left_out.get(axis, {}).get(value) for axis, value in point.items())
        return next(filter(None, reasons), None)

    def without(self, datasets: Collection[str]) -> "Study":
        """The same without the runs on these data sets, whose images are not here."""
        reasons = self.scale.left_out.get("dataset", {}) | dict.fromkeys(datasets, "its images are not here")
        left_out = self.scale.left_out | {"dataset": reasons}
        return Study(self.name, self.scale.model_copy(update={"left_out": left_out}), self.papers)

    def not_here(self, root: Path) -> set[str]:
        """The data sets that some run needs an image of which is not below `root`."""
        return {
            spec.labels["dataset"]
            for spec in self.specs.values()
            if any(state(source, root) is not State.THERE for source in spec.data.styles.values())
        }

    def _specs(self, paper: str, values: dict[str, str], seeds: list[int]) -> list[Spec]:
        """The run at a point of the grid, with each of these seeds."""
        return self._seeded(paper, values, self._content(paper, values, self.chosen[paper]), seeds)

    def _content(self, paper: str, values: Point, chosen: dict[str, Overlay]) -> Overlay:
        """What is the same for all seeds."""
        content: Overlay = {}
        for _, overlay in self._layers(paper, values, chosen):
            content = merged(content, overlay)
        return content

    def layers(self, paper: str, point: Point) -> Iterator[tuple[Place, Overlay]]:
        """What is laid one over the other at a point of the grid, and where in the paper's configuration it stands.

        Of what a search has chosen the place is `("tuned", method)`; of the method's name, and of the point's own
        setting, it is the axis alone.
        """
        return self._layers(paper, point, self.chosen[paper])

    def _layers(self, paper: str, values: Point, chosen: dict[str, Overlay]) -> Iterator[tuple[Place, Overlay]]:
        """`chosen` is laid over a method's settings and under those of its variants."""
        config = self.papers[paper]
        method, _, variant = values["method"].partition(":")

        def of_method(key: str) -> Iterator[tuple[Place, Overlay]]:
            yield ("axes", "method", key), config.axes["method"].get(key, {})
            yield ("tuned", key), chosen.get(key, {})

        yield ("defaults",), config.defaults
        yield ("method",), {"algorithm": {"name": choose(f"{paper}: method", method, methods_with_rule())}}
        for axis, value in values.items():
            if axis == "method":
                if config.newcomers_as and method in self.newcomers:
                    like = choose(f"{paper}: newcomers_as", config.newcomers_as, config.axes["method"])
                    yield from _but_algorithm(of_method(like))
                if variant:  # which would be the default form under another name
                    choose(f"{paper}: variant of {method}", value, [m for m in config.axes["method"] if ":" in m])
                for key in dict.fromkeys((method, value)):
                    yield from of_method(key)
            elif axis != "setting":
                presets = config.axes.get(choose(f"{paper}: axis", axis, config.axes), {})
                yield ("axes", axis, value), presets[choose(f"{paper}: axes.{axis}", value, presets)]
        point = values | {"method": method, "variant": variant}
        for n, rule in enumerate(config.rules):
            if all(
                point.get(axis) in ([wanted] if isinstance(wanted, str) else wanted)
                for axis, wanted in rule.when.items()
            ):
                yield ("rules", n, "set"), rule.set
        if "setting" in values:  # over the rules, which say what it is when nothing else is said
            yield ("setting",), {"algorithm": _parsed(f"{paper}: axes.setting", values["setting"])}

    def _seeded(
        self, paper: str, values: dict[str, str], content: Overlay, seeds: list[int], trial: str = ""
    ) -> list[Spec]:
        """The run with each of these seeds, and the name of the trial that it is in its own, if it is one."""
        method, _, variant = values["method"].partition(":")
        labels = {axis: value for axis, value in values.items() if axis not in METHOD_AXES}
        condition = "_".join(labels.values())
        setting = values.get("setting", "").replace(";", "+")  # a comma would be lost where jobs go to a cluster
        name = "+".join(filter(None, (variant, setting, trial))) or "default"
        where, more = f"{paper}: {condition} {values['method']}", content.get("labels", {})
        if not isinstance(more, dict):
            raise InputError(f"{where}.labels: should be a mapping, got {more!r}")
        own_labels = {"paper": paper, **labels, "method": method, "variant": variant}
        content = content | {"scale": self.name, "labels": own_labels | more}
        run, largest = f"{paper}/{condition}/{method}/{name}", max(seeds)
        spec = checked(Spec, where, content | {"run": f"{run}/{largest}", "seed": largest})
        own = {"condition": condition, "method": method, "variant": variant or "default"}
        return [  # what is right with the largest seed is right with all
            spec.model_copy(
                update={
                    "run": f"{run}/{seed}",
                    "seed": seed,
                    "start": _filled_in(f"{where}.start", spec.start, {"seed": seed, **own, **labels}),
                }
            )
            for seed in seeds
        ]


def unseeded(run: str) -> str:
    """The name of a run without its seed."""
    return run.rpartition("/")[0]


def _refuse_another(cell: Cell, other: Cell) -> None:
    """InputError where two cells of one run are of different specifications, only one of which would be trained."""
    if cell.spec is not other.spec:
        axes = [axis for axis in {**cell.point, **other.point} if cell.point.get(axis) != other.point.get(axis)]
        one, two = (", ".join(f"{axis}: {of.point.get(axis, 'none')}" for axis in axes) for of in (cell, other))
        raise InputError(
            f"run {cell.spec.run}: two specifications have this name, that of {one} and that of {two}; give a value of "
            "one of them another name"
        )


def _by(styles: dict[str, None]) -> str:
    return "is played by" if len(styles) == 1 else "are played by"


def _product(axes: dict[str, list[str]]) -> list[dict[str, str]]:
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def _but_algorithm(layers: Iterator[tuple[Place, Overlay]]) -> Iterator[tuple[Place, Overlay]]:
    """Another method's settings are no one else's where they are its algorithm's."""
    for place, overlay in layers:
        yield place, {key: value for key, value in overlay.items() if key != "algorithm"}


def _parsed(where: str, setting: str) -> Overlay:
    """`lambda=0.5;style_epochs=10` as algorithm settings; InputError if it is not of this form."""
    pairs = [part.partition("=") for part in setting.split(";") if part]
    with suppress(yaml.YAMLError, ValueError):  # a date that there is not is no YAMLError
        if all(key and sign for key, sign, _ in pairs):
            return {key: yaml.safe_load(value) for key, _, value in pairs}
    raise InputError(f"{where}: must be key=value, with semicolons between several, in YAML, got '{setting}'")


def _filled_in(where: str, start: str, values: dict[str, Any]) -> str:
    """The name of a run with its placeholders replaced; InputError where there are others."""
    try:
        return start.format(**values)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        allowed = ", ".join(f"{{{name}}}" for name in values)
        raise InputError(f"{where}: must be the name of a run, in which may stand {allowed}, got '{start}'") from error


@cache
def load_study(scale: str) -> Study:
    """Read a scale and its papers from `config/`.

    Raises:
        common.errors.InputError: there is no such scale or paper, or a file has an unknown key or a wrong value.
    """
    choose("scale", scale, names_in("scales"))
    config = read_scale(scale)
    for paper in config.papers:
        choose(f"config/scales/{scale}.yaml: papers", paper, names_in("papers"))
    common = {"defaults": config.defaults}
    papers = {p: read_paper(p, merged(common, overlay or {}), scale) for p, overlay in config.papers.items()}
    published = {paper: read_paper(paper) for paper in names_in("papers")}
    everything, new = [*papers.values(), *published.values()], newcomers()
    refuse_left_out(f"config/scales/{scale}.yaml: left_out", config.left_out, everything, new)
    for name, asked in papers.items():
        refuse_misnamed(name, asked, published[name], new)
    return Study(scale, config, papers)
