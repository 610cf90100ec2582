"""Wrong input is answered by one clear sentence."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """What the user gave cannot be used; the message is one sentence naming the key, the value and what is allowed."""


def nearest(value: str, options: Iterable[str]) -> str:
    """The tail of an error sentence: the option closest to `value`, and all of them."""
    options = sorted(options)
    close = difflib.get_close_matches(value, options, n=1, cutoff=0.5)
    meant = f"did you mean '{close[0]}'? " if close else ""
    return f"{meant}allowed: {', '.join(options) or 'nothing'}"


def choose(key: str, value: str, options: Iterable[str]) -> str:
    """Return `value` if it is one of `options`; raise InputError naming the nearest option otherwise."""
    options = list(options)
    if value not in options:
        raise InputError(f"{key}: unknown name '{value}'; {nearest(str(value), options)}")
    return value
