use rule train as train_feddirt with:
    output: **run("feddirt")
    log: log("feddirt")
    params: **params("feddirt")
