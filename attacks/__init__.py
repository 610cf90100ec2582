"""Who listens on the channel, and what can be made of what is heard. Nobody here sees anything else."""
