use rule train as train_full_gan with:
    output: **run("full-gan")
    log: log("full-gan")
    params: **params("full-gan")
