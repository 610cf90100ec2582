"""What every package may use: clear errors, atomic files, random keys, provenance. Knows nothing of the others."""
