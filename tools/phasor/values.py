"""Values of a stranger's file: whether they are numbers."""

from __future__ import annotations

import json
from typing import Any, Mapping, TypeGuard

_LARGEST = 1e30  # of a number


def is_number(value: Any) -> TypeGuard[float]:
    """A finite number of a size that can be computed with."""
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST
    )


def is_whole(value: Any, low: int, high: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def table(text: str) -> dict[str, str]:
    """A table written as text, a line for each row: a name, and what it stands for."""
    return dict(line.split() for line in text.splitlines() if line.strip())


def words(text: str) -> tuple[str, ...]:
    """A list of names written as text."""
    return tuple(text.split())


def settings(text: str, base: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Fields of a configuration written as text, a line for each: name, and value in JSON. They
    count more than those of `base`."""
    lines = (line.split(maxsplit=1) for line in text.splitlines() if line.strip())
    return {**base, **{name: json.loads(value) for name, value in lines}}
