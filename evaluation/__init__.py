"""Arrays in, records out. An evaluation reads a run's folder, and so works on the runs of any program."""
