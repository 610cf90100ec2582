"""What the Snakefile needs: the study, and the names of files. Imports no torch."""

import os
from typing import Any

from snakemake.exceptions import WorkflowError

from common.algorithms import algorithm_modules, training_code
from common.codehash import code_hash
from common.errors import InputError, choose
from common.files import data_root
from common.spec import Spec
from diptych.study import Study, load_study

SETTINGS = {"scale": "digits", "data": "", "gpus": 0}
"""What `--config` takes, and the defaults."""
RUN_FILES = {"spec": "spec.yaml", "provenance": "provenance.json", "features": "features.npz"}
"""The files that every training rule promises, for whatever program; docs/run-folder.md says what is in them."""
FIGURE_FORMATS = ("png", "pdf", "svg")


class Workflow:
    """The runs, tables and figures of one scale, as files below `results/<scale>`."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Read the settings given by `--config`; what is wrong with them ends Snakemake with one sentence."""
        try:
            for key in config:
                choose("--config", key, SETTINGS)
            self.scale = str(config.get("scale", SETTINGS["scale"]))
            self.study: Study = load_study(self.scale)
            self.specs: dict[str, Spec] = self.study.specs
        except InputError as error:
            raise WorkflowError(str(error)) from error
        self.gpus = config.get("gpus", SETTINGS["gpus"])
        if not isinstance(self.gpus, int):
            raise WorkflowError(f"--config gpus: must be a number of GPUs, got '{self.gpus}'")
        os.environ["DIPTYCH_DATA"] = str(config.get("data") or data_root())
        self.results = f"results/{self.scale}"

    # ---- runs

    def run(self, method: str) -> dict[str, str]:
        """What the rule that trains `method` puts out."""
        folder = f"{self.results}/runs/{{paper}}/{{condition}}/{method}/{{variant}}/{{seed}}"
        return {key: f"{folder}/{file}" for key, file in RUN_FILES.items()}

    def log(self, method: str) -> str:
        """Where that rule logs."""
        return f"{self.results}/logs/{{paper}}/{{condition}}/{method}/{{variant}}/{{seed}}.log"

    def params(self, method: str) -> dict[str, Any]:
        """The run's name, and what its rule must notice a change of: the run's specification and code.

        Functions of wildcards alone: Snakemake does not look for changes in parameters that depend on outputs.
        """

        def name(wildcards: Any) -> str:
            return f"{wildcards.paper}/{wildcards.condition}/{method}/{wildcards.variant}/{wildcards.seed}"

        def spec(wildcards: Any) -> str:
            return self._spec(name(wildcards)).digest

        def folder(wildcards: Any) -> str:
            return f"{self.results}/runs/{name(wildcards)}"

        code = training_code(method) if method in algorithm_modules() else ""
        return {"run": name, "scale": self.scale, "folder": folder, "spec": spec, "code": code}

    def _spec(self, name: str) -> Spec:
        try:
            return self.specs[choose("run", name, self.specs)]
        except InputError as error:
            raise WorkflowError(str(error)) from error

    def sources(self, wildcards: Any) -> list[str]:
        """The files that say that the sources of a condition are there and verified."""
        spec = self._first(wildcards)
        names = {source.partition("[")[0] for source in spec.data.styles.values()}
        return [f"{self.results}/sources/{name.replace('/', '--')}.csv" for name in sorted(names)]

    def _first(self, wildcards: Any) -> Spec:
        """The first run of a condition."""
        prefix = f"{wildcards.paper}/{wildcards.condition}/"
        return next(spec for name, spec in self.specs.items() if name.startswith(prefix))

    def inputs(self, wildcards: Any) -> list[str]:
        """What a run needs: its sources, and the run that it starts from, if any.

        Wildcards do not say the method: runs of one variant start from the same run, whatever their method.
        """
        beginning, end = f"{wildcards.paper}/{wildcards.condition}/", f"/{wildcards.variant}/{wildcards.seed}"
        alike = [spec for name, spec in self.specs.items() if name.startswith(beginning) and name.endswith(end)]
        starts = dict.fromkeys(spec.start for spec in alike if spec.start)
        return self.sources(wildcards) + [f"{self.results}/runs/{run}/{RUN_FILES['provenance']}" for run in starts]

    # ---- judges

    def judges(self, wildcards: Any) -> list[str]:
        """The judges of the conditions in which a paper's method is run."""
        settings, runs = self.study.papers[wildcards.paper].judge, self._runs_of(wildcards)
        if settings is None:
            return []
        judged = [run for run in runs if not settings.splits or self.specs[run].labels["split"] in settings.splits]
        conditions = dict.fromkeys(run.split("/")[1] for run in judged)
        return [f"{self.results}/judges/{wildcards.paper}/{condition}.safetensors" for condition in conditions]

    def judge(self) -> dict[str, Any]:
        """The run for whose data a judge is trained, and what its rule must notice a change of."""

        def settings(wildcards: Any) -> str:
            return f"{self._first(wildcards).data} {self.study.papers[wildcards.paper].judge}"

        return {
            "run": lambda wildcards: self._first(wildcards).run,
            "scale": self.scale,
            "settings": settings,
            "code": code_hash("diptych.judging"),
        }

    def _runs_of(self, wildcards: Any) -> list[str]:
        """All runs of a paper's method."""
        beginning, method = f"{wildcards.paper}/", f"/{wildcards.method}/"
        return [name for name in self.specs if name.startswith(beginning) and method in name]

    def folders(self, wildcards: Any) -> list[str]:
        """Their folders."""
        return [f"{self.results}/runs/{name}" for name in self._runs_of(wildcards)]

    def finished(self, folders: list[str]) -> list[str]:
        """The files that say that these runs are finished."""
        return [f"{folder}/{RUN_FILES[key]}" for folder in folders for key in ("provenance", "features")]

    def cells(self) -> list[str]:
        """A parameter that changes with what the runs are for."""
        return [f"{cell.spec.run} {cell.table} {cell.setting} {sorted(cell.stand_ins)}" for cell in self.study.cells]

    # ---- what comes out

    def records(self) -> list[str]:
        """The records of every method of every paper."""
        methods = dict.fromkeys(tuple(name.split("/")[i] for i in (0, 2)) for name in self.specs)
        records = [f"{self.results}/records/{paper}/{method}.csv" for paper, method in methods]
        return records + [
            f"{self.results}/records/padpaf/simpson.csv" for paper in self.study.papers if paper == "padpaf"
        ]

    def tables(self) -> list[str]:
        """Every table in Markdown; CSV and LaTeX come with it."""
        papers = self.study.papers.items()
        return [f"{self.results}/tables/{paper}-{table}.md" for paper, config in papers for table in config.tables]

    def claims(self) -> list[str]:
        """The claims of every paper."""
        return [f"{self.results}/claims/{paper}.md" for paper in self.study.papers]

    def figure_names(self) -> list[str]:
        """Every figure."""
        return [f"{paper}-{name}" for paper, config in self.study.papers.items() for name in config.figures]

    def figures(self, name: str | None = None) -> list[str]:
        """Every figure, or one, in every format."""
        names = self.figure_names() if name is None else [name]
        return [f"{self.results}/figures/{figure}.{form}" for figure in names for form in FIGURE_FORMATS]

    def figure_data(self, wildcards: Any) -> str:
        """What a figure is drawn from."""
        kind = self._figure(wildcards.figure).data
        if kind == "records":
            return f"{self.results}/records.csv"
        if kind == "points":
            return f"{self.results}/{wildcards.figure.partition('-')[0]}-points.csv"
        return f"{self.results}/figures/data/{wildcards.figure}.{kind}.{'npz' if kind == 'samples' else 'csv'}"

    def figure_folders(self, wildcards: Any) -> list[str]:
        """The folders of the runs that a figure is drawn from."""
        paper = wildcards.figure.partition("-")[0]
        return [f"{self.results}/runs/{name}" for name in self.study.runs_of(paper, self._figure(wildcards.figure))]

    def _figure(self, name: str) -> Any:
        paper, _, figure = name.partition("-")
        return self.study.papers[paper].figures[figure]
