use rule train as train_fedrep with:
    output: **run("fedrep")
    log: log("fedrep")
    params: **params("fedrep")
