"""Random numbers that depend on what they are for, never on the order in which they are drawn."""

import hashlib


def random_key(*parts: int | str) -> int:
    """A seed in [0, 2**63) that is a function of `parts` alone, such as (seed, purpose, round, client).

    Python's own `hash` is salted per process and a global generator depends on call order; both would make a
    run depend on how its clients were scheduled.
    """
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
