use rule train as train_feddva with:
    output: **run("feddva")
    log: log("feddva")
    params: **params("feddva")
