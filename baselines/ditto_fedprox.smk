use rule train as train_ditto_fedprox with:
    output: **run("ditto-fedprox")
    log: log("ditto-fedprox")
    params: **params("ditto-fedprox")
