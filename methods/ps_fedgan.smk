use rule train as train_ps_fedgan with:
    output: **run("ps-fedgan")
    log: log("ps-fedgan")
    params: **params("ps-fedgan")
