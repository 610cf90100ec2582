use rule train as train_padpaf with:
    output: **run("padpaf")
    log: log("padpaf")
    params: **params("padpaf")
