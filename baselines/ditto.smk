use rule train as train_ditto with:
    output: **run("ditto")
    log: log("ditto")
    params: **params("ditto")
