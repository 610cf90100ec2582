use rule train as train_server_only with:
    output: **run("server-only")
    log: log("server-only")
    params: **params("server-only")
