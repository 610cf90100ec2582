use rule train as train_fedstyle with:
    output: **run("fedstyle")
    log: log("fedstyle")
    params: **params("fedstyle")
