use rule train as train_sda_fl with:
    output: **run("sda-fl")
    log: log("sda-fl")
    params: **params("sda-fl")
