use rule train as train_fedavg with:
    output: **run("fedavg")
    log: log("fedavg")
    params: **params("fedavg")
