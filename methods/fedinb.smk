use rule train as train_fedinb with:
    output: **run("fedinb")
    log: log("fedinb")
    params: **params("fedinb")
