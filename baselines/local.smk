use rule train as train_local with:
    output: **run("local")
    log: log("local")
    params: **params("local")
