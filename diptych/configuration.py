"""What the files of `config/` may say, and how one lies over another. Imports no torch."""

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from common.codehash import ROOT
from common.errors import choose
from common.records import COLUMNS, IDENTITY
from common.settings import STRICT, checked
from common.spec import Spec, read_yaml
from diptych.tuning import Overlay, Tuning
from reporting.layout import ABILITY, MEASURE

Columns = dict[str, str | list[str]]
"""Column of a record -> the value that is meant, or any of several."""
CONFIG = ROOT / "config"


def _is_axis(column: str) -> str:
    return choose("words", column, [*IDENTITY, "control", ABILITY, MEASURE])


def _is_column(column: str) -> str:
    return choose("column", column, COLUMNS)


def _is_of_cells(column: str) -> str:
    return choose("column", column, [*COLUMNS, ABILITY, MEASURE])


Column = Annotated[str, AfterValidator(_is_column)]
"""Of a record."""
CellColumn = Annotated[str, AfterValidator(_is_of_cells)]
"""Of a record, or what a table of measures has beside these."""


def _all_different(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"must all be different, got {seeds}")
    return seeds


AxisValue = Annotated[str, Field(pattern=r"^[\w.:;=+-]+$")]
"""Names of folders and runs are put together of it, and stand on command lines."""


def _with_methods(axes: dict[str, list[str]]) -> dict[str, list[str]]:
    if "method" not in axes:
        raise ValueError("must have the axis 'method'")
    return axes


Called = str | Annotated[list[str], Field(min_length=2, max_length=2)]
"""What a reader calls something: a name, or a short and a long one."""


class _Config(BaseModel):
    model_config = STRICT


class Rule(_Config):
    """An overlay for the runs whose axes have these values."""

    when: dict[str, str | list[str]]
    set: Overlay


class Doubt(_Config):
    """Why runs decide nothing about a claim: `reporting.claims.Doubt`."""

    why: str
    until: str = ""


class Experiment(_Config):
    """The product of its axes.

    Attributes:
        table: the published table whose cells it fills.
        open: new methods join it.
        seeds: how many of the scale's seeds it is repeated with; null for all.
    """

    about: str
    table: str
    axes: Annotated[dict[str, list[AxisValue]], AfterValidator(_with_methods)]
    open: bool = False
    seeds: PositiveInt | None = None


class Measure(_Config):
    """A column of a table of measures.

    Attributes:
        where: which records it is, column -> values.
        of: the columns that its number is the sum of; of other columns than `value`, once for each run.
        per: what the sum is divided by.
        unit: of the result; the records' own if empty.
        better: which number is, so that the best are marked; null if none is to be.
        lacks: why a method that has the ability has no such number, where others have one.
    """

    where: dict[Column, list[str]] = {}
    of: Annotated[list[Column], Field(min_length=1)] = ["value"]
    per: PositiveFloat = 1.0
    unit: str = ""
    better: Literal["high", "low"] | None = None
    lacks: str = ""


class Layout(_Config):
    """A table.

    Attributes:
        blocks, rows, columns: the record columns that choose a block of it, a row and a column.
        where: which records are in it, column -> values; the table's own accuracies over all clients if not given.
        reference: the row that trends are read from.
        means: compare with the means as printed, or as recomputed from the printed cells.
        quotes: numbers of the paper's text that belong into the table: `when` columns have these values, `set` these.
        note: what a reader has to know of our numbers; it stands under the table.
        measures: ability -> measure -> what it is; `columns` are then `ability`, `measure` and whatever else tells the
            numbers of a measure apart, and the best methods are marked.
        unable: ability -> why a method has no number of it, where others have one.
        apart: column -> values of the methods that stand among the ceilings.
        ranked_over: columns that make a block, in which methods are ranked by their means over seeds; the table then
            holds mean ranks.
    """

    title: str
    blocks: list[CellColumn] = []
    rows: list[CellColumn]
    columns: list[CellColumn]
    where: dict[Column, list[str]] = {}
    reference: dict[CellColumn, str] = {}
    means: Literal["printed", "recomputed"] = "printed"
    quotes: list[Rule] = []
    note: str = ""
    measures: dict[str, dict[str, Measure]] = {}
    unable: dict[str, str] = {}
    apart: dict[CellColumn, list[str]] = {}
    ranked_over: list[Column] = []

    @model_validator(mode="after")
    def _measures_are_columns(self) -> "Layout":
        if self.measures and not {ABILITY, MEASURE} <= {*self.columns}:
            raise ValueError(f"columns: must name {ABILITY} and {MEASURE}, got {', '.join(self.columns)}")
        for ability in self.unable:
            choose("unable", ability, self.measures)
        if self.ranked_over and not self.measures:
            raise ValueError("ranked_over: needs measures, by which methods are ranked")
        silent = [name for several in self.measures.values() for name, m in several.items() if not m.better]
        if self.ranked_over and silent:
            raise ValueError(f"measures: '{silent[0]}' says not what is better, so that nothing can be ranked by it")
        return self


class JudgeSettings(_Config):
    """The classifier that judges generated images, trained on real ones.

    Attributes:
        width: channels of its first convolution.
        features: on which the Fréchet distance is taken.
        epochs: passes over all training images; in each, an image is seen as a client drawn at random sees it.
        splits: where something is to be judged; everywhere if empty.
        whole: data sets of which it sees all images that are not for tests, also those that nobody was dealt: a few
            hundred do not show what photographs or paintings are.
    """

    width: PositiveInt = 16
    features: PositiveInt = 64
    epochs: PositiveInt = 5
    splits: list[str] = []
    whole: list[str] = []

    def judges(self, spec: Spec) -> bool:
        """Whether anything of a run is judged."""
        return not self.splits or spec.labels["split"] in self.splits


class Figure(_Config):
    """A figure: what it shows, what it is drawn from, and of which runs (axis -> values)."""

    shows: str
    data: Literal["records", "style-map", "code-map", "class-counts", "samples", "points", "searches", "ranks"] = (
        "records"
    )
    where: dict[str, list[str]] = {}


class Paper(_Config):
    """What was published: config/papers/<paper>.yaml.

    Attributes:
        defaults: the specification that all runs start from.
        evaluation: what is measured on each run, and the settings of each measurement; its name is the key, or the
            setting `name` where an evaluation is asked for more than once.
        judge: settings of the classifier that judges generated images; none, if a paper has none.
        axes: what each value of an axis lays over the specification; its `labels` say which published cells a variant
            fills, where these are not named after it.
        newcomers_as: the method whose settings, but for its algorithm's, a method starts from that no paper names.
        only: those of its experiments that a scale runs; all if empty.
        claims: claim -> columns that its published expression leaves open; of several such sets, it is asked once with
            each.
        undecided: claim -> why runs of this size decide nothing about it, whichever way their numbers point; or why
            there is no run of it.
        aliases: column -> what the published expressions call a value -> what our records call it: a value of the same
            column, or columns and their values.
        words: column -> value -> what tables call it; or a short name that stands in them and a long one for below.
        budget_curves: what its main claims are about: the name of a quantity -> columns of its records, and values.
        tuning: the search for what the paper is silent on.
    """

    title: str
    defaults: Overlay
    evaluation: dict[str, Overlay]
    judge: JudgeSettings | None = None
    axes: dict[str, dict[AxisValue, Overlay]]
    newcomers_as: str = ""
    rules: list[Rule] = []
    experiments: dict[str, Experiment]
    only: list[str] = []
    tables: dict[str, Layout]
    claims: dict[str, Columns | list[Columns]] = {}
    undecided: dict[str, Doubt] = {}
    aliases: dict[str, dict[str, str | dict[str, str | list[str]]]] = {}
    words: dict[Annotated[str, AfterValidator(_is_axis)], dict[str, Called]] = {}
    figures: dict[str, Figure] = {}
    budget_curves: dict[str, dict[str, list[str]]] = {}
    tuning: Tuning | None = None

    @model_validator(mode="after")
    def _only_what_there_is(self) -> "Paper":
        for name in self.only:
            choose("only", name, self.experiments)
        return self

    @property
    def run(self) -> list[Experiment]:
        """The experiments that are run."""
        return [self.experiments[name] for name in self.only or self.experiments]


PaperName = Annotated[str, Field(pattern="^[a-z][a-z0-9]*$")]
"""Names of files and targets are put together of it, with a hyphen behind it."""


class Scale(_Config):
    """How big everything is: config/scales/<scale>.yaml.

    Attributes:
        about: what it runs on, how long it takes and what comes out, for `diptych list`.
        seeds: each run is repeated with each of them.
        defaults: an overlay over every paper's `defaults`.
        papers: an overlay over each paper's file; papers that are not named are not run.
        left_out: axis -> value -> why nothing is run with this value at this scale.
    """

    about: str
    seeds: Annotated[list[NonNegativeInt], Field(min_length=1), AfterValidator(_all_different)]
    defaults: Overlay = {}
    papers: Annotated[dict[PaperName, Overlay], Field(min_length=1)]
    left_out: dict[str, dict[str, Annotated[str, Field(min_length=1)]]] = {}


def merged(base: Any, overlay: Any) -> Any:
    """`base` with `overlay` laid over it, key by key. A new `name` replaces the settings of the old one as well."""
    if not (isinstance(base, dict) and isinstance(overlay, dict)):
        return overlay
    if "name" in overlay and overlay["name"] != base.get("name"):
        return overlay
    return {
        key: merged(base[key], overlay[key]) if key in base and key in overlay else {**base, **overlay}[key]
        for key in {**base, **overlay}
    }


def names_in(folder: str) -> list[str]:
    """The names that the files of a config folder define."""
    return sorted(path.stem for path in (CONFIG / folder).glob("*.yaml"))


@cache
def paper_yaml(paper: str) -> dict[str, Any]:
    """What the file of a paper says."""
    return read_yaml(CONFIG / "papers" / f"{paper}.yaml")


def read_paper(paper: str, overlay: Overlay | None = None, scale: str = "") -> Paper:
    """What was published, with `overlay` laid over it, which is of a scale."""
    where = f"config/papers/{paper}.yaml" + (f" with config/scales/{scale}.yaml over it" if overlay and scale else "")
    return checked(Paper, where, merged(paper_yaml(paper), overlay or {}))


def read_scale(scale: str) -> Scale:
    """What a file of `config/scales` says."""
    return checked(Scale, f"config/scales/{scale}.yaml", read_yaml(CONFIG / "scales" / f"{scale}.yaml"))


def tuned(scale: str, paper: str) -> Path:
    """Where the records of a search lie that says what is chosen, if there are any."""
    return CONFIG / "tuned" / scale / f"{paper}.csv"
