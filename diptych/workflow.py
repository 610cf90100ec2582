"""What the Snakefile needs: the study, and the names of files. Imports no torch."""

import gc
import os
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

from common.algorithms import algorithm_modules, training_code
from common.codehash import ROOT, code_hash
from common.errors import InputError, choose, quoted
from common.files import data_folder, data_root
from common.sources import KNOWN, dated
from common.spec import Spec
from diptych.configuration import Paper
from diptych.cost import GPU, HERE, of_training, to_ask_for
from diptych.study import Cell, Study, load_study
from diptych.terminal import source_of
from reporting.wording import plural

SETTINGS = {"scale": "digits", "data": "", "images": "all", "measured": "", "gpus": 0}
"""What `--config` takes, and the defaults."""
RUN_FILES = {"spec": "spec.yaml", "provenance": "provenance.json", "features": "features.npz"}
"""The files that every training rule promises, for whatever program; docs/run-folder.md says what is in them."""
FIGURE_FORMATS = ("png", "pdf", "svg")
SHORT = 300.0
"""Seconds up to which a training is not worth a place of its own in a cluster's queue."""


class Refused(SystemExit):
    """Ends Snakemake with one sentence; around its own errors it puts wildcards and a traceback."""

    def __init__(self, why: object) -> None:
        super().__init__(f"diptych: {why}")


def _chosen(key: str, value: str, options: Collection[str], see: str = "") -> str:
    try:
        return value if value in options else choose(key, value, options, see)
    except InputError as error:
        raise Refused(error) from error


def content(pattern: str) -> list[int]:
    """A parameter that changes with the files of the project that have such names."""
    return [crc32(file.read_bytes()) for file in sorted(ROOT.glob(pattern))]


class Workflow:
    """The runs, tables and figures of one scale, as files below `results/<scale>`."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Read the settings given by `--config`; what is wrong with them ends Snakemake with one sentence."""
        os.environ["DIPTYCH_DATA"] = data = os.path.expanduser(str(config.get("data") or data_root()))
        self.left_out: list[str] = []  # data sets
        self.notice = ""  # how many runs that are, in words
        try:
            for key in config:
                choose("--config", key, SETTINGS)
            self.scale = str(config.get("scale", SETTINGS["scale"]))
            self.study: Study = load_study(self.scale)
            if choose("--config images", str(config.get("images", SETTINGS["images"])), ("all", "here")) == "here":
                whole, self.left_out = self.study, sorted(self.study.not_here(Path(data)))
                self.study = whole.without(self.left_out)
                self.notice = _missed(whole, self.study, self.left_out)
            self.specs: dict[str, Spec] = self.study.trained
            if config.get("data"):
                data_folder("--config data", str(config["data"]))
            self.given = [Path(file) for file in [config.get("measured")] if file]
            kept = _runs_kept(self.study, self.given)
            _refuse_namesakes(self.specs)
        except InputError as error:
            raise Refused(error) from error
        self.gpus = config.get("gpus", SETTINGS["gpus"])
        if type(self.gpus) is not int or self.gpus < 0:
            raise Refused(f"--config gpus: must be a number of GPUs, got {quoted(self.gpus)}")
        self.results = f"results/{self.scale}"
        self._first: dict[str, Spec] = {}  # of each condition
        self._of_method: dict[tuple[str, str], list[str]] = {}
        self._starts: dict[tuple[str, ...], dict[str, None]] = {}  # of all methods' runs of a variant
        for name, spec in self.specs.items():
            paper, condition, method, variant, seed = name.split("/")
            self._first.setdefault(f"{paper}/{condition}", spec)
            if spec.start:
                self._starts.setdefault((paper, condition, variant, seed), {})[spec.start] = None
            if name in self.study.specs and name not in kept:
                self._of_method.setdefault((paper, method), []).append(name)
        gc.set_threshold(10_000)  # what Snakemake plans stays: looking it all through again takes a tenth of its time

    # ---- runs

    def run(self, method: str) -> dict[str, str]:
        """What the rule that trains `method` puts out."""
        return {key: f"{self.results}/runs/{_name(method)}/{file}" for key, file in RUN_FILES.items()}

    def log(self, method: str) -> str:
        """Where that rule logs."""
        return f"{self.results}/logs/{_name(method)}.log"

    def params(self, method: str) -> dict[str, Any]:
        """The run's name, and what its rule must notice a change of: the run's specification and code.

        Functions of wildcards alone: Snakemake does not look for changes in parameters that depend on outputs.
        """

        def spec(wildcards: Any) -> str:
            return self._spec(method, wildcards).digest

        def code(wildcards: Any) -> str:
            ours = method in algorithm_modules()
            return training_code(method, overheard=self._spec(method, wildcards).overheard) if ours else ""

        folder = f"{self.results}/runs/{_name(method)}"
        return {"run": _name(method), "scale": self.scale, "folder": folder, "spec": spec, "code": code}

    def memory(self, wildcards: Any, rulename: str, attempt: int) -> int:
        """MiB that a training asks for; more each time that it has failed."""
        return self._asked(wildcards, rulename)[0] * attempt

    def minutes(self, wildcards: Any, rulename: str, attempt: int) -> int:
        """Minutes that it asks for."""
        return self._asked(wildcards, rulename)[1] * attempt

    def _asked(self, wildcards: Any, rulename: str) -> tuple[int, int]:
        """By the run, whose method only the rule's name says."""
        spec = self._spec(rulename.removeprefix("train_").replace("_", "-"), wildcards)
        return to_ask_for(spec, GPU if self.gpus else HERE)

    def _spec(self, method: str, wildcards: Any) -> Spec:
        name = _name(method).format(**wildcards)
        return self.specs[_chosen("run", name, self.specs, f"diptych runs --scale {self.scale}")]

    def sources(self, wildcards: Any) -> list[str]:
        """The files that say that the sources of a condition are there and verified."""
        styles = self._first_run(wildcards).data.styles
        names = {source.partition("[")[0] for source in styles.values()}
        return [f"{self.results}/sources/{name.replace('/', '--')}.csv" for name in sorted(names)]

    def source(self, wildcards: Any) -> str:
        """The name of the source that a file is about."""
        return source_of(dict(wildcards.items()))

    def own_files(self, wildcards: Any) -> list[str]:
        """The user's own files behind it, as a parameter."""
        return dated(self.source(wildcards), Path(data_root()))

    def _first_run(self, wildcards: Any) -> Spec:
        """The first run of a condition."""
        return self._first[_chosen("condition", f"{wildcards.paper}/{wildcards.condition}", self._first)]

    def inputs(self, wildcards: Any) -> list[str]:
        """What a run needs: its sources, and the run that it starts from, if any.

        Wildcards do not say the method: runs of one variant wait for all that any of them starts from.
        """
        starts = self._starts.get(_whatever_method(wildcards), {})
        return self.sources(wildcards) + [f"{self.results}/runs/{run}/{RUN_FILES['provenance']}" for run in starts]

    def group(self, wildcards: Any) -> str | None:
        """The group of a training: short ones share a job on a cluster, which `profiles/slurm` says how many of.

        Short is a run if all are that differ from it in the method alone, which wildcards do not say.
        """
        return "training" if self._longest[_whatever_method(wildcards)] < SHORT else None

    @cached_property
    def _longest(self) -> dict[tuple[str, ...], float]:
        longest: dict[tuple[str, ...], float] = {}
        for name, spec in self.specs.items():
            paper, condition, _, variant, seed = name.split("/")
            key = paper, condition, variant, seed
            longest[key] = max(of_training(spec), longest.get(key, 0.0))
        return longest

    # ---- judges

    def judges(self, wildcards: Any) -> list[str]:
        """The judges of the conditions and seeds that a paper's method is run in."""
        settings, runs = self.paper(wildcards).judge, self._runs_of(wildcards)
        if settings is None:
            return []
        judged = [run for run in runs if settings.judges(self.specs[run])]
        theirs = dict.fromkeys((run.split("/")[1], self.specs[run].seed) for run in judged)
        return [f"{self.results}/judges/{wildcards.paper}/{name}/{seed}.safetensors" for name, seed in theirs]

    def judge(self) -> dict[str, Any]:
        """The run for whose data a judge is trained, and what its rule must notice a change of."""
        return {
            "run": lambda wildcards: self.judged(wildcards).run,
            "scale": self.scale,
            "settings": lambda wildcards: f"{self.judged(wildcards).data} {self.study.papers[wildcards.paper].judge}",
            "code": code_hash("diptych.judging"),
        }

    def judged(self, wildcards: Any) -> Spec:
        """The first run of a judge's condition and seed."""
        judge = f"{wildcards.paper}/{wildcards.condition}/{wildcards.seed}"
        return self._first_of_seed[_chosen("judge", judge, self._first_of_seed)]

    @cached_property
    def _first_of_seed(self) -> dict[str, Spec]:
        """The first run of each condition and seed."""
        first: dict[str, Spec] = {}
        for name, spec in self.specs.items():
            paper, condition, *_, seed = name.split("/")
            first.setdefault(f"{paper}/{condition}/{seed}", spec)
        return first

    def _runs_of(self, wildcards: Any) -> list[str]:
        """All runs of a paper's method."""
        methods = {method for paper, method in self._of_method if paper == wildcards.paper}
        method = _chosen(f"method of {wildcards.paper}", wildcards.method, methods | {"simpson"})  # of another rule
        return self._of_method.get((wildcards.paper, method), [])

    def folders(self, wildcards: Any) -> list[str]:
        """Their folders."""
        return [f"{self.results}/runs/{name}" for name in self._runs_of(wildcards)]

    def finished(self, folders: list[str]) -> list[str]:
        """The files that say that these runs are finished."""
        return [f"{folder}/{RUN_FILES[key]}" for folder in folders for key in ("provenance", "features")]

    def cells(self, wildcards: Any = None) -> list[str]:
        """A parameter that changes with what runs are for, are called, and were published as, with those that they go
        on from.

        Of all of them, of a paper's, or of those of a paper's method.
        """
        of = [getattr(wildcards, key, "") for key in ("paper", "method")]
        return [
            f"{cell.spec.run} {' '.join(self._forms(cell))} {cell.table} {cell.setting} "
            f"{sorted(cell.stand_ins)} {cell.spec.labels}"
            for cell in self.study.cells
            if all(wanted in ("", part) for wanted, part in zip(of, cell.spec.run.split("/")[0:3:2], strict=True))
        ]

    def _forms(self, cell: Cell) -> Iterator[str]:
        """Digests of a run as it is and as it was published, and of those that it goes on from."""
        yield from (cell.spec.digest, cell.published.digest)
        if cell.spec.start:
            yield from self._forms(self._cell_of[cell.spec.start])

    @cached_property
    def _cell_of(self) -> dict[str, Cell]:
        """The first cell of each run."""
        return {cell.spec.run: cell for cell in reversed(self.study.cells)}

    def counted(self) -> list[str]:
        """A parameter that changes with what is counted: published specifications, of runs of other scales, too, and
        identities, as soon as they are there."""
        published = load_study("paper").specs.values()
        digests = dict.fromkeys(spec.digest for spec in published if spec.labels["paper"] in self.study.papers)
        return [*digests, *(["identities"] if KNOWN["celeba"].there(Path(data_root())) else [])]

    def measured(self, wildcards: Any) -> str:
        """How a paper's runs are measured, and how theirs were, as a parameter."""
        evaluation = self.paper(wildcards).evaluation
        counted = content("config/costs/kinds.csv") if "work" in evaluation else ""
        return f"{evaluation} {self._published[wildcards.paper]} {counted}"

    @cached_property
    def _published(self) -> dict[str, str]:
        """What the records of a paper's runs are compared with: how its own were measured, and judged."""
        papers = self.study.as_published.papers.items()
        return {name: f"{paper.evaluation} {paper.judge}" for name, paper in papers}

    # ---- searches

    def searches(self) -> list[str]:
        """The records of every search."""
        papers = dict.fromkeys(trial.spec.labels["paper"] for trial in self.study.trials.values())
        return [f"{self.results}/tuning/{paper}.csv" for paper in papers]

    def trials(self, wildcards: Any) -> list[str]:
        """The folders of the trials of a paper's search."""
        trials = self.study.trials.items()
        return [f"{self.results}/runs/{run}" for run, trial in trials if trial.spec.labels["paper"] == wildcards.paper]

    def tuning(self, wildcards: Any) -> str:
        """A parameter that changes with what is compared, and how."""
        paper = self.paper(wildcards)
        return f"{paper.tuning} {paper.evaluation.get('probe')}"

    # ---- what comes out

    @property
    def all_records(self) -> str:
        """The file of all papers' records."""
        return f"{self.results}/records.csv"

    def records_of_papers(self) -> list[str]:
        """Those of each paper."""
        return [f"{self.results}/records/{paper}.csv" for paper in self.study.papers]

    def records(self, wildcards: Any) -> list[str]:
        """What the records of a paper are put together of: those of each of its methods, and what is counted."""
        _ = self.paper(wildcards)
        methods = [method for paper, method in self._of_method if paper == wildcards.paper]
        methods += ["simpson"] if wildcards.paper == "padpaf" else []
        parts = [f"{self.results}/records/{wildcards.paper}/{method}.csv" for method in methods]
        return [*parts, f"{self.results}/counted.csv"]

    def tables(self, paper: str | None = None) -> list[str]:
        """Every table, or a paper's, in Markdown; CSV and LaTeX come with it."""
        tables = ((name, table) for name in self._papers(paper) for table in self.study.papers[name].tables)
        return [f"{self.results}/tables/{name}-{table}.md" for name, table in tables]

    def _papers(self, one: str | None) -> list[str]:
        return list(self.study.papers) if one is None else [one]

    def paper(self, wildcards: Any) -> Paper:
        """The paper that a file is of."""
        return self.study.papers[_chosen("paper", wildcards.paper, self.study.papers)]

    def layout(self, wildcards: Any) -> dict[str, Any]:
        """How a table is laid out, which its rule must notice a change of."""
        paper = self.paper(wildcards)
        layout = paper.tables[_chosen(f"table of {wildcards.paper}", wildcards.table, paper.tables)]
        why = {"left_out": self.study.scale.left_out}
        return layout.model_dump() | why | {"words": paper.words, "about": self.study.about(wildcards.paper)}

    def asked(self, wildcards: Any) -> dict[str, Any]:
        """What is asked of a paper's claims, likewise."""
        asked = self.paper(wildcards).model_dump(include={"claims", "aliases", "undecided"})
        return asked | {"about": self.study.about(wildcards.paper)}

    def reported(self) -> list[str]:
        """What the report says of papers besides what their tables, figures and claims do, likewise."""
        return [
            f"{name} {paper.title} {paper.budget_curves} {[figure.shows for figure in paper.figures.values()]}"
            f" {self.study.scale.left_out}"
            for name, paper in self.study.papers.items()
        ]

    def claims(self, paper: str | None = None) -> list[str]:
        """The claims of every paper, or of one; common ground makes none."""
        return [f"{self.results}/claims/{name}.md" for name in self._papers(paper) if self.study.papers[name].claims]

    def figure_names(self, paper: str | None = None) -> list[str]:
        """Every figure, or a paper's."""
        return [f"{name}-{figure}" for name in self._papers(paper) for figure in self.study.papers[name].figures]

    def figures(self, name: str | None = None) -> list[str]:
        """Every figure, or one, in every format."""
        names = self.figure_names() if name is None else [name]
        return [f"{self.results}/figures/{figure}.{form}" for figure in names for form in FIGURE_FORMATS]

    def figure_data(self, wildcards: Any) -> str:
        """What a figure is drawn from."""
        kind = self._figure(wildcards.figure).data
        if kind in ("records", "ranks"):
            return f"{self.results}/records/{wildcards.figure.partition('-')[0]}.csv"
        if kind == "points":
            return f"{self.results}/{wildcards.figure.partition('-')[0]}-points.csv"
        return f"{self.results}/figures/data/{wildcards.figure}.{kind}.{'npz' if kind == 'samples' else 'csv'}"

    def figure_folders(self, wildcards: Any) -> list[str]:
        """The folders of the runs that a figure is drawn from."""
        paper = wildcards.figure.partition("-")[0]
        return [f"{self.results}/runs/{name}" for name in self.study.runs_of(paper, self._figure(wildcards.figure))]

    def figure_labels(self, wildcards: Any) -> list[str]:
        """What these runs are called, as a parameter."""
        paper = wildcards.figure.partition("-")[0]
        return [f"{self.specs[run].labels}" for run in self.study.runs_of(paper, self._figure(wildcards.figure))]

    def words(self, wildcards: Any) -> str:
        """How a figure is laid out, what it calls things, says below, and which ranks it shows, as a parameter."""
        figure, name = self._figure(wildcards.figure), wildcards.figure.partition("-")[0]
        paper = self.study.papers[name]
        ranks = paper.tables["ranks"] if figure.data == "ranks" else ""
        return f"{figure} {paper.words} {self.study.about(name)} {ranks}"

    def _figure(self, name: str) -> Any:
        paper, _, figure = _chosen("figure", name, self.figure_names(), "diptych list figures").partition("-")
        return self.study.papers[paper].figures[figure]


def _missed(whole: Study, rest: Study, datasets: list[str]) -> str:
    """How many of a study's runs are not among the rest, and for want of whose images; empty if all are."""
    number = len(whole.trained) - len(rest.trained)
    runs = f"{number:,} of {plural(len(whole.trained), 'run')}"
    return f"left out: {runs}, since not all images of {', '.join(datasets)} are here" if number else ""


def _runs_kept(study: Study, measured: list[Path]) -> set[str]:
    """Runs that need not be done: there are records of them."""
    if not measured:
        return set()
    from diptych.gathering import kept  # and pandas, which nobody else needs here

    return {*kept(study, measured)["run"]}


def _refuse_namesakes(specs: dict[str, Spec]) -> None:
    """InputError where a run starts from one that is called as itself but for the method: `Workflow.inputs` has it wait
    for whatever runs of its variant start from, and so that one for itself."""
    for name, spec in specs.items():
        paper, condition, _, variant, seed = name.split("/")
        other = spec.start.split("/")
        if other[:2] + other[3:] == [paper, condition, variant, seed]:
            raise InputError(f"run {name}: start: '{spec.start}' differs in the method alone; name one a variant")


def _whatever_method(wildcards: Any) -> tuple[str, ...]:
    """What a run's wildcards say of it: all but its method."""
    return wildcards.paper, wildcards.condition, wildcards.variant, wildcards.seed


def _name(method: str) -> str:
    """The name of a run of `method`, in wildcards."""
    return f"{{paper}}/{{condition}}/{method}/{{variant}}/{{seed}}"
