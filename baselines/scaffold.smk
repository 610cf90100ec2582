use rule train as train_scaffold with:
    output: **run("scaffold")
    log: log("scaffold")
    params: **params("scaffold")
