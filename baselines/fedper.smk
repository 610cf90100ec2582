use rule train as train_fedper with:
    output: **run("fedper")
    log: log("fedper")
    params: **params("fedper")
