"""The programs that are compared, each FedAvg as its simulator wants it written: `run(problem, workers, rounds,
after_round)`."""
