use rule train as train_apfl with:
    output: **run("apfl")
    log: log("apfl")
    params: **params("apfl")
