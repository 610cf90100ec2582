"""Algorithms that work with any objective, one file each. The file's name is the algorithm's name."""
