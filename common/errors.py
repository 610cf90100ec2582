"""Wrong input is answered by one clear sentence."""

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

LISTED = 50
"""Of more options than these only the nearest are named."""


class InputError(ValueError):
    """What the user gave cannot be used; the message is one sentence naming the key, the value and what is allowed."""


def nearest(value: str, options: Iterable[str], see: str = "") -> str:
    """The tail of an error sentence: the option closest to `value`, and all of them.

    Args:
        see: the command that shows all options; where they are too many for a sentence it names the three closest.
    """
    options = sorted(options)
    if len(options) > LISTED:
        close = difflib.get_close_matches(value, options, n=3, cutoff=0.0)
        listed = f"; `{see}` lists them" if see else ""
        return f"did you mean {' or '.join(repr(option) for option in close)}? there are {len(options)}{listed}"
    close = difflib.get_close_matches(value, options, n=1, cutoff=0.5)
    meant = f"did you mean '{close[0]}'? " if close else ""
    return f"{meant}allowed: {', '.join(options) or 'nothing'}"


def choose(key: str, value: str, options: Iterable[str], see: str = "") -> str:
    """Return `value` if it is one of `options`; raise InputError naming the nearest option otherwise."""
    options = list(options)
    if value not in options:
        raise InputError(f"{key}: unknown name '{value}'; {nearest(str(value), options, see)}")
    return value


def quoted(value: Any) -> str:
    """A value as a sentence shows it: as YAML has it, and not longer than fits."""
    words = {True: "true", False: "false", None: "null"}
    return words[value] if value is None or isinstance(value, bool) else reprlib.repr(value)
