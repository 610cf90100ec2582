"""The command line. Everything the Snakefile does can be done by hand with it."""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from common.errors import InputError
from common.files import check_writable, data_folder, data_root
from diptych.forkserver import delegated

if TYPE_CHECKING:
    from common.run_folder import RunFolder
    from common.spec import Spec

DESCRIPTION = """\
Federated learning of content and style: train a run, evaluate it, and put its numbers beside the published ones.

A run is described by a specification (spec.yaml) and leaves a folder. `snakemake --cores 8 tables` does all of a
scale's runs; each of its steps is one of these commands:

  diptych spec fedstyle/digit_1_iid_simclr/fedavg/default/2011 > spec.yaml    write a run's specification
  diptych train spec.yaml --out my-run                                         train it (Ctrl-C and resume as you like)
  diptych evaluate my-run --out records.csv                                    measure it
  diptych explain fedstyle-table1 'fedavg simclr generalization' 'digit mnist' where a cell's settings stand
  diptych list                                                                 what else there is
"""
THREADS = 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; wrong input ends in one sentence on stderr and exit status 2.

    Args:
        arguments: of the command; those of the process if None, whose command a workflow's fork server may do.
    """
    if arguments is None and (status := delegated(sys.argv[1:])) is not None:
        return status
    options = _parser().parse_args(arguments)
    try:
        _check(options)
        status = options.command(options) or 0
        sys.stdout.flush()
        return status
    except InputError as error:
        print(f"diptych: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("diptych: stopped; a training goes on from its last checkpoint if it is started again", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"diptych: {error.filename or 'standard output'}: {error.strerror or error}", file=sys.stderr)
        return 2


def _check(options: argparse.Namespace) -> None:
    """What can be said of options before anything is loaded: wrong ones cost no minutes."""
    given = vars(options)
    for key in ("out", "points") if options.command is not _train else ():
        files = given.get(key) or []
        for file in files if isinstance(files, list) else [files]:
            check_writable(file)
    if options.command in (_table, _claims, _board) and options.out.suffix != ".md":
        raise InputError(f"--out: must end in .md, got {options.out}")
    if options.command in (_table, _claims) and options.records == options.out.with_suffix(".csv"):
        raise InputError(
            f"--out: must be another name than that of --records, whose file {options.records} would be lost"
        )
    if options.command is _judge and options.out.suffix != ".safetensors":
        raise InputError(f"--out: must end in .safetensors, got {options.out}")
    if options.command is _report and options.out.suffix != ".html":
        raise InputError(f"--out: must end in .html, got {options.out}")
    if "data" in given:
        options.data = data_root() if options.data is None else data_folder("--data", options.data)
    if (points := given.get("points")) and points == options.out:
        raise InputError(f"--points: must be another file than --out, got {points} for both")
    if not 1 <= given.get("threads", 1) <= THREADS:
        raise InputError(f"--threads: must be at least 1 and at most {THREADS}, got {options.threads}")
    if (seeds := given.get("seeds")) is not None and seeds < 1:
        raise InputError(f"--seeds: must be at least 1, got {seeds}")
    if not 0 <= given.get("checkpoint_every", 0) < math.inf:
        raise InputError(f"--checkpoint-every: must be a number of seconds, got {options.checkpoint_every}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "diptych", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, function, about: str) -> argparse.ArgumentParser:  # type: ignore[no-untyped-def]
        sub = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        sub.set_defaults(command=function)
        return sub

    p = command("list", _list, "what there is: algorithms, objectives, sources, scales, papers, tables, ...")
    p.add_argument("kind", nargs="?", help="only this kind, such as `algorithms`")

    p = command("runs", _runs, "the names of all runs of a scale")
    _scale(p)
    p.add_argument("--trials", action="store_true", help="those of searches instead, which no table needs")

    p = command("spec", _spec, "print the specification of a run that a scale asks for")
    p.add_argument("run", help="a name from `diptych runs`")
    _scale(p)

    p = command("explain", _explain, "where a table's cell comes from: its runs, each setting with file and line")
    p.add_argument("table", help="such as fedstyle-table1; see `diptych list tables`")
    p.add_argument("row", help="words of its row, such as 'fedavg simclr'")
    p.add_argument("column", help="words of its column, such as 'digit mnist'")
    _scale(p)

    p = command("check", _check_scale, "build every run of a scale without training it, and load its data")
    _scale(p)
    _data(p)

    p = command("cost", _cost, "guess how long the trainings of a scale take on a machine, and their memory")
    p.add_argument("--paper", help="of this paper alone")
    p.add_argument("--on", default="2-cores", metavar="MACHINE", help="such as 2-cores (default) or 8xA100")
    _scale(p)

    p = command("source", _source, "fetch a source of images if it is not there, and verify it")
    p.add_argument("name", help="such as mnist; see `diptych list sources`")
    _data(p)
    p.add_argument("--out", type=Path, help="where to write its size and digest (CSV)")

    p = command("train", _train, "train a run; it goes on from its checkpoint if it was stopped")
    p.add_argument("spec", help="the run's specification, a YAML file; or its name, if --scale is given")
    p.add_argument("--out", type=Path, help="the run's folder (default: where the specification is)")
    p.add_argument("--scale", help="a name from config/scales, which asks for the run")
    _data(p)
    p.add_argument(
        "--threads", type=int, default=1, help="clients trained side by side; any number gives the same weights"
    )
    p.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, or auto: a GPU if there is one (default)")
    p.add_argument("--captured", action="store_true", help="on a GPU, record a step's launches and play them again")
    p.add_argument("--checkpoint-every", type=float, default=30.0, metavar="SECONDS", help="default: 30")

    p = command("judge", _judge, "train the classifier that judges a run's generated images, on real ones")
    p.add_argument("run", help="a name from `diptych runs`; all runs of its condition and seed share the judge")
    p.add_argument("--out", type=Path, required=True, help="a .safetensors file")
    _scale(p)
    _data(p)
    p.add_argument("--threads", type=int, default=1)

    p = command("evaluate", _evaluate, "measure finished runs and write their records")
    p.add_argument("runs", type=Path, nargs="+", help="run folders")
    p.add_argument("--judges", type=Path, help="where judges are, as <paper>/<condition>/<seed>.safetensors")
    p.add_argument("--out", type=Path, required=True, help="the records (CSV)")
    p.add_argument("--threads", type=int, default=1)

    p = command("simpson", _simpson, "PaDPaF's experiment on Simpson's paradox: records, and the points of its figures")
    p.add_argument("--out", type=Path, required=True, help="the records (CSV)")
    p.add_argument("--points", type=Path, required=True, help="what the figures show (CSV)")
    p.add_argument("--seeds", type=int, metavar="N", help="N from the scale's first one on (default: the scale's)")
    _scale(p)

    p = command("count", _count, "what needs no run: records that follow from specifications or hold of any data")
    p.add_argument("--out", type=Path, required=True, help="the records (CSV)")
    _scale(p)
    _data(p)

    p = command("tune", _tune, "compare the trials of a paper's search, and say what is chosen for each method")
    p.add_argument("paper")
    p.add_argument("--runs", type=Path, required=True, help="where the folders of runs are")
    p.add_argument("--out", type=Path, required=True, help="the records (CSV)")
    _scale(p)

    p = command("extract", _extract, "extract the small table that a figure is drawn from")
    p.add_argument("kind", choices=["style-map", "code-map", "class-counts", "searches", "samples"])
    p.add_argument("runs", type=Path, nargs="*", help="run folders")
    p.add_argument("--out", type=Path, required=True)

    p = command("records", _records, "put the records of a scale's runs together, each under the tables that it is for")
    p.add_argument("parts", type=Path, nargs="+", help="what `diptych evaluate` wrote")
    p.add_argument("--measured", type=Path, nargs="*", default=[], help="earlier records, of runs not done again")
    p.add_argument("--paper", default="", help="of this paper's runs alone")
    p.add_argument("--out", type=Path, required=True)
    _scale(p)

    p = command("table", _table, "lay out a table, the published number beside ours, as CSV, Markdown and LaTeX")
    p.add_argument("name", help="such as fedstyle-table1; see `diptych list tables`")
    p.add_argument("--records", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True, help="a .md file; the same as .csv and .tex goes beside it")
    p.add_argument("--without", nargs="*", default=[], metavar="DATASET", help="whose images are not here")
    _scale_of_records(p)

    p = command("claims", _claims, "say which claims of a paper the records support")
    p.add_argument("paper")
    p.add_argument("--records", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True, help="a .md file; the same as .csv goes beside it")
    _scale_of_records(p)

    p = command("compare", _compare, "whether records tell one number from another")
    p.add_argument("expression", help="such as \"q('accuracy', method='ditto') > q('accuracy', method='fedavg')\"")
    p.add_argument("--records", type=Path, required=True)
    p.add_argument("--where", nargs="*", default=[], metavar="COLUMN=VALUE", help="of every number that it asks for")

    p = command("board", _board, "what is known of every printed number, claim and figure, by all records of a folder")
    p.add_argument("folder", type=Path, help="such as results/reference, with <name>/records.csv in it")
    p.add_argument("--out", type=Path, required=True, help="a .md file")
    p.add_argument("--readme", type=Path, help="a page whose table of the papers is to be brought up to date as well")

    p = command("verify", _verify, "whether records, tables and claims of a folder are what would be made today")
    p.add_argument("folder", type=Path, help="such as results/reference, with <name>/records.csv in it")
    p.add_argument("--board", type=Path, help="the board that was made of it")

    p = command("remake", _remake, "make the tables, claims and figures of a folder anew that are made of its records")
    p.add_argument("folder", type=Path, help="such as results/reference, with <name>/records.csv in it")

    p = command("report", _report, "everything that records say, as one HTML file that opens from disk")
    p.add_argument("folders", type=Path, nargs="+", help="with records.csv in them, or in folders of theirs")
    p.add_argument("--out", type=Path, required=True, help="an .html file")
    p.add_argument("--without", nargs="*", default=[], metavar="DATASET", help="whose images are not here")

    p = command("figure", _figure, "draw a figure (without torch)")
    p.add_argument("name", help="such as fedstyle-figure5; see `diptych list figures`")
    p.add_argument("--data", type=Path, required=True, dest="source", help="records, or what `diptych extract` wrote")
    p.add_argument("--out", type=Path, required=True, nargs="+", help=".png, .pdf or .svg files")
    _scale_of_records(p)
    return parser


def _scale(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", default="digits", help="a name from config/scales (default: digits)")


def _scale_of_records(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", help="a name from config/scales (default: that of the records, else digits)")


def _data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="FOLDER", help="the data root (default: $DIPTYCH_DATA or ./data)")


# The commands import what they need themselves, so that `--help` and those without torch stay fast.


def _list(options: argparse.Namespace) -> None:
    from diptych.catalogue import catalogue

    print(catalogue(options.kind))


def _runs(options: argparse.Namespace) -> None:
    from diptych.study import load_study

    study = load_study(options.scale)
    for run in study.tried if options.trials else study.specs:
        print(run)


def _spec(options: argparse.Namespace) -> None:
    print(_of_scale(options.run, options.scale).to_yaml(), end="")


def _explain(options: argparse.Namespace) -> None:
    from diptych.explain import explain
    from diptych.study import load_study

    print(explain(load_study(options.scale), options.table, options.row, options.column))


def _of_scale(run: str, scale: str) -> "Spec":
    from common.errors import choose
    from diptych.study import load_study

    specs = load_study(scale).trained
    return specs[choose("run", run, specs, f"diptych runs --scale {scale}")]


def _check_scale(options: argparse.Namespace) -> None:
    from diptych.check import check

    check(options.scale, options.data)


def _cost(options: argparse.Namespace) -> None:
    from diptych.cost import bills, machine, told
    from diptych.study import load_study

    on = machine(options.on)
    print(told(bills(load_study(options.scale), on, options.paper), on))


def _source(options: argparse.Namespace) -> None:
    from common.run_folder import write_csv
    from partitions import load

    source = load(options.name, 32, options.data)
    row = {"source": source.name, "images": len(source.labels), "classes": source.classes, "sha256": source.sha256}
    print(", ".join(f"{key} {value}" for key, value in row.items()))
    if options.out:
        write_csv(options.out, [row], list(row))


def _train(options: argparse.Namespace) -> None:
    from common.spec import read_spec
    from diptych.process import choose_device, use_threads

    if options.scale and not options.out:
        raise InputError("--out: the folder of the run is needed, since its specification is in no file")
    if not options.scale and not Path(options.spec).exists():
        raise InputError(f"{options.spec}: there is no such file; of the name of a run --scale is needed as well")
    spec = _of_scale(options.spec, options.scale) if options.scale else read_spec(Path(options.spec))
    use_threads(1)  # those of --threads are clients'
    from diptych.training import train

    if options.scale:  # else what is wrong there would be found when all is trained
        from diptych.check import check_evaluation
        from diptych.study import load_study

        check_evaluation(load_study(options.scale).papers[spec.labels["paper"]])
    device = choose_device(options.device)
    if options.captured and not (device.startswith("cuda") and options.threads == 1):
        raise InputError("--captured: launches are those of a GPU, by one thread")
    train(
        spec,
        options.out or Path(options.spec).parent,
        options.data,
        workers=options.threads,
        device=device,
        captured=options.captured,
        checkpoint_every=options.checkpoint_every,
    )


def _run_of_today(folder: Path) -> "RunFolder":
    """The folder of a run; in a workflow's, the run has the labels that its scale gives it today."""
    from common.run_folder import RunFolder
    from diptych.configuration import names_in
    from diptych.study import load_study

    run = RunFolder(folder)
    scale, name = run.spec.scale, run.spec.run
    in_workflow = folder.resolve().parts[-5:] == tuple(name.split("/")) and scale in names_in("scales")
    today = load_study(scale).specs.get(name) if in_workflow else None
    return replace(run, renamed=today.labels) if today else run


def _evaluate(options: argparse.Namespace) -> None:
    from common.records import COLUMNS
    from common.run_folder import write_csv
    from diptych.measurement import measure
    from diptych.process import use_threads

    use_threads(options.threads)
    runs = [_run_of_today(folder) for folder in options.runs]
    records = [record for run in runs for record in measure(run.judged(options.judges))]
    write_csv(options.out, records, COLUMNS)


def _judge(options: argparse.Namespace) -> None:
    from diptych.configuration import JudgeSettings
    from diptych.process import use_threads
    from diptych.study import load_study

    spec = _of_scale(options.run, options.scale)
    use_threads(options.threads)
    from diptych.judging import train_judge

    settings = load_study(options.scale).papers[spec.labels["paper"]].judge or JudgeSettings()
    for row in train_judge(spec, settings, options.data, options.out):
        print(f"{row['metric']} {row['setting']}: {row['value']:.3f}")


def _simpson(options: argparse.Namespace) -> None:
    from diptych.process import use_threads
    from diptych.study import load_study

    seeds = load_study(options.scale).scale.seeds
    if options.seeds is not None:
        seeds = [seeds[0] + n for n in range(options.seeds)]
    use_threads(1)
    from diptych.simpson import measure

    measure(options.scale, seeds, options.out, options.points)


def _count(options: argparse.Namespace) -> None:
    from diptych.process import use_threads

    use_threads(1)
    from diptych.counted import measure

    measure(options.scale, Path(options.data), options.out)


def _tune(options: argparse.Namespace) -> None:
    from common.errors import choose
    from common.run_folder import write_csv
    from diptych.search import COLUMNS, compare
    from diptych.study import load_study

    study = load_study(options.scale)
    tuning = study.papers[choose("paper", options.paper, study.papers)].tuning
    if tuning is None:
        raise InputError(f"paper: there is no search of '{options.paper}' at the scale '{options.scale}'")
    trials = [trial for trial in study.trials.values() if trial.spec.labels["paper"] == options.paper]
    probe = study.papers[options.paper].evaluation.get("probe", {})
    write_csv(options.out, compare(trials, tuning.rounds, probe, options.runs), COLUMNS)


def _extract(options: argparse.Namespace) -> None:
    from common.run_folder import write_arrays, write_csv
    from evaluation.extracts import EXTRACTS, IMAGES

    runs = [_run_of_today(folder) for folder in options.runs]
    for run in runs:
        run.check()
    if options.kind in IMAGES:
        write_arrays(options.out, {key: x for run in runs for key, x in IMAGES[options.kind](run).items()})
        return
    extract, columns = EXTRACTS[options.kind]
    labels = ["dataset", "ssl", "split", "method", "variant"]
    rows = [{key: run.labels.get(key) for key in labels} | row for run in runs for row in extract(run)]
    write_csv(options.out, rows, [*labels, *columns])


def _records(options: argparse.Namespace) -> None:
    from diptych.gathering import gather

    gather(options.scale, options.parts, options.out, options.measured, options.paper)


def _table(options: argparse.Namespace) -> None:
    from common.errors import choose
    from diptych.outputs import named, study_of, table
    from reporting.records import read_records

    study = study_of(options.records, options.scale)
    for dataset in options.without:
        choose("--without", dataset, {spec.labels["dataset"] for spec in study.specs.values()})
    study = study.without(options.without)
    table(study, named(study, options.name), read_records(options.records), options.out)


def _claims(options: argparse.Namespace) -> None:
    from common.errors import choose
    from diptych.outputs import claims, study_of
    from reporting.records import read_records

    study = study_of(options.records, options.scale)
    claiming = [paper for paper, config in study.papers.items() if config.claims]
    claims(study, choose("paper with claims", options.paper, claiming), read_records(options.records), options.out)


def _compare(options: argparse.Namespace) -> None:
    from reporting.compared import compared, shelf
    from reporting.records import read_records

    for given in options.where:
        if "=" not in given:
            raise InputError(f"--where: must be COLUMN=VALUE, got {given}")
    where = dict(given.split("=", 1) for given in options.where)
    print(compared(options.expression, shelf(read_records(options.records)), where).said)


def _board(options: argparse.Namespace) -> None:
    from common.files import written
    from diptych.board import board_of, linked, titles
    from reporting.board import with_summary, write_board

    board = board_of(options.folder)
    if options.readme:
        page = with_summary(_read_page(options.readme), board, linked())
        with written(options.readme) as part:
            part.write_text(page)
    write_board(board, titles(), options.out)
    print("\n".join(board.totals))


def _read_page(file: Path) -> str:
    try:
        return file.read_text()
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is no text ({error.reason})") from error


def _verify(options: argparse.Namespace) -> int:
    from diptych.verify import verify

    found = verify(options.folder, options.board)
    print(found.report)
    return 1 if found.stale else 0


def _report(options: argparse.Namespace) -> None:
    from diptych.reported import material
    from reporting.report import write_report

    write_report(material(options.folders, options.without), options.out)
    print(f"open {options.out} in a browser")


def _remake(options: argparse.Namespace) -> None:
    from diptych.verify import remake

    print(f"{len(remake(options.folder))} tables, lists of claims and figures made of the records in {options.folder}")


def _figure(options: argparse.Namespace) -> None:
    from common.errors import choose
    from diptych.drawing import figure
    from diptych.outputs import study_of
    from reporting.figures import FIGURES

    study = study_of(options.source, options.scale)
    figure(study, choose("figure", options.name, FIGURES), options.source, options.out)
