use rule train as train_fedprox with:
    output: **run("fedprox")
    log: log("fedprox")
    params: **params("fedprox")
