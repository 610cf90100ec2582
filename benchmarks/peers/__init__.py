"""The engine beside other simulators: the same rounds, each peer in an environment of its own."""
