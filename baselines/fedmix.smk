use rule train as train_fedmix with:
    output: **run("fedmix")
    log: log("fedmix")
    params: **params("fedmix")
