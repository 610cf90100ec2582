"""Anchors: what links within the page lead to."""

import re


def slug(text: str) -> str:
    """A text as a part of an anchor."""
    return re.sub(r"[^\w.-]+", "-", text)


def run_id(scale: str, run: str) -> str:
    """The anchor of a run."""
    return f"run-{slug(f'{scale}-{run}')}"
