use rule train as train_fedavg_ft with:
    output: **run("fedavg-ft")
    log: log("fedavg-ft")
    params: **params("fedavg-ft")
