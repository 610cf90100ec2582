use rule train as train_fedavg_server with:
    output: **run("fedavg-server")
    log: log("fedavg-server")
    params: **params("fedavg-server")
