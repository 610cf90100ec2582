"""Where everything comes together: specifications, runs, the command line and the helpers of the Snakefile."""
