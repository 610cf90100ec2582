use rule train as train_centralized with:
    output: **run("centralized")
    log: log("centralized")
    params: **params("centralized")
