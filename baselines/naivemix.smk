use rule train as train_naivemix with:
    output: **run("naivemix")
    log: log("naivemix")
    params: **params("naivemix")
