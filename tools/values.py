"""Values of a stranger's file: whether they are numbers, and how a message shows them."""

from __future__ import annotations

from typing import Any

_MOST_SHOWN = 60  # characters of a value
_LARGEST = 1e30   # of a number


def is_number(value: Any) -> bool:
    """A finite number of a size that can be computed with."""
    return isinstance(value,
                      (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST


def is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def shown(value: Any) -> str:
    """A value for a message: short, and on one line."""
    if isinstance(value, dict):
        return "a table" if value else "{}"
    if isinstance(value, list):
        plain = len(value) <= 4 and not any(isinstance(item, (list, dict)) for item in value)
        return f"[{', '.join(map(shown, value))}]" if plain else f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"


def printable(name: str) -> str:
    """A name for a message: as it is, unless it would not stay on its line."""
    return name if name.isprintable() and len(name) <= 4 * _MOST_SHOWN else shown(name)
