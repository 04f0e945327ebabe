"""The one error of a reader, and a stranger's values in a line of ours. Standard library only."""

from __future__ import annotations

import os
import reprlib
from typing import Any, Sequence


class PhasorError(Exception):
    """The model, the data or the file is bad: one line that names the thing and what was
    expected."""


class Damaged(PhasorError):
    """The parts of a file do not fit each other, as no program writes them."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; {AGAIN}")


AGAIN = "download it again, or save it again"
_MOST_PROBLEMS = 20


class Problems(PhasorError):
    """Several faults, a line each. where: what lists those that are not shown."""

    def __init__(self, lines: Sequence[str], where: str = "") -> None:
        more = len(lines) - _MOST_PROBLEMS
        self.lines = [
            *lines[:_MOST_PROBLEMS],
            *([f"and {more} more" + f" ({where} lists all)" * bool(where)] if more > 0 else []),
        ]
        super().__init__("\n".join(self.lines))


def printable(text: str, most: int = 100) -> str:
    """Text of a file for a line of ours: no line ends, no escape codes, not too long."""
    line = "".join(c if c.isprintable() else "?" for c in text[:most])
    return line + "…" if len(text) > most else line


_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = 80


def shown(value: Any) -> str:
    """A value of a file for a line of ours, whatever it is: bounded in length and in time."""
    if isinstance(value, dict):
        return "a table" if value else "{}"
    if isinstance(value, list):
        plain = len(value) <= 4 and not any(isinstance(item, (list, dict)) for item in value)
        return f"[{', '.join(map(shown, value))}]" if plain else f"a list of {len(value)}"
    if type(value) is int and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    return printable(_repr.repr(value), 200)


def named(path: os.PathLike[str] | str, error: PhasorError) -> PhasorError:
    """The error with the file's name before it, once. Of the same kind, whatever that is made
    of."""
    if str(error).startswith(str(path)):
        return error
    kind = type(error)
    made = kind.__new__(kind, f"{path}: {error}")
    made.__dict__.update(error.__dict__)
    return made
