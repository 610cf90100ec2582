"""Diptych: sources -> runs -> records -> tables, figures, claims, report.

    snakemake --cores 8 tables                             every table, on embedded data
    snakemake --cores 8 figures claims                     every figure; which claims hold
    snakemake --cores 8 fedstyle                           tables, figures and claims of one paper
    snakemake --cores 8 fedstyle_figure5                   one figure
    snakemake --cores 8 report                             all of it in one HTML file
    snakemake --cores 8 tune --config scale=reduced        what papers are silent on: see docs/tuning.md
    snakemake --cores 8 tables --config scale=reduced      real data, cut rounds (scale=paper: as published)

Everything lands in results/<scale>. Each rule calls one `diptych` command, which can be run by hand as well.
"""

from common.codehash import code_hash
from diptych import hooks
from diptych.workflow import Workflow, content

flow = Workflow(config)
run, log, params, results = flow.run, flow.log, flow.params, flow.results
printed = content("results/paper/*.csv")


hooks.introduce(workflow, flow.scale, results, flow.notice)


envvars: "DIPTYCH_DATA",  # where real data are; not a parameter, so that moving them reruns nothing


wildcard_constraints:
    paper="[a-z][a-z0-9]*",
    condition="[^/]+",
    method="[^/]+",
    variant="[^/]+",
    seed="[0-9]+",
    figure="[^/.]+",
    source="[^/]+",
    ending="csv|npz",


onstart:
    hooks.before(workflow, flow.scale, results)


onsuccess:
    hooks.after(workflow, results)


onerror:
    hooks.after(workflow, results)


# the second line takes seconds and fetches: with a cluster, on the machine where Snakemake itself runs
localrules: tables, figures, claims, tune, all,
    source, count, records, all_records, table, claim


rule all:
    input: flow.tables(), flow.figures(), flow.claims()


rule tables:
    input: flow.tables(), flow.all_records


rule figures:
    input: flow.figures()


rule claims:
    input: flow.claims()


rule tune:
    input: flow.searches()


# ---- sources: fetched and verified once, before anything trains on them


rule source:
    output: f"{results}/sources/{{source}}.csv"
    log: f"{results}/logs/sources/{{source}}.log"
    params: name=flow.source, files=flow.own_files
    message: "get source {params.name} ready"
    shell: "diptych source {params.name:q} --out {output} > {log} 2>&1"


# ---- runs: a rule for each method, in baselines/*.smk and methods/*.smk; this is what they build on


rule train:
    input: flow.inputs
    output: **run("_")
    log: log("_")
    params: run="", scale="", folder="", spec="", code=""
    threads: 1
    resources: gpu=min(1, flow.gpus), mem_mb=flow.memory, runtime=flow.minutes
    group: flow.group
    message: "train {params.run}"
    shell:
        "diptych train {params.run} --scale {params.scale} --out {params.folder} --threads {threads} > {log} 2>&1"


for rules_of_a_method in sorted(Path(workflow.basedir).glob("[bm]*s/*.smk")):
    include: rules_of_a_method


# ---- judges: classifiers of real images, in whose eyes generated ones are measured


rule judge:
    input: flow.sources
    output: f"{results}/judges/{{paper}}/{{condition}}/{{seed}}.safetensors"
    log: f"{results}/logs/judges/{{paper}}/{{condition}}/{{seed}}.log"
    params: **flow.judge()
    group: "training"
    message: "train the judge of {wildcards.condition}, seed {wildcards.seed}"
    shell:
        "diptych judge {params.run} --scale {params.scale} --out {output} --threads {threads} > {log} 2>&1"


# ---- searches: trials compared by images that no client trains on; nothing else waits for them


rule search:
    input: lambda wildcards: flow.finished(flow.trials(wildcards))
    output: f"{results}/tuning/{{paper}}.csv"
    log: f"{results}/logs/tuning/{{paper}}.log"
    params: scale=flow.scale, runs=f"{results}/runs", tuning=flow.tuning, code=code_hash("diptych.search")
    message: "compare the trials of {wildcards.paper}"
    shell: "diptych tune {wildcards.paper} --scale {params.scale} --runs {params.runs} --out {output} > {log} 2>&1"


# ---- records: what is measured on the runs


rule evaluate:
    input: flow.judges, lambda wildcards: flow.finished(flow.folders(wildcards))
    output: f"{results}/records/{{paper}}/{{method}}.csv"
    log: f"{results}/logs/evaluate/{{paper}}/{{method}}.log"
    params:
        runs=flow.folders,
        settings=flow.measured,
        cells=flow.cells,
        judges=f"{results}/judges",
        code=code_hash("diptych.measurement"),
    group: "measuring"
    message: "evaluate the runs of {wildcards.method}"
    shell:
        "diptych evaluate {params.runs} --judges {params.judges} --out {output} --threads {threads} > {log} 2>&1"


rule simpson:
    output: records=f"{results}/records/padpaf/simpson.csv", points=f"{results}/padpaf-points.csv"
    log: f"{results}/logs/evaluate/padpaf/simpson.log"
    params:
        scale=flow.scale,
        seeds=flow.study.scale.seeds,
        code=code_hash("diptych.simpson", "methods.padpaf", "baselines.fedper"),
    group: "measuring"
    message: "Simpson's paradox"
    shell: "diptych simpson --scale {params.scale} --out {output.records} --points {output.points} > {log} 2>&1"


ruleorder: simpson > evaluate


rule count:
    output: f"{results}/counted.csv"
    log: f"{results}/logs/evaluate/counted.log"
    params:
        scale=flow.scale,
        counted=flow.counted(),
        code=code_hash(
            "diptych.counted",
            *("methods.fedinb", "methods.ps_fedgan", "methods.full_gan", "methods.padpaf", "baselines.fedavg"),
        ),
    message: "count what needs no run"
    shell: "diptych count --scale {params.scale} --out {output} > {log} 2>&1"


rule records:
    input: parts=flow.records, measured=flow.given
    output: f"{results}/records/{{paper}}.csv"
    log: f"{results}/logs/records/{{paper}}.log"
    params: scale=flow.scale, code=code_hash("diptych.gathering"), cells=flow.cells
    message: "put the records of {wildcards.paper} together"
    shell:
        "diptych records {input.parts} --measured {input.measured} --paper {wildcards.paper} --scale {params.scale}"
        " --out {output} > {log} 2>&1"


rule all_records:
    input: flow.records_of_papers()
    output: flow.all_records
    log: f"{results}/logs/records.log"
    params: scale=flow.scale, code=code_hash("diptych.gathering"), cells=flow.cells()
    message: "put all records together"
    shell: "diptych records {input} --scale {params.scale} --out {output} > {log} 2>&1"


# ---- tables, claims, figures: from the records of a paper alone


rule table:
    input: f"{results}/records/{{paper}}.csv"
    output: multiext(f"{results}/tables/{{paper}}-{{table}}", md=".md", csv=".csv", tex=".tex")
    log: f"{results}/logs/tables/{{paper}}-{{table}}.log"
    params:
        scale=flow.scale,
        layout=flow.layout,
        without=flow.left_out,
        printed=printed,
        code=code_hash("diptych.outputs"),
    message: "lay out {wildcards.table} of {wildcards.paper}"
    shell:
        "diptych table {wildcards.paper}-{wildcards.table} --scale {params.scale} --records {input}"
        " --out {output.md} --without {params.without} > {log} 2>&1"


rule claim:
    input: f"{results}/records/{{paper}}.csv"
    output: multiext(f"{results}/claims/{{paper}}", md=".md", csv=".csv")
    log: f"{results}/logs/claims/{{paper}}.log"
    params:
        scale=flow.scale,
        asked=flow.asked,
        printed=printed,
        code=code_hash("diptych.outputs"),
    message: "say which claims of {wildcards.paper} hold"
    shell: "diptych claims {wildcards.paper} --scale {params.scale} --records {input} --out {output.md} > {log} 2>&1"


rule extract:
    input: lambda wildcards: flow.finished(flow.figure_folders(wildcards))
    output: f"{results}/figures/data/{{figure}}.{{kind}}.{{ending}}"
    log: f"{results}/logs/figures/{{figure}}.{{kind}}.{{ending}}.log"
    params: runs=flow.figure_folders, labels=flow.figure_labels, code=code_hash("evaluation.extracts")
    group: "drawing"
    message: "extract what {wildcards.figure} is drawn from"
    shell: "diptych extract {wildcards.kind} {params.runs} --out {output} > {log} 2>&1"


rule figure:
    input: flow.figure_data
    output: multiext(f"{results}/figures/{{figure}}", png=".png", pdf=".pdf", svg=".svg")
    log: f"{results}/logs/figures/{{figure}}.log"
    params: scale=flow.scale, words=flow.words, printed=printed, code=code_hash("diptych.drawing")
    group: "drawing"
    message: "draw {wildcards.figure}"
    shell: "diptych figure {wildcards.figure} --scale {params.scale} --data {input} --out {output} > {log} 2>&1"


rule report:
    input: flow.all_records, flow.tables(), flow.claims(), flow.figures()
    output: f"{results}/report.html"
    log: f"{results}/logs/report.log"
    params:
        results=subpath(output[0], parent=True),
        without=flow.left_out,
        code=code_hash("diptych.reported"),
        papers=flow.reported(),
        page=content("reporting/templates/*"),
        printed=printed,
    message: "put everything on one page"
    shell: "diptych report {params.results} --out {output} --without {params.without} > {log} 2>&1"


for paper in flow.study.papers:

    rule:
        name: paper
        input: flow.tables(paper), [file for figure in flow.figure_names(paper) for file in flow.figures(figure)], flow.claims(paper)


for figure in flow.figure_names():  # a short target for each, such as fedstyle_figure5

    rule:
        name: figure.replace("-", "_")
        input: flow.figures(figure)
